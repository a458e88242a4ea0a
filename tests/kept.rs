//! What a cache keeps on the disk: over restarts, deaths and damage. Nothing wrong is ever served; a disk that fails is
//! told once, and requests are answered by the upstream.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use testkit::client::Client;
use testkit::directory::Directory;
use testkit::origin::Origin;
use testkit::ports;
use testkit::reply::Reply;
use testkit::server::{Program, Server};

const DEADLINE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(5);
/// Responses that are being stored when the worker is killed; GANNET_STORES=N for others.
const STORES: usize = 150;

struct Site {
    directory: Directory,
    lease: ports::Lease,
    origin: Origin,
    server: Option<Server>,
}

impl Site {
    /// A server that keeps what its origin answers, on the disk alone; `more` stands in the http block.
    fn start(more: &str) -> Site {
        Site::with("cache", "memory=0", more)
    }

    fn with(place: &str, parameters: &str, more: &str) -> Site {
        let large = [
            &b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"[..],
            &[b'x'; 100_000],
        ];
        let replies = HashMap::from([("/large".to_owned(), large.concat())]);
        let site = Site {
            directory: Directory::create(),
            lease: ports::lease(),
            origin: Origin::start(replies).unwrap(),
            server: None,
        };
        site.configure(place, parameters, more);
        site.served()
    }

    fn configure(&self, place: &str, parameters: &str, more: &str) {
        let (path, port) = (self.directory.path().display(), self.lease.port);
        let origin = self.origin.port();
        let configuration = format!(
            "daemon off;\npid {path}/pid;\nworker_processes 2;\nerror_log {path}/error.log;\nevents {{ }}\n\
             http {{\n access_log off;\n\
             proxy_cache_path {path}/{place} keys_zone=one:1m {parameters};\n{more}\n\
             server {{ listen 127.0.0.1:{port}; proxy_cache_valid 200 1h; proxy_cache_key $request_uri;\n\
             add_header X-Cache $upstream_cache_status;\n\
             location / {{ proxy_cache one; proxy_pass http://127.0.0.1:{origin}; }}\n}}\n}}\n"
        );
        fs::write(self.directory.path().join("nginx.conf"), configuration).unwrap();
    }

    fn served(mut self) -> Site {
        let program = Program::gannet(Some(env!("CARGO_BIN_EXE_gannet"))).unwrap();
        self.server = Some(Server::start(&program, self.directory.path()).unwrap());
        self
    }

    fn restart(&mut self) {
        self.stop();
        let program = Program::gannet(Some(env!("CARGO_BIN_EXE_gannet"))).unwrap();
        self.server = Some(Server::start(&program, self.directory.path()).unwrap());
    }

    fn stop(&mut self) {
        self.server.as_mut().unwrap().stop();
    }

    fn pid(&self) -> u32 {
        self.server.as_ref().unwrap().pid()
    }

    fn cache(&self) -> PathBuf {
        self.directory.path().join("cache")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("error.log")).unwrap_or_default()
    }

    fn try_get(&self, path: &str) -> Option<Reply> {
        let mut client = Client::connect(self.lease.port).ok()?;
        client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
        client.read_reply("GET")
    }

    /// What the cache says of a response, which is checked byte for byte.
    fn get(&self, path: &str) -> String {
        let reply = self.try_get(path).expect("an answer");
        assert!(is_right(path, &reply), "{path}: {}", reply.text());
        reply.field("X-Cache").unwrap_or_default().to_owned()
    }

    /// Asks until what is kept answers.
    fn keep(&self, path: &str) {
        wait_for("a hit", || (self.get(path) == "HIT").then_some(()));
    }

    /// The files of all entries.
    fn entries(&self) -> Vec<PathBuf> {
        let folders = fs::read_dir(self.cache()).into_iter().flatten().flatten();
        let folders = folders.filter_map(|folder| fs::read_dir(folder.path()).ok());
        folders
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The origin answers a path with the head that it was sent, or with what is large.
fn is_right(path: &str, reply: &Reply) -> bool {
    let body = match path.starts_with("/large") {
        true => reply.body == [b'x'; 100_000],
        false => {
            reply
                .body
                .starts_with(format!("GET {path} HTTP/1.1\r\n").as_bytes())
                && reply.body.ends_with(b"\r\n\r\n")
        }
    };
    reply.status() == 200 && body
}

fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(POLL);
    }
}

