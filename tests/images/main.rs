//! Pictures made of others: once for all who ask, again when the source changes, never of what is no picture.

mod examples;
mod parameters;
mod peers;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
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

/// The header of 16,384 by 16,384 pixels of WebP without loss, and nothing after it.
fn lossless_bomb() -> Vec<u8> {
    let mut bytes = b"RIFF\x12\0\0\0WEBPVP8L\x06\0\0\0\x2f".to_vec();
    bytes.extend((0x3fffu32 | 0x3fff << 14).to_le_bytes());
    bytes.push(0);
    bytes
}

#[test]
fn what_is_cut_off_is_no_picture() {
    let running = start("", |root| {
        fs::write(root.join("a.png"), colourful(200, 150)).unwrap();
    });
    let root = running.directory.path().join("html");
    for kind in ["jpg", "png", "gif", "webp"] {
        let whole = running
            .get(&format!("/small_light(of={kind})/a.png"), "")
            .body;
        for part in 1..8 {
            let name = format!("{part}.{kind}");
            fs::write(root.join(&name), &whole[..whole.len() * part / 8]).unwrap();
            let path = format!("/small_light(dw=20)/{name}");
            assert_eq!(running.get(&path, "").status(), 415, "{name}");
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
        ("bomb.webp", lossless_bomb(), &[413, 415]),
        (
            "other.png",
            b"\xff\xd8\xff\xe0 a JPEG by its first bytes".to_vec(),
            &[415],
        ),
    ];
    let inside = "image_timeout 5s; location /animated/ { image_animation on; alias html/; }";
    let running = start(inside, |root| {
        for (name, bytes, _) in files {
            fs::write(root.join(name), bytes).unwrap();
        }
    });
    for (name, _, statuses) in files {
        for wish in ["dw=10", "of=png", "dw=10,e=gd,of=jpg"] {
            let begun = Instant::now();
            let status = running
                .get(&format!("/small_light({wish})/{name}"), "")
                .status();
            assert!(statuses.contains(&status), "{name} with {wish}: {status}");
            // A second on a machine that does nothing else.
            assert!(begun.elapsed() < Duration::from_secs(10), "{name}");
        }
    }
    let path = "/animated/frames.gif?small_light(dw=10)";
    assert_eq!(running.get(path, "").status(), 413, "all the frames");
    let most_kb = running.memory_kb();
    assert!(most_kb < 150_000, "{most_kb} kB");
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

/// Noise in colour, of which nothing without loss is small.
fn colourful(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header().unwrap();
    let mut state = 1u32;
    let mut pixel = || {
        state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        (state >> 16) as u8
    };
    let pixels: Vec<u8> = (0..width * height * 3).map(|_| pixel()).collect();
    writer.write_image_data(&pixels).unwrap();
    writer.finish().unwrap();
    bytes
}

/// The lines of a process's status.
fn status(process: &str) -> String {
    fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default()
}

/// What a line of a process's status says.
fn status_line(process: &str, name: &str) -> String {
    let text = status(process);
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_default()
        .trim_start_matches(':')
        .trim()
        .to_owned()
}

impl Running {
    /// The process that encodes for this server.
    fn helper(&self) -> Option<String> {
        let master = self.server.pid().to_string();
        let mut processes = fs::read_dir("/proc").unwrap().flatten();
        processes.find_map(|entry| {
            let process = entry.file_name().to_string_lossy().into_owned();
            let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let parent = status_line(&process, "PPid");
            let is_ours = command.starts_with(b"gannet\0picture-helper\0")
                && status_line(&parent, "PPid") == master
                && !status_line(&process, "State").starts_with('Z');
            is_ours.then_some(process)
        })
    }

    /// The most memory that a worker ever had.
    fn memory_kb(&self) -> u64 {
        let master = self.server.pid().to_string();
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let names = processes.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let workers = names.filter(|process| status_line(process, "PPid") == master);
        let most = workers.map(|worker| status_line(&worker, "VmHWM"));
        most.flat_map(|text| text.trim_end_matches(" kB").parse())
            .max()
            .expect("a worker")
    }

    fn signal_helper(&self, signal: rustix::process::Signal) {
        let helper = self.helper().expect("an encoder").parse().unwrap();
        let process = rustix::process::Pid::from_raw(helper).unwrap();
        rustix::process::kill_process(process, signal).unwrap();
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("error.log")).unwrap()
    }
}

#[test]
fn webp_with_loss_comes_from_a_process_that_is_fenced_in() {
    let running = start("image_negotiate on;", |root| {
        fs::write(root.join("a.png"), colourful(120, 80)).unwrap();
    });
    let lossy = running.get("/small_light(dw=60,of=webp,q=60)/a.png", "");
    assert_eq!(
        (lossy.status(), lossy.field("Content-Type")),
        (200, Some("image/webp"))
    );
    assert_eq!(&lossy.body[8..16], b"WEBPVP8 ");
    let helper = running.helper().expect("an encoder");
    assert_eq!(status_line(&helper, "Seccomp"), "2");
    assert_eq!(status_line(&helper, "NoNewPrivs"), "1");
    // By Accept, what loses nothing stays so, unless a quality is asked for.
    let chosen = |wish: &str| {
        let path = format!("/small_light({wish})/a.png");
        let reply = running.get(&path, "Accept: image/webp\r\n");
        assert_eq!((reply.status(), reply.field("Vary")), (200, Some("Accept")));
        reply.body[12..16].to_vec()
    };
    assert_eq!(chosen("dw=60"), b"VP8L");
    assert_eq!(chosen("dw=60,q=70"), b"VP8 ");
    assert_eq!(running.helper(), Some(helper), "one process does for all");
    let mut running = running;
    running.server.stop();
    assert_eq!(running.helper(), None);
}

#[test]
fn an_encoder_without_a_fence_is_one_that_was_asked_for() {
    let running = start("image_sandbox off;", |root| {
        fs::write(root.join("a.png"), colourful(60, 40)).unwrap();
    });
    assert_eq!(
        running
            .get("/small_light(dw=30,of=webp)/a.png", "")
            .status(),
        200
    );
    let helper = running.helper().expect("an encoder");
    assert_eq!(status_line(&helper, "Seccomp"), "0");
}

#[test]
fn an_encoder_that_dies_or_hangs_costs_one_picture() {
    let running = start("image_timeout 2s;", |root| {
        fs::write(root.join("a.png"), colourful(120, 80)).unwrap();
    });
    let get_width = |width: u32| {
        let path = format!("/small_light(dw={width},of=webp)/a.png");
        running.get(&path, "").status()
    };
    assert_eq!(get_width(10), 200);
    // It stands still, gets a picture, and is killed.
    running.signal_helper(rustix::process::Signal::STOP);
    let port = running.port;
    let waiting = std::thread::spawn(move || {
        let mut client = Client::connect(port).unwrap();
        get(&mut client, "/small_light(dw=11,of=webp)/a.png", "").status()
    });
    while running.count("given") < 2 {
        std::thread::yield_now();
    }
    running.signal_helper(rustix::process::Signal::KILL);
    assert_eq!(waiting.join().unwrap(), 415);
    let log = running.log();
    assert!(
        log.contains("small_light: the codec ended with signal: 9"),
        "{log}"
    );
    // The same picture comes out well another time.
    assert_eq!(get_width(11), 200);
    running.signal_helper(rustix::process::Signal::STOP);
    let begun = Instant::now();
    assert_eq!(get_width(12), 415);
    assert!(begun.elapsed() >= Duration::from_secs(2));
    assert!(running.log().contains("picture took too long"));
    assert_eq!(get_width(12), 200);
}

#[test]
fn animations_become_webp() {
    let mut gif = b"GIF89a\x02\0\x02\0\x80\0\0\x10\x20\x30\xff\xff\xff".to_vec();
    for data in [[0x84, 0x51], [0x8c, 0x53], [0x84, 0x51]] {
        gif.extend(b"!\xf9\x04\0\x0a\0\0\0,\0\0\0\0\x02\0\x02\0\0\x02\x02");
        gif.extend(data);
        gif.push(0);
    }
    gif.push(b';');
    let running = start("image_animation on;", |root| {
        fs::write(root.join("a.gif"), &gif).unwrap();
    });
    let reply = running.get("/small_light(dw=20,ds=s,of=webp)/a.gif", "");
    assert_eq!(
        (reply.status(), &reply.body[8..16]),
        (200, &b"WEBPVP8X"[..])
    );
    let frames = reply.body.windows(4).filter(|name| *name == b"ANMF");
    assert_eq!(frames.count(), 3);
}

#[test]
fn smaller_pictures_are_made_of_what_is_kept_of_larger_ones() {
    let running = start("", |root| {
        fs::write(root.join("a.png"), colourful(400, 300)).unwrap();
    });
    // A JPEG large enough to be read at a part of its size.
    let jpeg = running.get("/small_light(of=jpg,q=90)/a.png", "").body;
    let path = running.directory.path().join("html/b.jpg");
    fs::write(&path, jpeg).unwrap();
    wait_until_settled(&path);
    let kept = || {
        let mut sizes = Vec::new();
        let mut directories = vec![running.directory.path().join("images")];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                match entry.metadata().unwrap() {
                    data if data.is_dir() => directories.push(entry.path()),
                    data => sizes.push(data.len()),
                }
            }
        }
        sizes.len()
    };
    let before = kept();
    assert_eq!(running.get("/small_light(dw=100)/b.jpg", "").status(), 200);
    assert_eq!(kept(), before + 2, "a picture and a master");
    assert_eq!(running.get("/small_light(dw=40)/b.jpg", "").status(), 200);
    assert_eq!(kept(), before + 3);
}

