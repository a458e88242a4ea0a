//! `compression_status`, and the table of bodies seen before: it is asked while that pays, and not while it does not.

use crate::site::{Site, decoded, head};
use testkit::origin::Origin;
use testkit::reply::Reply;

/// A number of the status.
fn count(site: &Site, name: &str) -> u64 {
    let text = site.ask("GET", "/status", &[]).text();
    let rest = text.split_once(&format!("\"{name}\": ")).expect(name).1;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap();
    digits.parse().unwrap()
}

#[test]
fn bodies_that_come_again_are_compressed_once_and_others_are_passed_by() {
    let page = "<li>a line of the page</li>\n".repeat(400);
    let reply = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{page}",
        page.len()
    );
    let replies = [(String::from("/page"), reply.into_bytes())].into();
    let origin = Origin::start(replies).unwrap();
    let inside = format!(
        "keepalive_requests 10000; gzip on; gzip_types *; location /status {{ gzip off; compression_status; }}\n\
         location /status.html {{ gzip off; compression_status html; }}\n\
         location / {{ proxy_pass http://127.0.0.1:{}; }}",
        origin.port()
    );
    let site = Site::start("", &inside, &[]);
    let mut client = site.client();
    let mut ask = |path: &str| -> Reply {
        // The echo of a long path is long.
        let fields = [
            ("Accept-Encoding", "gzip"),
            ("X-Filler", &"x".repeat(300)[..]),
        ];
        client.send(head("GET", path, &fields).as_bytes());
        client.read_reply("GET").expect("a reply")
    };
    for _ in 0..50 {
        let reply = ask("/page");
        assert!(decoded(Some("gzip"), &reply.body) == page.as_bytes());
    }
    // The second time it is kept, from the third on it is known.
    assert_eq!((count(&site, "hits"), count(&site, "misses")), (48, 2));
    assert_eq!(count(&site, "gzip"), 50);
    assert_eq!(count(&site, "bytes_in"), 50 * page.len() as u64);
    assert!(count(&site, "bytes") > 0);
    assert!(
        site.ask("GET", "/status.html", &[])
            .text()
            .contains("<td>96.0 %")
    );
    // Nothing comes again: after two trials at the latest the table is not asked for a while, and is empty.
    for number in 0..1200 {
        let reply = ask(&format!("/another/{number}"));
        assert_eq!(reply.field("Content-Encoding"), Some("gzip"));
    }
    assert!(count(&site, "passed") > 0);
    assert_eq!(count(&site, "bytes"), 0);
    let (hits, misses) = (count(&site, "hits"), count(&site, "misses"));
    ask("/page");
    assert_eq!(
        (count(&site, "hits"), count(&site, "misses")),
        (hits, misses)
    );
    let refused = site.ask("POST", "/status", &[("Content-Length", "0")]);
    assert_eq!(refused.status(), 405);
}
