//! Pools of PHP workers when things go wrong: scripts that fail in every way, clients that leave, more requests than there
//! is room for, reloads. Afterwards all is as it was: children, descriptors.

use crate::site::{Site, children, descriptors, is_running, kill, request, resident_kb, wait_for};
use crate::traffic::{Connections, Traffic};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use testkit::client::Client;

/// What PHP is told of a request.
const LOCATION: &str = "location ~ \\.php$|^/(status|ping)$ {
    client_max_body_size 0;
    fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
    fastcgi_param SCRIPT_NAME $fastcgi_script_name;
    fastcgi_param REQUEST_METHOD $request_method;
    fastcgi_param QUERY_STRING $query_string;
    fastcgi_param CONTENT_LENGTH $content_length;
    fastcgi_param CONTENT_TYPE $content_type;
    fastcgi_pass pool:www;
}";

/// Calls of every kind, with the lines that the slow log tells.
const NESTED: &str = "<?php
namespace App;
class Shop {
    static function open($n) { return (new self)->serve($n); }
    function serve($n) { return array_map(fn ($x) => wait($x), [$n]); }
}
function wait($x) {
    include 'inner.php';
}
function gen() {
    yield Shop::open(3);
}
foreach (gen() as $x);
";

/// Name and text of the scripts.
const SCRIPTS: &[(&str, &str)] = &[
    ("pid.php", "<?php echo getmypid();"),
    ("value.php", "<?php echo ini_get('user_agent');"),
    (
        "locked.php",
        "<?php echo json_encode([ini_get('user_agent'), ini_set('user_agent', 'x'), ini_get('user_agent'), ini_get('display_errors'), ini_set('precision', '5') !== false]);",
    ),
    ("killed.php", "<?php posix_kill(getmypid(), 9); sleep(9);"),
    ("exit.php", "<?php echo 'before'; exit(3);"),
    ("fatal.php", "<?php no_such_function();"),
    ("loop.php", "<?php while (true);"),
    ("slow.php", "<?php usleep(20000); echo 'slow';"),
    ("nested.php", NESTED),
    (
        "inner.php",
        "<?php\nif (isset($_GET['busy'])) while (true);\nusleep(1600000);\necho 'awake';",
    ),
    (
        "endless.php",
        "<?php while (true) { echo str_repeat('x', 5000); flush(); usleep(1000); }",
    ),
    (
        "large.php",
        "<?php for ($i = 0; $i < 200; $i++) echo str_repeat('x', 1 << 20);",
    ),
    (
        "count.php",
        "<?php $in = fopen('php://input', 'r'); $n = 0; while (!feof($in)) $n += strlen(fread($in, 65536)); echo $n;",
    ),
    (
        "length.php",
        "<?php echo strlen(file_get_contents('php://input'));",
    ),
];

/// A site with a pool; `None`, and a word about it, where there is no PHP.
fn site(pool: &str) -> Option<Site> {
    let folders = ["/usr/bin", "/usr/local/bin"];
    if !folders
        .iter()
        .any(|folder| Path::new(folder).join("php-cgi").exists())
    {
        eprintln!("skipped: there is no php-cgi");
        return None;
    }
    let mut site = Site::prepared();
    for (name, text) in SCRIPTS {
        std::fs::write(site.file("html").join(name), text).expect("our directory");
    }
    configure(&site, pool);
    site.run();
    Some(site)
}

fn configure(site: &Site, pool: &str) {
    site.configure_with("", &format!("php_pool www {{ {pool} }}"), LOCATION);
}

/// The pool's children.
fn workers(site: &Site) -> Vec<u32> {
    let is_php = |pid: &u32| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        name.is_ok_and(|name| name.starts_with("php"))
    };
    children(site.master()).into_iter().filter(is_php).collect()
}

fn settled(site: &Site, count: usize) -> Vec<u32> {
    wait_for("the children", || {
        let workers = workers(site);
        (workers.len() == count).then_some(workers)
    })
}

