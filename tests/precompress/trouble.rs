//! Where copies cannot be kept, files are served without them, and the error log says so once.

use crate::site::{Site, decoded, get, until};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

fn page() -> String {
    "<p>the same line</p>\n".repeat(400)
}

fn complaints(site: &Site) -> usize {
    site.error_log().matches("precompress: a copy of").count()
}

fn write_pages(site: &Site) {
    for file in 0..5 {
        fs::write(site.root().join(format!("{file}.html")), page()).unwrap();
    }
}

/// Serves some files whose copies cannot be kept.
fn serves_without_copies(site: &Site, reason: &str) {
    let mut client = site.client();
    until("the trouble is told", || {
        for file in 0..5 {
            let reply = get(&mut client, &format!("/{file}.html"), "gzip, br, zstd").unwrap();
            assert_eq!(decoded(&reply).unwrap(), page().as_bytes());
        }
        complaints(site) > 0
    });
    for round in 0..20 {
        let reply = get(&mut client, &format!("/{}.html", round % 5), "br").unwrap();
        assert_eq!(
            (reply.status(), decoded(&reply).unwrap()),
            (200, page().into_bytes())
        );
    }
    assert_eq!(complaints(site), 1, "{}", site.error_log());
    assert!(site.error_log().contains(reason), "{}", site.error_log());
}

/// Root writes everywhere, its worker does not.
fn read_only(path: &std::path::Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o555)).unwrap();
}

#[test]
fn a_folder_that_may_not_be_written_to() {
    let site = Site::prepare("", "precompress_store beside;");
    write_pages(&site);
    let root = site.root();
    let site = site.started();
    read_only(&root);
    serves_without_copies(&site, "(13: Permission denied)");
    fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_store_that_may_not_be_written_to() {
    let site = Site::prepare("", "precompress_store copies;");
    let store = site.directory.path().join("copies");
    fs::create_dir(&store).unwrap();
    write_pages(&site);
    read_only(&store);
    serves_without_copies(&site.started(), "(13: Permission denied)");
}

#[test]
fn a_store_that_is_no_directory() {
    let site = Site::prepare("", "precompress_store copies;");
    fs::write(site.directory.path().join("copies"), b"a file").unwrap();
    write_pages(&site);
    serves_without_copies(&site.started(), "(20: Not a directory)");
}

/// A file system that `mount` makes, for as long as the test runs.
struct Mounted(std::path::PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _left = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk() {
    let site = Site::prepare("", "precompress_store full/copies; precompress_level fast;");
    let path = site.directory.path().join("full");
    fs::create_dir(&path).unwrap();
    let options = ["-t", "tmpfs", "-o", "size=8k,mode=777", "tmpfs"];
    let mounted = Command::new("mount").args(options).arg(&path).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        println!("skipped: only root may mount a small file system");
        return;
    }
    let _mounted = Mounted(path.clone());
    fs::write(path.join("filler"), vec![b'x'; 4096]).unwrap();
    write_pages(&site);
    let site = site.started();
    serves_without_copies(&site, "(28: No space left on device)");
    // Others may still be trying when the first has failed.
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let left = fs::read_dir(path.join("copies")).into_iter().flatten();
        let half = left
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("tmp-"));
        if half.count() == 0 {
            break;
        }
        assert!(Instant::now() < deadline, "something half is left");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_file_that_may_not_be_read() {
    let site = Site::start("", "precompress_store copies; precompress_scan on;");
    let path = site.root().join("secret.html");
    fs::write(&path, page()).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    let status = get(&mut site.client(), "/secret.html", "gzip")
        .unwrap()
        .status();
    assert_eq!(status, 403);
    assert_eq!(complaints(&site), 0);
}
