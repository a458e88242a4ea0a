//! Settings of copies that change while the server runs, in the middle of its work.

use crate::site::{Site, decoded, get, until, until_coded};
use std::fs;

fn page(number: usize) -> Vec<u8> {
    format!("<p>a line of page {number}</p>\n")
        .repeat(300)
        .into_bytes()
}

fn write_pages(site: &Site, names: &str, count: usize) {
    for number in 0..count {
        let path = site.root().join(format!("{names}{number}.html"));
        fs::write(path, page(number)).unwrap();
    }
}

/// Asks until a path comes as it is.
fn until_plain(site: &Site, path: &str) {
    until(&format!("{path} as it is"), || {
        let reply = get(&mut site.client(), path, "br").unwrap();
        reply.field("Content-Encoding").is_none()
    });
}

#[test]
fn copies_begin_and_end_with_the_setting() {
    let site = Site::prepare("", "precompress_store copies;");
    write_pages(&site, "a", 3);
    let site = site.started();
    until_coded(&site, "/a0.html", "br");
    site.reload("precompress on;", "precompress off;");
    until_plain(&site, "/a0.html");
    until_plain(&site, "/a1.html");
    site.reload("precompress off;", "precompress on; precompress_scan on;");
    // Of the former time, and of a file that nobody has asked for: the scan makes those.
    until_coded(&site, "/a0.html", "gzip");
    until("copies of all files", || {
        site.count("made", "br") >= 3 && site.count("queue", "running") == 0
    });
    write_pages(&site, "b", 1);
    until("copies of a new file", || site.count("made", "br") >= 4);
    let reply = until_coded(&site, "/b0.html", "zstd");
    assert_eq!(decoded(&reply).unwrap(), page(0));
}

#[test]
fn what_waits_is_let_go_when_nothing_is_to_be_made() {
    // At this rate the files would take minutes.
    let site = Site::prepare("", "precompress_store copies; precompress_scan on;");
    let slow = "http {\n precompress_rate 20k;";
    let path = site.directory.path().join("nginx.conf");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("http {\n", slow)).unwrap();
    write_pages(&site, "a", 300);
    let site = site.started();
    until("files wait", || site.count("queue", "idle") > 50);
    for _ in 0..3 {
        site.reload("precompress_scan on;", "precompress_scan on ;");
        site.reload("precompress_scan on ;", "precompress_scan on;");
        let reply = get(&mut site.client(), "/a7.html", "gzip, br, zstd").unwrap();
        assert_eq!(decoded(&reply).unwrap(), page(7));
    }
    site.reload("precompress on;", "precompress off;");
    until_plain(&site, "/a9.html");
    until("nothing waits any more", || {
        site.count("queue", "idle") + site.count("queue", "asked") == 0
    });
    assert!(site.count("made", "br") < 300);
    assert!(
        !site.error_log().contains("[emerg]"),
        "{}",
        site.error_log()
    );
}