#[test]
fn scripts_that_fail_cost_a_child_at_most() {
    let Some(site) = site("pm static; pm.max_children 2; request_terminate_timeout 1s;") else {
        return;
    };
    settled(&site, 2);
    for _ in 0..4 {
        assert_eq!(site.ask("/pid.php").status(), 200);
    }
    let before = descriptors(site.worker());
    for (path, status, text) in [
        ("/killed.php", 502, "502 Bad Gateway"),
        ("/exit.php", 200, "before"),
        ("/loop.php", 504, "504 Gateway"),
    ] {
        let reply = site.ask(path);
        assert_eq!(reply.status(), status, "{path}: {}", site.log());
        assert!(reply.text().contains(text), "{path}: {}", reply.text());
    }
    // What PHP says of a fatal error depends on its settings; that it goes on does not.
    site.ask("/fatal.php");
    site.wait_for_log("exited on signal 9 (SIGKILL)", 2);
    settled(&site, 2);
    for _ in 0..4 {
        assert_eq!(site.ask("/pid.php").status(), 200);
    }
    wait_for("descriptors as before", || {
        // Each of two threads may keep a hold on each of two children.
        (descriptors(site.worker()) <= before + 4).then_some(())
    });
    site.wait_for_log("execution timed out", 1);
}

/// The entries of a slow log without times, numbers of processes and addresses.
fn slow_entries(text: &str) -> Vec<String> {
    let masked = |line: &str| {
        let line = line.strip_prefix('[').unwrap_or(line);
        match line.split_once("] ") {
            Some((_, rest)) => rest.split(" pid ").next().unwrap_or(rest).to_owned(),
            None => line.to_owned(),
        }
    };
    text.lines().map(masked).collect()
}

/// What a pool that logs requests of a second or more has written when `path` is answered with `status`; and the script.
fn slow_log_of(pool: &str, path: &str, status: u16) -> Option<(Vec<String>, Site)> {
    let slow = "pm static; pm.max_children 1; request_slowlog_timeout 1s; slowlog slow.log;";
    let site = site(&format!("{slow} {pool}"))?;
    // PHP's own start is no matter of the script.
    site.ask("/pid.php");
    assert_eq!(site.ask(path).status(), status);
    let text = wait_for("the entry", || {
        let text = std::fs::read_to_string(site.file("slow.log")).unwrap_or_default();
        (text.lines().count() > 3).then_some(text)
    });
    Some((slow_entries(&text), site))
}

#[test]
fn the_slow_log_has_the_calls_of_the_script() {
    let Some((entry, site)) = slow_log_of("", "/nested.php?a=1", 200) else {
        return;
    };
    let script = site.file("html/nested.php").display().to_string();
    let inner = site.file("html/inner.php").display().to_string();
    let expected = [
        String::new(),
        " [pool www]".to_owned(),
        format!("script_filename = {script}"),
        format!("usleep() {inner}:3"),
        format!("[INCLUDE_OR_EVAL]() {script}:8"),
        format!("App\\wait() {script}:5"),
        format!("App\\{{closure}}() {script}:5"),
        format!("array_map() {script}:5"),
        format!("serve() {script}:4"),
        format!("open() {script}:11"),
        format!("App\\gen() {script}:13"),
    ];
    assert_eq!(entry, expected);
    // The look has changed nothing: the child is as it was.
    assert_eq!(site.ask("/slow.php").text(), "slow");
    assert_eq!(workers(&site).len(), 1);
}

#[test]
fn the_slow_log_is_as_deep_as_it_is_told() {
    let pool = "request_slowlog_trace_depth 2; request_terminate_timeout 3s;";
    let Some((entry, site)) = slow_log_of(pool, "/nested.php?busy", 504) else {
        return;
    };
    let script = site.file("html/nested.php").display().to_string();
    let expected = [
        format!("[INCLUDE_OR_EVAL]() {script}:8"),
        format!("App\\wait() {script}:5"),
    ];
    assert_eq!(&entry[3..], &expected);
}

