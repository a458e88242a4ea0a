//! Handshakes of TLS that are none, or nearly none: none of them harms the worker or hangs, and who stalls is cut off.
//! `GANNET_HANDSHAKES` says how many (2,000 else).

use crate::site::{Site, descriptors, resident_kb, wait_for};
use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::client::{Client, End};
use testkit::ports::{self, Lease};
use testkit::tls::Terms;

const HANDSHAKES: usize = 2_000;
/// Made before the worker is measured.
const WARM_UP: usize = 400;
const CLIENTS: usize = 4;
/// What the allocator may keep.
const GROWTH_KB: usize = 16 * 1024;
const GROWTH_DESCRIPTORS: usize = 4;
const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls");

/// A site with a second, secured address.
struct Secured {
    site: Site,
    lease: Lease,
}

impl Secured {
    fn start() -> Secured {
        let lease = ports::lease();
        let server = format!(
            "listen 127.0.0.1:{} ssl; http2 on; ssl_certificate {FILES}/certificate.pem; ssl_certificate_key {FILES}/key.pem; \
             ssl_session_cache shared:SSL:1m; client_header_timeout 1s;",
            lease.port
        );
        let site = Site::start(&server);
        Secured { site, lease }
    }

    fn connect(&self) -> Client {
        Client::connect(self.lease.port).expect("it listens")
    }

    fn serves(&self) {
        let mut client = self.connect();
        client.secure("localhost").expect("a client of TLS");
        client.send(b"GET /small.txt HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let reply = client.read_reply("GET").expect("a reply");
        assert_eq!(reply.status(), 200);
    }
}

/// Numbers that are the same in every run.
struct Chance(u64);

impl Chance {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % below.max(1)
    }

    fn byte(&mut self) -> u8 {
        self.next(256) as u8
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.byte()).collect()
    }
}

fn hello() -> (rustls::ClientConnection, Vec<u8>) {
    let mut connection =
        testkit::tls::connection("localhost", &Terms::default()).expect("a client of TLS");
    let mut bytes = Vec::new();
    connection.write_tls(&mut bytes).expect("memory");
    (connection, bytes)
}

fn flip(bytes: &mut [u8], chance: &mut Chance) {
    for _ in 0..=chance.next(8) {
        let at = chance.next(bytes.len());
        bytes[at] = chance.byte();
    }
}

/// A hello with something wrong.
fn damaged(chance: &mut Chance) -> Vec<u8> {
    let (_, mut bytes) = hello();
    match chance.next(11) {
        0 | 1 => flip(&mut bytes, chance),
        2 => bytes.truncate(chance.next(bytes.len())),
        // The record's length, and that of the message.
        3 => bytes[3..5].copy_from_slice(&chance.bytes(2)),
        4 => bytes[6..9].copy_from_slice(&chance.bytes(3)),
        5 => {
            bytes = [&[0x16, 3, 1], &chance.bytes(2)[..], &chance.bytes(300)].concat();
        }
        // A record for every byte, some of them empty.
        6 => {
            let record = |byte: &u8| [0x16, 3, 1, 0, 1, *byte];
            let empty = [0x16, 3, 1, 0, 0];
            let message = bytes.split_off(5);
            bytes = message.iter().flat_map(record).collect();
            if chance.next(2) == 0 {
                bytes.extend(empty.repeat(chance.next(50)));
            }
        }
        7 => bytes.extend_from_slice(&bytes.clone()),
        8 => {
            bytes[0] = chance.byte();
        }
        // A part of it twice: extensions in the plural, lengths that do not fit.
        9 => {
            let (from, count) = (chance.next(bytes.len()), chance.next(64));
            let part = bytes[from..(from + count).min(bytes.len())].to_vec();
            bytes.splice(from..from, part);
        }
        _ => bytes.extend(chance.bytes(400)),
    }
    bytes
}

/// A handshake that goes wrong after the hello.
fn damaged_later(client: Client, chance: &mut Chance) -> End {
    let (mut connection, bytes) = hello();
    let mut client = client;
    client.send(&bytes);
    let mut flight = vec![0; 16 * 1024];
    let mut stream = client.into_stream();
    let Ok(count @ 1..) = stream.read(&mut flight) else {
        return End::Closed;
    };
    let mut answer = Vec::new();
    if connection.read_tls(&mut &flight[..count]).is_ok()
        && connection.process_new_packets().is_ok()
    {
        // Nothing is written while more of the server's flight is to come.
        let _ = connection.write_tls(&mut answer);
    }
    match chance.next(3) {
        0 => answer = chance.bytes(200),
        1 if !answer.is_empty() => flip(&mut answer, chance),
        _ => answer.truncate(answer.len() / 2),
    }
    use std::io::Write;
    // A server that has closed already has said enough.
    let _ = stream.write_all(&answer);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    loop {
        match stream.read(&mut flight) {
            Ok(0) => return End::Closed,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return End::Silent,
            Err(_) => return End::Reset,
        }
    }
}

fn send_all(port: u16, numbers: std::ops::Range<usize>) {
    let next = AtomicUsize::new(numbers.start);
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= numbers.end {
                return;
            }
            let mut chance = Chance(number as u64 + 0x9e37_79b9_7f4a_7c15);
            let mut client = Client::connect(port).expect("it listens").forgotten();
            let end = match number % 4 {
                3 => damaged_later(client, &mut chance),
                _ => {
                    client.send(&damaged(&mut chance));
                    client.finish();
                    client.read_to_end().1
                }
            };
            assert_ne!(end, End::Silent, "handshake {number}");
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(work);
        }
    });
}

#[test]
fn damaged_handshakes_are_refused_and_leave_nothing_behind() {
    let count = std::env::var("GANNET_HANDSHAKES").ok();
    let count = count.map_or(HANDSHAKES, |text| text.parse().expect("a number"));
    let secured = Secured::start();
    let site = &secured.site;
    let worker = site.worker();
    send_all(secured.lease.port, 0..WARM_UP);
    let (open, resident) = (descriptors(worker), resident_kb(worker));
    send_all(secured.lease.port, WARM_UP..count);
    assert_eq!(site.worker(), worker);
    secured.serves();
    assert!(!site.log().contains("panic"), "{}", site.log());
    wait_for("the descriptors", || {
        (descriptors(worker) <= open + GROWTH_DESCRIPTORS).then_some(())
    });
    let grown = resident_kb(worker).saturating_sub(resident);
    assert!(grown < GROWTH_KB, "{grown} kB more");
}

#[test]
fn a_handshake_that_stalls_is_cut() {
    let secured = Secured::start();
    let (_, hello) = hello();
    for part in [0, 1, 5, hello.len() / 2, hello.len()] {
        let mut client = secured.connect();
        client.send(&hello[..part]);
        let (_, end) = client.read_to_end();
        assert_eq!(end, End::Closed, "after {part} bytes");
    }
    secured
        .site
        .wait_for_log("client timed out (110: Connection timed out)", 5);
    secured.serves();
}
