//! Certificates that are replaced while clients shake hands: on SIGHUP, and by themselves (`ssl_certificate_reload`).
//! `GANNET_CERTIFICATE_RELOADS` says how often (20 else).

use crate::site::{Site, resident_kb, wait_for};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use testkit::ports::{self, Lease};
use testkit::tls::Terms;

const RELOADS: usize = 20;
const CLIENTS: usize = 2;
/// What the allocator may keep.
const GROWTH_KB: usize = 16 * 1024;
/// Pairs of a certificate and its key, of different kinds.
const PAIRS: [(&str, &str); 2] = [
    ("tests/tls/certificate.pem", "tests/tls/key.pem"),
    (
        "tests/cases/tls/by_name/files/rsa.example.pem",
        "tests/cases/tls/by_name/files/rsa.example.key",
    ),
];

/// Puts a pair into the site, each file by a rename.
fn put(site: &Site, pair: usize) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (certificate, key) = PAIRS[pair % PAIRS.len()];
    for (from, to) in [(key, "own.key"), (certificate, "own.pem")] {
        let new = site.file(&format!("{to}.new"));
        std::fs::copy(root.join(from), &new).expect("our directory");
        std::fs::rename(new, site.file(to)).expect("our directory");
    }
}

fn started(more: &str) -> (Site, Lease) {
    let lease = ports::lease();
    let mut site = Site::prepared();
    put(&site, 0);
    site.configure(&format!(
        "listen 127.0.0.1:{} ssl; ssl_certificate own.pem; ssl_certificate_key own.key; {more}",
        lease.port
    ));
    site.run();
    (site, lease)
}

/// The certificate that a client is shown.
fn shown(port: u16) -> Result<Vec<u8>, String> {
    let text = |error: std::io::Error| error.to_string();
    let mut socket = TcpStream::connect(("127.0.0.1", port)).map_err(text)?;
    let mut connection = testkit::tls::connection("localhost", &Terms::default()).map_err(text)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut socket).map_err(text)?;
    }
    let chain = connection.peer_certificates().ok_or("no certificate")?;
    Ok(chain.first().ok_or("no certificate")?.to_vec())
}

#[test]
fn reloads_of_certificates_fail_no_handshake() {
    let count = std::env::var("GANNET_CERTIFICATE_RELOADS").ok();
    let count = count.map_or(RELOADS, |text| text.parse().expect("a number"));
    let (site, lease) = started("");
    let port = lease.port;
    let (stop, made) = (AtomicBool::new(false), AtomicUsize::new(0));
    let client = || {
        while !stop.load(Ordering::Relaxed) {
            shown(port)?;
            made.fetch_add(1, Ordering::Relaxed);
        }
        Ok::<(), String>(())
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        let mut resident = 0;
        let mut before = shown(port).expect("a certificate");
        for number in 1..=count {
            let handshakes = made.load(Ordering::Relaxed);
            put(&site, number);
            site.signal("HUP");
            before = wait_for("the other certificate", || {
                shown(port).ok().filter(|now| *now != before)
            });
            wait_for("handshakes between two reloads", || {
                (made.load(Ordering::Relaxed) > handshakes + 2).then_some(())
            });
            if number == count / 2 {
                resident = resident_kb(site.worker());
            }
        }
        stop.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().expect("a client").expect("a handshake");
        }
        let now = resident_kb(site.worker());
        println!(
            "{count} reloads, {} handshakes, {resident} kB at half, {now} kB at the end",
            made.load(Ordering::Relaxed)
        );
        assert!(
            now.saturating_sub(resident) < GROWTH_KB,
            "{resident} kB, then {now} kB"
        );
    });
    assert!(!site.log().contains("[alert]"), "{}", site.log());
}

#[test]
fn changed_certificates_are_taken_up_by_themselves() {
    let (site, lease) = started("ssl_certificate_reload on;");
    let before = shown(lease.port).expect("a certificate");
    put(&site, 1);
    wait_for("the other certificate", || {
        shown(lease.port).ok().filter(|now| *now != before)
    });
    site.wait_for_log("certificates have changed, reconfiguring", 1);
}