#[test]
fn a_child_killed_while_idle_costs_no_request() {
    let Some(site) = site("pm static; pm.max_children 1;") else {
        return;
    };
    let first = settled(&site, 1)[0];
    assert_eq!(site.ask("/pid.php").text(), first.to_string());
    kill("KILL", first);
    wait_for("its death", || (!is_running(first)).then_some(()));
    let reply = site.ask("/pid.php");
    assert_eq!(reply.status(), 200, "{}", site.log());
    assert_ne!(reply.text(), first.to_string());
}

#[test]
fn clients_that_leave_cost_no_child() {
    let Some(site) = site("pm static; pm.max_children 1;") else {
        return;
    };
    let child = settled(&site, 1)[0];
    site.ask("/pid.php");
    let before = descriptors(site.worker());
    for _ in 0..2 {
        let mut client = Client::connect(site.port).expect("it listens");
        client.send(b"GET /endless.php HTTP/1.1\r\nHost: localhost\r\n\r\n");
        client.read_at_least(1000);
        drop(client);
        // PHP stops when it writes next, and its child serves on.
        assert_eq!(site.ask("/pid.php").text(), child.to_string());
    }
    // One that leaves while its body is on the way.
    let mut client = Client::connect(site.port).expect("it listens");
    client.send(b"POST /length.php HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nabc");
    drop(client);
    assert_eq!(site.ask("/pid.php").status(), 200);
    wait_for("descriptors as before", || {
        // Each of two threads may keep a hold on the child.
        (descriptors(site.worker()) <= before + 1).then_some(())
    });
}

#[test]
fn more_requests_than_the_queue_holds_are_refused_at_once() {
    let Some(site) = site("pm static; pm.max_children 2; queue_max 100;") else {
        return;
    };
    settled(&site, 2);
    site.ask("/pid.php");
    let before = descriptors(site.worker());
    let replies: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..500)
            .map(|_| scope.spawn(|| site.try_ask("/slow.php")))
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|reply| reply.expect("no panic").expect("a reply"))
            .collect()
    });
    let count = |status| {
        replies
            .iter()
            .filter(|reply| reply.status() == status)
            .count()
    };
    assert_eq!(count(200) + count(503), 500);
    assert!(count(200) >= 102, "{}", count(200));
    let refused = replies.iter().filter(|reply| reply.status() == 503);
    for reply in refused {
        let after = reply.field("Retry-After").expect("a time");
        assert!(after.parse::<u32>().is_ok_and(|seconds| seconds >= 1));
    }
    assert_eq!(workers(&site).len(), 2);
    wait_for("descriptors as before", || {
        (descriptors(site.worker()) <= before + 4).then_some(())
    });
}

#[test]
fn requests_that_wait_too_long_are_refused() {
    let Some(site) = site(
        "pm static; pm.max_children 1; queue_timeout 100ms; ping.path /ping; pm.status_path /status; request_terminate_timeout 2s;",
    ) else {
        return;
    };
    settled(&site, 1);
    let mut busy = Client::connect(site.port).expect("it listens");
    busy.send(b"GET /loop.php HTTP/1.1\r\nHost: localhost\r\n\r\n");
    wait_for("a busy child", || {
        let status = site.ask("/status?json&full").text();
        status.contains("\"active processes\":1").then_some(())
    });
    let reply = site.ask("/pid.php");
    assert_eq!(
        (reply.status(), reply.field("Retry-After")),
        (503, Some("1"))
    );
    // What needs no child is answered meanwhile, and tells what the child does.
    assert_eq!(site.ask("/ping").text(), "pong");
    assert!(
        site.ask("/status?full")
            .text()
            .contains("request URI:          /loop.php\n")
    );
    let reply = busy.read_reply("GET").expect("a reply");
    assert_eq!(reply.status(), 504);
}

