//! `php_pool NAME { … }` and `php_pool_include FILES`: pools as they are written, by name.

use super::ini::{self, Line};
use super::settings::{Listen, Pm, Reading, Settings};
use crate::config::build::Build;
use crate::config::directive::{Arity, HTTP, Outcome, Set, block, row};
use crate::config::setting::Complaint;
use conf::table::Row;
use conf::{Directive, Item};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub const DIRECTIVES: &[Row<Set>] = &[
    block(
        "php_pool",
        HTTP,
        Arity::Exactly(1),
        php_pool,
        "A pool of PHP workers, in php-fpm's words.",
    ),
    row(
        "php_pool_include",
        HTTP,
        Arity::Exactly(1),
        php_pool_include,
        "Pools from php-fpm's own files.",
    ),
];

/// Files of php-fpm that include each other end here.
const INCLUDES_MAX: usize = 1000;
/// A name becomes part of paths and of lines in logs.
const NAME_MAX: usize = 64;

/// The pools read so far.
#[derive(Debug, Default)]
pub struct RawPools {
    pools: Vec<RawPool>,
    includes: usize,
}

#[derive(Debug)]
pub struct RawPool {
    pub settings: Settings,
    pub log: Option<Arc<crate::log::files::LogFile>>,
    pub slowlog: Option<Arc<crate::log::files::LogFile>>,
}

impl RawPools {
    /// In the order of the text.
    pub fn finish(self) -> Vec<RawPool> {
        self.pools
    }
}

fn php_pool(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let name = directive.args[0]
        .as_str()
        .ok_or("invalid name of a pool")?
        .to_owned();
    check_name(build, &name)?;
    let mut reading = Reading::new(&name);
    for item in directive.block.iter().flat_map(|block| &block.items) {
        let item = match item {
            Item::Directive(item) => item,
            Item::Error(error) => return Err(Complaint::bare(error.to_string())),
        };
        // The line of the entry, not of the block.
        entry(&mut reading, item).map_err(|why| Complaint::bare(item.error(why).to_string()))?;
    }
    let settings = reading
        .finish(Some(Pm::Auto))
        .map_err(|why| format!("[pool {name}] {why}"))?;
    add(build, settings)
}

/// One line of a block.
fn entry(reading: &mut Reading, item: &Directive) -> Result<(), String> {
    let name = &item.name;
    if item.block.is_some() {
        return Err("unexpected \"{\"".to_owned());
    }
    let words: Option<Vec<String>> = item
        .args
        .iter()
        .map(|word| word.as_str().map(str::to_owned))
        .collect();
    let (Some(name_text), Some(words)) = (name.as_str(), words) else {
        return Err(format!("invalid value in \"{name}\" directive"));
    };
    match (name_text, words.is_empty()) {
        ("include", _) => Err("\"include\" directive is not allowed here".to_owned()),
        (_, true) => Err(format!(
            "invalid number of arguments in \"{name}\" directive"
        )),
        ("command", false) => {
            reading.command(words);
            Ok(())
        }
        (name, false) => reading.entry(name, &words.join(" ")),
    }
}

fn check_name(build: &Build<'_>, name: &str) -> Outcome {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(plain) {
        return Err(format!("invalid name of a pool \"{name}\"").into());
    }
    let known = build.pools.pools.iter();
    match known.into_iter().any(|pool| pool.settings.name == name) {
        true => Err(format!("duplicate pool \"{name}\"").into()),
        false => Ok(()),
    }
}

fn add(build: &mut Build<'_>, settings: Settings) -> Outcome {
    check_process(&settings)?;
    let known = |listen: &Listen| {
        let others = build.pools.pools.iter();
        let mut others = others.filter_map(|other| other.settings.listen.as_ref());
        others.any(|other| other.place == listen.place)
    };
    if let Some(listen) = settings.listen.as_ref().filter(|listen| known(listen)) {
        let (name, address) = (&settings.name, &listen.address);
        let text = format!(
            "[pool {name}] unable to set listen address as it's already used in another pool '{address}'"
        );
        return Err(text.into());
    }
    let mut log = |path: &Option<String>| {
        let path = build.paths.in_prefix(path.as_deref()?);
        Some(build.logs.file(path))
    };
    let (access, slowlog) = (log(&settings.access_log), log(&settings.slowlog));
    build.pools.pools.push(RawPool {
        settings,
        log: access,
        slowlog,
    });
    Ok(())
}

