//! The tests: what nginx's documentation of signals promises, and what its users rely on.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::running::{Client, Running, free_port, is_alive, read_pid, wait_for, wait_for_end};
use sys::process::Pid;
use sys::signal::Signal;

pub const ALL: &[(&str, fn())] = &[
    ("start_and_fast_stop", start_and_fast_stop),
    (
        "quit_waits_for_what_is_in_flight",
        quit_waits_for_what_is_in_flight,
    ),
    (
        "quit_ends_at_the_shutdown_timeout",
        quit_ends_at_the_shutdown_timeout,
    ),
    ("a_killed_worker_is_replaced", a_killed_worker_is_replaced),
    (
        "a_worker_told_to_quit_is_replaced",
        a_worker_told_to_quit_is_replaced,
    ),
    (
        "a_service_that_does_not_stop_is_ended",
        a_service_that_does_not_stop_is_ended,
    ),
    (
        "a_worker_that_cannot_start_waits_for_a_reload",
        a_worker_that_cannot_start_waits_for_a_reload,
    ),
    (
        "a_worker_that_dies_at_birth_is_not_hurried",
        a_worker_that_dies_at_birth_is_not_hurried,
    ),
    ("reload_in_place", reload_in_place),
    (
        "reload_opens_and_closes_addresses",
        reload_opens_and_closes_addresses,
    ),
    (
        "reload_with_an_error_changes_nothing",
        reload_with_an_error_changes_nothing,
    ),
    (
        "reload_refused_by_the_worker_changes_nothing",
        reload_refused_by_the_worker_changes_nothing,
    ),
    (
        "reload_that_kills_the_worker_is_given_up",
        reload_that_kills_the_worker_is_given_up,
    ),
    (
        "reload_of_the_number_of_threads",
        reload_of_the_number_of_threads,
    ),
    (
        "reload_with_a_worker_that_cannot_start",
        reload_with_a_worker_that_cannot_start,
    ),
    (
        "reload_of_a_large_configuration",
        reload_of_a_large_configuration,
    ),
    ("reload_moves_the_pid_file", reload_moves_the_pid_file),
    (
        "no_connection_is_refused_over_reloads",
        no_connection_is_refused_over_reloads,
    ),
    ("logs_are_reopened", logs_are_reopened),
    ("unix_sockets_come_and_go", unix_sockets_come_and_go),
    (
        "daemon_is_ready_when_the_starter_ends",
        daemon_is_ready_when_the_starter_ends,
    ),
    ("a_second_server_is_refused", a_second_server_is_refused),
    (
        "a_daemon_that_cannot_start_says_so",
        a_daemon_that_cannot_start_says_so,
    ),
    (
        "upgrade_and_end_of_the_old_binary",
        upgrade_and_end_of_the_old_binary,
    ),
    ("upgrade_is_taken_back", upgrade_is_taken_back),
    (
        "upgrade_with_a_broken_configuration",
        upgrade_with_a_broken_configuration,
    ),
    (
        "upgrade_is_ignored_in_the_foreground",
        upgrade_is_ignored_in_the_foreground,
    ),
    ("single_process", single_process),
    (
        "a_worker_outlives_a_killed_master",
        a_worker_outlives_a_killed_master,
    ),
    ("the_worker_changes_its_user", the_worker_changes_its_user),
    ("signal_process", signal_process),
    ("test_and_dump", test_and_dump),
];

fn start_and_fast_stop() {
    let mut server = Running::start("answer one\nthreads 2");
    let (master, (answer, worker)) = (server.master(), server.ask());
    assert_eq!(answer, "one");
    assert_ne!(master, worker);
    let mut held = server.connect();
    assert_eq!(held.ask("hold"), "held");
    server.signal(Signal::Term);
    assert_eq!(server.exit_code(), Some(0));
    assert!(!server.path("pid").exists());
    let own = sys::process::own_pid();
    let tail = [
        "start worker processes".to_owned(),
        format!("start worker process {worker}"),
        format!("signal 15 (SIGTERM) received from {own}, exiting"),
        "exiting".to_owned(),
        "exit".to_owned(),
        format!("signal 17 (SIGCHLD) received from {worker}"),
        format!("worker process {worker} exited with code 0"),
        "exit".to_owned(),
    ];
    let messages = server.messages();
    assert_eq!(messages[0], "using the \"epoll\" event method");
    assert_eq!(messages[1], "toy/1.0");
    assert!(messages[2].starts_with("OS: Linux "));
    assert!(messages[3].starts_with("getrlimit(RLIMIT_NOFILE): "));
    assert_eq!(messages[4..], tail);
}