#[test]
fn a_reload_replaces_all_children_and_no_request_fails() {
    let pool =
        |value: &str| format!("pm static; pm.max_children 3; php_value[user_agent] {value};");
    let Some(site) = site(&pool("one")) else {
        return;
    };
    let former = settled(&site, 3);
    let traffic = Traffic::start(site.port, "/slow.php", &[(Connections::Fresh, 4)], |text| {
        text == "slow"
    });
    traffic.wait_for(20);
    assert_eq!(site.ask("/value.php").text(), "one");
    configure(&site, &pool("two"));
    site.signal("HUP");
    wait_for("other children", || {
        former.iter().all(|pid| !is_running(*pid)).then_some(())
    });
    traffic.wait_for(20);
    assert_eq!(traffic.stop().1, Vec::<String>::new());
    for _ in 0..6 {
        assert_eq!(site.ask("/value.php").text(), "two");
    }
    settled(&site, 3);
}

#[test]
fn children_go_after_their_requests_and_with_the_server() {
    let Some(mut site) = site("pm static; pm.max_children 2; pm.max_requests 3;") else {
        return;
    };
    settled(&site, 2);
    let mut seen: Vec<String> = (0..18).map(|_| site.ask("/pid.php").text()).collect();
    seen.sort();
    seen.dedup();
    assert!(seen.len() >= 6, "{seen:?}");
    assert!(!site.log().contains("[error]"), "{}", site.log());
    let last = settled(&site, 2);
    site.signal("QUIT");
    assert_eq!(site.ended(), Some(0));
    wait_for("the end of the children", || {
        last.iter().all(|pid| !is_running(*pid)).then_some(())
    });
}

#[test]
fn children_come_and_go_with_the_requests() {
    let Some(site) = site("pm ondemand; pm.max_children 2; pm.process_idle_timeout 1s;") else {
        return;
    };
    assert_eq!(workers(&site), Vec::<u32>::new());
    assert_eq!(site.ask("/pid.php").status(), 200);
    assert_eq!(workers(&site).len(), 1);
    settled(&site, 0);
    assert_eq!(site.ask("/pid.php").status(), 200);
}

#[test]
fn a_program_that_cannot_start_is_a_bad_gateway() {
    let Some(site) = site("pm static; pm.max_children 1; command /no/such/program;") else {
        return;
    };
    assert_eq!(site.ask("/pid.php").status(), 502);
    site.wait_for_log("no child could be started", 1);
}

#[test]
fn the_files_of_php_fpm_are_read_as_they_are() {
    let Some(site) = site("pm static; pm.max_children 1;") else {
        return;
    };
    let text = "[global]\nerror_log = log\n[www]\nuser = nobody\nlisten.mode = 0660\npm = dynamic\n\
                pm.max_children = 5\npm.start_servers = 2\npm.min_spare_servers = 1 ; at least\n\
                pm.max_spare_servers = 3\nphp_admin_value[user_agent] = \"$pool agent\"\n";
    std::fs::write(site.file("pool.conf"), text).expect("our directory");
    site.configure_with("", "php_pool_include pool*.conf;", LOCATION);
    site.signal("HUP");
    wait_for("the new value", || {
        (site.ask("/value.php").text() == "www agent").then_some(())
    });
    // Two to begin with; a third where two requests met.
    wait_for("the children", || {
        matches!(workers(&site).len(), 2 | 3).then_some(())
    });
}

#[test]
fn what_the_administrator_sets_scripts_cannot_change() {
    let settings = "php_admin_value[user_agent] 'a \"b\"'; php_admin_flag[display_errors] off; php_value[precision] 9;";
    let Some(mut site) = site(&format!("pm static; pm.max_children 1; {settings}")) else {
        return;
    };
    let expected = r#"["a \"b\"",false,"a \"b\"","0",true]"#;
    for _ in 0..2 {
        assert_eq!(site.ask("/locked.php").text(), expected, "{}", site.log());
    }
    let child = settled(&site, 1)[0];
    let environment = std::fs::read_to_string(format!("/proc/{child}/environ")).expect("it runs");
    let scanned = environment
        .split('\0')
        .find_map(|one| one.strip_prefix("PHP_INI_SCAN_DIR="));
    let (_, place) = scanned
        .and_then(|all| all.rsplit_once(':'))
        .expect("a directory");
    assert!(Path::new(place).join("locked.ini").is_file());
    site.signal("QUIT");
    assert_eq!(site.ended(), Some(0));
    assert!(!Path::new(place).exists());
}