fn run(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.contains("Uid:\t0\t")
}

#[test]
fn an_index_outlives_the_process() {
    let mut site = Site::start("");
    let paths: Vec<String> = (0..40).map(|number| format!("/k/{number}")).collect();
    paths.iter().for_each(|path| site.keep(path));
    site.restart();
    let asked = site.origin.requests();
    for path in &paths {
        assert_eq!(site.get(path), "HIT", "{path}");
    }
    assert_eq!(site.origin.requests(), asked);
    // A lost index costs a scan, and nothing else.
    site.stop();
    fs::remove_file(site.cache().join("index")).unwrap();
    site.restart();
    for path in &paths {
        assert_eq!(site.get(path), "HIT", "{path}");
    }
    assert_eq!(site.origin.requests(), asked);
}

#[test]
fn a_killed_worker_leaves_nothing_half() {
    let mut site = Site::start("");
    let told = std::env::var("GANNET_STORES").ok();
    let stores = told.and_then(|text| text.parse().ok()).unwrap_or(STORES);
    let worker = wait_for("a worker", || {
        site.try_get("/first")?;
        children(site.pid()).first().copied()
    });
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let killed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= stores {
                        return;
                    }
                    for path in [format!("/k/{number}"), format!("/large?{number}")] {
                        if let Some(reply) = site.try_get(&path) {
                            // One that was under way ends where it was.
                            let is_cut = killed.load(Ordering::Relaxed);
                            assert!(is_right(&path, &reply) || is_cut, "{path}");
                        }
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        while done.load(Ordering::Relaxed) < stores / 2 {
            std::thread::sleep(POLL);
        }
        killed.store(true, Ordering::Relaxed);
        assert!(run("sh", &["-c", &format!("kill -KILL {worker}")]));
    });
    wait_for("the next worker", || site.try_get("/first"));
    for restart in [false, true] {
        if restart {
            site.restart();
        }
        // Byte for byte, whether it was kept or not.
        for number in 0..stores {
            site.get(&format!("/k/{number}"));
            site.get(&format!("/large?{number}"));
        }
    }
}