fn quit_waits_for_what_is_in_flight() {
    let mut server = Running::start("answer one");
    let mut held = server.connect();
    held.ask("hold");
    server.signal(Signal::Quit);
    server.wait_for_log("gracefully shutting down", 1);
    let refused = || Client::connect(server.port).is_none().then_some(());
    wait_for("the socket to close", refused);
    assert!(held.ask("go on").starts_with("one "));
    drop(held);
    assert_eq!(server.exit_code(), Some(0));
}

fn quit_ends_at_the_shutdown_timeout() {
    let mut server = Running::start("answer one\nshutdown_timeout_ms 50");
    let mut held = server.connect();
    held.ask("hold");
    server.signal(Signal::Quit);
    assert_eq!(server.exit_code(), Some(0));
    assert_eq!(held.try_ask("go on"), None);
}

fn a_killed_worker_is_replaced() {
    let server = Running::start("answer one\nthreads 2");
    let first = server.worker();
    sys::process::kill(first, Signal::Kill).unwrap();
    // The sockets are still open: connections wait for the next worker, and are not refused.
    let next = wait_for("another worker", || {
        let mut client = Client::connect(server.port).expect("never refused");
        let answer = client.try_ask("hello")?;
        let pid = Pid(answer.rsplit_once(' ')?.1.parse().ok()?);
        (pid != first).then_some(pid)
    });
    let messages = server.messages();
    assert!(messages.contains(&format!("worker process {first} exited on signal 9")));
    server.wait_for_log(&format!("start worker process {next}"), 1);
    assert!(server.log().contains("[alert]"));
}

fn a_worker_told_to_quit_is_replaced() {
    let server = Running::start("answer one");
    let own = sys::process::own_pid();
    for (signal, line) in [
        (
            Signal::Quit,
            format!("signal 3 (SIGQUIT) received from {own}, shutting down"),
        ),
        (
            Signal::Term,
            format!("signal 15 (SIGTERM) received from {own}, exiting"),
        ),
    ] {
        let worker = server.worker();
        sys::process::kill(worker, Signal::Hup).unwrap();
        server.wait_for_log("(SIGHUP) received", 1);
        sys::process::kill(worker, signal).unwrap();
        server.wait_for_log(&format!("worker process {worker} exited with code 0"), 1);
        server.wait_for_log(&line, 1);
        assert_ne!(server.worker(), worker);
    }
}

fn a_service_that_does_not_stop_is_ended() {
    let server = Running::start("answer one\nfail stop");
    let worker = server.worker();
    sys::process::kill(worker, Signal::Term).unwrap();
    server.wait_for_log("the service has not stopped in time", 1);
    server.wait_for_log(&format!("worker process {worker} exited with code 0"), 1);
    assert_ne!(server.worker(), worker);
}

fn a_worker_that_cannot_start_waits_for_a_reload() {
    let mut server = Running::prepared("fail start");
    server.spawn();
    server.wait_for_log("exited with fatal code 2 and cannot be respawned", 1);
    server.wait_for_log("[emerg]", 1);
    assert!(server.log().contains("told to fail"));
    server.configure("answer healed");
    server.signal(Signal::Hup);
    assert_eq!(server.ask().0, "healed");
    server.wait_for_log("start worker process ", 2);
}

fn a_worker_that_dies_at_birth_is_not_hurried() {
    let mut server = Running::prepared("fail birth");
    server.spawn();
    // The fifth start comes after pauses of 100 and 200 ms; a master that hurries would have started hundreds by then.
    server.wait_for_log("start worker process ", 6);
    assert!(server.log().matches("start worker process ").count() < 9);
    server.configure("answer healed");
    server.signal(Signal::Hup);
    assert_eq!(server.ask().0, "healed");
}

