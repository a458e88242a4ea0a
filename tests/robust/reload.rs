//! SIGHUP: no request notices it, and a configuration that cannot serve changes nothing.

use crate::site::{Site, request, wait_for};
use crate::traffic::Connections::{Fresh, Kept};
use crate::traffic::Traffic;
use std::net::TcpListener;

const RELOADS: usize = 50;

/// A configuration whose answer for `/generation` is `generation NUMBER`.
fn generation(site: &Site, number: usize) -> String {
    let root = format!("generation-{number}");
    std::fs::create_dir_all(site.file(&root)).expect("our directory");
    let text = format!("generation {number}");
    std::fs::write(site.file(&root).join("generation"), text).expect("our directory");
    format!("location = /generation {{ root {root}; }}")
}

fn started() -> Site {
    let mut site = Site::prepared();
    site.configure(&generation(&site, 1));
    site.run();
    site
}

#[test]
fn fifty_reloads_under_load_fail_no_request() {
    let site = started();
    let worker = site.worker();
    let traffic = Traffic::start(site.port, "/generation", &[(Kept, 3), (Fresh, 2)], |text| {
        text.starts_with("generation ")
    });
    for number in 2..RELOADS + 2 {
        let before = traffic.answered();
        site.configure(&generation(&site, number));
        site.signal("HUP");
        wait_for("the new configuration", || {
            (site.ask("/generation").text() == format!("generation {number}")).then_some(())
        });
        wait_for("requests between two reloads", || {
            (traffic.answered() > before + 5).then_some(())
        });
    }
    let (answered, failures) = traffic.stop();
    assert!(
        failures.is_empty(),
        "{} of {answered} failed: {:?}",
        failures.len(),
        &failures[0]
    );
    // Every configuration that was replaced is let go of.
    site.wait_for_log("former configuration of worker process", RELOADS);
    assert_eq!(site.worker(), worker);
    assert!(!site.log().contains("[alert]"), "{}", site.log());
}

#[test]
fn a_configuration_that_cannot_serve_changes_nothing() {
    let site = started();
    let worker = site.worker();
    let mut kept = site.connect();
    let mut ask = || {
        kept.send(request("/generation", "keep-alive").as_bytes());
        kept.read_reply("GET")
            .expect("the connection is kept")
            .text()
    };
    assert_eq!(ask(), "generation 1");
    // Held to the end of the test.
    let holder = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let taken = holder.local_addr().expect("it is bound").port();
    let broken = [
        "location / { ".to_owned(),
        "no_such_directive on;".to_owned(),
        "location ~ '(' { }".to_owned(),
        "access_log no/such/directory/access.log;".to_owned(),
        format!("listen 127.0.0.1:{taken};"),
    ];
    for (index, text) in broken.iter().enumerate() {
        site.configure(&format!("{} {text}", generation(&site, 2)));
        site.signal("HUP");
        site.wait_for_log("reconfiguring", 2 * (index + 1));
        site.wait_for_log("[emerg]", index + 1);
        assert_eq!(ask(), "generation 1");
        assert_eq!(site.ask("/generation").text(), "generation 1", "{text}");
    }
    site.configure(&generation(&site, 3));
    site.signal("HUP");
    wait_for("the mended configuration", || {
        (ask() == "generation 3").then_some(())
    });
    assert_eq!(site.worker(), worker);
}
