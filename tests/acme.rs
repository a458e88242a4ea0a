//! `acme_issuer`, with a real ACME server: pebble, where it is installed (in the path, or where `PEBBLE` says).

use libtest_mimic::{Arguments, Trial};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use testkit::client::Client;
use testkit::directory::Directory;
use testkit::ports::{self, Lease};
use testkit::server::{Program, Server};

type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;
type Test = fn(&Pebble) -> Outcome;

/// An order that failed once is tried again after a minute.
const LIMIT: Duration = Duration::from_secs(150);
const POLL: Duration = Duration::from_millis(20);
const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls");

const TESTS: &[(&str, Test)] = &[
    ("a_file_proves_an_address", a_file_proves_an_address),
    ("a_hello_proves_a_name", a_hello_proves_a_name),
    (
        "a_certificate_outlives_the_server",
        a_certificate_outlives_the_server,
    ),
    (
        "a_server_that_says_no_is_told_of",
        a_server_that_says_no_is_told_of,
    ),
];

fn main() {
    let arguments = Arguments::from_args();
    let program = std::env::var("PEBBLE").unwrap_or_else(|_| "pebble".to_owned());
    let is_missing = Command::new(&program)
        .arg("-version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_err();
    let trials = TESTS.iter().map(|&(name, test)| {
        let program = program.clone();
        let run = move || Ok(test(&Pebble::start(&program)?).map_err(|error| error.to_string())?);
        Trial::test(format!("acme/{name}"), run).with_ignored_flag(is_missing)
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

/// An ACME server that asks for HTTP at one port and for TLS at another.
struct Pebble {
    child: Child,
    directory: Directory,
    port: Lease,
    _management: Lease,
    http: Lease,
    tls: Lease,
}

impl Pebble {
    fn start(program: &str) -> Result<Pebble, String> {
        let directory = Directory::create();
        let leases = [(); 4].map(|()| ports::lease());
        let [port, management, http, tls] = leases;
        let settings = format!(
            r#"{{"pebble":{{"listenAddress":"127.0.0.1:{}","managementListenAddress":"127.0.0.1:{}","certificate":"{FILES}/certificate.pem","privateKey":"{FILES}/key.pem","httpPort":{},"tlsPort":{}}}}}"#,
            port.port, management.port, http.port, tls.port
        );
        let file = directory.path().join("pebble.json");
        fs::write(&file, settings).map_err(|error| error.to_string())?;
        let child = Command::new(program)
            .arg("-config")
            .arg(&file)
            .env("PEBBLE_VA_NOSLEEP", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| error.to_string())?;
        let pebble = Pebble {
            child,
            directory,
            port,
            _management: management,
            http,
            tls,
        };
        until("pebble listens", || {
            Client::connect(pebble.port.port).is_ok()
        })?;
        Ok(pebble)
    }

    /// An `acme_issuer` of this server.
    fn issuer(&self, more: &str) -> String {
        format!(
            "acme_issuer pebble {{ uri https://localhost:{}/dir; contact admin@example.test; state_path state; \
             ssl_trusted_certificate {FILES}/certificate.pem; accept_terms_of_service; {more} }}\n\
             acme_shared_zone zone=ngx_acme_shared:1M;",
            self.port.port
        )
    }

    fn site(&self) -> PathBuf {
        self.directory.path().join("site")
    }

    fn serve(&self, http: &str) -> Result<Server, String> {
        let site = self.site();
        fs::create_dir_all(&site).map_err(|error| error.to_string())?;
        let configuration = format!(
            "daemon off; pid pid; error_log error.log notice;\nevents {{ }}\nhttp {{ access_log off;\n{http}\n}}\n"
        );
        fs::write(site.join("nginx.conf"), configuration).map_err(|error| error.to_string())?;
        // The worker's user, who is nobody where the tests run as root, looks into its site.
        let all = fs::Permissions::from_mode(0o755);
        fs::set_permissions(self.directory.path(), all).map_err(|error| error.to_string())?;
        let gannet = Program::gannet(Some(env!("CARGO_BIN_EXE_gannet"))).ok_or("no gannet")?;
        Server::start(&gannet, &site)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.site().join("error.log")).unwrap_or_default()
    }

    fn wait_for(&self, line: &str) -> Result<(), String> {
        until(line, || self.log().contains(line))
            .map_err(|error| format!("{error}\n{}", self.log()))
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        // One that has ended by itself needs no killing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<(), String> {
    let deadline = Instant::now() + LIMIT;
    while !is_so() {
        if Instant::now() > deadline {
            return Err(format!("not within {LIMIT:?}: {what}"));
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// What a TLS client is shown for a name.
fn shown(port: u16, name: &str) -> Result<String, String> {
    let output = Command::new("openssl")
        .args(["s_client", "-connect", &format!("127.0.0.1:{port}")])
        .args(["-servername", name])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn kept(state: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(state).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .filter(|path| path.extension().is_some_and(|end| end == "pem"))
        .collect()
}

/// The site of the module's documentation: one server gets a certificate, any other answers for it.
fn secured(pebble: &Pebble, names: &str) -> String {
    format!(
        "server {{ listen 127.0.0.1:{}; location / {{ return 404; }} }}\n\
         server {{ listen 127.0.0.1:{} ssl; server_name localhost; acme_certificate pebble {names};\n\
         ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key; ssl_certificate_cache max=2; }}",
        pebble.http.port, pebble.tls.port
    )
}

fn a_file_proves_an_address(pebble: &Pebble) -> Outcome {
    let text = format!(
        "{}\n{}",
        pebble.issuer(""),
        secured(pebble, "127.0.0.1 key=rsa:2048")
    );
    let mut server = pebble.serve(&text)?;
    pebble.wait_for("a certificate for 127.0.0.1 was issued, acme_issuer \"pebble\"")?;
    let seen = shown(pebble.tls.port, "localhost")?;
    assert!(
        seen.contains("issuer=CN = Pebble Intermediate CA"),
        "{seen}"
    );
    assert!(seen.contains("Server public key is 2048 bit"), "{seen}");
    // Nobody but the owner reads keys.
    for file in kept(&pebble.site().join("state")) {
        assert_eq!(fs::metadata(file)?.permissions().mode() & 0o777, 0o600);
    }
    // Answers are gone once they have been asked for.
    let mut client = Client::connect(pebble.http.port)?;
    client.send(b"GET /.well-known/acme-challenge/token HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.read_reply("GET").ok_or("no reply")?.status(), 404);
    server.stop();
    Ok(())
}

fn a_hello_proves_a_name(pebble: &Pebble) -> Outcome {
    let issuer = pebble.issuer("challenge tls-alpn-01;");
    let mut server = pebble.serve(&format!("{issuer}\n{}", secured(pebble, "")))?;
    pebble.wait_for("a certificate for localhost was issued, acme_issuer \"pebble\"")?;
    let seen = shown(pebble.tls.port, "localhost")?;
    assert!(
        seen.contains("issuer=CN = Pebble Intermediate CA"),
        "{seen}"
    );
    server.stop();
    Ok(())
}

fn a_certificate_outlives_the_server(pebble: &Pebble) -> Outcome {
    let text = format!("{}\n{}", pebble.issuer(""), secured(pebble, "127.0.0.1"));
    let mut server = pebble.serve(&text)?;
    pebble.wait_for("a certificate for 127.0.0.1 was issued")?;
    let files = kept(&pebble.site().join("state"));
    let first = fs::read(files.first().ok_or("no certificate is kept")?)?;
    server.stop();
    fs::remove_file(pebble.site().join("error.log"))?;
    // It is there at once, and after a reload; nobody is asked again.
    let mut server = pebble.serve(&text)?;
    for _ in 0..2 {
        let seen = shown(pebble.tls.port, "localhost")?;
        assert!(
            seen.contains("issuer=CN = Pebble Intermediate CA"),
            "{seen}"
        );
        server.signal("HUP");
        pebble.wait_for("exited with code 0")?;
    }
    assert!(!pebble.log().contains("was issued"), "{}", pebble.log());
    assert_eq!(fs::read(&files[0])?, first);
    server.stop();
    Ok(())
}

fn a_server_that_says_no_is_told_of(pebble: &Pebble) -> Outcome {
    // Nobody listens where the ACME server asks.
    let text = format!(
        "{}\nserver {{ listen 127.0.0.1:{}; acme_certificate pebble localhost; }}",
        pebble.issuer(""),
        pebble.tls.port
    );
    let mut server = pebble.serve(&text)?;
    pebble.wait_for("no certificate for localhost from acme_issuer \"pebble\"")?;
    assert!(
        pebble.log().contains("it is asked again in 60 s"),
        "{}",
        pebble.log()
    );
    server.stop();
    Ok(())
}
