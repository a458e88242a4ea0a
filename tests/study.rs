//! `gannet study` from the outside: a short one is measured, told and drawn, and nothing is left behind.

use std::fs;
use std::io::Read;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use testkit::directory::Directory;

/// Runs in a directory of its own, which also holds what is temporary.
fn study(directory: &Directory, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gannet"))
        .args(arguments)
        .current_dir(directory.path())
        .env("TMPDIR", directory.path())
        .output()
        .unwrap()
}

#[test]
fn a_study_is_measured_told_and_drawn() {
    let directory = Directory::create();
    let short = [
        "--seconds",
        "0.1",
        "--rounds",
        "1",
        "--workers",
        "1",
        "--users",
        "2",
    ];
    let output = study(
        &directory,
        &[
            &["study", "rps", "--json", "all.json", "--markdown", "rps.md"],
            &short[..],
        ]
        .concat(),
    );
    let told = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}{said}");
    assert_eq!(said, "");
    for text in [
        "Requests per second, HTTP, gannet\nCPUs",
        "worker_processes 1;",
        "145551",
    ] {
        assert!(told.contains(text), "{text} in\n{told}");
    }
    let all = fs::read_to_string(directory.path().join("all.json")).unwrap();
    let all: serde_json::Value = serde_json::from_str(&all).unwrap();
    let measured = all[0]["measured"].as_array().unwrap();
    assert_eq!(measured.len(), 8);
    for one in measured {
        let figures = &one["rounds"][0];
        assert!(figures["requests"].as_u64().unwrap() > 0, "{one}");
        assert_eq!(figures["failures"], 0, "{one}");
    }
    let mut left: Vec<_> = fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["all.json", "gannet-study-rps.html", "rps.md"]);
    let page = fs::read_to_string(directory.path().join("rps.md")).unwrap();
    assert!(page.contains("\n| 1 | "), "{page}");
    seen_in_chromium(&directory, "gannet-study-rps.html", 4);
}

/// The page's charts are drawn, and it fits, on a screen and on a phone.
fn seen_in_chromium(directory: &Directory, file: &str, charts: usize) {
    for size in ["1280,900", "500,800"] {
        let browser = Command::new("chromium")
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
            ])
            .args(["--dump-dom", "--virtual-time-budget=2000"])
            .arg(format!(
                "--user-data-dir={}/browser",
                directory.path().display()
            ))
            .arg(format!("--window-size={size}"))
            .arg(format!("file://{}/{file}", directory.path().display()))
            .output();
        let output = match browser {
            Ok(output) => output,
            Err(error) => {
                eprintln!("skipped: the page in a browser: chromium does not run: {error}");
                return;
            }
        };
        let seen = String::from_utf8_lossy(&output.stdout);
        let start = seen.get(..300).unwrap_or(&seen);
        assert!(
            start.contains(&format!("data-charts=\"{charts}\"")),
            "{size}: {start}"
        );
        assert!(start.contains("data-fits=\"true\""), "{size}: {start}");
    }
}

#[test]
fn ctrl_c_ends_servers_and_tells_what_was_measured() {
    let directory = Directory::create();
    let mut child = Command::new(env!("CARGO_BIN_EXE_gannet"))
        .args([
            "study",
            "connections",
            "--workers",
            "1",
            "--users",
            "2",
            "--seconds",
            "0.3",
            "--rounds",
            "1000",
        ])
        .current_dir(directory.path())
        .env("TMPDIR", directory.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let id = child.id();
    let work = directory.path().join(format!("gannet-study-{id}"));
    let deadline = Instant::now() + Duration::from_secs(30);
    // The second configuration stands there: the first measurement is done.
    let configuration = || {
        fs::read(work.join("nginx.conf"))
            .ok()
            .filter(|text| !text.is_empty())
    };
    let wait = |other: Option<Vec<u8>>| {
        while configuration().is_none() || configuration() == other {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(5));
        }
        configuration()
    };
    wait(wait(None));
    let server: i32 = loop {
        let written = fs::read_to_string(work.join("server.pid")).unwrap_or_default();
        match written.trim().parse() {
            Ok(server) => break server,
            Err(_) => assert!(Instant::now() < deadline),
        }
    };
    let pid = |number| rustix::process::Pid::from_raw(number).unwrap();
    let study = pid(i32::try_from(id).unwrap());
    rustix::process::kill_process(study, rustix::process::Signal::INT).unwrap();
    let mut told = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut told)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{told}");
    assert!(
        told.contains("Interrupted: what was measured until then."),
        "{told}"
    );
    assert!(rustix::process::test_kill_process(pid(server)).is_err());
    assert!(!work.exists());
}

#[test]
fn what_is_wrong_is_told_in_a_line() {
    let directory = Directory::create();
    for (arguments, text) in [
        (&["study"][..], "required arguments were not provided"),
        (&["study", "nothing"], "invalid value 'nothing'"),
        (
            &["study", "rps", "--against", "apache"],
            "invalid value 'apache'",
        ),
        (&["study", "rps", "--workers", "0"], "between 1 and 1024"),
        (
            &["study", "rps", "--root", "nowhere"],
            "--root nowhere: No such file",
        ),
        (
            &["study", "rps", "--html", "no/such/page.html"],
            "cannot write \"no/such/page.html\"",
        ),
        (
            &["study", "gzip", "--root", "."],
            "has no files that compress",
        ),
        (
            &["study", "gzip", "--url", "http://127.0.0.1:1/"],
            "cannot connect to 127.0.0.1:1",
        ),
        (
            &["study", "cache", "--url", "http://127.0.0.1:1/"],
            "cannot connect to 127.0.0.1:1",
        ),
        (&["tune", "--seconds", "x"], "between 0.05 and 86400"),
    ] {
        let output = study(&directory, arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
        assert!(
            said.starts_with("gannet: ") && said.contains(text),
            "{arguments:?}: {said}"
        );
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