/// What only the system can tell.
fn check_process(settings: &Settings) -> Outcome {
    let (process, name) = (&settings.process, &settings.name);
    let complain = |why: String| Err(format!("[pool {name}] {why}").into());
    for (what, path) in [("chroot", &process.chroot), ("chdir", &process.chdir)] {
        let Some(path) = path else { continue };
        let inside = match (&process.chroot, what) {
            (Some(root), "chdir") => root.join(path.strip_prefix("/").unwrap_or(path)),
            _ => path.clone(),
        };
        if !path.is_absolute() {
            let shown = path.display();
            return complain(format!("the {what} path '{shown}' must start with a '/'"));
        }
        if !inside.is_dir() {
            let shown = inside.display();
            return complain(format!(
                "the {what} path '{shown}' does not exist or is not a directory"
            ));
        }
    }
    if !sys::process::is_root() {
        return Ok(());
    }
    if let Some(user) = &process.user
        && !user.bytes().all(|byte| byte.is_ascii_digit())
        && !matches!(sys::user::user(user), Ok(Some(_)))
    {
        return complain(format!("cannot get uid for user '{user}'"));
    }
    if let Some(group) = &process.group
        && !group.bytes().all(|byte| byte.is_ascii_digit())
        && !matches!(sys::user::group(group), Ok(Some(_)))
    {
        return complain(format!("cannot get gid for group '{group}'"));
    }
    Ok(())
}

fn php_pool_include(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let pattern = directive.args[0].as_str().ok_or("invalid value")?;
    let pattern = build.conf_path(pattern);
    let mut reading = None;
    include(build, directive, &pattern, &mut reading)?;
    close(build, reading)
}

/// A section that has begun.
type Open = Option<Reading>;

fn include(
    build: &mut Build<'_>,
    directive: &Directive,
    pattern: &Path,
    reading: &mut Open,
) -> Outcome {
    for path in matching(build, pattern)? {
        build.pools.includes += 1;
        if build.pools.includes > INCLUDES_MAX {
            return Err(
                format!("too many files are included for \"{}\"", pattern.display()).into(),
            );
        }
        let shown = path.display();
        let text = build.read_file(&path).map_err(|error| {
            format!("open() \"{shown}\" failed ({})", sys::errno::Errno(&error))
        })?;
        let text = String::from_utf8_lossy(&text).into_owned();
        for (number, line) in ini::lines(&text) {
            let outcome = match line {
                Ok(line) => read_line(build, directive, line, &path, reading),
                Err(why) => Err(why.into()),
            };
            outcome.map_err(|complaint| match complaint.bare {
                true => complaint,
                false => Complaint::bare(format!("[{shown}:{number}] {}", complaint.text)),
            })?;
        }
    }
    Ok(())
}

fn matching(build: &Build<'_>, pattern: &Path) -> Result<Vec<PathBuf>, Complaint> {
    let wild = pattern.as_os_str().as_encoded_bytes();
    if !wild.iter().any(|byte| b"*?[".contains(byte)) {
        return Ok(vec![pattern.to_owned()]);
    }
    let found = build.source.glob(pattern);
    found.map_err(|error| {
        let shown = pattern.display();
        format!("glob() \"{shown}\" failed ({})", sys::errno::Errno(&error)).into()
    })
}

/// Entries before a section and in `[global]` are php-fpm's master's, which there is none of here.
fn read_line(
    build: &mut Build<'_>,
    directive: &Directive,
    line: Line,
    path: &Path,
    reading: &mut Open,
) -> Outcome {
    match line {
        Line::Section(name) => {
            let former = reading.take();
            close(build, former)?;
            if name != "global" {
                check_name(build, &name)?;
                let mut begun = Reading::new(&name);
                begun.in_file(path);
                *reading = Some(begun);
            }
            Ok(())
        }
        Line::Entry { name, value } if name == "include" => {
            let directory = path.parent().unwrap_or(Path::new("/"));
            include(build, directive, &directory.join(value), reading)
        }
        Line::Entry { name, value } => match reading {
            None => Ok(()),
            // Of php-fpm's own making and without a meaning here.
            Some(_) if matches!(name.as_str(), "prefix" | "apparmor_hat") => Ok(()),
            Some(reading) => Ok(reading.entry(&name, &value)?),
        },
    }
}

fn close(build: &mut Build<'_>, reading: Open) -> Outcome {
    match reading {
        None => Ok(()),
        Some(reading) => {
            let name = reading.name().to_owned();
            let settings = reading
                .finish(None)
                .map_err(|why| Complaint::bare(format!("[pool {name}] {why}")))?;
            add(build, settings)
        }
    }
}
