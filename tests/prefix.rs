//! `-p` with a path relative to where the server is started: what the configuration names is found below it. Runs on
//! Gannet and, where it is installed, on nginx.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use testkit::client::Client;
use testkit::directory::Directory;
use testkit::ports;
use testkit::server::Program;

const START_LIMIT: Duration = Duration::from_secs(20);

/// A server without a master, so that killing it leaves nothing behind.
struct Alone(Child);

impl Drop for Alone {
    fn drop(&mut self) {
        // One that has ended by itself needs no killing.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn roots_are_found_below_a_relative_prefix() {
    let gannet = Program::gannet(Some(env!("CARGO_BIN_EXE_gannet"))).unwrap();
    for program in [Some(gannet), Program::nginx()].into_iter().flatten() {
        let directory = Directory::create();
        let lease = ports::lease();
        let site = directory.path().join("site");
        fs::create_dir_all(site.join("html/built-in")).unwrap();
        fs::create_dir_all(site.join("other")).unwrap();
        fs::write(site.join("html/built-in/file"), "built-in").unwrap();
        fs::write(site.join("other/file"), "other").unwrap();
        let configuration = format!(
            "daemon off;\nmaster_process off;\npid pid;\nerror_log error.log;\nevents {{ }}\n\
             http {{\n access_log off;\n server {{ listen 127.0.0.1:{};\n\
             location /root/ {{ rewrite ^/root(.*) $1 break; root other; }}\n\
             location /alias/ {{ alias other/; }}\n }}\n}}\n",
            lease.port
        );
        fs::write(site.join("nginx.conf"), configuration).unwrap();
        let child = Command::new(&program.path)
            .args(["-p", "site/", "-c", "nginx.conf"])
            .current_dir(directory.path())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let _running = Alone(child);
        let deadline = Instant::now() + START_LIMIT;
        let mut client = loop {
            match Client::connect(lease.port) {
                Ok(client) => break client,
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        for (path, body) in [
            ("/built-in/file", "built-in"),
            ("/root/file", "other"),
            ("/alias/file", "other"),
        ] {
            client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
            let reply = client.read_reply("GET").unwrap();
            let server = program.kind.as_str();
            assert_eq!(reply.status(), 200, "{server} {path}");
            assert_eq!(reply.body, body.as_bytes(), "{server} {path}");
        }
    }
}
