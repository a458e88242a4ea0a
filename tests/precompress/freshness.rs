//! Files that change in every way while many clients read them in every coding: no stale body and no broken one.
//! `GANNET_CHANGES=10000` makes as many changes as the project demands of a release.

use crate::site::{CODINGS, Site, decoded, get, is_copy, until_coded};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

const FILES: usize = 30;
const READERS: usize = 50;

/// What each file is: the version that every request must at least see, the newest that it may see, and how often it was
/// changed in place, which is the only way to have half a file.
#[derive(Default)]
struct Versions {
    least: AtomicU32,
    most: AtomicU32,
    /// Odd while it is being changed.
    changes: AtomicU32,
}

/// A body that tells its version in every line.
fn body(file: usize, version: u32) -> String {
    let line = |number| format!("<p>file {file:03} version {version:08} line {number:02}</p>\n");
    (0..20).map(line).collect()
}

fn version_of(file: usize, text: &str) -> Option<u32> {
    let version = text.get(20..28)?.parse().ok()?;
    (text == body(file, version)).then_some(version)
}

/// The path of a file; the last third lies in a folder that is switched by a link.
fn path_of(file: usize) -> String {
    match file % 3 {
        0 | 1 => format!("/{file}.html"),
        _ => format!("/release/{file}/page.html"),
    }
}

/// The worker of a server that root started is somebody else, and makes copies here.
fn everybody() -> fs::Permissions {
    fs::Permissions::from_mode(0o777)
}

fn write_new(path: &Path, text: &str, modified: Option<SystemTime>) {
    fs::write(path, text).unwrap();
    if let Some(modified) = modified {
        File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_modified(modified)
            .unwrap();
    }
}

/// Gives a file new content in one of the ways that files change.
fn change(root: &Path, file: usize, version: u32, way: usize) {
    let text = body(file, version);
    if file % 3 == 2 {
        // A deploy: a new folder, and a link that leads there from now on.
        let folder = root.join(format!("releases/{file}-{}", version % 2));
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, everybody()).unwrap();
        let aside = folder.join("new.html");
        fs::write(&aside, &text).unwrap();
        fs::rename(&aside, folder.join("page.html")).unwrap();
        let link = root.join(format!("release/next-{file}"));
        let _none = fs::remove_file(&link);
        symlink(&folder, &link).unwrap();
        fs::rename(&link, root.join(format!("release/{file}"))).unwrap();
        return;
    }
    let path = root.join(format!("{file}.html"));
    let aside = root.join(format!("aside-{file}-{}", version % 2));
    match way {
        // In place, of the same length.
        0 if !path.is_symlink() => {
            let open = File::options().write(true).open(&path).unwrap();
            open.write_all_at(text.as_bytes(), 0).unwrap();
        }
        // The same, and the time of modification put back.
        1 if !path.is_symlink() => {
            let open = File::options().write(true).open(&path).unwrap();
            let before = open.metadata().unwrap().modified().unwrap();
            open.write_all_at(text.as_bytes(), 0).unwrap();
            open.set_modified(before).unwrap();
        }
        // Replaced by one of the same time and size.
        2 => {
            let before = fs::metadata(&path).unwrap().modified().unwrap();
            let new = root.join(format!("new-{file}"));
            write_new(&new, &text, Some(before));
            fs::rename(&new, &path).unwrap();
        }
        // Replaced by an older one.
        3 => {
            let new = root.join(format!("new-{file}"));
            let older =
                SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + u64::from(version % 7));
            write_new(&new, &text, Some(older));
            fs::rename(&new, &path).unwrap();
        }
        // A link that leads elsewhere.
        4 => {
            // What the link may lead to now is not written to in place.
            let _none = fs::remove_file(&aside);
            fs::write(&aside, &text).unwrap();
            let link = root.join(format!("link-{file}"));
            let _none = fs::remove_file(&link);
            symlink(&aside, &link).unwrap();
            fs::rename(&link, &path).unwrap();
        }
        _ => {
            let new = root.join(format!("new-{file}"));
            write_new(&new, &text, None);
            fs::rename(&new, &path).unwrap();
        }
    }
}

