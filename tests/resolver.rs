//! Names that are looked up at run time: `resolve` and `service` of servers, and variables in `proxy_pass`, against a name
//! server of the test's own whose answers change while the server runs.

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use testkit::acceptor::Acceptor;
use testkit::client::Client;
use testkit::directory::Directory;
use testkit::ports;
use testkit::server::{Program, Server};

const A: u16 = 1;
const SRV: u16 = 33;
/// RFC 1035's number for: there is no such name.
const NOT_FOUND: u8 = 3;
const READ_LIMIT: Duration = Duration::from_secs(10);

/// What a name stands for: a kind of records, their data, and for how many seconds.
struct Entry {
    kind: u16,
    ttl: u32,
    data: Vec<Vec<u8>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Transport {
    Udp,
    Tcp,
}

#[derive(Default)]
struct Zone {
    entries: HashMap<String, Entry>,
    /// Whether no answer fits into a datagram.
    cut: bool,
    /// Whether questions stay without an answer.
    silent: bool,
    asked: Vec<(String, u16, Transport)>,
}

impl Zone {
    /// The answer to a question, if there is to be one.
    fn answer(&mut self, query: &[u8], transport: Transport) -> Option<Vec<u8>> {
        let (name, end) = read_name(query)?;
        let kind = u16::from_be_bytes([*query.get(end)?, *query.get(end + 1)?]);
        self.asked.push((name.clone(), kind, transport));
        if self.silent {
            return None;
        }
        let cut = self.cut && transport == Transport::Udp;
        let entry = self.entries.get(&name);
        let records = entry.filter(|entry| entry.kind == kind && !cut);
        let data = records.map_or(&[][..], |entry| &entry.data);
        let flags = [
            0x81 | if cut { 2 } else { 0 },
            0x80 | if entry.is_some() { 0 } else { NOT_FOUND },
        ];
        let mut bytes = [&query[..2], &flags, &[0, 1], &number(data.len()), &[0; 4]].concat();
        bytes.extend_from_slice(query.get(12..end + 4)?);
        for data in data {
            let ttl = records.map_or(0, |entry| entry.ttl);
            // The owner is the name in the question.
            bytes.extend_from_slice(&[0xc0, 12]);
            bytes.extend_from_slice(&kind.to_be_bytes());
            bytes.extend_from_slice(&[0, 1]);
            bytes.extend_from_slice(&ttl.to_be_bytes());
            bytes.extend_from_slice(&number(data.len()));
            bytes.extend_from_slice(data);
        }
        Some(bytes)
    }
}

/// The name in the question, and where it ends.
fn read_name(query: &[u8]) -> Option<(String, usize)> {
    let (mut labels, mut at) = (Vec::new(), 12);
    loop {
        let length = usize::from(*query.get(at)?);
        at += 1;
        if length == 0 {
            return Some((labels.join("."), at));
        }
        let label = query.get(at..at + length)?;
        labels.push(String::from_utf8_lossy(label).into_owned());
        at += length;
    }
}

fn number(count: usize) -> [u8; 2] {
    u16::try_from(count).expect("it is small").to_be_bytes()
}

fn service(priority: u16, port: u16, target: &str) -> Vec<u8> {
    let mut data = [priority, 0, port].map(u16::to_be_bytes).concat();
    for label in target.split('.') {
        data.push(label.len() as u8);
        data.extend_from_slice(label.as_bytes());
    }
    data.push(0);
    data
}

/// A name server on one port, over UDP and TCP.
struct NameServer {
    acceptor: Acceptor,
    zone: Arc<Mutex<Zone>>,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NameServer {
    fn start() -> NameServer {
        let zone = Arc::new(Mutex::new(Zone::default()));
        let (acceptor, socket) = (0..100)
            .find_map(|_| {
                let zone = Arc::clone(&zone);
                let acceptor = Acceptor::start(move |stream| {
                    let _ = serve_stream(stream, &zone);
                });
                let acceptor = acceptor.expect("a free port");
                // Another program may have the same port for datagrams.
                let socket = UdpSocket::bind(("127.0.0.1", acceptor.port())).ok()?;
                Some((acceptor, socket))
            })
            .expect("a port that is free for both");
        let stopping = Arc::new(AtomicBool::new(false));
        let (asked, shared) = (Arc::clone(&stopping), Arc::clone(&zone));
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 512];
            while let Ok((length, client)) = socket.recv_from(&mut buffer) {
                if asked.load(Relaxed) {
                    return;
                }
                let mut zone = shared.lock().unwrap();
                if let Some(answer) = zone.answer(&buffer[..length], Transport::Udp) {
                    let _ = socket.send_to(&answer, client);
                }
            }
        });
        NameServer {
            acceptor,
            zone,
            stopping,
            thread: Some(thread),
        }
    }

    fn change(&self, change: impl FnOnce(&mut Zone)) {
        change(&mut self.zone.lock().unwrap());
    }

    fn put_addresses(&self, name: &str, ttl: u32, addresses: &[Ipv4Addr]) {
        let data = addresses.iter().map(|ip| ip.octets().to_vec()).collect();
        let entry = Entry { kind: A, ttl, data };
        self.change(|zone| drop(zone.entries.insert(name.to_owned(), entry)));
    }

    fn put_services(&self, name: &str, services: Vec<Vec<u8>>) {
        let entry = Entry {
            kind: SRV,
            ttl: 1,
            data: services,
        };
        self.change(|zone| drop(zone.entries.insert(name.to_owned(), entry)));
    }

    fn remove(&self, name: &str) {
        self.change(|zone| drop(zone.entries.remove(name)));
    }

    /// How often a name was asked for.
    fn asked(&self, name: &str, kind: u16, transport: Transport) -> usize {
        let zone = self.zone.lock().unwrap();
        let this = |(asked, of, over): &&(String, u16, Transport)| {
            asked == name && *of == kind && *over == transport
        };
        zone.asked.iter().filter(this).count()
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.stopping.store(true, Relaxed);
        // Wakes the thread.
        if let Ok(socket) = UdpSocket::bind(("127.0.0.1", 0)) {
            let _ = socket.send_to(&[0], ("127.0.0.1", self.acceptor.port()));
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve_stream(mut stream: TcpStream, zone: &Mutex<Zone>) -> std::io::Result<()> {
    stream.set_read_timeout(Some(READ_LIMIT))?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut query)?;
    let answer = zone.lock().unwrap().answer(&query, Transport::Tcp);
    if let Some(answer) = answer {
        stream.write_all(&number(answer.len()))?;
        stream.write_all(&answer)?;
    }
    Ok(())
}

struct Running {
    /// First, so that it has stopped before its name server goes.
    server: Server,
    names: NameServer,
    front: ports::Lease,
    one: ports::Lease,
    two: ports::Lease,
    directory: Directory,
}

impl Running {
    /// Starts Gannet beside a name server that `prepare` fills. The configuration has `upstreams` in http and `inside` in
    /// the server; NAMES is the name server there, ONE and TWO are the ports of servers that tell their address.
    fn start(
        upstreams: &str,
        inside: &str,
        prepare: impl FnOnce(&NameServer, u16, u16),
    ) -> Running {
        let names = NameServer::start();
        let (front, one, two) = (ports::lease(), ports::lease(), ports::lease());
        prepare(&names, one.port, two.port);
        let directory = Directory::create();
        let path = directory.path().display();
        let text = format!(
            "daemon off;\npid {path}/pid;\nworker_processes 2;\nerror_log {path}/error.log notice;\nevents {{ }}\n\
             http {{\n access_log off;\n resolver NAMES ipv6=off;\n {upstreams}\n\
             server {{ listen ONE; return 200 \"one $server_addr\"; }}\n\
             server {{ listen TWO; return 200 \"two $server_addr\"; }}\n\
             server {{ listen 127.0.0.1:{}; {inside} }}\n}}\n",
            front.port
        );
        let text = text
            .replace("NAMES", &format!("127.0.0.1:{}", names.acceptor.port()))
            .replace("ONE", &one.port.to_string())
            .replace("TWO", &two.port.to_string());
        fs::write(directory.path().join("nginx.conf"), text).unwrap();
        let program = Program::gannet(Some(env!("CARGO_BIN_EXE_gannet"))).unwrap();
        let server = Server::start(&program, directory.path()).unwrap();
        Running {
            server,
            names,
            front,
            one,
            two,
            directory,
        }
    }

    fn error_log(&self) -> String {
        fs::read_to_string(self.directory.path().join("error.log")).unwrap()
    }

    /// Reloads the same configuration and waits until it serves.
    fn reload(&self) {
        let told = || self.error_log().matches(RELOADED).count();
        let before = told();
        self.server.signal("HUP");
        wait_until(RELOADED, || told() > before);
    }

    /// Status and body.
    fn fetch(&self, path: &str) -> (u16, String) {
        let mut client = Client::connect(self.front.port).unwrap();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
        let reply = client.read_reply("GET").unwrap();
        (reply.status(), reply.text())
    }

    /// Waits until a request for `path` is answered with 200 and this body.
    fn wait_for(&self, path: &str, body: &str) {
        wait_until(body, || self.fetch(path) == (200, body.to_owned()));
    }

    fn wait_for_status(&self, path: &str, status: u16) {
        wait_until(&format!("{path} is {status}"), || {
            self.fetch(path).0 == status
        });
    }
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

const RELOADED: &str = "serves the new configuration";
const LOCATION: &str = "location / { proxy_pass http://app; }";
const GROUP: &str =
    "upstream app { zone app 64k; resolver_timeout 2s; server app.test:ONE resolve; }";
const FIRST: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const SECOND: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const THIRD: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

#[test]
fn a_group_follows_its_names() {
    let running = Running::start(GROUP, LOCATION, |names, _, _| {
        names.put_addresses("app.test", 1, &[FIRST]);
    });
    running.wait_for("/", "one 127.0.0.1");
    running.names.put_addresses("app.test", 1, &[SECOND, THIRD]);
    running.wait_for("/", "one 127.0.0.2");
    running.wait_for("/", "one 127.0.0.3");
    let bodies: Vec<String> = (0..4).map(|_| running.fetch("/").1).collect();
    assert!(!bodies.contains(&"one 127.0.0.1".to_owned()), "{bodies:?}");
    // A name that is no more has no servers, until it comes back.
    running.names.remove("app.test");
    running.wait_for_status("/", 502);
    let said = "app.test could not be resolved (3: Host not found)";
    assert!(running.error_log().contains(said));
    running.names.put_addresses("app.test", 1, &[FIRST]);
    running.wait_for("/", "one 127.0.0.1");
}

#[test]
fn what_was_found_serves_after_a_reload_and_while_the_name_server_is_silent() {
    let running = Running::start(GROUP, LOCATION, |names, _, _| {
        names.put_addresses("app.test", 1, &[SECOND]);
    });
    running.wait_for("/", "one 127.0.0.2");
    running.names.change(|zone| zone.silent = true);
    for _ in 0..2 {
        running.reload();
        assert_eq!(running.fetch("/"), (200, "one 127.0.0.2".to_owned()));
    }
    let said = "app.test could not be resolved (110: Operation timed out)";
    wait_until(said, || running.error_log().contains(said));
    assert_eq!(running.fetch("/"), (200, "one 127.0.0.2".to_owned()));
    running.names.change(|zone| zone.silent = false);
    running.names.put_addresses("app.test", 1, &[THIRD]);
    running.wait_for("/", "one 127.0.0.3");
}

#[test]
fn services_name_servers_with_their_ports_and_who_stands_by() {
    let group = "upstream app { zone app 64k; resolver NAMES; resolver_timeout 2s; server svc.test service=http resolve; }";
    let asked = "_http._tcp.svc.test";
    let running = Running::start(group, LOCATION, |names, one, two| {
        names.put_addresses("app.test", 1, &[FIRST]);
        let services = [service(2, two, "app.test"), service(1, one, "app.test")];
        names.put_services(asked, services.into());
    });
    running.wait_for("/", "one 127.0.0.1");
    for _ in 0..4 {
        assert_eq!(running.fetch("/"), (200, "one 127.0.0.1".to_owned()));
    }
    let services = vec![service(1, running.two.port, "app.test")];
    running.names.put_services(asked, services);
    running.wait_for("/", "two 127.0.0.1");
    // A service of which nobody knows the address takes nothing from the others.
    let (one, two) = (running.one.port, running.two.port);
    let services = [service(1, two, "nosuch.test"), service(2, one, "app.test")];
    running.names.put_services(asked, services.into());
    running.wait_for("/", "one 127.0.0.1");
    running.names.remove(asked);
    running.wait_for_status("/", 502);
}

#[test]
fn answers_that_do_not_fit_are_asked_for_over_tcp() {
    let addresses: Vec<Ipv4Addr> = (1..=100)
        .map(|last| Ipv4Addr::new(127, 0, 9, last))
        .collect();
    let running = Running::start(GROUP, LOCATION, |names, _, _| {
        names.put_addresses("app.test", 3600, &addresses);
        names.change(|zone| zone.cut = true);
    });
    running.wait_for_status("/", 200);
    let mut bodies: Vec<String> = (0..20).map(|_| running.fetch("/").1).collect();
    bodies.sort_unstable();
    bodies.dedup();
    assert!(bodies.len() > 1, "{bodies:?}");
    assert!(bodies.iter().all(|body| body.starts_with("one 127.0.9.")));
    assert_eq!(running.names.asked("app.test", A, Transport::Udp), 1);
    assert_eq!(running.names.asked("app.test", A, Transport::Tcp), 1);
}

const VARIABLE: &str = "location / { set $name app.test; proxy_pass http://$name:ONE; }
    location /none { set $name nosuch.test; proxy_pass http://$name:ONE; }
    location /brief { resolver NAMES ipv6=off valid=1s; set $name brief.test; proxy_pass http://$name:ONE; }";

#[test]
fn names_in_variables_are_looked_up_as_they_are_used() {
    let running = Running::start("", VARIABLE, |names, _, _| {
        names.put_addresses("app.test", 3600, &[FIRST]);
        names.put_addresses("brief.test", 3600, &[FIRST]);
    });
    let asked = |name| running.names.asked(name, A, Transport::Udp);
    assert_eq!(asked("app.test"), 0);
    for _ in 0..4 {
        assert_eq!(running.fetch("/"), (200, "one 127.0.0.1".to_owned()));
    }
    // Kept as long as it is valid.
    assert_eq!(asked("app.test"), 1);
    running.names.put_addresses("app.test", 3600, &[SECOND]);
    assert_eq!(running.fetch("/"), (200, "one 127.0.0.1".to_owned()));
    // `valid` counts instead of what the answer says.
    assert_eq!(running.fetch("/brief"), (200, "one 127.0.0.1".to_owned()));
    running.names.put_addresses("brief.test", 3600, &[THIRD]);
    running.wait_for("/brief", "one 127.0.0.3");
    // What is not there is not kept.
    for _ in 0..2 {
        assert_eq!(running.fetch("/none").0, 502);
    }
    assert_eq!(asked("nosuch.test"), 2);
    let said = "nosuch.test could not be resolved (3: Host not found)";
    assert!(running.error_log().contains(said));
    running.names.put_addresses("nosuch.test", 1, &[SECOND]);
    assert_eq!(running.fetch("/none"), (200, "one 127.0.0.2".to_owned()));
    running.reload();
    assert_eq!(running.fetch("/"), (200, "one 127.0.0.2".to_owned()));
}
