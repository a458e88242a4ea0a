//! What is made of a cached response is kept with it: the second request for it runs neither upstream nor filter, also
//! after a restart; it goes when its response goes.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use testkit::client::Client;
use testkit::directory::Directory;
use testkit::origin::Origin;
use testkit::ports;
use testkit::reply::Reply;
use testkit::server::{Program, Server};

const PATIENCE: Duration = Duration::from_secs(20);
/// A body that is compressed in one piece, and one that is compressed as it goes out.
const LENGTHS: [(&str, usize); 2] = [("/page", 20_000), ("/long", 1_200_000)];

struct Site {
    directory: Directory,
    lease: ports::Lease,
    origin: Origin,
    server: Server,
}

impl Site {
    /// `zone`: more parameters of the cache; `inside` stands in the location before the origin.
    fn start(zone: &str, inside: &str) -> Site {
        let mut replies: Vec<(String, Vec<u8>)> = LENGTHS
            .iter()
            .map(|(path, length)| (path.to_string(), reply("text/html", &text(*length))))
            .collect();
        replies.push(("/a.png".to_owned(), reply("image/png", &png(600, 400))));
        let origin = Origin::start(replies.into_iter().collect()).unwrap();
        let (directory, lease) = (Directory::create(), ports::lease());
        let path = directory.path().display();
        let configuration = format!(
            "daemon off;\npid {path}/pid;\nworker_processes 2;\nerror_log {path}/error.log;\nevents {{ }}\n\
             http {{\n access_log off;\n proxy_cache_path {path}/cache keys_zone=one:1m {zone};\n\
             map $request_method $purge {{ PURGE 1; default 0; }}\n\
             server {{ listen 127.0.0.1:{};\n add_header X-Cache $upstream_cache_status;\n\
             location /compression {{ compression_status; }}\n location /image {{ image_status; }}\n\
             location ~ ^/purge(/.*)$ {{ proxy_cache_purge one $1; }}\n\
             location / {{ proxy_pass http://127.0.0.1:{}; proxy_cache one; proxy_cache_key $uri;\n\
             proxy_cache_valid 200 1h; proxy_cache_bypass $http_x_anew; proxy_cache_purge $purge; {inside} }} }}\n}}\n",
            lease.port,
            origin.port()
        );
        fs::write(directory.path().join("nginx.conf"), configuration).unwrap();
        let server = serve(&directory);
        Site {
            directory,
            lease,
            origin,
            server,
        }
    }

    fn restart(&mut self) {
        self.server.stop();
        self.server = serve(&self.directory);
    }

    fn ask(&self, method: &str, path: &str, fields: &str) -> Reply {
        let mut client = Client::connect(self.lease.port).unwrap();
        let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
        client.send(request.as_bytes());
        client.read_reply("GET").unwrap()
    }

    /// What the cache says of a response in gzip, which is compared with what it should be.
    fn gzipped(&self, path: &str, length: usize, fields: &str) -> String {
        let fields = format!("Accept-Encoding: gzip\r\n{fields}");
        let reply = self.ask("GET", path, &fields);
        assert_eq!(reply.field("Content-Encoding"), Some("gzip"));
        let mut body = Vec::new();
        let mut decoder = flate2::read::GzDecoder::new(&reply.body[..]);
        decoder.read_to_end(&mut body).unwrap();
        assert!(body == text(length), "{path}");
        reply.field("X-Cache").unwrap_or_default().to_owned()
    }

    /// A number of a status.
    fn count(&self, status: &str, name: &str) -> u64 {
        let text = self.ask("GET", status, "").text();
        let rest = text.split_once(&format!("\"{name}\": ")).expect(name).1;
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap();
        digits.parse().unwrap()
    }

    /// The files of all entries.
    fn entries(&self) -> Vec<PathBuf> {
        let folders = fs::read_dir(self.directory.path().join("cache")).into_iter();
        let folders = folders
            .flatten()
            .flatten()
            .filter(|folder| folder.path().is_dir());
        let entries = folders.filter_map(|folder| fs::read_dir(folder.path()).ok());
        entries
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect()
    }