/// Asks a pool as another web server does; the output of the script.
fn ask_by_fastcgi(stream: &mut (impl Read + Write), script: &Path, body: &[u8]) -> Vec<u8> {
    let mut request = Vec::new();
    let mut params = wire::fastcgi::begin(&mut request, true);
    let length = body.len().to_string();
    for (name, value) in [
        ("REQUEST_METHOD", "POST"),
        ("SCRIPT_FILENAME", script.to_str().expect("our name")),
        ("SCRIPT_NAME", "/script.php"),
        ("CONTENT_LENGTH", &length),
    ] {
        params.pair(name.as_bytes(), value.as_bytes());
    }
    params.end().expect("they are short");
    wire::fastcgi::stdin(&mut request, body);
    request.extend_from_slice(&wire::fastcgi::STDIN_END);
    stream.write_all(&request).expect("it listens");
    let (mut decoder, mut output) = (wire::fastcgi::Decoder::new(), Vec::new());
    let mut piece = vec![0; 1 << 16];
    while let Ok(read @ 1..) = stream.read(&mut piece) {
        let mut rest = &piece[..read];
        loop {
            let step = decoder.decode(rest).expect("a response");
            match step.event {
                wire::fastcgi::Event::More => break,
                wire::fastcgi::Event::Stdout(range) => output.extend_from_slice(&rest[range]),
                wire::fastcgi::Event::End { .. } => return output,
                _ => {}
            }
            rest = &rest[step.consumed..];
        }
    }
    output
}

/// nginx as other web servers have it, asking a pool from an address of the given location; `None` where it is not installed.
fn nginx_before(site: &Site, port: u16, pool: u16) -> Option<std::process::Child> {
    let script = site.file("html/pid.php");
    let (directory, script) = (site.file("."), script.display());
    let locations: String = [1, 2]
        .map(|last| {
            format!(
                "location /{last} {{ fastcgi_bind 127.0.0.{last}; fastcgi_pass 127.0.0.1:{pool}; }}"
            )
        })
        .concat();
    let text = format!(
        "daemon off; master_process off; pid front.pid; events {{}}\n\
         http {{ access_log off; client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4;\n\
         scgi_temp_path t5; fastcgi_param SCRIPT_FILENAME {script}; fastcgi_param SCRIPT_NAME /pid.php;\n\
         fastcgi_param REQUEST_METHOD GET; server {{ listen 127.0.0.1:{port}; {locations} }} }}\n"
    );
    std::fs::write(site.file("front.conf"), text).expect("our directory");
    let program = Path::new("/usr/sbin/nginx");
    if !program.exists() {
        eprintln!("skipped: there is no nginx");
        return None;
    }
    let started = std::process::Command::new(program)
        .arg("-p")
        .arg(&directory)
        .arg("-c")
        .arg(site.file("front.conf"))
        .arg("-e")
        .arg(site.file("front.log"))
        .spawn();
    Some(started.expect("it starts"))
}