fn reload_in_place() {
    let server = Running::start("answer one\nthreads 2");
    let worker = server.worker();
    let mut held = server.connect();
    let mut idle = server.connect();
    assert!(idle.ask("hello").starts_with("one "));
    held.ask("hold");
    server.configure("answer two\nthreads 2");
    server.signal(Signal::Hup);
    server.wait_for_log("serves the new configuration", 1);
    assert_eq!(server.ask(), ("two".to_owned(), worker));
    assert!(idle.ask("hello").starts_with("two "));
    assert!(!server.log().contains("exited with code 0"));
    assert!(held.ask("go on").starts_with("one "));
    server.wait_for_log("exited with code 0", 1);
    assert_eq!(server.log().matches("start worker process ").count(), 1);
}

fn reload_opens_and_closes_addresses() {
    let server = Running::start("answer one\nthreads 2");
    let worker = server.worker();
    let port = free_port();
    server.configure(&format!("answer two\nthreads 2\nlisten 127.0.0.1:{port}"));
    server.signal(Signal::Hup);
    server.wait_for_log("serves the new configuration", 1);
    // Both sockets of the new address are served.
    for _ in 0..16 {
        let answer = Client::connect(port).expect("open").ask("hello");
        assert_eq!(answer, format!("two {worker}"));
    }
    server.configure("answer three\nthreads 2");
    server.signal(Signal::Hup);
    server.wait_for_log("serves the new configuration", 2);
    wait_for("the address to close", || {
        Client::connect(port).is_none().then_some(())
    });
    assert_eq!(server.ask(), ("three".to_owned(), worker));
}

fn reload_with_an_error_changes_nothing() {
    let server = Running::start("answer one");
    let worker = server.worker();
    server.configure("answer two\nnonsense");
    server.signal(Signal::Hup);
    server.wait_for_log("unknown directive \"nonsense\" in ", 1);
    server.configure("answer two\naccess_log none/access.log");
    server.signal(Signal::Hup);
    server.wait_for_log("none/access.log\" failed (2: No such file or directory)", 1);
    server.configure("answer two\nlisten unix:new.sock\nlisten 192.0.2.1:1");
    server.signal(Signal::Hup);
    server.wait_for_log(
        "bind() to 192.0.2.1:1 failed (99: Cannot assign requested address)",
        1,
    );
    assert_eq!(server.ask(), ("one".to_owned(), worker));
    assert!(!server.path("new.sock").exists());
    std::fs::remove_file(server.path("toy.conf")).unwrap();
    server.signal(Signal::Hup);
    server.wait_for_log("toy.conf\" failed (2: No such file or directory)", 1);
    assert_eq!(server.ask(), ("one".to_owned(), worker));
}

fn reload_refused_by_the_worker_changes_nothing() {
    let server = Running::start("answer one");
    let worker = server.worker();
    server.configure("answer two\nlisten unix:new.sock\nfail replace");
    server.signal(Signal::Hup);
    server.wait_for_log("the former configuration stays in force: told to refuse", 1);
    assert_eq!(server.ask(), ("one".to_owned(), worker));
    assert!(!server.path("new.sock").exists());
    server.configure("answer three");
    server.signal(Signal::Hup);
    server.wait_for_log("serves the new configuration", 1);
    assert_eq!(server.ask(), ("three".to_owned(), worker));
}

fn reload_that_kills_the_worker_is_given_up() {
    let server = Running::start("answer one");
    let worker = server.worker();
    server.configure("answer two\nfail die");
    server.signal(Signal::Hup);
    server.wait_for_log("the former configuration stays in force", 1);
    let (answer, next) = server.ask();
    assert_eq!(answer, "one");
    assert_ne!(next, worker);
}

fn reload_of_the_number_of_threads() {
    let server = Running::start("answer one\nthreads 1");
    let first = server.worker();
    let mut held = server.connect();
    held.ask("hold");
    for (threads, number) in [(4, 1), (2, 2)] {
        server.configure(&format!("answer {threads}\nthreads {threads}"));
        server.signal(Signal::Hup);
        // The old worker stops accepting; every socket is served by the new one.
        server.wait_for_answer(&threads.to_string());
        server.wait_for_log("gracefully shutting down", number);
    }
    assert!(is_alive(first));
    assert!(held.ask("go on").starts_with("one "));
    drop(held);
    server.wait_for_log(&format!("worker process {first} exited with code 0"), 1);
    assert_eq!(server.log().matches("start worker process ").count(), 3);
}

