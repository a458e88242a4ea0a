//! The gallery of `examples/gallery` from the outside, as a visitor's browser sees it: through nginx and through Gannet, PHP
//! run by php-fpm and by Gannet itself.

use libtest_mimic::{Arguments, Trial};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::client::Client;
use testkit::directory::Directory;
use testkit::php::{self, Fpm};
use testkit::ports::{self, Lease};
use testkit::reply::Reply;
use testkit::server::{Kind, Program, Server};

type Outcome = Result<(), String>;

/// Who runs PHP.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Backend {
    /// php-fpm beside the server, on the example's nginx.conf.
    Fpm,
    /// Gannet's own pool, on the example's gannet.conf.
    Pool,
    /// The same, secured.
    PoolOverHttp2,
    /// Gannet's own pool out of php-fpm's file as Debian's package has it.
    DebianPool,
}

/// What Debian's php-fpm reads, and where it listens then.
const DEBIAN_POOL: &str = "/etc/php/8.2/fpm/pool.d/www.conf";
const DEBIAN_SOCKET: &str = "/run/php/php8.2-fpm.sock";

const FPM_POOL: &str = "pm = static\npm.max_children = 2\n";
/// Pictures enough for every step.
const GALLERIES: &str = "3";
const PICTURES: &str = "4";

fn main() {
    let arguments = Arguments::from_args();
    let gannet = Program::gannet(Some(env!("CARGO_BIN_EXE_gannet")));
    let mut trials = vec![Trial::test("gallery/both_configurations_are_alike", || {
        Ok(both_configurations_are_alike()?)
    })];
    for (program, backend) in [
        (Program::nginx(), Backend::Fpm),
        (gannet.clone(), Backend::Fpm),
        (gannet.clone(), Backend::Pool),
        (gannet.clone(), Backend::DebianPool),
    ] {
        trials.push(trial(program, backend));
    }
    trials.push(chromium(gannet));
    libtest_mimic::run(&arguments, trials).exit();
}

/// One that cannot run is shown as ignored, with what is missing before its name.
fn trial(program: Option<Program>, backend: Backend) -> Trial {
    let kind = program.as_ref().map_or(Kind::Nginx, |program| program.kind);
    let (name, runs_php) = match backend {
        Backend::Fpm => ("php_fpm", php::fpm().is_some()),
        Backend::Pool | Backend::PoolOverHttp2 => ("php_pool", php::cgi().is_some()),
        Backend::DebianPool => ("debians_pool_file", php::cgi().is_some()),
    };
    let name = format!("{}/gallery/{name}", kind.as_str());
    let missing = match (&program, php::command_line()) {
        (None, _) => Some("nginx is not installed"),
        (_, None) => Some("PHP with gd and sqlite is not installed"),
        _ if !runs_php => Some("php-fpm or php-cgi is not installed"),
        _ if backend == Backend::DebianPool => debians_pool_missing(),
        _ => None,
    };
    let run = move || match program {
        Some(program) => Ok(visit(&program, backend)?),
        None => Ok(()),
    };
    match missing {
        Some(missing) => Trial::test(name, || Ok(()))
            .with_kind(missing)
            .with_ignored_flag(true),
        None => Trial::test(name, run),
    }
}

/// A browser loads a page with its pictures over HTTP/2.
fn chromium(program: Option<Program>) -> Trial {
    const NAME: &str = "gannet/gallery/in_chromium_over_http2";
    let runs = Command::new("chromium").arg("--version").output().is_ok();
    let missing = match (php::command_line(), php::cgi()) {
        (Some(_), Some(_)) if runs => None,
        (Some(_), Some(_)) => Some("chromium is not installed"),
        _ => Some("PHP with gd and sqlite, or php-cgi, is not installed"),
    };
    match (missing, program) {
        (None, Some(program)) => Trial::test(NAME, move || Ok(loads(&program)?)),
        (missing, _) => Trial::test(NAME, || Ok(()))
            .with_kind(missing.unwrap_or("no gannet"))
            .with_ignored_flag(true),
    }
}