#[test]
fn a_pool_listens_on_tcp_for_those_who_may() {
    let Some(site) = site("pm static; pm.max_children 1;") else {
        return;
    };
    let free = || {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.local_addr().expect("it has one").port()
    };
    let (pool, front) = (free(), free());
    configure(
        &site,
        &format!(
            "pm static; pm.max_children 1; listen 127.0.0.1:{pool}; listen.allowed_clients 127.0.0.1;"
        ),
    );
    site.signal("HUP");
    wait_for("the port", || TcpStream::connect(("127.0.0.1", pool)).ok());
    let script = site.file("html/length.php");
    let mut allowed = TcpStream::connect(("127.0.0.1", pool)).expect("it listens");
    let output = ask_by_fastcgi(&mut allowed, &script, b"abc");
    assert!(output.ends_with(b"\r\n\r\n3"), "{output:?}");
    let refused = Client::connect_from([127, 0, 0, 2].into(), pool).expect("it listens");
    assert_eq!(refused.into_stream().read(&mut [0; 10]).unwrap_or(0), 0);
    let told = "Connection disallowed: IP address '127.0.0.2' has been dropped.";
    wait_for("a word about it", || {
        site.log().contains(told).then_some(())
    });
    let Some(mut nginx) = nginx_before(&site, front, pool) else {
        return;
    };
    let ask = |path: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", front)).ok()?;
        stream.write_all(request(path, "close").as_bytes()).ok()?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply).ok()?;
        Some(reply)
    };
    let served = wait_for("nginx", || ask("/1"));
    let dropped = ask("/2");
    nginx.kill().expect("it runs");
    nginx.wait().expect("it ends");
    let child = settled(&site, 1)[0];
    assert!(
        served.starts_with("HTTP/1.1 200 ") && served.contains(&format!("\r\n{child}\r\n")),
        "{served}"
    );
    assert!(dropped.is_some_and(|reply| reply.starts_with("HTTP/1.1 502 ")));
}

#[test]
fn other_programs_can_ask_a_pool() {
    let pool = |path: &Path| {
        let path = path.display();
        format!(
            "pm static; pm.max_children 1; listen {path}; listen.mode 0600; ping.path /script.php;"
        )
    };
    let Some(site) = site("pm static; pm.max_children 1;") else {
        return;
    };
    let (socket, script) = (site.file("pool.sock"), site.file("html/length.php"));
    let text = pool(&socket).replace("ping.path /script.php;", "");
    let former = settled(&site, 1)[0];
    configure(&site, &text);
    site.signal("HUP");
    wait_for("the socket", || UnixStream::connect(&socket).ok());
    wait_for("another child", || (!is_running(former)).then_some(()));
    let mode = std::fs::metadata(&socket).expect("it is there").mode();
    assert_eq!(mode & 0o777, 0o600);
    let child = settled(&site, 1)[0];
    let mut kept = UnixStream::connect(&socket).expect("it listens");
    for length in [0, 10, 3_000_000] {
        let output = ask_by_fastcgi(&mut kept, &script, &vec![b'x'; length]);
        let output = String::from_utf8_lossy(&output).into_owned();
        assert!(output.ends_with(&format!("\r\n\r\n{length}")), "{output}");
    }
    // One that goes away within its request, and one that sends no request, cost nothing.
    let endless = site.file("html/endless.php");
    let mut leaving = UnixStream::connect(&socket).expect("it listens");
    let mut request = Vec::new();
    let mut params = wire::fastcgi::begin(&mut request, false);
    params.pair(
        b"SCRIPT_FILENAME",
        endless.to_str().expect("our name").as_bytes(),
    );
    params.end().expect("they are short");
    request.extend_from_slice(&wire::fastcgi::STDIN_END);
    leaving.write_all(&request).expect("it listens");
    leaving.read_exact(&mut [0; 100]).expect("a response");
    drop(leaving);
    let mut wrong = UnixStream::connect(&socket).expect("it listens");
    wrong
        .write_all(b"GET / HTTP/1.0\r\n\r\n")
        .expect("it listens");
    assert_eq!(wrong.read(&mut [0; 10]).unwrap_or(0), 0);
    assert_eq!(site.ask("/pid.php").text(), child.to_string());
    // A connection lives on over a reload, with the new settings.
    configure(&site, &pool(&socket));
    site.signal("HUP");
    wait_for("the new settings", || {
        let output = ask_by_fastcgi(&mut kept, &script, b"");
        output.ends_with(b"pong").then_some(())
    });
    // The socket goes with the words.
    configure(&site, "pm static; pm.max_children 1;");
    site.signal("HUP");
    wait_for("its end", || (!socket.exists()).then_some(()));
}