fn reload_with_a_worker_that_cannot_start() {
    let server = Running::start("answer one\nthreads 1");
    let worker = server.worker();
    server.configure("answer two\nthreads 2\nfail start");
    server.signal(Signal::Hup);
    server.wait_for_log("the former configuration stays in force", 1);
    assert_eq!(server.ask(), ("one".to_owned(), worker));
    server.configure("answer three\nthreads 2");
    server.signal(Signal::Hup);
    assert_ne!(server.wait_for_answer("three"), worker);
}

/// Larger than the buffer of the socket between master and worker by far.
fn reload_of_a_large_configuration() {
    let server = Running::start("answer one");
    let long = "x".repeat(4 << 20);
    server.configure(&format!("answer {long}"));
    server.signal(Signal::Hup);
    server.wait_for_log("serves the new configuration", 1);
    assert_eq!(server.ask().0, long);
}

fn reload_moves_the_pid_file() {
    let mut server = Running::start("answer one");
    let master = server.master();
    server.configure("answer two\npid other.pid");
    server.signal(Signal::Hup);
    server.wait_for_log("serves the new configuration", 1);
    assert!(!server.path("pid").exists());
    assert_eq!(read_pid(&server.path("other.pid")), Some(master));
    sys::process::kill(master, Signal::Int).unwrap();
    assert_eq!(server.exit_code(), Some(0));
    assert!(!server.path("other.pid").exists());
}

fn no_connection_is_refused_over_reloads() {
    let server = Running::start("answer one\nthreads 1");
    let port = server.port;
    let over = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..2)
        .map(|_| {
            let over = over.clone();
            std::thread::spawn(move || {
                let mut count = 0;
                while !over.load(Ordering::Relaxed) {
                    let mut client = Client::connect(port).expect("never refused");
                    client
                        .try_ask("hello")
                        .expect("every accepted request is answered");
                    count += 1;
                }
                count
            })
        })
        .collect();
    let mut processes = 0;
    for round in 0..12 {
        let threads = [2, 2, 3, 1][round % 4];
        server.configure(&format!("answer {round}\nthreads {threads}"));
        server.signal(Signal::Hup);
        wait_for("the new configuration", || {
            (server.ask().0 == round.to_string()).then_some(())
        });
        processes += usize::from(round == 0 || threads != [2, 2, 3, 1][(round + 3) % 4]);
        server.wait_for_log("exited with code 0", processes);
    }
    over.store(true, Ordering::Relaxed);
    let served: u32 = clients
        .into_iter()
        .map(|client| client.join().unwrap())
        .sum();
    assert!(served > 0);
}

fn logs_are_reopened() {
    let server = Running::start("answer one\naccess_log access.log");
    server.connect().ask("first");
    let moved = |number: u32| {
        for name in ["access.log", "error.log"] {
            std::fs::rename(server.path(name), server.path(&format!("{name}.{number}"))).unwrap();
        }
    };
    moved(1);
    server.signal(Signal::Usr1);
    // One line of the master, in the old file, and one of the worker, in the new one.
    wait_for("the new log", || {
        server.path("access.log").exists().then_some(())
    });
    wait_for("the worker", || {
        server.log().contains("worker").then_some(()).or_else(|| {
            let mut client = server.connect();
            client.ask("probe");
            std::fs::read_to_string(server.path("access.log"))
                .unwrap()
                .contains("probe")
                .then_some(())
        })
    });
    server.connect().ask("second");
    let read = |name: &str| std::fs::read_to_string(server.path(name)).unwrap();
    assert!(read("access.log").ends_with("second\n"));
    assert!(read("access.log.1").contains("first\n"));
    assert!(!read("access.log.1").contains("second"));
    // The same, sent to the worker alone, after a reload, with a request of the former generation under way.
    let mut held = server.connect();
    held.ask("hold");
    server.configure("answer two\naccess_log access.log");
    server.signal(Signal::Hup);
    server.wait_for_log("serves the new configuration", 1);
    let worker = server.worker();
    moved(2);
    sys::process::kill(worker, Signal::Usr1).unwrap();
    wait_for("the new log", || {
        server.path("access.log").exists().then_some(())
    });
    wait_for("the swap", || {
        server.connect().ask("probe");
        read("access.log").contains("probe").then_some(())
    });
    held.ask("go on");
    server.connect().ask("third");
    assert!(read("access.log").contains("hold\n"));
    assert!(read("access.log").ends_with("third\n"));
}