fn loads(program: &Program) -> Outcome {
    let site = Site::start(program, Backend::PoolOverHttp2)?;
    let profile = Directory::create();
    let browser = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu"])
        .args(["--disable-dev-shm-usage", "--ignore-certificate-errors"])
        .args(["--dump-dom", "--virtual-time-budget=3000"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("https://127.0.0.1:{}/gallery/2", site.secured.port))
        .output();
    let output = browser.map_err(|error| error.to_string())?;
    let page = String::from_utf8_lossy(&output.stdout);
    if page.matches("/picture/").count() != 4 {
        return Err(format!("no page: {page}"));
    }
    let seen = fs::read_to_string(site.directory.path().join("seen.log")).unwrap_or_default();
    let pictures = seen.matches("HTTP/2.0 h2 200 /thumbs/").count();
    let has_all = pictures >= 4 && seen.contains("HTTP/2.0 h2 200 /style.css");
    match has_all && seen.lines().all(|line| line.starts_with("HTTP/2.0 h2 ")) {
        true => Ok(()),
        false => Err(format!("what it asked for: {seen}\n{}", site.log())),
    }
}

/// The file names a user to become and a socket that there is once on a machine.
fn debians_pool_missing() -> Option<&'static str> {
    if !Path::new(DEBIAN_POOL).exists() {
        return Some("Debian's php-fpm 8.2 is not installed");
    }
    if !is_root() {
        return Some("only root may become www-data");
    }
    let taken = UnixStream::connect(DEBIAN_SOCKET).is_ok();
    taken.then_some("a php-fpm is running")
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/gallery")
}

/// gannet.conf is nginx.conf but for the pool.
fn both_configurations_are_alike() -> Outcome {
    let read = |name: &str| {
        fs::read_to_string(example().join(name)).map_err(|error| format!("{name}: {error}"))
    };
    let (nginx, gannet) = (read("nginx.conf")?, read("gannet.conf")?);
    let pool = "    php_pool gallery {\n        pm auto;\n    }\n\n";
    // Parameters of small_light, which Debian's nginx does not have.
    let pictures = concat!(
        "        # The parameters of small_light, shown by /pictures.html.\n",
        "        small_light_pattern_define thumb dw=120,dh=120,q=95;\n",
        "        small_light_material_dir   public/samples;\n",
        "        location ~ ^/small_light\\([^)]*\\)(?<sample>/samples/.+)$ {\n",
        "            small_light on;\n",
        "            try_files   $sample =404;\n",
        "        }\n\n",
    );
    let mut same = gannet
        .replace(pool, "")
        .replace(pictures, "")
        .replace("pool:gallery", "unix:/run/php/php8.2-fpm.sock");
    for text in [&nginx, &gannet] {
        let comment = text.lines().next().unwrap_or_default();
        same = same.replace(comment, "");
    }
    let nginx = nginx.replace(nginx.lines().next().unwrap_or_default(), "");
    match same == nginx {
        true => Ok(()),
        false => Err(testkit::difference::lines(&nginx, &same)),
    }
}

/// The site in a directory of its own, and what serves it.
struct Site {
    // Fields are dropped in this order.
    _server: Server,
    _fpm: Option<Fpm>,
    port: Lease,
    secured: Lease,
    directory: Directory,
}