/// A FastCGI program that is not PHP: it tells the body's length, or sends what is no response.
const PROGRAM: &str = r#"
import socket, struct, sys, time
listener = socket.socket(fileno=0)
while True:
    peer, _ = listener.accept()
    while True:
        begun, ended, count = False, False, 0
        while not ended:
            head = peer.recv(8, socket.MSG_WAITALL)
            if len(head) < 8:
                break
            _, kind, _, length, padding, _ = struct.unpack(">BBHHBB", head)
            if length + padding:
                peer.recv(length + padding, socket.MSG_WAITALL)
            # An empty record before a request is a greeting.
            begun = begun or kind == 1
            ended = begun and kind == 5 and length == 0
            count += length if kind == 5 else 0
        if not ended:
            break
        text = b"Content-type: text/plain\r\n\r\n%d" % count
        if sys.argv[1] == "late":
            time.sleep(1.6)
        if sys.argv[1] == "garbage":
            peer.sendall(b"HTTP/1.0 200 OK\r\n\r\nthis is no record")
        else:
            peer.sendall(struct.pack(">BBHHBB", 1, 6, 1, len(text), 0, 0) + text)
            peer.sendall(struct.pack(">BBHHBBLL", 1, 3, 1, 8, 0, 0, 0, 0))
"#;

/// A pool of the program above; `None`, and a word about it, where there is no Python.
fn program(what: &str) -> Option<Site> {
    let python = Path::new("/usr/bin/python3");
    if !python.exists() {
        eprintln!("skipped: there is no python3");
        return None;
    }
    let mut site = Site::prepared();
    let file = site.file("program.py");
    std::fs::write(&file, PROGRAM).expect("our directory");
    let file = file.display();
    let slow = "request_slowlog_timeout 1s; slowlog slow.log;";
    let pool =
        format!("pm static; pm.max_children 1; {slow} command /usr/bin/python3 {file} {what};");
    configure(&site, &pool);
    site.run();
    Some(site)
}

#[test]
fn any_program_can_be_a_worker() {
    let Some(site) = program("echo") else { return };
    for _ in 0..3 {
        assert_eq!(site.ask("/any.php").text(), "0", "{}", site.log());
    }
    let mut client = Client::connect(site.port).expect("it listens");
    client.send(
        b"POST /any.php HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
    );
    let reply = client.read_reply("POST").expect("a reply");
    assert_eq!(reply.text(), "5");
}

#[test]
fn the_slow_log_says_why_it_has_no_calls() {
    let Some(site) = program("late") else { return };
    assert_eq!(site.ask("/any.php?a=1").text(), "0");
    let text = wait_for("the entry", || {
        let text = std::fs::read_to_string(site.file("slow.log")).unwrap_or_default();
        (text.lines().count() > 5).then_some(text)
    });
    let entry = slow_entries(&text);
    assert_eq!(entry[3], "request = GET /any.php?a=1");
    let seconds = entry[4].strip_prefix("running = 1.");
    assert!(seconds.is_some(), "{text}");
    let why = "(no backtrace: its program does not say where PHP's variables are)";
    assert_eq!(entry[5..], [why]);
}

#[test]
fn a_child_that_writes_garbage_is_a_bad_gateway() {
    let Some(site) = program("garbage") else {
        return;
    };
    site.ask("/any.php");
    let before = descriptors(site.worker());
    // More of them than a child has connections.
    for _ in 0..6 {
        assert_eq!(site.ask("/any.php").status(), 502, "{}", site.log());
    }
    site.wait_for_log("upstream sent unsupported FastCGI protocol version: 72", 6);
    wait_for("descriptors as before", || {
        (descriptors(site.worker()) <= before + 4).then_some(())
    });
}

