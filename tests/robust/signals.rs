//! The signals that end a server, reopen its logs and change its binary.

use crate::site::{Site, children, is_running, kill, read_pid, request, wait_for};
use crate::traffic::Connections::{Fresh, Kept};
use crate::traffic::Traffic;
use std::time::{Duration, Instant};
use testkit::client::{Client, End};

/// More than the sockets' buffers hold, so that the server is not done before the client is.
const DOWNLOAD: usize = 16 * 1024 * 1024;
/// TERM waits for nobody; the master gives its worker a second.
const AT_ONCE: Duration = Duration::from_secs(5);

fn downloading(site: &Site) -> Client {
    site.big_file("big", DOWNLOAD);
    let mut client = site.connect();
    client.send(request("/big", "keep-alive").as_bytes());
    assert!(client.read_at_least(1) > 0);
    client
}

#[test]
fn quit_ends_after_the_last_download() {
    let mut site = Site::start("");
    let mut client = downloading(&site);
    let mut idle = site.connect();
    idle.send(request("/small.txt", "keep-alive").as_bytes());
    assert_eq!(
        idle.read_reply("GET").map(|reply| reply.status()),
        Some(200)
    );
    site.signal("QUIT");
    // What is idle ends, new connections are refused, and the download goes on.
    assert_eq!(idle.read_to_end(), (Vec::new(), End::Closed));
    wait_for("closed sockets", || {
        Client::connect(site.port).is_err().then_some(())
    });
    let reply = client.read_reply("GET").expect("the rest");
    assert_eq!(
        (reply.status(), reply.body.len(), reply.fault),
        (200, DOWNLOAD, None)
    );
    assert_eq!(client.read_to_end(), (Vec::new(), End::Closed));
    assert_eq!(site.ended(), Some(0));
    assert!(!site.file("pid").exists());
}

#[test]
fn quit_answers_who_has_connected_and_not_asked_yet() {
    let mut site = Site::start_with("worker_processes 1;", "", "");
    let mut fresh = site.connect();
    // Connections are accepted in their order.
    assert_eq!(site.ask("/small.txt").status(), 200);
    site.signal("QUIT");
    wait_for("closed sockets", || {
        Client::connect(site.port).is_err().then_some(())
    });
    fresh.send(request("/small.txt", "keep-alive").as_bytes());
    let reply = fresh.read_reply("GET").expect("an answer");
    assert_eq!(
        (reply.status(), reply.field("Connection")),
        (200, Some("close"))
    );
    assert_eq!(site.ended(), Some(0));
}

#[test]
fn a_shutdown_timeout_cuts_the_last_download() {
    let mut site = Site::start_with("worker_shutdown_timeout 1s;", "", "");
    let mut client = downloading(&site);
    let asked = Instant::now();
    site.signal("QUIT");
    assert_eq!(site.ended(), Some(0));
    assert!(asked.elapsed() > Duration::from_millis(900));
    assert!(asked.elapsed() < AT_ONCE, "{:?}", asked.elapsed());
    assert!(client.read_to_end().0.len() < DOWNLOAD);
}

#[test]
fn term_ends_at_once() {
    let mut site = Site::start("");
    let mut client = downloading(&site);
    let asked = Instant::now();
    site.signal("TERM");
    assert_eq!(site.ended(), Some(0));
    assert!(asked.elapsed() < AT_ONCE, "{:?}", asked.elapsed());
    // The worker went by itself, nobody had to kill it.
    assert!(!site.log().contains("on signal 9"), "{}", site.log());
    assert!(client.read_to_end().0.len() < DOWNLOAD);
}

/// The line that a connection without a request leaves at level info.
const NOTHING_ASKED: &str = "client closed connection while waiting for request";

#[test]
fn usr1_leaves_a_log_that_was_moved_away() {
    let site = Site::start("");
    let (log, moved) = (site.file("error.log"), site.file("error.log.1"));
    drop(site.connect());
    site.wait_for_log(NOTHING_ASKED, 1);
    std::fs::rename(&log, &moved).expect("the log is there");
    // Until the signal, lines go where the file has gone.
    drop(site.connect());
    let old = || std::fs::read_to_string(&moved).unwrap_or_default();
    wait_for("the line in the moved log", || {
        (old().matches(NOTHING_ASKED).count() == 2).then_some(())
    });
    site.signal("USR1");
    wait_for("lines in the new log", || {
        drop(site.connect());
        site.log().contains(NOTHING_ASKED).then_some(())
    });
    let before = old();
    let count = site.log().matches(NOTHING_ASKED).count();
    for _ in 0..20 {
        drop(site.connect());
    }
    site.wait_for_log(NOTHING_ASKED, count + 20);
    assert_eq!(old(), before);
}

#[test]
fn usr2_changes_the_binary_under_load() {
    let site = Site::prepared();
    site.configure_with("daemon on;", "", "");
    site.run_in_background();
    let old = site.master();
    let traffic = Traffic::start(site.port, "/small.txt", &[(Fresh, 3)], |text| {
        text == "small\n"
    });
    site.signal("USR2");
    let new = wait_for("the new binary", || {
        read_pid(&site.file("pid")).filter(|pid| *pid != old)
    });
    assert_eq!(read_pid(&site.file("pid.oldbin")), Some(old));
    wait_for("its worker", || children(new).first().copied());
    traffic.wait_for(20);
    kill("WINCH", old);
    wait_for("the end of the old worker", || {
        children(old)
            .iter()
            .all(|child| *child == new)
            .then_some(())
    });
    traffic.wait_for(20);
    kill("QUIT", old);
    wait_for("the end of the old master", || {
        (!is_running(old)).then_some(())
    });
    traffic.wait_for(20);
    let (answered, failures) = traffic.stop();
    assert!(
        failures.is_empty(),
        "{} of {answered} failed: {:?}",
        failures.len(),
        failures[0]
    );
    assert_eq!(site.master(), new);
    kill("TERM", new);
    wait_for("the end of the new master", || {
        (!is_running(new)).then_some(())
    });
}

#[test]
fn the_old_binary_serves_again_after_winch_and_hup() {
    let site = Site::prepared();
    site.configure_with("daemon on;", "", "");
    site.run_in_background();
    let master = site.master();
    let a_worker = || wait_for("a worker", || children(master).first().copied());
    // Of signals that wait together the master is given HUP first.
    a_worker();
    site.signal("WINCH");
    wait_for("the end of the worker", || {
        children(master).is_empty().then_some(())
    });
    site.signal("HUP");
    a_worker();
    let traffic = Traffic::start(site.port, "/small.txt", &[(Fresh, 1), (Kept, 1)], |text| {
        text == "small\n"
    });
    traffic.wait_for(20);
    assert_eq!(traffic.stop().1, Vec::<String>::new());
    site.signal("TERM");
    wait_for("the end", || (!is_running(master)).then_some(()));
}
