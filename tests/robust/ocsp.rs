//! What issuers say of certificates: fetched from OpenSSL's own responder, for clients (`ssl_stapling`) and of clients
//! (`ssl_ocsp`).

use crate::openssl::{error_log, run, s_client};
use crate::site::{Site, wait_for};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use testkit::ports::{self, Lease};

/// An issuer, its responder, and what it has signed: `server`, `good`, `bad`.
struct Issuer {
    responder: Option<Child>,
    lease: Lease,
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Issuer {
    fn create(at: &Path) -> Issuer {
        let lease = ports::lease();
        run(
            at,
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -subj /CN=issuer -days 30",
        );
        let extensions = format!(
            "authorityInfoAccess=OCSP;URI:http://127.0.0.1:{}/ocsp\n",
            lease.port
        );
        std::fs::write(at.join("extensions"), extensions).expect("our directory");
        let mut index = String::new();
        for (serial, name) in [("1001", "server"), ("1002", "good"), ("1003", "bad")] {
            run(
                at,
                &format!(
                    "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {name}.key -out {name}.csr -subj /CN={name}"
                ),
            );
            run(
                at,
                &format!(
                    "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -set_serial 0x{serial} -days 20 -extfile extensions -out {name}.pem"
                ),
            );
            let (state, since) = match name {
                "bad" => ('R', "250101000000Z"),
                _ => ('V', ""),
            };
            index += &format!("{state}\t470101000000Z\t{since}\t{serial}\tunknown\t/CN={name}\n");
        }
        std::fs::write(at.join("index.txt"), index).expect("our directory");
        Issuer {
            responder: None,
            lease,
        }
    }

    fn start(&mut self, at: &Path) {
        let responder = Command::new("openssl")
            .args([
                "ocsp",
                "-index",
                "index.txt",
                "-rsigner",
                "ca.pem",
                "-rkey",
                "ca.key",
            ])
            .args(["-CA", "ca.pem", "-nmin", "60", "-ignore_err", "-port"])
            .arg(self.lease.port.to_string())
            .current_dir(at)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut responder = responder.expect("openssl is installed");
        let mut said = BufReader::new(responder.stdout.take().expect("it is piped"));
        let mut line = String::new();
        while !line.contains("ACCEPT") {
            line.clear();
            assert!(said.read_line(&mut line).expect("text") > 0, "it has ended");
        }
        // Whoever closes it ends the responder.
        responder.stdout = Some(said.into_inner());
        self.responder = Some(responder);
    }

    fn stop(&mut self) {
        if let Some(mut child) = self.responder.take() {
            // It may have ended by itself.
            let _gone = child.kill();
            let _gone = child.wait();
        }
    }
}

fn prepared(more: &str) -> (Site, Issuer, Lease) {
    let lease = ports::lease();
    let mut site = Site::prepared();
    let issuer = Issuer::create(site.path());
    std::fs::write(
        site.file("chain.pem"),
        ["server.pem", "ca.pem"]
            .map(|name| std::fs::read_to_string(site.file(name)).expect("our file"))
            .concat(),
    )
    .expect("our directory");
    let more = more.replace(
        "RESPONDER",
        &format!("http://127.0.0.1:{}", issuer.lease.port),
    );
    site.configure(&format!(
        "listen 127.0.0.1:{} ssl; ssl_certificate chain.pem; ssl_certificate_key server.key; {more}",
        lease.port
    ));
    site.run();
    (site, issuer, lease)
}

#[test]
fn clients_get_the_issuers_word() {
    let (site, mut issuer, lease) = prepared("ssl_stapling on; ssl_stapling_verify on;");
    issuer.start(site.path());
    let said = wait_for("the word", || {
        let said = s_client(site.path(), lease.port, "-status", "");
        said.contains("OCSP Response Status: successful")
            .then_some(said)
    });
    assert!(said.contains("Cert Status: good"), "{said}");
}

#[test]
fn a_responder_that_is_gone_harms_nobody() {
    let (site, _issuer, lease) = prepared("ssl_stapling on; ssl_stapling_responder RESPONDER/;");
    let said = s_client(site.path(), lease.port, "-status", "");
    assert!(said.contains("OCSP response: no response sent"), "{said}");
    let words = "while requesting certificate status, responder: 127.0.0.1";
    wait_for(words, || error_log(&site).contains(words).then_some(()));
}

/// What `-t` says.
fn check(site: &Site) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_gannet"))
        .args(["-t", "-c", "nginx.conf", "-p"])
        .arg(site.path())
        .output();
    String::from_utf8_lossy(&output.expect("cargo built it").stderr).into_owned()
}

#[test]
fn a_certificate_without_a_responder_is_told() {
    let lease = ports::lease();
    let site = Site::prepared();
    let issuer = Issuer::create(site.path());
    for (files, more, words) in [
        (
            "server.pem",
            "",
            "\"ssl_stapling\" ignored, issuer certificate not found for certificate",
        ),
        (
            "ca.pem",
            "ssl_trusted_certificate ca.pem;",
            "\"ssl_stapling\" ignored, no OCSP responder URL in the certificate",
        ),
        (
            "server.pem",
            "ssl_trusted_certificate ca.pem; ssl_stapling_responder https://a/;",
            "\"ssl_stapling\" ignored, invalid URL prefix in OCSP responder \"https://a/\"",
        ),
    ] {
        let key = files.replace(".pem", ".key");
        site.configure(&format!(
            "listen 127.0.0.1:{} ssl; ssl_certificate {files}; ssl_certificate_key {key}; ssl_stapling on; {more}",
            lease.port
        ));
        let checked = check(&site);
        assert!(checked.contains(words), "{words}: {checked}");
    }
    drop(issuer);
}

#[test]
fn clients_certificates_are_looked_up() {
    for (more, cached) in [("", false), ("ssl_ocsp_cache shared:words:1m;", true)] {
        let (site, mut issuer, lease) = prepared(&format!(
            "ssl_verify_client on; ssl_client_certificate ca.pem; ssl_ocsp on; {more} return 200 $ssl_client_verify;"
        ));
        issuer.start(site.path());
        let ask = |name: &str| {
            let shown = format!("-cert {name}.pem -key {name}.key");
            s_client(site.path(), lease.port, &shown, "GET / HTTP/1.0\r\n\r\n")
        };
        let good = ask("good");
        assert!(
            good.contains("200 OK") && good.contains("SUCCESS"),
            "{good}"
        );
        let bad = ask("bad");
        assert!(bad.contains("400 Bad Request"), "{bad}");
        let words = "client SSL certificate verify error: certificate revoked";
        wait_for(words, || error_log(&site).contains(words).then_some(()));
        issuer.stop();
        let good = ask("good");
        assert_eq!(good.contains("200 OK"), cached, "{good}");
        if !cached {
            let words = "client SSL certificate verify error: certificate status request failed";
            wait_for(words, || error_log(&site).contains(words).then_some(()));
        }
    }
}