/// Two servers: one asks the other, and a FastCGI program, for pictures.
fn start_in_between(inside: &str) -> (Running, testkit::fastcgi::Responder) {
    let output = testkit::fastcgi::Output {
        stdout: [b"Content-Type: image/png\r\n\r\n", &png(60, 40)[..]].concat(),
        stderr: Vec::new(),
    };
    let replies = [("/fastcgi.png".to_owned(), output)].into();
    let responder = testkit::fastcgi::Responder::start(replies).unwrap();
    let inside = format!(
        "{inside} set $light on;\n\
         location /behind/ {{ small_light off; alias html/; }}\n\
         location /proxied/light/ {{ rewrite ^/proxied/light/[^/]*/(.*)$ /behind/$1 break;\n\
         proxy_pass http://127.0.0.1:$server_port; }}\n\
         location /fastcgi.png {{ fastcgi_pass 127.0.0.1:{}; fastcgi_param REQUEST_URI /fastcgi.png; }}\n\
         location /filtered/fastcgi.png {{ small_light off; image_filter resize 30 30;\n\
         fastcgi_pass 127.0.0.1:{}; fastcgi_param REQUEST_URI /fastcgi.png; }}\n\
         location /filtered/proxied/ {{ small_light off; image_filter resize 30 30;\n\
         rewrite ^/filtered/proxied/(.*)$ /behind/$1 break; proxy_pass http://127.0.0.1:$server_port; }}",
        responder.port(),
        responder.port(),
    );
    let running = start(&inside, |root| {
        fs::write(root.join("a.png"), png(60, 40)).unwrap();
    });
    (running, responder)
}

