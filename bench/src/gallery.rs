//! The gallery of `examples/gallery` under users, by the pool's `pm`: nginx with php-fpm and Gannet with its own pool, the
//! same settings in both. All cores are for everybody, as on an operator's machine. Every picture is made anew
//! (`GALLERY_THUMBS fly`), so that PHP has work.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::check::Client;
use crate::gallery_report;
use crate::options::{Bench, Options};
use crate::php::{self, Fpm, Pool};
use crate::server::Running;
use crate::side_by_side::{Workspace, turns};
use crate::targets::SUBJECT;
use crate::usage;
use crate::users::{self, Kind, Seen, Visit};

pub const BENCH: Bench = Bench {
    name: "gallery",
    cases: &["static", "dynamic", "ondemand", "auto", SWEEP],
    servers: &["nginx", "gannet"],
    seconds: 60,
    rounds: 3,
    quick: (5, 1),
};
/// Gannet's pool with each of these many children, to find the best.
pub const SWEEP: &str = "sweep";
const SWEEP_CHILDREN: [usize; 7] = [1, 2, 3, 4, 6, 8, 12];

/// As in the article behind the gallery.
pub const USERS: usize = 100;
const THINK: std::ops::Range<Duration> = Duration::from_millis(300)..Duration::from_millis(1000);
const STATIC_CHILDREN: usize = 6;

pub const GALLERIES: u64 = 12;
pub const PICTURES: u64 = 8;
/// How often the children are counted.
const COUNT_EVERY: Duration = Duration::from_millis(500);

/// What people look at.
fn kinds() -> [Kind; 3] {
    let page = r"</html>\n$";
    let galleries = 1..=GALLERIES;
    let pictures = 1..=GALLERIES * PICTURES;
    [
        Kind {
            name: "index",
            paths: vec!["/".to_owned()],
            whole: page,
        },
        Kind {
            name: "gallery",
            paths: galleries.map(|id| format!("/gallery/{id}")).collect(),
            whole: page,
        },
        Kind {
            name: "picture",
            paths: pictures.map(|id| format!("/thumbs/320/{id}.jpg")).collect(),
            // A JPEG from its first mark to its last.
            whole: r"(?s-u)^\xff\xd8.*\xff\xd9$",
        },
    ]
}

/// One load on one server.
pub struct Sample {
    pub seen: Seen,
    /// Children at each count, from the start on.
    pub children: Vec<usize>,
}

/// All loads on one server with one pool.
pub struct Row {
    pub case: &'static str,
    pub pool: Pool,
    pub server: String,
    pub samples: Vec<Sample>,
}

pub fn run(options: &Options) -> Result<()> {
    let workspace = Workspace::create()?;
    let site = Site::create(&workspace.dir)?;
    let mut rows = Vec::new();
    for (case, pool) in pools(options) {
        // Only Gannet knows `auto`, and only its best setting is looked for.
        let gannet_only = matches!(case, "auto" | SWEEP);
        let mut servers = options.servers.clone();
        servers.retain(|server| !gannet_only || server == SUBJECT);
        rows.extend(servers.into_iter().map(|server| Row {
            case,
            pool: pool.clone(),
            server,
            samples: Vec::new(),
        }));
    }
    for round in 1..=options.rounds {
        for turn in turns(round, rows.len()) {
            let row = &mut rows[turn];
            let described = format!("{} {}", row.server, row.pool.describe());
            let sample = site
                .measure(row, options)
                .with_context(|| described.clone())?;
            eprintln!(
                "round {round} {described}: {}",
                gallery_report::line(&sample)
            );
            row.samples.push(sample);
        }
    }
    gallery_report::print(options, &rows)
}

fn pools(options: &Options) -> Vec<(&'static str, Pool)> {
    let mut pools = vec![
        ("static", Pool::of_static(STATIC_CHILDREN)),
        ("dynamic", Pool::dynamic()),
        ("ondemand", Pool::ondemand()),
        ("auto", Pool::auto()),
    ];
    pools.extend(SWEEP_CHILDREN.map(|children| (SWEEP, Pool::of_static(children))));
    pools.retain(|(case, _)| options.case(case));
    pools
}

/// A copy of the example with its pictures.
pub struct Site {
    dir: PathBuf,
    pub configuration: String,
}