    #[track_caller]
    fn await_entries(&self, count: usize) {
        let begun = Instant::now();
        while self.entries().len() != count {
            let entries = self.entries();
            assert!(begun.elapsed() < PATIENCE, "{count}: {entries:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn serve(directory: &Directory) -> Server {
    let program = Program::gannet(Some(env!("CARGO_BIN_EXE_gannet"))).unwrap();
    Server::start(&program, directory.path()).unwrap()
}

fn reply(kind: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nETag: \"x\"\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

fn text(length: usize) -> Vec<u8> {
    let line = |number: u32| format!("<li>entry {:x}</li>\n", number.wrapping_mul(2_654_435_761));
    let lines = (0..).map(line).flat_map(String::into_bytes);
    lines.take(length).collect()
}

/// A grey PNG.
fn png(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Grayscale);
    let mut writer = encoder.write_header().unwrap();
    let pixels: Vec<u8> = (0..width * height).map(|at| (at % 251) as u8).collect();
    writer.write_image_data(&pixels).unwrap();
    writer.finish().unwrap();
    bytes
}

#[test]
fn the_second_request_for_a_compressed_response_runs_neither_upstream_nor_filter() {
    // With entries in memory, and with none.
    for zone in ["", "memory=0"] {
        let mut site = Site::start(zone, "gzip on;");
        for (path, length) in LENGTHS {
            assert_eq!(site.gzipped(path, length, ""), "MISS");
        }
        site.await_entries(4);
        let compressed = site.count("/compression", "bytes_in");
        assert_eq!(
            compressed,
            LENGTHS
                .iter()
                .map(|(_, length)| *length as u64)
                .sum::<u64>()
        );
        for _ in 0..6 {
            for (path, length) in LENGTHS {
                assert_eq!(site.gzipped(path, length, ""), "HIT");
            }
        }
        assert_eq!(site.count("/compression", "bytes_in"), compressed);
        let found = site.count("/compression", "cached") + site.count("/compression", "repeated");
        assert_eq!(found, 12);
        assert_eq!(site.origin.requests(), 2);
        // After a start, too, and after one without the index.
        for lost in [false, true] {
            site.server.stop();
            if lost {
                fs::remove_file(site.directory.path().join("cache/index")).unwrap();
            }
            site.restart();
            for (path, length) in LENGTHS {
                assert_eq!(site.gzipped(path, length, ""), "HIT");
            }
            assert_eq!(site.count("/compression", "bytes_in"), 0);
            assert_eq!(site.count("/compression", "cached"), 2);
        }
        assert_eq!(site.origin.requests(), 2);
    }
}

#[test]
fn what_was_made_of_a_response_goes_with_it() {
    let site = Site::start("", "gzip on; brotli on; gzip_types *;");
    for (path, length) in LENGTHS {
        site.gzipped(path, length, "");
        let reply = site.ask("GET", path, "Accept-Encoding: br\r\n");
        assert_eq!(reply.field("Content-Encoding"), Some("br"));
    }
    site.await_entries(6);
    // Another response in its place has forms of its own, and the former ones go.
    for (path, length) in LENGTHS {
        let compressed = site.count("/compression", "bytes_in");
        assert_eq!(site.gzipped(path, length, "X-Anew: 1\r\n"), "BYPASS");
        assert_eq!(
            site.count("/compression", "bytes_in"),
            compressed + length as u64
        );
    }
    site.await_entries(4);
    for (path, length) in LENGTHS {
        assert_eq!(site.gzipped(path, length, ""), "HIT");
        assert_eq!(site.ask("PURGE", path, "").status(), 204);
    }
    site.await_entries(0);
    // A failure to have one in time for many clients is none to anybody.
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| {
                for (path, length) in LENGTHS {
                    site.gzipped(path, length, "");
                }
            });
        }
    });
    let compressed = site.count("/compression", "bytes_in");
    for (path, length) in LENGTHS {
        assert_eq!(site.gzipped(path, length, ""), "HIT");
    }
    assert_eq!(site.count("/compression", "bytes_in"), compressed);
}

#[test]
fn forms_count_in_max_size_and_go_unless_they_are_asked_for() {
    let site = Site::start("max_size=1m inactive=1s", "gzip on; gzip_types *;");
    for _ in 0..3 {
        site.gzipped("/page", 20_000, "");
    }
    site.await_entries(2);
    let filler = "f".repeat(2000);
    for number in 0..200 {
        let fields = format!("Accept-Encoding: gzip\r\nX-Filler: {filler}\r\n");
        let reply = site.ask("GET", &format!("/{number}"), &fields);
        assert_eq!(reply.status(), 200);
    }
    let begun = Instant::now();
    let space = || -> u64 {
        let length = |path: PathBuf| fs::metadata(path).map_or(0, |data| data.len());
        site.entries()
            .into_iter()
            .map(|path| length(path).next_multiple_of(4096))
            .sum()
    };
    while space() > 1 << 20 {
        assert!(begun.elapsed() < PATIENCE, "{}", space());
        std::thread::sleep(Duration::from_millis(5));
    }
    site.await_entries(0);
}

#[test]
fn a_picture_of_a_cached_response_is_made_once_and_goes_with_it() {
    for inside in [
        "image_filter resize 100 -;",
        "small_light on; rewrite ^/small_light[^/]*/(.*)$ /$1 break;",
    ] {
        let mut site = Site::start("", inside);
        let path = match inside.starts_with("small") {
            true => "/small_light(dw=100)/a.png",
            false => "/a.png",
        };
        let width = |reply: &Reply| {
            assert_eq!(reply.status(), 200, "{}", reply.text());
            u32::from_be_bytes(reply.body[16..20].try_into().unwrap())
        };
        let first = site.ask("GET", path, "");
        assert_eq!((first.field("X-Cache"), width(&first)), (Some("MISS"), 100));
        site.await_entries(2);
        for _ in 0..5 {
            let reply = site.ask("GET", path, "");
            assert_eq!((reply.field("X-Cache"), width(&reply)), (Some("HIT"), 100));
        }
        assert_eq!(
            (site.count("/image", "made"), site.origin.requests()),
            (1, 1)
        );
        site.restart();
        let reply = site.ask("GET", path, "");
        assert_eq!((reply.field("X-Cache"), width(&reply)), (Some("HIT"), 100));
        assert_eq!(
            (site.count("/image", "made"), site.origin.requests()),
            (0, 1)
        );
        // The response that is fetched anew is the same, and so is its picture's tag.
        let anew = site.ask("GET", path, "X-Anew: 1\r\n");
        assert_eq!(anew.field("ETag"), first.field("ETag"));
        assert_eq!(site.count("/image", "made"), 1);
        site.await_entries(2);
        let purged = site.ask("GET", "/purge/a.png", "");
        assert_eq!(purged.status(), 200);
        site.await_entries(0);
    }
}