fn unix_sockets_come_and_go() {
    let mut server = Running::start("answer one\nthreads 3\nlisten unix:a.sock");
    let mode = std::fs::metadata(server.path("a.sock"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o666);
    UnixStream::connect(server.path("a.sock")).unwrap();
    server.configure("answer two\nthreads 3\nlisten unix:b.sock");
    server.signal(Signal::Hup);
    server.wait_for_log("serves the new configuration", 1);
    wait_for("the old socket to go", || {
        (!server.path("a.sock").exists()).then_some(())
    });
    UnixStream::connect(server.path("b.sock")).unwrap();
    server.signal(Signal::Quit);
    assert_eq!(server.exit_code(), Some(0));
    assert!(!server.path("b.sock").exists());
}

fn daemon_is_ready_when_the_starter_ends() {
    let server = Running::start_daemon("answer one");
    let master = server.master();
    assert_eq!(server.ask().0, "one");
    let parent = |pid: Pid| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("PPid:"))
            .unwrap()
            .trim()
            .to_owned();
        Pid(line.parse().unwrap())
    };
    assert_ne!(parent(master), sys::process::own_pid());
    assert_eq!(parent(server.worker()), master);
    server.signal(Signal::Term);
    wait_for_end(master);
    assert!(!server.path("pid").exists());
}

fn a_second_server_is_refused() {
    let server = Running::start_daemon("answer one\nthreads 2");
    let worker = server.worker();
    let output = server.output(&[]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    let in_use = format!(
        "nginx: [emerg] bind() to 127.0.0.1:{} failed (98: Address already in use)\n",
        server.port
    );
    assert_eq!(
        said,
        format!(
            "{}nginx: [emerg] still could not bind()\n",
            in_use.repeat(5)
        )
    );
    assert_eq!(server.worker(), worker);
}

fn a_daemon_that_cannot_start_says_so() {
    let server = Running::prepared("daemon on\npid none/pid");
    let output = server.output(&[]);
    assert_eq!(output.status.code(), Some(1));
    let path = server.path("none/pid").display().to_string();
    let said = format!("nginx: [emerg] open() \"{path}\" failed (2: No such file or directory)\n");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), said);
}

/// The signals of nginx's documentation, in its order: USR2, WINCH to the old master, QUIT to it.
fn upgrade_and_end_of_the_old_binary() {
    let server = Running::start_daemon("answer one\nthreads 2\nlisten unix:a.sock");
    let (old, old_worker) = (server.master(), server.worker());
    let mut held = server.connect();
    held.ask("hold");
    server.configure("daemon on\nanswer two\nthreads 3\nlisten unix:a.sock");
    server.signal(Signal::Usr2);
    let new = wait_for("the new pid file", || {
        read_pid(&server.path("pid")).filter(|&pid| pid != old)
    });
    assert_eq!(read_pid(&server.path("pid.oldbin")), Some(old));
    // Both serve now.
    wait_for("the new worker", || (server.ask().0 == "two").then_some(()));
    sys::process::kill(old, Signal::Winch).unwrap();
    server.wait_for_log("gracefully shutting down", 1);
    server.wait_for_answer("two");
    sys::process::kill(old, Signal::Quit).unwrap();
    assert!(held.ask("go on").ends_with(&format!("one {old_worker}")));
    drop(held);
    wait_for_end(old);
    assert!(!server.path("pid.oldbin").exists());
    assert_eq!(server.master(), new);
    UnixStream::connect(server.path("a.sock")).unwrap();
    assert_eq!(server.ask().0, "two");
    // An heir is as good as its forebear: reload, and the next upgrade.
    server.configure("daemon on\nanswer three\nthreads 3\nlisten unix:a.sock");
    server.signal(Signal::Hup);
    server.wait_for_log("serves the new configuration", 1);
    assert_eq!(server.ask().0, "three");
    server.signal(Signal::Usr2);
    let third = wait_for("the third pid file", || {
        read_pid(&server.path("pid")).filter(|&pid| pid != new)
    });
    sys::process::kill(new, Signal::Quit).unwrap();
    wait_for_end(new);
    assert_eq!(server.master(), third);
    assert_eq!(server.ask().0, "three");
}

