//! The disk and what is recorded of it.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use conf::{Bundle, Disk, Recorder, Source};

/// A directory of its own, gone when the test is over.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str, files: &[(&str, &str)]) -> Directory {
        let directory =
            std::env::temp_dir().join(format!("gannet-conf-{name}-{}", std::process::id()));
        for (path, text) in files {
            let path = directory.join(path);
            fs::create_dir_all(path.parent().expect("a file is in a directory"))
                .expect("temporary directory");
            fs::write(path, text).expect("temporary file");
        }
        Directory(directory)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn glob(&self, pattern: &str) -> Vec<String> {
        let paths = Disk
            .glob(&self.path(pattern))
            .expect("glob reports no errors");
        let strip = |path: &PathBuf| {
            path.strip_prefix(&self.0)
                .map(|path| path.display().to_string())
        };
        paths
            .iter()
            .map(|path| strip(path).expect("matches are below the directory"))
            .collect()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn globs_are_sorted_by_bytes_and_pass_over_hidden_files() {
    let files = [
        "10.conf", "9.conf", "B.conf", "a.conf", ".h.conf", "a/x", "a-b/x", "b/y", "c/.z",
    ];
    let directory = Directory::new("glob", &files.map(|file| (file, "")));
    let table: &[(&str, &[&str])] = &[
        ("*.conf", &["10.conf", "9.conf", "B.conf", "a.conf"]),
        (".*.conf", &[".h.conf"]),
        ("[ab]*/[xy]", &["a-b/x", "a/x", "b/y"]),
        ("*/*", &["a-b/x", "a/x", "b/y"]),
        ("*/x", &["a-b/x", "a/x"]),
        ("*.conf/x", &[]),
        ("none/*", &[]),
        ("?.conf", &["9.conf", "B.conf", "a.conf"]),
    ];
    for (pattern, expected) in table {
        assert_eq!(directory.glob(pattern), *expected, "{pattern}");
    }
}

#[test]
fn a_directory_is_no_file() {
    let directory = Directory::new("directory", &[("main", "include sub;"), ("sub/x", "")]);
    let tree = conf::parse(&Disk, &directory.path("main"), &directory.0);
    let expected = format!(
        "pread() \"{}\" failed (21: Is a directory)",
        directory.path("sub").display()
    );
    assert_eq!(
        tree.root.syntax_error().map(ToString::to_string),
        Some(expected)
    );
}

fn recorded(directory: &Directory) -> (conf::Tree, Bundle) {
    let recorder = Recorder::new(Disk);
    let tree = conf::parse(&recorder, &directory.path("main"), &directory.0);
    (tree, recorder.into_bundle())
}

#[test]
fn a_bundle_reads_as_the_disk_did() {
    let text = "a; include d/*; include none/*; include d/1; b { include missing; }";
    let directory = Directory::new(
        "bundle",
        &[("main", text), ("d/1", "one;"), ("d/2", "two \u{e9};")],
    );
    let (tree, bundle) = recorded(&directory);
    assert!(
        tree.root
            .syntax_error()
            .is_some_and(|error| error.message.contains("failed (2: No such file"))
    );

    let (main, prefix) = (directory.path("main"), directory.0.clone());
    fs::write(&main, "changed;").expect("temporary file");
    drop(directory);
    let sent = Bundle::from_bytes(&bundle.to_bytes()).expect("an encoded bundle decodes");
    assert_eq!(sent, bundle);
    let again = conf::parse(&sent, &main, &prefix);
    assert_eq!(again.root, tree.root);
    assert_eq!(again.files, tree.files);
}

#[test]
fn a_recorder_answers_twice_the_same() {
    let directory = Directory::new("twice", &[("x", "first")]);
    let recorder = Recorder::new(Disk);
    let path = directory.path("x");
    assert_eq!(
        recorder.read(&path).ok().as_deref(),
        Some(b"first".as_slice())
    );
    fs::write(&path, "second").expect("temporary file");
    assert_eq!(
        recorder.read(&path).ok().as_deref(),
        Some(b"first".as_slice())
    );
}

#[test]
fn what_was_not_recorded_is_missing() {
    let error = Bundle::default()
        .read(Path::new("/x"))
        .expect_err("nothing is recorded");
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    let tree = conf::parse(&Bundle::default(), Path::new("/x"), Path::new("/"));
    let message = tree.root.syntax_error().map(ToString::to_string);
    assert_eq!(
        message.as_deref(),
        Some("open() \"/x\" failed (2: No such file or directory)")
    );
}

#[test]
fn broken_bundles_are_refused() {
    let directory = Directory::new("broken", &[("main", "include d/*;"), ("d/1", "one;")]);
    let bytes = recorded(&directory).1.to_bytes();
    for length in 0..bytes.len() {
        assert_eq!(
            Bundle::from_bytes(&bytes[..length]),
            Err(conf::Malformed),
            "cut to {length}"
        );
    }
    assert_eq!(
        Bundle::from_bytes(&[&bytes[..], b"x"].concat()),
        Err(conf::Malformed)
    );
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0xff;
        // A changed name or text is still a bundle, but never the same one.
        assert_ne!(
            Bundle::from_bytes(&changed).map(|bundle| bundle.to_bytes()),
            Ok(bytes.clone()),
            "byte {at}"
        );
    }
}

#[test]
fn words_are_paths_whatever_their_bytes() {
    let block = conf::parse_text(b"root \"/\xff\";");
    let word = &block.directives().next().expect("one directive").args[0];
    assert_eq!(word.to_path().as_os_str().as_bytes(), b"/\xff");
    assert_eq!(word.as_str(), None);
    assert_eq!(word.to_string(), "/\u{fffd}");
}