/// One reader: asks for file after file in coding after coding, and judges every body.
fn read(site: &Site, versions: &[Versions], seed: usize, done: &AtomicBool) -> usize {
    let mut client = site.client();
    let (mut number, mut coded) = (seed * 7919, 0);
    while !done.load(Ordering::Relaxed) {
        number = number
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let (file, coding) = (
            (number >> 33) % FILES,
            CODINGS[(number >> 20) % CODINGS.len()],
        );
        let state = &versions[file];
        let changes = state.changes.load(Ordering::SeqCst);
        let least = state.least.load(Ordering::SeqCst);
        let Some(reply) = get(&mut client, &path_of(file), coding) else {
            // A file cut short while it is sent ends the connection.
            client = site.client();
            continue;
        };
        let most = state.most.load(Ordering::SeqCst);
        let changed = changes % 2 == 1 || state.changes.load(Ordering::SeqCst) != changes;
        assert_eq!(reply.status(), 200, "{} {coding}", path_of(file));
        let is_coded = is_copy(&reply);
        coded += usize::from(is_coded);
        let text = decoded(&reply).map(|bytes| String::from_utf8(bytes).unwrap());
        let version = text.as_deref().and_then(|text| version_of(file, text));
        match version {
            Some(version) => assert!(
                (least..=most).contains(&version),
                "{} in {coding}: version {version}, at least {least}",
                path_of(file)
            ),
            // Half of a file that is changed in place, as any server gives it; a copy is whole, always.
            None => assert!(
                changed && !is_coded,
                "{} in {coding}: {text:?}",
                path_of(file)
            ),
        }
    }
    coded
}

fn no_stale_and_no_broken_body(inside: &str, default_changes: usize) {
    let changes = std::env::var("GANNET_CHANGES")
        .ok()
        .and_then(|count| count.parse().ok());
    let changes: usize = changes.unwrap_or(default_changes);
    let site = Site::prepare("", &format!("precompress_level fast; {inside}"));
    let root = site.root();
    fs::create_dir_all(root.join("release")).unwrap();
    fs::set_permissions(&root, everybody()).unwrap();
    let versions: Vec<Versions> = (0..FILES).map(|_| Versions::default()).collect();
    (0..FILES).for_each(|file| change(&root, file, 0, 5));
    let site = site.started();
    let done = AtomicBool::new(false);
    let coded: usize = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS)
            .map(|seed| {
                scope.spawn({
                    let (site, versions, done) = (&site, &versions, &done);
                    move || read(site, versions, seed + 1, done)
                })
            })
            .collect();
        for round in 0..changes {
            if readers
                .iter()
                .any(std::thread::ScopedJoinHandle::is_finished)
            {
                break;
            }
            let (file, version) = (round * 7 % FILES, round as u32 + 1);
            let state = &versions[file];
            state.most.store(version, Ordering::SeqCst);
            state.changes.fetch_add(1, Ordering::SeqCst);
            change(&root, file, version, round / FILES % 6);
            state.changes.fetch_add(1, Ordering::SeqCst);
            state.least.store(version, Ordering::SeqCst);
            // Each file rests for long enough to have copies before its next change.
            std::thread::sleep(Duration::from_millis(5));
        }
        done.store(true, Ordering::Relaxed);
        readers
            .into_iter()
            .map(|reader| reader.join().unwrap())
            .sum()
    });
    // How many depends on the machine; that every file has one in the end is checked below.
    assert!(coded > 0, "no copy was served");
    for (file, state) in versions.iter().enumerate() {
        for coding in ["gzip", "br", "zstd"] {
            let reply = until_coded(&site, &path_of(file), coding);
            let expected = body(file, state.least.load(Ordering::SeqCst));
            assert_eq!(
                decoded(&reply).unwrap(),
                expected.as_bytes(),
                "{} {coding}",
                path_of(file)
            );
        }
    }
    assert!(
        site.count("stale", "stale") > 0,
        "what is watched loses its copies"
    );
}

#[test]
fn no_stale_and_no_broken_body_from_a_store() {
    no_stale_and_no_broken_body("precompress_store copies; precompress_scan on;", 1500);
}

#[test]
fn no_stale_and_no_broken_body_from_beside() {
    no_stale_and_no_broken_body("precompress_store beside;", 700);
}