#[test]
fn pictures_of_upstreams_and_programs_are_made_once_too() {
    let (running, _responder) = start_in_between("image_filter_buffer 1m;");
    for path in [
        "/proxied/light/small_light(dw=30)/a.png",
        "/fastcgi.png?small_light(dw=30)",
        "/filtered/fastcgi.png",
        "/filtered/proxied/a.png",
    ] {
        let made = [(); 2].map(|()| {
            let reply = running.get(path, "");
            assert_eq!((reply.status(), width_of(&reply.body)), (200, 30), "{path}");
            assert_eq!(reply.field("Content-Type"), Some("image/png"), "{path}");
            running.count("made")
        });
        assert_eq!(made[0], made[1], "{path}");
    }
}

#[test]
fn results_have_validators_and_heads_but_no_ranges() {
    let running = start("", |root| {
        fs::write(root.join("a.png"), png(60, 40)).unwrap();
    });
    wait_until_settled(&running.directory.path().join("html/a.png"));
    let path = "/small_light(dw=30)/a.png";
    let whole = running.get(path, "");
    let field = |name: &str| whole.field(name).unwrap().to_owned();
    let (tag, modified) = (field("ETag"), field("Last-Modified"));
    let other = running.get("/small_light(dw=31)/a.png", "");
    assert_ne!(other.field("ETag"), Some(&tag[..]));
    for (fields, status) in [
        (format!("If-None-Match: {tag}\r\n"), 304),
        (format!("If-None-Match: W/{tag}\r\n"), 304),
        ("If-None-Match: \"other\"\r\n".to_owned(), 200),
        (format!("If-Modified-Since: {modified}\r\n"), 304),
        (format!("If-Match: {tag}\r\n"), 200),
        ("If-Match: \"other\"\r\n".to_owned(), 412),
        ("Range: bytes=0-3\r\n".to_owned(), 200),
    ] {
        let reply = running.get(path, &fields);
        assert_eq!(reply.status(), status, "{fields}");
        if status == 200 {
            assert_eq!(reply.body, whole.body, "{fields}");
        }
    }
    let mut client = Client::connect(running.port).unwrap();
    client.send(format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
    let head = client.read_reply("HEAD").unwrap();
    let fields = ["ETag", "Last-Modified", "Content-Length", "Content-Type"];
    for name in fields {
        assert_eq!(head.field(name), whole.field(name), "{name}");
    }
    assert!(head.body.is_empty());
}

#[test]
fn image_filter_chooses_by_accept_too() {
    let inside = "location /f/ { small_light off; alias html/; image_negotiate on; image_filter resize 30 30; }\n\
                  location /c/ { small_light off; alias html/; image_negotiate on; image_filter convert jpeg; }";
    let running = start(inside, |root| {
        fs::write(root.join("a.png"), colourful(60, 40)).unwrap();
    });
    for (path, accept, kind, varies) in [
        ("/f/a.png", "image/webp", "image/webp", Some("Accept")),
        ("/f/a.png", "image/webp;q=0", "image/png", Some("Accept")),
        ("/f/a.png", "*/*", "image/png", Some("Accept")),
        ("/c/a.png", "image/webp", "image/jpeg", None),
    ] {
        let reply = running.get(path, &format!("Accept: {accept}\r\n"));
        assert_eq!(reply.status(), 200, "{path} {accept}");
        assert_eq!(reply.field("Content-Type"), Some(kind), "{path} {accept}");
        assert_eq!(reply.field("Vary"), varies, "{path} {accept}");
    }
}

/// Whether this program reads and writes AVIF.
const HAS_AVIF: bool = cfg!(feature = "avif");

#[test]
fn avif_is_written_and_read_where_it_is_built_in() {
    let inside = "location /negotiated/ { image_negotiate on; alias html/; }";
    let running = start(inside, |root| {
        fs::write(root.join("a.png"), colourful(60, 40)).unwrap();
    });
    let made = running.get("/small_light(dw=30,of=avif)/a.png", "");
    assert_eq!(made.status(), 200);
    if !HAS_AVIF {
        assert_eq!(made.field("Content-Type"), Some("image/png"));
        assert!(running.log().contains("this build has no AVIF"));
        return;
    }
    assert_eq!(made.field("Content-Type"), Some("image/avif"));
    assert_eq!(&made.body[4..12], b"ftypavif");
    let helper = running.helper().expect("a codec");
    let path = running.directory.path().join("html/b.avif");
    fs::write(&path, &made.body).unwrap();
    let back = running.get("/small_light(dw=15,of=png)/b.avif", "");
    assert_eq!((back.status(), width_of(&back.body)), (200, 15));
    assert_ne!(
        running.helper(),
        Some(helper),
        "who read a file gets no other picture"
    );
    fs::write(&path, &made.body[..made.body.len() / 2]).unwrap();
    let broken = running.get("/small_light(dw=15,of=png)/b.avif", "");
    assert_eq!(broken.status(), 415);
}

#[test]
fn avif_that_is_not_built_in_is_told_when_the_configuration_is_read() {
    let directory = Directory::create();
    let path = directory.path().display();
    let configuration = "events { }\nhttp { server { listen 127.0.0.1:1; location / { image_filter convert avif; } } }\n";
    fs::write(directory.path().join("nginx.conf"), configuration).unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_gannet"))
        .args(["-t", "-p", &format!("{path}/"), "-c", "nginx.conf"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        text.contains("\"avif\" is not built in"),
        !HAS_AVIF,
        "{text}"
    );
}