fn children(pid: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let list = list.unwrap_or_default();
    let words = list.split_whitespace();
    words.filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn a_damaged_entry_is_fetched_anew() {
    let mut site = Site::start("");
    let flip = |path: &Path, at: fn(usize) -> usize| {
        let mut bytes = fs::read(path).unwrap();
        let at = at(bytes.len());
        bytes[at] ^= 1;
        fs::write(path, bytes).unwrap();
    };
    let damages: [&dyn Fn(&Path); 6] = [
        &|path| flip(path, |_| 20),
        &|path| flip(path, |_| 60),
        &|path| flip(path, |length| length - 1),
        &|path| {
            let length = fs::metadata(path).unwrap().len();
            let file = fs::File::options().write(true).open(path).unwrap();
            file.set_len(length / 2).unwrap();
        },
        &|path| fs::write(path, b"").unwrap(),
        &|path| fs::remove_file(path).unwrap(),
    ];
    for path in ["/k/a", "/large?a"] {
        for (number, damage) in damages.iter().enumerate() {
            site.keep(path);
            site.stop();
            site.entries().iter().for_each(|entry| damage(entry));
            site.restart();
            assert_eq!(site.get(path), "MISS", "{path} after damage {number}");
            site.keep(path);
        }
    }
}

#[test]
fn an_entry_that_cannot_be_read_is_fetched_anew() {
    let mut site = Site::start("");
    let paths = ["/k/a", "/k/b", "/large?a"];
    for restarts in [false, true] {
        paths.iter().for_each(|path| site.keep(path));
        for entry in site.entries() {
            fs::set_permissions(entry, fs::Permissions::from_mode(0o000)).unwrap();
        }
        if restarts {
            site.restart();
        }
        for path in paths {
            assert_eq!(site.get(path), "MISS", "{path}");
        }
    }
    // Once by each of the two servers.
    let told = site.log().matches("could not read an entry").count();
    assert_eq!(told, 2, "{}", site.log());
}

#[test]
fn a_directory_may_vanish_while_the_server_runs() {
    let site = Site::start("");
    for number in 0..5 {
        site.keep(&format!("/k/{number}"));
    }
    fs::remove_dir_all(site.cache()).unwrap();
    for number in 0..5 {
        assert_eq!(site.get(&format!("/k/{number}")), "MISS");
    }
    let told = site.log().matches("could not read an entry").count();
    assert_eq!(told, 1, "{}", site.log());
}

#[test]
fn a_directory_that_takes_nothing_is_told_once() {
    let mut site = Site::start("");
    site.keep("/k/before");
    site.stop();
    // Whoever the worker is, the directory is not its own.
    let lock = |mode| {
        for path in fs::read_dir(site.cache()).into_iter().flatten().flatten() {
            if path.path().is_dir() {
                fs::set_permissions(path.path(), fs::Permissions::from_mode(mode)).unwrap();
            }
        }
        fs::set_permissions(site.cache(), fs::Permissions::from_mode(mode)).unwrap();
    };
    if is_root()
        && !run(
            "chown",
            &["-R", "root", &site.cache().display().to_string()],
        )
    {
        return eprintln!("skipped: chown does not work here");
    }
    lock(0o555);
    site.restart();
    for number in 0..20 {
        assert_eq!(site.get(&format!("/k/{number}")), "MISS");
        assert_eq!(site.get(&format!("/large?{number}")), "MISS");
    }
    let told = site.log().matches("could not write an entry").count();
    assert_eq!(told, 1, "{}", site.log());
    site.stop();
    let path = site.cache();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_full_disk_is_told_once() {
    let mut site = Site::start("");
    site.stop();
    let path = site.cache().display().to_string();
    fs::remove_dir_all(site.cache()).unwrap();
    fs::create_dir(site.cache()).unwrap();
    let options = "size=600k,mode=0777";
    if !run("mount", &["-t", "tmpfs", "-o", options, "tmpfs", &path]) {
        return eprintln!("skipped: a small file system cannot be mounted here");
    }
    site.restart();
    let asked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        for number in 0..20 {
            site.get(&format!("/large?{number}"));
            site.get(&format!("/k/{number}"));
        }
        wait_for("a complaint", || {
            site.log().contains("No space left on device").then_some(())
        });
        let told = site.log().matches("could not write an entry").count();
        assert_eq!(told, 1, "{}", site.log());
    }));
    site.stop();
    assert!(run("umount", &[&path]));
    assert!(asked.is_ok());
}

#[test]
fn a_zone_outlives_reloads() {
    let site = Site::start("");
    site.keep("/k/a");
    // Another size, and another zone beside it.
    site.configure(
        "cache",
        "memory=0 max_size=1m",
        "proxy_cache_path other keys_zone=two:1m;",
    );
    site.server.as_ref().unwrap().signal("HUP");
    wait_for("the other zone", || {
        site.directory.path().join("other").exists().then_some(())
    });
    assert_eq!(site.get("/k/a"), "HIT");
    for number in 0..20 {
        site.get(&format!("/large?{number}"));
    }
    wait_for("room", || {
        let sizes = site
            .entries()
            .into_iter()
            .filter_map(|path| fs::metadata(path).ok());
        let sum: u64 = sizes.map(|data| data.len()).sum();
        (800_000..=1 << 20).contains(&sum).then_some(())
    });
    // Another place: nothing is known there, and the former one is as it was.
    site.configure("moved", "memory=0", "");
    site.server.as_ref().unwrap().signal("HUP");
    wait_for("the move", || (site.get("/k/b") == "MISS").then_some(()));
    site.keep("/k/b");
    assert!(site.directory.path().join("moved").exists());
    assert!(!site.entries().is_empty());
}

#[test]
fn what_nobody_asks_for_goes() {
    let site = Site::with("cache", "memory=0 inactive=2s", "");
    site.keep("/k/a");
    wait_for("the entry to go", || {
        site.entries().is_empty().then_some(())
    });
}

#[test]
fn a_zone_holds_as_many_keys_as_its_size_says() {
    let site = Site::start("");
    let path = site.directory.path().join("nginx.conf");
    let small = fs::read_to_string(&path)
        .unwrap()
        .replace("one:1m", "one:8k");
    fs::write(&path, small).unwrap();
    site.server.as_ref().unwrap().signal("HUP");
    for number in 0..100 {
        site.get(&format!("/k/{number}"));
    }
    // Some 8000 go into a megabyte.
    wait_for("the others to go", || {
        let count = site.entries().len();
        (50..=64).contains(&count).then_some(())
    });
}
