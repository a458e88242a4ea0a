//! Files that change while they are served: never a stale byte without `open_file_cache`, and nginx's meaning of stale
//! with it.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use testkit::client::Client;
use testkit::directory::Directory;
use testkit::ports;
use testkit::server::{Program, Server};

/// So many files that each is old enough to be kept in memory when its turn to change comes again.
const FILES: usize = 300;
const ROUNDS: usize = 4000;

struct Running {
    port: u16,
    _server: Server,
    _lease: ports::Lease,
    directory: Directory,
}

impl Running {
    fn root(&self) -> PathBuf {
        self.directory.path().join("html")
    }
}

fn start(program: &Program, workers: usize, inside: &str) -> Running {
    let directory = Directory::create();
    let lease = ports::lease();
    let (path, port) = (directory.path().display(), lease.port);
    let configuration = format!(
        "daemon off;\npid {path}/pid;\nworker_processes {workers};\nerror_log {path}/error.log;\nevents {{ }}\n\
         http {{\n access_log off;\n keepalive_requests 1000000;\n\
         server {{ listen 127.0.0.1:{port}; root {path}/html; {inside} }}\n}}\n"
    );
    fs::create_dir(directory.path().join("html")).unwrap();
    fs::write(directory.path().join("nginx.conf"), configuration).unwrap();
    let server = Server::start(program, directory.path()).unwrap();
    Running {
        port: lease.port,
        _server: server,
        _lease: lease,
        directory,
    }
}

fn gannet() -> Program {
    Program::gannet(Some(env!("CARGO_BIN_EXE_gannet"))).unwrap()
}

fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

fn get(client: &mut Client, path: &str) -> (u16, String) {
    client.send(request(path).as_bytes());
    let reply = client.read_reply("GET").unwrap();
    (reply.status(), String::from_utf8(reply.body).unwrap())
}

/// A body that tells its version; all have the same length but for those of `stretch`.
fn body(file: usize, version: u32, stretch: usize) -> String {
    format!(
        "file {file:04} version {version:08} {}\n",
        "x".repeat(stretch)
    )
}

/// Gives a file of `root` new content in one of the ways that files change.
fn change(root: &Path, file: usize, version: u32, way: usize) -> String {
    let path = root.join(format!("{file}.txt"));
    let stretch = if way == 1 { version as usize % 7 } else { 0 };
    let text = body(file, version, stretch);
    let aside = root.join(format!("aside-{file}-{}", version % 2));
    match way {
        // In place, of the same length and of another.
        0 | 1 if !path.is_symlink() => fs::write(&path, &text).unwrap(),
        // In place, and the time of modification put back.
        2 if !path.is_symlink() => {
            let before = fs::metadata(&path).unwrap().modified().unwrap();
            let mut open = File::options()
                .write(true)
                .truncate(true)
                .open(&path)
                .unwrap();
            open.write_all(text.as_bytes()).unwrap();
            open.set_modified(before).unwrap();
        }
        // A link that leads elsewhere.
        3 => {
            fs::write(&aside, &text).unwrap();
            let link = root.join(format!("link-{file}"));
            let _ = fs::remove_file(&link);
            symlink(&aside, &link).unwrap();
            fs::rename(&link, &path).unwrap();
        }
        // Removed and made anew.
        4 => {
            fs::remove_file(&path).unwrap();
            fs::write(&path, &text).unwrap();
        }
        // Another file in its place.
        _ => {
            let other = root.join(format!("new-{file}"));
            fs::write(&other, &text).unwrap();
            fs::rename(&other, &path).unwrap();
        }
    }
    text
}

#[test]
fn no_stale_byte_while_files_change() {
    let running = start(&gannet(), 2, "");
    let root = running.root();
    let mut current: Vec<String> = (0..FILES).map(|file| change(&root, file, 0, 5)).collect();
    let done = AtomicBool::new(false);
    let newest = AtomicU32::new(0);
    std::thread::scope(|scope| {
        // Others keep the threads busy, so that a turn of their event loop serves many.
        for offset in 0..2 {
            let (done, newest, port) = (&done, &newest, running.port);
            scope.spawn(move || {
                let mut client = Client::connect(port).unwrap();
                let mut file = offset;
                while !done.load(Ordering::Relaxed) {
                    file = (file + 7) % FILES;
                    client.send(request(&format!("/{file}.txt")).as_bytes());
                    // A file cut short while it is sent ends the connection.
                    let Some(reply) = client.read_reply("GET") else {
                        client = Client::connect(port).unwrap();
                        continue;
                    };
                    let text = String::from_utf8(reply.body).unwrap();
                    let version = text
                        .get(18..26)
                        .and_then(|digits| digits.parse::<u32>().ok());
                    assert!(
                        version.is_none_or(|version| version <= newest.load(Ordering::Relaxed) + 1)
                    );
                }
            });
        }
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut clients: Vec<Client> = (0..3)
                .map(|_| Client::connect(running.port).unwrap())
                .collect();
            for round in 0..ROUNDS {
                let (file, version) = (round % FILES, round as u32 + 1);
                newest.store(version, Ordering::Relaxed);
                current[file] = change(&root, file, version, round % 6);
                let settled = (file + FILES / 2) % FILES;
                for (number, client) in clients.iter_mut().enumerate() {
                    for file in [file, settled] {
                        let reply = get(client, &format!("/{file}.txt"));
                        assert_eq!(
                            reply,
                            (200, current[file].clone()),
                            "round {round}, client {number}"
                        );
                    }
                }
            }
        }));
        done.store(true, Ordering::Relaxed);
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
}