impl Site {
    fn start(program: &Program, backend: Backend) -> Result<Site, String> {
        let (directory, port, secured) = (Directory::create(), ports::lease(), ports::lease());
        let path = directory.path();
        copy(&example(), path).map_err(|error| format!("copying the example: {error}"))?;
        let php = php::command_line().ok_or("no PHP")?;
        let made = Command::new(php)
            .arg(path.join("bin/make-pictures.php"))
            .args([GALLERIES, PICTURES])
            .output();
        let made = made.map_err(|error| format!("make-pictures.php: {error}"))?;
        let said = String::from_utf8_lossy(&made.stdout);
        if said.trim() != "made 3 galleries of 4 pictures" {
            return Err(format!("make-pictures.php: {said}"));
        }
        let (fpm, name) = match backend {
            Backend::Fpm => {
                let program = php::fpm().ok_or("no php-fpm")?;
                (Some(Fpm::start(&program, path, FPM_POOL)?), "nginx.conf")
            }
            Backend::Pool | Backend::PoolOverHttp2 => (None, "gannet.conf"),
            Backend::DebianPool => (None, "nginx.conf"),
        };
        let text = fs::read_to_string(path.join(name)).map_err(|error| error.to_string())?;
        let mut conf = configuration(&text, path, port.port, program.kind);
        if let Some(fpm) = &fpm {
            conf = conf.replace(&format!("unix:{DEBIAN_SOCKET}"), &fpm.address());
        }
        if backend == Backend::PoolOverHttp2 {
            conf = over_http2(&conf, path, secured.port);
        }
        if backend == Backend::DebianPool {
            let include = format!("http {{\nphp_pool_include {DEBIAN_POOL};\n");
            conf = conf.replace("http {\n", &include);
            conf = conf.replace(&format!("unix:{DEBIAN_SOCKET}"), "pool:www");
            for written in ["var", "var/gallery.sqlite", "var/pictures"] {
                let all = Permissions::from_mode(0o777);
                fs::set_permissions(path.join(written), all).map_err(|error| error.to_string())?;
            }
        }
        fs::write(path.join("nginx.conf"), conf).map_err(|error| error.to_string())?;
        Ok(Site {
            _server: Server::start(program, path)?,
            _fpm: fpm,
            port,
            secured,
            directory,
        })
    }

    fn ask(&self, method: &str, path: &str, fields: &str, body: &[u8]) -> Result<Reply, String> {
        let mut client = Client::connect(self.port.port).map_err(|error| error.to_string())?;
        let length = match body.len() {
            0 => String::new(),
            length => format!("Content-Length: {length}\r\n"),
        };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: gallery.example.com\r\nConnection: close\r\n{length}{fields}\r\n"
        );
        client.send(&[head.as_bytes(), body].concat());
        client
            .read_reply(method)
            .ok_or_else(|| format!("{method} {path}: no answer\n{}", self.log()))
    }

    /// The reply to a GET, if it has this status.
    fn get(&self, path: &str, status: u16) -> Result<Reply, String> {
        let reply = self.ask("GET", path, "", b"")?;
        self.has_status(&reply, status, path)?;
        Ok(reply)
    }

    fn has_status(&self, reply: &Reply, status: u16, what: &str) -> Outcome {
        match reply.status() == status && reply.fault.is_none() {
            true => Ok(()),
            false => Err(format!(
                "{what}: expected {status}, got {:?} {:?}\n{}\n{}",
                reply.status_line,
                reply.fault,
                reply.text(),
                self.log()
            )),
        }
    }

    fn log(&self) -> String {
        let read = |name| fs::read_to_string(self.directory.path().join(name)).unwrap_or_default();
        format!("error log:\n{}{}", read("error.log"), read("php-fpm.log"))
    }
}

/// The example's configuration, moved into the test's directory.
fn configuration(text: &str, path: &Path, port: u16, kind: Kind) -> String {
    let path = path.display();
    let moved: String = text
        .lines()
        .filter(|line| !line.starts_with("pid ") && !line.starts_with("error_log "))
        .map(|line| format!("{line}\n"))
        .collect();
    let moved = moved.replace("127.0.0.1:8080", &format!("127.0.0.1:{port}"));
    // nginx makes all of them at the start.
    let temporary = match kind {
        Kind::Gannet => String::new(),
        Kind::Nginx => ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {path}/{name};\n"))
            .concat(),
    };
    // Only root may say who it becomes.
    let user = if is_root() { "user root;\n" } else { "" };
    let moved = moved.replace("http {\n", &format!("http {{\n{temporary}"));
    format!("daemon off;\n{user}pid {path}/pid;\nerror_log {path}/error.log info;\n{moved}")
}

/// The same, spoken to by TLS, with a log of what was asked for.
fn over_http2(text: &str, path: &Path, port: u16) -> String {
    let path = path.display();
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls");
    let own = own.display();
    let format =
        "http {\nlog_format seen '$server_protocol $ssl_alpn_protocol $status $request_uri';\n";
    let server = format!(
        "server {{\nlisten 127.0.0.1:{port} ssl; http2 on; access_log {path}/seen.log seen;\n\
         ssl_certificate {own}/certificate.pem; ssl_certificate_key {own}/key.pem;\n"
    );
    text.replacen("http {\n", format, 1)
        .replacen("server {\n", &server, 1)
}

