//! Pictures made of others: once for all who ask, again when the source changes, never of what is no picture.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use testkit::client::Client;
use testkit::directory::Directory;
use testkit::ports;
use testkit::reply::Reply;
use testkit::server::{Program, Server};

struct Running {
    port: u16,
    server: Server,
    _lease: ports::Lease,
    directory: Directory,
}

/// A server whose root has the files that `fill` puts there.
fn start(inside: &str, fill: impl FnOnce(&Path)) -> Running {
    let directory = Directory::create();
    let lease = ports::lease();
    let (path, port) = (directory.path().display(), lease.port);
    let configuration = format!(
        "daemon off;\npid {path}/pid;\nworker_processes 2;\nerror_log {path}/error.log;\nevents {{ }}\n\
         http {{\n access_log off; keepalive_requests 100000000;\n types {{ image/png png; text/plain txt; }}\n\
         server {{ listen 127.0.0.1:{port}; root {path}/html; location = /status {{ image_status; }}\n\
         location ~ small_light[^/]*/(.+)$ {{ set $file $1; rewrite ^ /$file; }}\n\
         small_light on; {inside} }}\n}}\n"
    );
    fs::create_dir(directory.path().join("html")).unwrap();
    fs::write(directory.path().join("nginx.conf"), configuration).unwrap();
    fill(&directory.path().join("html"));
    let server = serve(directory.path());
    Running {
        port: lease.port,
        server,
        _lease: lease,
        directory,
    }
}

fn serve(directory: &Path) -> Server {
    let program = Program::gannet(Some(env!("CARGO_BIN_EXE_gannet"))).unwrap();
    Server::start(&program, directory).unwrap()
}

fn get(client: &mut Client, path: &str, fields: &str) -> Reply {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
    client.send(request.as_bytes());
    client.read_reply("GET").unwrap()
}

impl Running {
    fn get(&self, path: &str, fields: &str) -> Reply {
        get(&mut Client::connect(self.port).unwrap(), path, fields)
    }

    /// A counter of `image_status`.
    fn count(&self, name: &str) -> u64 {
        let text = self.get("/status", "").text();
        let quoted = format!("\"{name}\": ");
        let from = text.find(&quoted).unwrap() + quoted.len();
        let digits = text[from..].chars().take_while(char::is_ascii_digit);
        digits.collect::<String>().parse().unwrap()
    }
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

/// The width that a PNG's header tells.
fn width_of(png: &[u8]) -> u32 {
    u32::from_be_bytes(png[16..20].try_into().unwrap())
}

/// Until a file has settled, what is made of it is neither shared nor kept.
fn wait_until_settled(path: &Path) {
    let written = fs::metadata(path).unwrap().modified().unwrap();
    while written
        .elapsed()
        .is_ok_and(|age| age < Duration::from_millis(60))
    {
        std::thread::yield_now();
    }
}

#[test]
fn a_picture_is_made_once_for_all_who_ask() {
    let mut running = start("", |root| {
        fs::write(root.join("a.png"), png(600, 400)).unwrap()
    });
    wait_until_settled(&running.directory.path().join("html/a.png"));
    let path = "/small_light(dw=100)/a.png";
    let port = running.port;
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(move || {
                let reply = get(&mut Client::connect(port).unwrap(), path, "");
                assert_eq!((reply.status(), width_of(&reply.body)), (200, 100));
            });
        }
    });
    assert_eq!(running.count("made"), 1);
    assert_eq!(running.count("joined") + running.count("found"), 15);
    let tag = running.get(path, "").field("ETag").unwrap().to_owned();
    let unchanged = running.get(path, &format!("If-None-Match: {tag}\r\n"));
    assert_eq!((unchanged.status(), unchanged.body.len()), (304, 0));
    assert_eq!(running.count("made"), 1);
    // It is there after a start, too.
    running.server.stop();
    running.server = serve(running.directory.path());
    let reply = running.get(path, "");
    assert_eq!((reply.status(), width_of(&reply.body)), (200, 100));
    assert_eq!(running.count("made"), 0);
}

#[test]
fn a_changed_source_is_never_answered_with_an_old_picture() {
    let running = start("", |_| {});
    let root = running.directory.path().join("html");
    let mut client = Client::connect(running.port).unwrap();
    for version in 0..200 {
        let width = 20 + version % 50;
        let bytes = png(width, 10);
        match version % 3 {
            0 => fs::write(root.join("a.png"), &bytes).unwrap(),
            1 => {
                fs::write(root.join("aside"), &bytes).unwrap();
                fs::rename(root.join("aside"), root.join("a.png")).unwrap();
            }
            _ => {
                fs::remove_file(root.join("a.png")).unwrap();
                fs::write(root.join("a.png"), &bytes).unwrap();
            }
        }
        for _ in 0..2 {
            let reply = get(&mut client, "/small_light(dw=50p)/a.png", "");
            assert_eq!((reply.status(), width_of(&reply.body)), (200, width / 2));
        }
    }
}

