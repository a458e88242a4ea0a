//! `gannet precompress`: the copies of a folder, made once, checked, refreshed and removed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant, SystemTime};
use testkit::directory::Directory;

fn gannet(arguments: &[&str], directory: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gannet"));
    command.arg("precompress").args(arguments).arg(directory);
    command.output().unwrap()
}

fn run(arguments: &[&str], directory: &Path) -> (i32, String) {
    let output = gannet(arguments, directory);
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.code().unwrap_or(-1),
        String::from_utf8(said).unwrap(),
    )
}

/// The numbers of a coding's line.
fn numbers(table: &str, coding: &str) -> Vec<u64> {
    let line = table.lines().find(|line| line.starts_with(coding)).unwrap();
    line.split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect()
}

fn page(version: usize) -> String {
    format!("<p>version {version}</p>\n").repeat(300)
}

fn seconds(path: &Path) -> i64 {
    fs::metadata(path).unwrap().mtime()
}

#[test]
fn a_folder_s_copies_are_made_once_and_refreshed() {
    let folder = Directory::create();
    let root = folder.path();
    fs::create_dir_all(root.join("deep/er")).unwrap();
    let source = root.join("deep/er/a.html");
    let past = SystemTime::UNIX_EPOCH + Duration::from_secs(1_500_000_000);
    let write = |version| {
        fs::write(&source, page(version)).unwrap();
        let file = fs::File::options().write(true).open(&source).unwrap();
        file.set_modified(past + Duration::from_secs(version as u64))
            .unwrap();
    };
    write(1);
    fs::write(root.join("small.css"), "a{}").unwrap();
    fs::write(root.join("picture.png"), page(1)).unwrap();
    let noise: Vec<u8> = (0..4096u32)
        .flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes())
        .collect();
    fs::write(root.join("noise.txt"), &noise).unwrap();
    assert_eq!(run(&["--check"], root).0, 0, "what is missing is not stale");
    let (code, table) = run(&["--level", "fast", "--jobs", "2"], root);
    assert_eq!((code, table.lines().next().unwrap()), (0, "2 files"));
    for (coding, suffix) in [("gzip", "gz"), ("br", "br"), ("zstd", "zst")] {
        assert_eq!(numbers(&table, coding)[..4], [1, 0, 1, 0], "{table}");
        let copy = root.join(format!("deep/er/a.html.{suffix}"));
        assert_eq!(seconds(&copy), seconds(&source));
    }
    assert_eq!(
        fs::read_dir(root).unwrap().count(),
        4,
        "no other copies, nothing left"
    );
    let (_, table) = run(&["--level", "fast"], root);
    assert_eq!(numbers(&table, "br")[..2], [0, 1], "nothing to do");
    // A file that changed, with and without its time.
    for version in [2, 1] {
        write(version);
        let (code, said) = run(&["--check"], root);
        assert!(
            code == 1 && said.contains("a.html.gz is stale"),
            "{code} {said}"
        );
        assert_eq!(run(&["--level", "fast"], root).0, 0);
        assert_eq!(run(&["--check"], root).0, 0);
    }
    let before = seconds(&source);
    let file = fs::File::options().write(true).open(&source).unwrap();
    fs::write(&source, page(3)).unwrap();
    file.set_modified(past + Duration::from_secs(1)).unwrap();
    assert_eq!(seconds(&source), before);
    assert_eq!(
        run(&["--check"], root).0,
        1,
        "the time tells nothing, the bytes do"
    );
    assert_eq!(run(&["--level", "fast"], root).0, 0);
    let (code, table) = run(&["--remove"], root);
    assert_eq!((code, numbers(&table, "gzip")), (0, vec![1]));
    assert_eq!(fs::read_dir(root.join("deep/er")).unwrap().count(), 1);
}

#[test]
fn what_others_made_is_taken_as_it_is() {
    let folder = Directory::create();
    let root = folder.path();
    let source = root.join("a.html");
    fs::write(&source, page(1)).unwrap();
    fs::write(root.join("a.html.gz"), b"something else").unwrap();
    let (code, said) = run(&["--codings", "gzip"], root);
    assert!(
        code == 0 && said.contains("--force replaces it"),
        "{code} {said}"
    );
    assert_eq!(fs::read(root.join("a.html.gz")).unwrap(), b"something else");
    run(&["--codings", "gzip", "--remove"], root);
    assert!(root.join("a.html.gz").exists());
    run(&["--codings", "gzip", "--force"], root);
    assert_eq!(run(&["--check"], root).0, 0);
    // A good copy without our mark: the operator's `gzip -9`, with the time of its source.
    let good = fs::read(root.join("a.html.gz")).unwrap();
    fs::remove_file(root.join("a.html.gz")).unwrap();
    fs::write(root.join("a.html.gz"), &good).unwrap();
    let modified = fs::metadata(&source).unwrap().modified().unwrap();
    let file = fs::File::options()
        .write(true)
        .open(root.join("a.html.gz"))
        .unwrap();
    file.set_modified(modified).unwrap();
    let (_, table) = run(&["--codings", "gzip"], root);
    assert_eq!(numbers(&table, "gzip")[..2], [0, 1], "{table}");
}

#[test]
fn an_interrupted_run_leaves_nothing_half() {
    let folder = Directory::create();
    let root = folder.path();
    for file in 0..6 {
        let line = |number: usize| {
            format!(
                "{} {}\n",
                number * file,
                number.wrapping_mul(2_654_435_761) % 100_003
            )
        };
        let text: String = (0..20_000).map(line).collect();
        fs::write(root.join(format!("{file}.txt")), text).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_gannet"));
    let mut child = command
        .args(["precompress", "--level", "fast", "--jobs", "2"])
        .arg(root)
        .spawn()
        .unwrap();
    let start = Instant::now();
    let copies = || {
        let names = fs::read_dir(root)
            .unwrap()
            .flatten()
            .map(|entry| entry.file_name());
        names
            .filter(|name| !name.to_string_lossy().ends_with(".txt"))
            .count()
    };
    while copies() == 0 && start.elapsed() < Duration::from_secs(30) {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(
        run(&["--check", "--level", "fast"], root).0,
        0,
        "what is there is whole"
    );
    assert_eq!(run(&["--level", "fast"], root).0, 0);
    let names: Vec<String> = fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(!names.iter().any(|name| name.starts_with('.')), "{names:?}");
    assert_eq!(names.len(), 24);
}

#[test]
fn mistakes_are_told() {
    let folder = Directory::create();
    let (code, said) = run(&[], &folder.path().join("missing"));
    assert!(
        code == 1 && said.contains("No such file or directory"),
        "{code} {said}"
    );
    let (code, said) = run(&["--level", "9"], folder.path());
    assert!(
        code == 2 && said.contains("it is fast, best or max"),
        "{code} {said}"
    );
}