fn copy(source: &Path, target: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(source)? {
        let entry = entry?;
        let to = target.join(entry.file_name());
        // What the example has written itself is not part of it.
        if entry.file_name() == "var" {
            continue;
        } else if entry.file_type()?.is_dir() {
            fs::create_dir(&to)?;
            copy(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), &to)?;
        }
    }
    Ok(())
}

/// All that a visitor does.
fn visit(program: &Program, backend: Backend) -> Outcome {
    let site = Site::start(program, backend)?;
    pages(&site)?;
    pictures(&site)?;
    refusals(&site)?;
    uploads(&site)
}

fn expect(holds: bool, what: &str, reply: &Reply) -> Outcome {
    match holds {
        true => Ok(()),
        false => Err(format!("{what}:\n{}", reply.text())),
    }
}

fn pages(site: &Site) -> Outcome {
    let index = site.get("/", 200)?;
    let text = index.text();
    expect(text.matches("<li>").count() == 3, "three galleries", &index)?;
    let kind = index.field("Content-Type");
    expect(kind == Some("text/html; charset=utf-8"), "the type", &index)?;
    expect(
        index.field("Content-Length").is_some(),
        "PHP's length",
        &index,
    )?;
    let newest = text.find("/gallery/3").unwrap_or(usize::MAX);
    let oldest = text.find("/gallery/1").unwrap_or(0);
    expect(newest < oldest, "the newest first", &index)?;
    for path in ["/index.php", "/?page=1", "/index.php?page=1"] {
        expect(site.get(path, 200)?.body == index.body, path, &index)?;
    }
    let gallery = site.get("/gallery/2", 200)?;
    expect(
        gallery.text().matches("/picture/").count() == 4,
        "four pictures",
        &gallery,
    )?;
    let picture = site.get("/picture/5", 200)?;
    let text = picture.text();
    expect(
        text.contains("/pictures/5.jpg") && text.contains("/picture/6"),
        "one picture",
        &picture,
    )?;
    let head = site.ask("HEAD", "/gallery/2", "", b"")?;
    site.has_status(&head, 200, "HEAD")?;
    let same = head.field("Content-Length") == gallery.field("Content-Length");
    expect(same && head.body.is_empty(), "the head of a page", &head)?;
    let style = site.get("/style.css", 200)?;
    expect(
        style.field("Content-Type") == Some("text/css"),
        "the style",
        &style,
    )
}

fn pictures(site: &Site) -> Outcome {
    let path = "/thumbs/320/7.jpg";
    let first = site.get(path, 200)?;
    let is_jpeg = |reply: &Reply| {
        reply.field("Content-Type") == Some("image/jpeg") && reply.body.starts_with(b"\xff\xd8")
    };
    expect(
        is_jpeg(&first) && first.field("ETag").is_none(),
        "made by PHP",
        &first,
    )?;
    let second = site.get(path, 200)?;
    expect(
        is_jpeg(&second) && second.field("ETag").is_some(),
        "served as a file",
        &second,
    )?;
    expect(first.body == second.body, "the same picture", &second)?;
    expect(second.field("Expires").is_some(), "with a life", &second)?;
    let etag = format!(
        "If-None-Match: {}\r\n",
        second.field("ETag").unwrap_or_default()
    );
    site.has_status(&site.ask("GET", path, &etag, b"")?, 304, "seen before")?;
    let part = site.ask("GET", "/pictures/7.jpg", "Range: bytes=0-1\r\n", b"")?;
    site.has_status(&part, 206, "a range")?;
    expect(part.body == b"\xff\xd8", "two bytes", &part)
}

