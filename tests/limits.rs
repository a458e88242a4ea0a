//! `limit_req` and `limit_conn` over time: what is counted outlives a reload, and a place is given back however its
//! request ends.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use testkit::client::Client;
use testkit::directory::Directory;
use testkit::ports;
use testkit::server::{Program, Server};

struct Running {
    server: Server,
    lease: ports::Lease,
    directory: Directory,
}

impl Running {
    /// Starts Gannet with `zones` in http and `inside` in the server.
    fn start(zones: &str, inside: &str) -> Running {
        let directory = Directory::create();
        let lease = ports::lease();
        let program = Program::gannet(Some(env!("CARGO_BIN_EXE_gannet"))).unwrap();
        fs::create_dir(directory.path().join("html")).unwrap();
        fs::write(directory.path().join("html/a.txt"), "a\n").unwrap();
        fs::write(directory.path().join("html/big"), vec![b'x'; 8 << 20]).unwrap();
        let path = directory.path().join("nginx.conf");
        fs::write(&path, configuration(&directory, lease.port, zones, inside)).unwrap();
        let server = Server::start(&program, directory.path()).unwrap();
        Running {
            server,
            lease,
            directory,
        }
    }

    fn error_log(&self) -> PathBuf {
        self.directory.path().join("error.log")
    }

    /// Reloads with another configuration and waits until the error log says `outcome`.
    fn reload(&self, zones: &str, inside: &str, outcome: &str) {
        let text = configuration(&self.directory, self.lease.port, zones, inside);
        fs::write(self.directory.path().join("nginx.conf"), text).unwrap();
        let told = |text: &str| text.matches(outcome).count();
        let before = told(&fs::read_to_string(self.error_log()).unwrap());
        self.server.signal("HUP");
        wait_until(outcome, || {
            told(&fs::read_to_string(self.error_log()).unwrap()) > before
        });
    }

    fn status(&self, path: &str) -> u16 {
        let mut client = Client::connect(self.lease.port).unwrap();
        client.send(request(path).as_bytes());
        client.read_reply("GET").unwrap().status()
    }
}

fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

fn configuration(directory: &Directory, port: u16, zones: &str, inside: &str) -> String {
    let path = directory.path().display();
    format!(
        "daemon off;\npid {path}/pid;\nworker_processes 2;\nerror_log {path}/error.log notice;\nevents {{ }}\n\
         http {{\n access_log off;\n {zones}\n\
         server {{ listen 127.0.0.1:{port}; root {path}/html; {inside} }}\n}}\n"
    )
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

const RELOADED: &str = "serves the new configuration";

#[test]
fn counts_outlive_a_reload_but_not_another_key() {
    let zone = "limit_req_zone $uri zone=a:1m rate=1r/m;";
    let running = Running::start(zone, "limit_req zone=a;");
    assert_eq!(running.status("/a.txt"), 200);
    assert_eq!(running.status("/a.txt"), 503);
    running.reload(zone, "limit_req zone=a; limit_req_status 429;", RELOADED);
    assert_eq!(running.status("/a.txt"), 429);
    running.reload(
        "limit_req_zone $host zone=a:1m rate=1r/m;",
        "limit_req zone=a;",
        "limit_req \"a\" uses the \"$host\" key while previously it used the \"$uri\" key",
    );
    assert_eq!(running.status("/a.txt"), 429);
    // Another size is another zone.
    let larger = "limit_req_zone $uri zone=a:2m rate=1r/m;";
    running.reload(larger, "limit_req zone=a;", RELOADED);
    assert_eq!(running.status("/a.txt"), 200);
    assert_eq!(running.status("/a.txt"), 503);
}

#[test]
fn a_place_is_given_back_when_its_client_goes() {
    let zone = "limit_conn_zone $remote_addr zone=a:1m;";
    let inside = "limit_conn a 1; location = /big { limit_rate 1k; }";
    let running = Running::start(zone, inside);
    let mut slow = Client::connect(running.lease.port).unwrap();
    slow.send(request("/big").as_bytes());
    assert!(slow.read_at_least(100) >= 100);
    assert_eq!(running.status("/a.txt"), 503);
    running.reload(zone, inside, RELOADED);
    assert_eq!(running.status("/a.txt"), 503);
    drop(slow);
    wait_until("a free place", || running.status("/a.txt") == 200);
    assert_eq!(running.status("/a.txt"), 200);
}
