//! Every combination of Accept-Encoding, method, range, condition, source and setting: what is sent follows from a few
//! rules, and each body is what it should be.

use crate::site::{Site, decoded, head, until};
use testkit::origin::Origin;
use testkit::reply::Reply;

/// Settings, with the codings they offer in the order of preference, and whether copies are made ahead.
const SETTINGS: [(&str, &str, &[&str], bool); 5] = [
    ("off", "", &[], false),
    ("gzip", "gzip on; gzip_vary on;", &["gzip"], false),
    ("brotli", "brotli on; gzip_vary on;", &["br"], false),
    (
        "all",
        "gzip on; brotli on; zstd on; gzip_vary on; compression_order br zstd gzip;",
        &["br", "zstd", "gzip"],
        false,
    ),
    (
        "ahead",
        "precompress on; precompress_store copies;",
        &["zstd", "br", "gzip"],
        true,
    ),
];
/// With the codings that the client takes.
const ACCEPTED: [(&str, &[&str]); 8] = [
    ("", &[]),
    ("identity", &[]),
    ("gzip", &["gzip"]),
    ("br", &["br"]),
    ("gzip, deflate, br, zstd", &["gzip", "br", "zstd"]),
    ("gzip;q=0, br", &["br"]),
    ("gzip;q=0", &[]),
    ("deflate, compress", &[]),
];
const METHODS: [&str; 2] = ["GET", "HEAD"];
const RANGES: [Option<&str>; 3] = [None, Some("bytes=0-99"), Some("bytes=99999999-")];
const MODIFIED: &str = "Thu, 02 Jan 2020 03:04:05 GMT";
const CONDITIONS: [Option<(&str, &str)>; 4] = [
    None,
    Some(("If-Modified-Since", MODIFIED)),
    Some(("If-None-Match", "\"another\"")),
    Some(("If-Match", "\"another\"")),
];
const SOURCES: [&str; 3] = ["file", "length", "chunked"];

fn page() -> String {
    (0..400)
        .map(|line| format!("<li>line {line} of the page</li>\n"))
        .collect()
}

fn origin() -> Origin {
    let page = page();
    let fields =
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nLast-Modified: {MODIFIED}\r\n");
    let whole = format!("{fields}Content-Length: {}\r\n\r\n{page}", page.len());
    let (one, two) = page.split_at(5000);
    let chunked = format!(
        "{fields}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{one}\r\n{:x}\r\n{two}\r\n0\r\n\r\n",
        one.len(),
        two.len()
    );
    let replies = [("length", whole), ("chunked", chunked)];
    let reply = |(name, text): (&str, String)| {
        SETTINGS.map(|(setting, ..)| {
            (
                format!("/{name}/{setting}/page.html"),
                text.clone().into_bytes(),
            )
        })
    };
    Origin::start(replies.map(reply).into_iter().flatten().collect()).unwrap()
}

/// One combination.
#[derive(Debug, Clone, Copy)]
struct Case {
    setting: usize,
    accepted: usize,
    method: &'static str,
    range: Option<&'static str>,
    condition: Option<(&'static str, &'static str)>,
    source: &'static str,
}

impl Case {
    /// The coding of a 200.
    fn coding(&self) -> Option<&'static str> {
        let (_, _, offered, ahead) = SETTINGS[self.setting];
        let taken = ACCEPTED[self.accepted].1;
        let is_offered = !ahead || self.source == "file";
        offered
            .iter()
            .copied()
            .find(|coding| is_offered && taken.contains(coding))
    }

    fn status(&self) -> u16 {
        // An upstream answers its conditions itself, and without Accept-Ranges it has no ranges; nor has what is compressed
        // on the fly. A copy has them.
        if self.source != "file" {
            return 200;
        }
        let has_ranges = self.coding().is_none() || SETTINGS[self.setting].3;
        match (self.condition, self.range) {
            (Some(("If-Modified-Since", _)), _) => 304,
            (Some(("If-Match", _)), _) => 412,
            (_, Some("bytes=0-99")) if has_ranges => 206,
            (_, Some("bytes=99999999-")) if has_ranges => 416,
            _ => 200,
        }
    }

    fn check(&self, reply: &Reply, expected: &[u8]) {
        let case = format!("{self:?} {:?}", ACCEPTED[self.accepted].0);
        assert_eq!(reply.status(), self.status(), "{case}");
        if self.status() != 200 {
            return;
        }
        assert_eq!(reply.field("Content-Encoding"), self.coding(), "{case}");
        let (_, settings, _, ahead) = SETTINGS[self.setting];
        let varies = settings.contains("gzip_vary") || (ahead && self.source == "file");
        assert_eq!(
            reply.field("Vary"),
            varies.then_some("Accept-Encoding"),
            "{case}"
        );
        match self.method {
            "HEAD" => assert!(reply.body.is_empty(), "{case}"),
            _ => assert!(decoded(self.coding(), &reply.body) == expected, "{case}"),
        }
        if self.source == "file" {
            let is_weak = self.coding().is_some() && !ahead;
            let tag = reply.field("ETag").unwrap_or("none");
            assert_eq!(tag.starts_with("W/"), is_weak, "{case}: {tag}");
        }
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for setting in 0..SETTINGS.len() {
        for accepted in 0..ACCEPTED.len() {
            for method in METHODS {
                for range in RANGES {
                    for condition in CONDITIONS {
                        cases.extend(SOURCES.map(|source| Case {
                            setting,
                            accepted,
                            method,
                            range,
                            condition,
                            source,
                        }));
                    }
                }
            }
        }
    }
    cases
}

#[test]
fn every_combination() {
    let (page, origin) = (page(), origin());
    let port = origin.port();
    let locations = SETTINGS.map(|(name, settings, ..)| {
        let passed = |source| {
            format!(
                "location /{source}/{name}/ {{ {settings} proxy_pass http://127.0.0.1:{port}; }}\n"
            )
        };
        format!(
            "location /file/{name}/ {{ {settings} }}\n{}{}",
            passed("length"),
            passed("chunked")
        )
    });
    let inside = format!("keepalive_requests 100000;\n{}", locations.concat());
    let names = SETTINGS.map(|(name, ..)| format!("file/{name}/page.html"));
    let files = names.each_ref().map(|name| (&name[..], page.as_bytes()));
    let site = Site::start("", &inside, &files);
    let modified = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_577_934_245);
    for name in &names {
        let file = std::fs::File::options()
            .write(true)
            .open(site.root().join(name))
            .unwrap();
        file.set_modified(modified).unwrap();
    }
    for coding in ["gzip", "br", "zstd"] {
        until("copies are made", || {
            let reply = site.ask(
                "GET",
                "/file/ahead/page.html",
                &[("Accept-Encoding", coding)],
            );
            let is_copy = reply.field("ETag").is_some_and(|tag| tag.starts_with('"'));
            is_copy && reply.field("Content-Encoding") == Some(coding)
        });
    }
    let mut client = site.client();
    for case in cases() {
        let mut fields = vec![("Accept-Encoding", ACCEPTED[case.accepted].0)];
        fields.extend(case.range.map(|range| ("Range", range)));
        fields.extend(case.condition);
        let path = format!("/{}/{}/page.html", case.source, SETTINGS[case.setting].0);
        client.send(head(case.method, &path, &fields).as_bytes());
        let reply = client
            .read_reply(case.method)
            .unwrap_or_else(|| panic!("{case:?}"));
        case.check(&reply, page.as_bytes());
        if reply.field("Connection") == Some("close") {
            client = site.client();
        }
    }
}