fn refusals(site: &Site) -> Outcome {
    for path in [
        "/nothing",
        "/gallery/99",
        "/gallery/01",
        "/picture/0",
        "/?page=2",
        "/?page[]=1",
        "/thumbs/321/7.jpg",
        "/thumbs/320/99.jpg",
        "/index.php/gallery/1/x",
    ] {
        let reply = site.get(path, 404)?;
        expect(
            reply.text().contains("There is no such page."),
            path,
            &reply,
        )?;
    }
    // These never reach PHP.
    for (path, status) in [
        ("/none.php", 404),
        ("/style.css/x.php", 404),
        ("/pictures/99.jpg", 404),
        ("/pictures/x.php", 404),
        ("/.user.ini", 403),
        ("/favicon.ico", 404),
    ] {
        let reply = site.get(path, status)?;
        expect(
            !reply.text().contains("There is no such page."),
            path,
            &reply,
        )?;
    }
    let reply = site.ask("DELETE", "/gallery/1", "", b"")?;
    site.has_status(&reply, 405, "DELETE")?;
    expect(
        reply.field("Allow") == Some("GET, HEAD"),
        "what is allowed",
        &reply,
    )
}

fn uploads(site: &Site) -> Outcome {
    let form = site.get("/upload", 200)?;
    let text = form.text();
    let token = text
        .split("name=\"token\" value=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .ok_or("no token")?;
    let cookie = form.field("Set-Cookie").unwrap_or_default();
    expect(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"),
        "the cookie",
        &form,
    )?;
    let cookie = cookie.split(';').next().unwrap_or_default().to_string();
    let picture = fs::read(site.directory.path().join("var/pictures/1.jpg"))
        .map_err(|error| format!("var/pictures/1.jpg: {error}"))?;
    let send = |cookie: &str, token: &str, title: &str, file: &[u8]| {
        let body = multipart(
            &[("token", token), ("title", title), ("story", "a\nb")],
            file,
        );
        let fields = format!(
            "Content-Type: multipart/form-data; boundary={BOUNDARY}\r\nCookie: {cookie}\r\n"
        );
        site.ask("POST", "/upload", &fields, &body)
    };
    let large = vec![0; 9 << 20];
    for (what, cookie, token, title, file, complaint) in [
        (
            "another's form",
            "",
            token,
            "t",
            &picture,
            "open for too long",
        ),
        ("no token", &*cookie, "", "t", &picture, "open for too long"),
        (
            "no title",
            &cookie,
            token,
            " ",
            &picture,
            "A title is needed",
        ),
        (
            "no picture",
            &cookie,
            token,
            "t",
            &b"<?php echo 1;".to_vec(),
            "is no picture",
        ),
        (
            "a large one",
            &cookie,
            token,
            "t",
            &large,
            "is larger than 8 MB",
        ),
    ] {
        let reply = send(cookie, token, title, file)?;
        site.has_status(&reply, 422, what)?;
        expect(reply.text().contains(complaint), what, &reply)?;
    }
    let reply = send(&cookie, token, "Mine & <yours>", &picture)?;
    site.has_status(&reply, 303, "an upload")?;
    let location = reply.field("Location").unwrap_or_default();
    expect(location.ends_with("/gallery/4"), "where it is", &reply)?;
    let gallery = site.get("/gallery/4", 200)?;
    let text = gallery.text();
    expect(
        text.contains("Mine &amp; &lt;yours&gt;") && text.contains("a<br />"),
        "escaped",
        &gallery,
    )?;
    expect(
        text.matches("/picture/").count() == 1,
        "one picture",
        &gallery,
    )?;
    let shown = site.get("/pictures/13.jpg", 200)?;
    expect(
        shown.field("Content-Type") == Some("image/jpeg"),
        "the picture",
        &shown,
    )?;
    let index = site.get("/", 200)?;
    expect(
        index.text().matches("<li>").count() == 4,
        "one more gallery",
        &index,
    )
}

const BOUNDARY: &str = "----a-browser-would-take-a-longer-one";

fn multipart(fields: &[(&str, &str)], file: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, value) in fields {
        let part = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
        );
        body.extend_from_slice(part.as_bytes());
    }
    let part = format!(
        "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"pictures[]\"; filename=\"IMG_1.jpg\"\r\nContent-Type: image/jpeg\r\n\r\n"
    );
    body.extend_from_slice(part.as_bytes());
    body.extend_from_slice(file);
    body.extend_from_slice(format!("\r\n--{BOUNDARY}--\r\n").as_bytes());
    body
}