/// Bytes of a large body.
const LARGE: usize = 200 << 20;
/// How much the worker may grow by while it passes, in KB.
const GROWTH_MAX_KB: usize = 50 << 10;

#[test]
fn large_bodies_pass_both_ways_without_being_held() {
    let limits =
        "php_value[post_max_size] 0; php_value[memory_limit] 64M; php_value[output_buffering] 0;";
    let Some(site) = site(&format!("pm static; pm.max_children 1; {limits}")) else {
        return;
    };
    let worker = site.worker();
    assert_eq!(site.ask("/pid.php").status(), 200);
    let before = resident_kb(worker);
    let mut most = before;
    let mut client = TcpStream::connect(("127.0.0.1", site.port)).expect("it listens");
    client
        .write_all(request("/large.php", "close").as_bytes())
        .expect("it listens");
    let (mut received, mut piece) = (0, vec![0; 1 << 20]);
    while let Ok(read @ 1..) = client.read(&mut piece) {
        received += read;
        most = most.max(resident_kb(worker));
    }
    assert!(received > LARGE, "{received} bytes came: {}", site.log());
    let mut client = TcpStream::connect(("127.0.0.1", site.port)).expect("it listens");
    write!(
        client,
        "POST /count.php HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {LARGE}\r\n\r\n"
    )
    .expect("it listens");
    for _ in 0..LARGE / piece.len() {
        client.write_all(&piece).expect("it reads");
        most = most.max(resident_kb(worker));
    }
    let mut reply = String::new();
    client.read_to_string(&mut reply).expect("a reply");
    assert!(reply.contains(&LARGE.to_string()), "{reply}");
    most = most.max(resident_kb(worker));
    let growth = most.saturating_sub(before);
    assert!(growth <= GROWTH_MAX_KB, "grew by {growth} KB");
}

/// Copies a program and the libraries that it is linked with to the same places below `root`.
fn copy_with_libraries(program: &str, root: &Path) {
    let program = std::fs::canonicalize(program).expect("it is there");
    let listed = std::process::Command::new("ldd").arg(&program).output();
    let listed = String::from_utf8_lossy(&listed.expect("ldd").stdout).into_owned();
    let words = listed.split_ascii_whitespace();
    let libraries = words
        .filter(|word| word.starts_with('/'))
        .map(PathBuf::from);
    for file in libraries.chain([program]) {
        let place = root.join(file.strip_prefix("/").expect("it begins so"));
        std::fs::create_dir_all(place.parent().expect("a directory")).expect("our directory");
        std::fs::copy(&file, place).expect("room for a copy");
    }
}

#[test]
fn a_pool_can_be_shut_in_a_directory() {
    if std::fs::metadata("/proc/self").map_or(1, |own| own.uid()) != 0 {
        eprintln!("skipped: only root can change the root directory");
        return;
    }
    let Some(site) = site("pm static; pm.max_children 1;") else {
        return;
    };
    let jail = site.file("jail");
    copy_with_libraries("/usr/bin/php-cgi", &jail);
    let program = std::fs::canonicalize("/usr/bin/php-cgi").expect("it is there");
    std::fs::create_dir(jail.join("www")).expect("our directory");
    let script =
        "<?php echo __FILE__, ' ', file_exists('/etc') ? 'outside' : 'inside', ' ', getcwd();";
    std::fs::write(jail.join("www/where.php"), script).expect("our directory");
    std::fs::write(jail.join("www/no.txt"), script).expect("our directory");
    let pool = format!(
        "pm static; pm.max_children 1; chroot {}; chdir /www; command {};",
        jail.display(),
        program.display()
    );
    let location = LOCATION.replace("$document_root$fastcgi", "/www$fastcgi");
    site.configure_with("", &format!("php_pool www {{ {pool} }}"), &location);
    site.signal("HUP");
    wait_for("the pool inside", || {
        let reply = site.ask("/where.php");
        (reply.text() == "/www/where.php inside /www").then_some(())
    });
}
