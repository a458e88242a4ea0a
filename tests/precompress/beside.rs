//! Copies beside their sources: found by plain gzip_static, and never in the way of the operator's own.

use crate::site::{Site, decoded, get, until, until_coded};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

fn page(version: usize) -> String {
    format!("<p>version {version}</p>\n").repeat(300)
}

#[test]
fn copies_have_the_times_of_their_sources_and_go_with_them() {
    let site = Site::prepare("", "precompress_store beside; precompress_scan on;");
    let root = site.root();
    fs::set_permissions(&root, fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(root.join("own.html"), page(1)).unwrap();
    fs::write(root.join("own.html.gz"), b"the operator's").unwrap();
    fs::write(root.join("a.html"), page(1)).unwrap();
    let site = site.started();
    // Nobody asks: the scan makes them.
    for suffix in ["gz", "br", "zst"] {
        until(suffix, || root.join(format!("a.html.{suffix}")).exists());
    }
    let (copy, source) = (root.join("a.html.gz"), root.join("a.html"));
    let times = |path| {
        fs::metadata(path)
            .map(|data| (data.mtime(), data.mtime_nsec()))
            .unwrap()
    };
    assert_eq!(times(&copy), times(&source));
    let reply = until_coded(&site, "/a.html", "gzip");
    assert_eq!(decoded(&reply).unwrap(), page(1).as_bytes());
    assert_eq!(reply.body, fs::read(&copy).unwrap());
    assert_eq!(reply.field("Vary"), Some("Accept-Encoding"));
    // A new source has new copies, unasked.
    fs::write(root.join("next"), page(2)).unwrap();
    fs::rename(root.join("next"), &source).unwrap();
    let reply = get(&mut site.client(), "/a.html", "gzip").unwrap();
    assert_eq!(decoded(&reply).unwrap(), page(2).as_bytes());
    until("the copy is of the new source", || {
        copy.exists() && times(&copy) == times(&source)
    });
    // One that is gone takes them along.
    fs::remove_file(&source).unwrap();
    until("its copies are gone", || {
        !copy.exists() && !root.join("a.html.br").exists()
    });
    // The operator's own is left alone and not used.
    until_coded(&site, "/own.html", "br");
    let reply = get(&mut site.client(), "/own.html", "gzip").unwrap();
    assert_eq!(decoded(&reply).unwrap(), page(1).as_bytes());
    assert_eq!(
        fs::read(root.join("own.html.gz")).unwrap(),
        b"the operator's"
    );
    fs::remove_file(root.join("own.html")).unwrap();
    until("the copy of ours is gone", || {
        !root.join("own.html.br").exists()
    });
    assert!(root.join("own.html.gz").exists());
}

#[test]
fn copies_of_sources_that_went_while_nobody_watched_go_at_the_next_start() {
    let site = Site::prepare("master_process off;", "precompress_store beside;");
    let root = site.root();
    fs::set_permissions(&root, fs::Permissions::from_mode(0o777)).unwrap();
    for name in ["gone.html", "changed.html", "kept.html"] {
        fs::write(root.join(name), page(1)).unwrap();
    }
    let mut site = site.started();
    for name in ["gone", "changed", "kept"] {
        until_coded(&site, &format!("/{name}.html"), "br");
    }
    site.kill();
    fs::remove_file(root.join("gone.html")).unwrap();
    fs::write(root.join("changed.html"), page(2)).unwrap();
    site.restart();
    until("copies of former states are gone", || {
        !root.join("gone.html.br").exists() && !root.join("changed.html.br").exists()
    });
    assert!(root.join("kept.html.br").exists());
}