fn upgrade_is_taken_back() {
    let server = Running::start_daemon("answer one\nlisten unix:a.sock");
    let old = server.master();
    server.signal(Signal::Usr2);
    let new = wait_for("the new pid file", || {
        read_pid(&server.path("pid")).filter(|&pid| pid != old)
    });
    // Neither starts a third one.
    sys::process::kill(old, Signal::Usr2).unwrap();
    server.wait_for_log(", ignoring", 1);
    sys::process::kill(old, Signal::Winch).unwrap();
    server.wait_for_log("gracefully shutting down", 1);
    sys::process::kill(new, Signal::Quit).unwrap();
    wait_for("the pid file to come back", || {
        (read_pid(&server.path("pid")) == Some(old)).then_some(())
    });
    server.wait_for_log(&format!("new binary process {new} exited with code 0"), 1);
    assert_eq!(server.ask().0, "one");
    assert!(!server.path("pid.oldbin").exists());
    UnixStream::connect(server.path("a.sock")).unwrap();
}

fn upgrade_with_a_broken_configuration() {
    let server = Running::start_daemon("answer one");
    let (old, worker) = (server.master(), server.worker());
    server.configure("nonsense");
    server.signal(Signal::Usr2);
    server.wait_for_log("exited with code 1", 1);
    wait_for("the pid file to come back", || {
        (read_pid(&server.path("pid")) == Some(old)).then_some(())
    });
    assert_eq!(server.ask(), ("one".to_owned(), worker));
}

fn upgrade_is_ignored_in_the_foreground() {
    let server = Running::start("answer one");
    server.signal(Signal::Usr2);
    server.wait_for_log("(SIGUSR2) received", 1);
    server.wait_for_log(", ignoring", 1);
    server.signal(Signal::Winch);
    server.wait_for_log("(SIGWINCH) received", 1);
    assert_eq!(server.ask().0, "one");
}

fn single_process() {
    let mut server =
        Running::start("answer one\nmaster_process off\nthreads 2\nlisten unix:a.sock");
    let master = server.master();
    assert_eq!(server.ask(), ("one".to_owned(), master));
    let port = free_port();
    server.configure(&format!(
        "answer two\nmaster_process off\nthreads 2\nlisten 127.0.0.1:{port}"
    ));
    server.signal(Signal::Hup);
    server.wait_for_answer("two");
    assert_eq!(
        Client::connect(port).unwrap().ask("hello"),
        format!("two {master}")
    );
    wait_for("the old socket to go", || {
        (!server.path("a.sock").exists()).then_some(())
    });
    server.configure("answer three\nmaster_process off\nnonsense");
    server.signal(Signal::Hup);
    server.wait_for_log("unknown directive", 1);
    assert_eq!(server.ask().0, "two");
    server.signal(Signal::Quit);
    assert_eq!(server.exit_code(), Some(0));
    assert!(!server.path("pid").exists());
}

fn a_worker_outlives_a_killed_master() {
    let mut server = Running::start("answer one");
    let worker = server.worker();
    server.signal(Signal::Kill);
    assert_eq!(server.exit_code(), None);
    server.wait_for_log("the master process is gone", 1);
    assert_eq!(server.worker(), worker);
    sys::process::kill(worker, Signal::Quit).unwrap();
    wait_for_end(worker);
}