impl Site {
    pub fn create(dir: &Path) -> Result<Site> {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/gallery");
        copy(&example, dir)?;
        let made = Command::new("php")
            .arg(dir.join("bin/make-pictures.php"))
            .args([GALLERIES.to_string(), PICTURES.to_string()])
            .stdin(Stdio::null())
            .output()
            .context("php is needed: apt-get install php-cli php-gd php-sqlite3")?;
        let said = String::from_utf8_lossy(&made.stdout);
        ensure!(
            made.status.success() && said.contains("made"),
            "make-pictures.php: {said}"
        );
        // Whoever PHP runs as keeps its database there.
        for path in ["var", "var/gallery.sqlite"] {
            let path = dir.join(path);
            let mode = if path.is_dir() { 0o777 } else { 0o666 };
            fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        }
        let configuration = fs::read_to_string(example.join("nginx.conf"))?;
        Ok(Site {
            dir: dir.to_owned(),
            configuration,
        })
    }

    pub fn measure(&self, row: &Row, options: &Options) -> Result<Sample> {
        let contender = options.contender(&row.server)?;
        let fpm = if row.server == SUBJECT {
            None
        } else {
            Some(Fpm::start(&row.pool, &self.dir, None)?)
        };
        let (address, block) = match &fpm {
            Some(fpm) => (fpm.address(), String::new()),
            None => (Pool::address(), row.pool.block()),
        };
        let text = |port| configuration(&self.configuration, &self.dir, port, &address, &block);
        let running = Running::start_with(contender, text, &self.dir, None)?;
        let masters: Vec<u32> = fpm.iter().map(Fpm::id).chain([running.id()]).collect();
        let mut children = Vec::new();
        let visit = Visit {
            address: running.address,
            users: USERS,
            think: THINK,
            duration: options.duration(),
            kinds: &kinds(),
        };
        let seen = users::run(&visit, |elapsed| {
            if elapsed >= COUNT_EVERY * children.len() as u32 {
                children.push(children_of(&masters, fpm.as_ref().map(Fpm::id)));
            }
        })?;
        check(&running).context("after the load")?;
        Ok(Sample { seen, children })
    }
}

/// The processes that run PHP, but for php-fpm's master.
fn children_of(masters: &[u32], fpm: Option<u32>) -> usize {
    let families = masters
        .iter()
        .flat_map(|master| usage::family(*master).unwrap_or_default());
    families
        .filter(|process| Some(*process) != fpm && usage::is_named(*process, php::NAME))
        .count()
}

/// The server still answers.
fn check(running: &Running) -> Result<()> {
    let style = include_bytes!("../../examples/gallery/public/style.css");
    Client::connect(running.address)?
        .fetch_path("/style.css", style, false)
        .map(drop)
}

/// The example's own, moved to a port and a directory, with thumbnails made anew each time.
pub fn configuration(text: &str, dir: &Path, port: u16, address: &str, pool: &str) -> String {
    let moved: String = text
        .lines()
        .filter(|line| !line.starts_with("pid ") && !line.starts_with("error_log "))
        .map(|line| format!("{line}\n"))
        .collect();
    let moved = moved
        .replace("127.0.0.1:8080", &format!("127.0.0.1:{port}"))
        .replace("unix:/run/php/php8.2-fpm.sock", address)
        .replace("http {\n", &format!("http {{\n{pool}"))
        .replace(
            "fastcgi_params;\n",
            "fastcgi_params;\n            fastcgi_param GALLERY_THUMBS fly;\n",
        );
    let dir = dir.display();
    format!("daemon off;\npid {dir}/server.pid;\nerror_log {dir}/error.log;\n{moved}")
}

fn copy(source: &Path, target: &Path) -> Result<()> {
    for entry in fs::read_dir(source).with_context(|| source.display().to_string())? {
        let entry = entry?;
        // What the example has written itself is not part of it.
        if entry.file_name() == "var" {
            continue;
        }
        let to = target.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir(&to)?;
            copy(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), &to)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_moved_whole() {
        let text = include_str!("../../examples/gallery/nginx.conf");
        let moved = configuration(
            text,
            Path::new("/d"),
            4711,
            "pool:www",
            "php_pool www { }\n",
        );
        for part in [
            "listen  127.0.0.1:4711;",
            "fastcgi_pass  pool:www;",
            "http {\nphp_pool www { }\n",
            "fastcgi_param GALLERY_THUMBS fly;",
            "pid /d/server.pid;",
        ] {
            assert!(moved.contains(part), "{part} is not in\n{moved}");
        }
        assert_eq!(moved.matches("error_log").count(), 1);
        assert!(!moved.contains("8080") && !moved.contains("fpm.sock"));
    }
}
