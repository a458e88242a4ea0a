//! Sessions that clients take up again, by OpenSSL's client: by identifier, by ticket, in both versions, on any thread,
//! over a reload, with keys of files that rotate; and data that comes before the handshake is done.

use crate::openssl::{error_log, run, s_client};
use crate::site::{Site, wait_for};
use testkit::ports::{self, Lease};

const REQUEST: &str = "GET /seen HTTP/1.0\r\n\r\n";

/// A site of three threads; `more` stands beside the certificate.
fn configure(site: &Site, port: u16, more: &str) {
    site.configure_with(
        "worker_processes 3;",
        "",
        &format!(
            "listen 127.0.0.1:{port} ssl; ssl_certificate own.pem; ssl_certificate_key own.key; {more} \
             location /seen {{ return 200 \"[$ssl_protocol $ssl_session_reused $ssl_early_data $ssl_session_id $ssl_sigalg]\"; }}"
        ),
    );
}

fn started(more: &str) -> (Site, Lease) {
    let lease = ports::lease();
    let mut site = Site::prepared();
    run(
        site.path(),
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout own.key -out own.pem -subj /CN=localhost -days 30",
    );
    for (place, name) in ["one", "two", "three"].iter().enumerate() {
        std::fs::write(site.file(name), [place as u8 + 1; 80]).expect("our directory");
    }
    configure(&site, lease.port, more);
    site.run();
    (site, lease)
}

/// What the server saw: version, whether the session was taken up, early data, identifier, signature.
fn seen(site: &Site, port: u16, arguments: &str) -> Vec<String> {
    let said = s_client(site.path(), port, arguments, REQUEST);
    // Its own text has brackets, too.
    let begin = said.rfind("[TLSv1.").unwrap_or_else(|| panic!("{said}"));
    let rest = &said[begin + 1..];
    let end = rest.find(']').expect("its end");
    rest[..end].split(' ').map(str::to_owned).collect()
}

fn begin(site: &Site, port: u16, version: &str) -> Vec<String> {
    seen(site, port, &format!("{version} -sess_out session.pem"))
}

/// Whether the session is taken up.
fn resumes(site: &Site, port: u16, version: &str) -> bool {
    let has_session = site.file("session.pem").exists();
    has_session && seen(site, port, &format!("{version} -sess_in session.pem"))[1] == "r"
}

fn reload(site: &Site, port: u16, more: &str) {
    let told = || error_log(site).matches("reconfiguring").count();
    let before = told();
    configure(
        site,
        port,
        &format!("{more} location /new {{ return 200 \"[TLSv1.new]\"; }}"),
    );
    site.signal("HUP");
    wait_for("the reload", || (told() > before).then_some(()));
    wait_for("the new configuration", || {
        let said = s_client(site.path(), port, "", "GET /new HTTP/1.0\r\n\r\n");
        said.contains("[TLSv1.new]").then_some(())
    });
}

#[test]
fn sessions_are_taken_up_by_any_thread_and_over_a_reload() {
    for (settings, version, resumed) in [
        (
            "ssl_session_tickets off; ssl_session_cache shared:kept:1m;",
            "-tls1_2",
            true,
        ),
        (
            "ssl_session_tickets off; ssl_session_cache shared:kept:1m;",
            "-tls1_3",
            true,
        ),
        ("ssl_session_cache none;", "-tls1_2", true),
        ("ssl_session_cache none;", "-tls1_3", true),
        ("ssl_session_ticket_key one;", "-tls1_2", true),
        ("ssl_session_ticket_key one;", "-tls1_3", true),
        ("ssl_session_tickets off;", "-tls1_2", false),
        ("ssl_session_tickets off;", "-tls1_3", false),
    ] {
        let (site, lease) = started(settings);
        let port = lease.port;
        let first = begin(&site, port, version);
        assert_eq!(first[1], ".", "{settings}");
        assert_eq!(first[4], "ecdsa_secp256r1_sha256", "{settings} {first:?}");
        // Of a kept session of TLS 1.3 a ticket is good for one time.
        let once = settings.contains("shared") && version == "-tls1_3";
        if !once {
            for _ in 0..8 {
                assert_eq!(
                    resumes(&site, port, version),
                    resumed,
                    "{settings} {version}"
                );
            }
        }
        reload(&site, port, settings);
        assert_eq!(
            resumes(&site, port, version),
            resumed,
            "{settings} {version}"
        );
        if version == "-tls1_2" && settings.contains("shared") {
            let again = seen(&site, port, "-tls1_2 -sess_in session.pem");
            assert_eq!((&first[3], &again[4][..]), (&again[3], ""), "one session");
            assert_eq!(first[3].len(), 64);
        }
    }
}

#[test]
fn keys_of_tickets_rotate() {
    let key = |names: &[&str]| -> String {
        let lines = names
            .iter()
            .map(|name| format!("ssl_session_ticket_key {name};"));
        lines.collect()
    };
    let (site, lease) = started(&key(&["one"]));
    let port = lease.port;
    for version in ["-tls1_2", "-tls1_3"] {
        reload(&site, port, &key(&["one"]));
        begin(&site, port, version);
        // The new one makes tickets, the old one still opens them.
        reload(&site, port, &key(&["two", "one"]));
        assert!(resumes(&site, port, version));
        begin(&site, port, version);
        reload(&site, port, &key(&["three", "two"]));
        assert!(resumes(&site, port, version), "made with the second key");
        reload(&site, port, &key(&["three"]));
        assert!(!resumes(&site, port, version), "its key is gone");
    }
}

#[test]
fn data_that_comes_before_the_handshake_is_done_is_answered() {
    let (site, lease) = started("ssl_early_data on;");
    let port = lease.port;
    std::fs::write(site.file("early"), REQUEST).expect("our directory");
    let first = begin(&site, port, "-tls1_3");
    assert_eq!((&first[1][..], &first[2][..]), (".", ""));
    let early = "-tls1_3 -sess_in session.pem -early_data early";
    let said = s_client(site.path(), port, early, "");
    assert!(said.contains("Early data was accepted"), "{said}");
    assert!(said.contains("[TLSv1.3 r 1 "), "{said}");
    // What was recorded is worth nothing: a session is taken up once.
    let said = s_client(site.path(), port, early, REQUEST);
    assert!(said.contains("Early data was rejected"), "{said}");
    assert!(!said.contains("[TLSv1.3 r 1 "), "{said}");
    // Over TLS 1.2 the sessions are kept as well.
    begin(&site, port, "-tls1_2");
    assert!(resumes(&site, port, "-tls1_2"));
    // Without the directive it is refused, and asked again.
    let (site, lease) = started("ssl_session_cache shared:kept:1m;");
    std::fs::write(site.file("early"), REQUEST).expect("our directory");
    begin(&site, lease.port, "-tls1_3");
    let said = s_client(
        site.path(),
        lease.port,
        "-tls1_3 -sess_in session.pem",
        REQUEST,
    );
    assert!(said.contains("[TLSv1.3 r  "), "{said}");
}