fn the_worker_changes_its_user() {
    if !sys::process::is_root() {
        return;
    }
    let server = Running::start("answer one\nuser nobody\naccess_log access.log");
    let nobody = sys::user::user("nobody").unwrap().unwrap();
    let owner = |pid: Pid| std::fs::metadata(format!("/proc/{pid}")).unwrap().uid();
    assert_eq!(owner(server.master()), 0);
    let worker = server.worker();
    wait_for("the worker's user", || {
        (owner(worker) == nobody.uid.0).then_some(())
    });
    let status = std::fs::read_to_string(format!("/proc/{worker}/status")).unwrap();
    let group = format!("Gid:\t{0}\t{0}\t{0}\t{0}\n", nobody.gid.0);
    assert!(status.contains(&group), "{status}");
    server.signal(Signal::Usr1);
    let log_owner = || std::fs::metadata(server.path("access.log")).unwrap().uid();
    wait_for("the log's owner", || {
        (log_owner() == nobody.uid.0).then_some(())
    });
    // A change of the user needs another process.
    server.configure("answer two\nuser root\naccess_log access.log");
    server.signal(Signal::Hup);
    let next = server.wait_for_answer("two");
    assert_ne!(next, worker);
    assert_eq!(owner(next), 0);
}

fn signal_process() {
    let mut server = Running::start("answer one");
    server.configure("answer two");
    let output = server.output(&["reload"]);
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
    server.wait_for_log("serves the new configuration", 1);
    assert_eq!(server.ask().0, "two");
    assert!(server.output(&["reopen"]).status.success());
    server.wait_for_log("reopening logs", 1);
    assert!(server.output(&["quit"]).status.success());
    assert_eq!(server.exit_code(), Some(0));
    let path = server.path("pid").display().to_string();
    for (content, said) in [
        (
            None,
            format!("[error] open() \"{path}\" failed (2: No such file or directory)"),
        ),
        (
            Some(""),
            format!("[error] invalid PID number \"\" in \"{path}\""),
        ),
        (
            Some("abc\n"),
            format!("[error] invalid PID number \"abc\" in \"{path}\""),
        ),
        (
            Some("4194305\n"),
            "[alert] kill(4194305, 15) failed (3: No such process)".to_owned(),
        ),
    ] {
        if let Some(content) = content {
            std::fs::write(server.path("pid"), content).unwrap();
        }
        let output = server.output(&["stop"]);
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(
            String::from_utf8(output.stderr).unwrap(),
            format!("nginx: {said}\n")
        );
    }
    std::fs::remove_file(server.path("pid")).unwrap();
}

fn test_and_dump() {
    let server = Running::prepared("answer one\nlisten unix:a.sock");
    let path = server.path("toy.conf").display().to_string();
    let said = |arguments: &[&str]| {
        let output = server.output(arguments);
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let syntax = format!("nginx: the configuration file {path} syntax is ok\n");
    let success = format!("{syntax}nginx: configuration file {path} test is successful\n");
    assert_eq!(said(&["test"]), (Some(0), success.clone()));
    assert!(!server.path("a.sock").exists());
    // nginx leaves an empty pid file, too.
    assert_eq!(std::fs::read(server.path("pid")).unwrap(), b"");
    let dump = server.output(&["dump"]);
    let text = std::fs::read_to_string(server.path("toy.conf")).unwrap();
    assert_eq!(
        String::from_utf8(dump.stdout).unwrap(),
        format!("# configuration file {path}:\n{text}\n")
    );
    assert_eq!(dump.stderr, b"");
    let failure = format!("nginx: configuration file {path} test failed\n");
    server.configure("nonsense");
    let complaint = format!("nginx: [emerg] unknown directive \"nonsense\" in {path}:3\n");
    assert_eq!(said(&["test"]), (Some(1), format!("{complaint}{failure}")));
    server.configure("listen 192.0.2.1:1");
    let complaint =
        "nginx: [emerg] bind() to 192.0.2.1:1 failed (99: Cannot assign requested address)\n";
    assert_eq!(
        said(&["test"]),
        (Some(1), format!("{syntax}{complaint}{failure}"))
    );
    // An address in use, most likely by this very server, is no failure.
    let _taken = std::net::TcpListener::bind(("127.0.0.1", server.port)).unwrap();
    server.configure("answer one");
    assert_eq!(said(&["test"]), (Some(0), success));
}