/// The clock of file times stands still for milliseconds: a file of the same length written twice in that time looks
/// the same.
#[test]
fn a_file_rewritten_within_one_tick_is_not_stale() {
    let running = start(&gannet(), 1, "");
    let root = running.root();
    let mut client = Client::connect(running.port).unwrap();
    for version in 0..ROUNDS as u32 {
        let text = body(0, version, 0);
        fs::write(root.join("0.txt"), &text).unwrap();
        assert_eq!(get(&mut client, "/0.txt"), (200, text), "version {version}");
    }
}

#[test]
fn a_directory_switched_by_a_link_is_not_stale() {
    let running = start(&gannet(), 1, "");
    let root = running.root();
    let mut client = Client::connect(running.port).unwrap();
    for release in ["a", "b"] {
        fs::create_dir(root.join(release)).unwrap();
        fs::write(root.join(release).join("index.html"), release).unwrap();
    }
    std::thread::sleep(Duration::from_millis(100));
    for round in 0..200 {
        let release = ["a", "b"][round % 2];
        let _ = fs::remove_file(root.join("next"));
        symlink(release, root.join("next")).unwrap();
        fs::rename(root.join("next"), root.join("current")).unwrap();
        for path in ["/current/", "/current/index.html"] {
            assert_eq!(
                get(&mut client, path),
                (200, release.to_string()),
                "round {round}"
            );
        }
    }
}

/// Asks until the reply is `expected`; how long that took.
fn until(client: &mut Client, path: &str, expected: (u16, &str)) -> Duration {
    let start = Instant::now();
    loop {
        let (status, text) = get(client, path);
        if status == expected.0 && text.starts_with(expected.1) {
            return start.elapsed();
        }
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "{path}: {status} {text}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn replace(root: &Path, name: &str, text: &str) {
    fs::write(root.join("new"), text).unwrap();
    fs::rename(root.join("new"), root.join(name)).unwrap();
}

/// What `open_file_cache` takes for true for the time of `valid`; nginx agrees.
#[test]
fn open_file_cache_serves_what_it_knows() {
    for program in [Some(gannet()), Program::nginx()].into_iter().flatten() {
        let running = start(
            &program,
            1,
            "open_file_cache max=100 inactive=20s; open_file_cache_valid 3s; open_file_cache_errors on;\n\
             location /rare/ { open_file_cache_min_uses 4; alias %ROOT%/; }"
                .replace("%ROOT%", "html")
                .as_str(),
        );
        let root = running.root();
        let mut client = Client::connect(running.port).unwrap();
        for (name, size) in [("small", 10), ("large", 300_000)] {
            fs::write(root.join(name), "1".repeat(size)).unwrap();
            fs::write(root.join(format!("rare-{name}")), "1").unwrap();
        }
        let start = Instant::now();
        for name in ["small", "large"] {
            let path = format!("/{name}");
            assert!(get(&mut client, &path).1.starts_with('1'));
            assert_eq!(get(&mut client, &format!("/missing-{name}")).0, 404);
            let rare = format!("/rare/rare-{name}");
            assert_eq!(get(&mut client, &rare).1, "1");
            replace(&root, name, "2");
            replace(&root, &format!("rare-{name}"), "2");
            replace(&root, &format!("missing-{name}"), "there");
            assert_eq!(get(&mut client, &rare).1, "2", "used too seldom to be kept");
            let (old, missing) = (
                get(&mut client, &path),
                get(&mut client, &format!("/missing-{name}")),
            );
            if start.elapsed() < Duration::from_millis(1500) {
                assert!(
                    old.1.starts_with('1'),
                    "{}: {path} is {}",
                    program.path.display(),
                    old.1
                );
                assert_eq!(missing.0, 404, "{}", program.path.display());
            }
        }
        for name in ["small", "large"] {
            until(&mut client, &format!("/{name}"), (200, "2"));
            until(&mut client, &format!("/missing-{name}"), (200, "there"));
        }
        assert!(start.elapsed() > Duration::from_millis(1500));
    }
}

/// A cold file is read away from the network thread, whole and once it is warm from memory.
#[test]
fn more_files_than_are_kept() {
    let running = start(&gannet(), 1, "open_file_cache max=5; ");
    let root = running.root();
    let mut client = Client::connect(running.port).unwrap();
    for file in 0..40 {
        fs::write(root.join(format!("{file}")), body(file, 1, file * 1000)).unwrap();
    }
    for round in 0..3 {
        for file in 0..40 {
            let expected = (200, body(file, 1, file * 1000));
            assert_eq!(
                get(&mut client, &format!("/{file}")),
                expected,
                "round {round}"
            );
        }
    }
}