#[test]
fn hostile_pictures_are_refused() {
    let huge = {
        let mut bytes = png(4, 4);
        bytes[16..24].copy_from_slice(&[0, 0, 0xff, 0xdc, 0, 0, 0xff, 0xdc]);
        bytes
    };
    let jpeg =
        b"\xff\xd8\xff\xc0\x00\x11\x08\xff\xdc\xff\xdc\x03\x01\x22\x00\x02\x11\x01\x03\x11\x01";
    let mut gif = b"GIF89a\x02\0\x02\0\x80\0\0\0\0\0\xff\xff\xff".to_vec();
    for _ in 0..100_000 {
        gif.extend(b",\0\0\0\0\x02\0\x02\0\0\x02\x02\x84\x51\0");
    }
    let files: &[(&str, Vec<u8>, &[u16])] = &[
        ("huge.png", huge, &[413, 415]),
        ("huge.jpg", jpeg.to_vec(), &[413, 415]),
        ("cut.png", png(300, 300)[..200].to_vec(), &[415]),
        ("text.png", b"<html>no picture</html>".to_vec(), &[415]),
        (
            "drawing.svg",
            b"<svg xmlns='http://www.w3.org/2000/svg'/>".to_vec(),
            &[415],
        ),
        (
            "both.gif",
            [b"GIF89a", &png(9, 9)[..]].concat(),
            &[413, 415],
        ),
        (
            "magic.webp",
            b"RIFF\xff\xff\xff\xffWEBPVP8 \xff\xff\xff\xff".to_vec(),
            &[413, 415],
        ),
        ("frames.gif", gif, &[413, 415, 200]),
        ("one.jpg", vec![0xff], &[415]),
    ];
    let running = start("image_timeout 5s;", |root| {
        for (name, bytes, _) in files {
            fs::write(root.join(name), bytes).unwrap();
        }
    });
    for (name, _, statuses) in files {
        for wish in ["dw=10", "of=png", "dw=10,e=gd,of=jpg"] {
            let status = running
                .get(&format!("/small_light({wish})/{name}"), "")
                .status();
            assert!(statuses.contains(&status), "{name} with {wish}: {status}");
        }
    }
    // An empty file is no business of small_light's.
    assert_eq!(running.count("under_way"), 0);
}

#[test]
fn too_many_pictures_at_a_time_are_told_to_come_again() {
    let running = start("image_queue 0;", |root| {
        fs::write(root.join("a.png"), png(60, 40)).unwrap();
    });
    let reply = running.get("/small_light(dw=10)/a.png", "");
    assert_eq!(reply.status(), 429);
    assert_eq!(reply.field("Retry-After"), Some("1"));
    assert_eq!(running.count("busy"), 1);
    assert_eq!(running.get("/a.png", "").status(), 200);
}

#[test]
fn other_requests_are_answered_while_pictures_are_made() {
    let running = start("", |root| {
        fs::write(root.join("a.png"), png(300, 200)).unwrap();
        fs::write(root.join("b.txt"), "text").unwrap();
    });
    let (port, done) = (running.port, AtomicBool::new(false));
    std::thread::scope(|scope| {
        let makers: Vec<_> = (0..8)
            .map(|maker| {
                scope.spawn(move || {
                    let mut client = Client::connect(port).unwrap();
                    for round in 0..2 {
                        let width = 100 + maker * 10 + round;
                        let path = format!("/small_light(dw={width})/a.png");
                        let reply = get(&mut client, &path, "");
                        assert_eq!((reply.status(), width_of(&reply.body)), (200, width));
                    }
                })
            })
            .collect();
        let done = &done;
        let reader = scope.spawn(move || {
            let mut client = Client::connect(port).unwrap();
            let mut answered = 0;
            while !done.load(Ordering::Relaxed) {
                let reply = get(&mut client, "/b.txt", "");
                assert_eq!((reply.status(), &reply.body[..]), (200, &b"text"[..]));
                answered += 1;
            }
            answered
        });
        for maker in makers {
            maker.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
        assert!(reader.join().unwrap() > 0);
    });
    assert_eq!(running.count("made"), 16);
}

#[test]
fn urls_must_be_signed_where_there_is_a_key() {
    let running = start(
        "image_secret old key; image_sizes 20x- 10x10; small_light_pattern_define p dw=33;",
        |root| fs::write(root.join("a.png"), png(60, 40)).unwrap(),
    );
    // HMAC-SHA256 with the key `key`, of what stands before the argument.
    for (path, status) in [
        ("/small_light(dw=20)/a.png", 403),
        ("/small_light(dw=20)/a.png?signature=00", 403),
        (
            "/small_light(dw=20)/a.png?signature=50eef6f0d836e67cacf3a8e4c681fe638628a7ff85e4b7ce71cbd835a5cebb38",
            200,
        ),
        (
            "/small_light(dw=21)/a.png?signature=50eef6f0d836e67cacf3a8e4c681fe638628a7ff85e4b7ce71cbd835a5cebb38",
            403,
        ),
        (
            "/small_light(dw=21)/a.png?signature=0584b1fadd2bbaea2ff52743e0cf250ba463e035f57fae6c805bae8c411078f8",
            403,
        ),
        (
            "/small_light(p=p)/a.png?signature=87b8e867752fc14047ecca3cc5ea784168aa809ef4882cefeab2677185f549bd",
            200,
        ),
        ("/a.png", 200),
    ] {
        assert_eq!(running.get(path, "").status(), status, "{path}");
    }
}
