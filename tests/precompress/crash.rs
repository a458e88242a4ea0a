//! The server is killed in the middle of background work: what it left is never served broken.
//! `GANNET_KILLS=200` kills as often as the project demands of a release.

use crate::site::{CODINGS, Site, decoded, get, until, until_coded};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

const FILES: usize = 12;

/// A body whose copies take some milliseconds.
fn body(file: usize, version: usize) -> String {
    let line = |number: usize| {
        let word = number.wrapping_mul(2_654_435_761) % 100_003;
        format!("<li>file {file} version {version} word {word}</li>\n")
    };
    (0..400).map(line).collect()
}

/// The round in which a file was written last: each is written in the first one and in every third.
fn newest(file: usize, round: usize) -> usize {
    let written = |past: &usize| *past == 0 || file % 3 == past % 3;
    (0..=round).rev().find(written).unwrap_or(0)
}

fn killed_again_and_again(place: &str) {
    let kills = std::env::var("GANNET_KILLS")
        .ok()
        .and_then(|count| count.parse().ok());
    let kills: usize = kills.unwrap_or(8);
    let mut site = Site::prepare(
        "master_process off;",
        &format!("precompress_store {place};"),
    );
    let root = site.root();
    fs::set_permissions(&root, fs::Permissions::from_mode(0o777)).unwrap();
    for round in 0..kills {
        // A third of the files changed while nobody was there to see it.
        for file in 0..FILES {
            if newest(file, round) == round {
                fs::write(root.join(format!("{file}.html")), body(file, round)).unwrap();
            }
        }
        site.restart();
        let mut client = site.client();
        for step in 0..FILES * CODINGS.len() {
            let (file, coding) = (step % FILES, CODINGS[step / FILES]);
            let Some(reply) = get(&mut client, &format!("/{file}.html"), coding) else {
                panic!("no reply in round {round}: {}", site.error_log());
            };
            let text = String::from_utf8(decoded(&reply).unwrap()).unwrap();
            assert_eq!(
                text,
                body(file, newest(file, round)),
                "round {round}, {file} in {coding}"
            );
        }
        std::thread::sleep(Duration::from_millis(60 + (round as u64 * 37) % 200));
        site.kill();
    }
    site.restart();
    for file in 0..FILES {
        for coding in ["gzip", "br", "zstd"] {
            let reply = until_coded(&site, &format!("/{file}.html"), coding);
            let expected = body(file, newest(file, kills - 1));
            assert_eq!(decoded(&reply).unwrap(), expected.as_bytes());
        }
    }
    if place != "beside" {
        // What was being written is removed by the scan after a start.
        let store = site.directory.path().join(place);
        until("half entries are removed", || {
            let names = fs::read_dir(&store)
                .unwrap()
                .flatten()
                .map(|entry| entry.file_name());
            !names
                .into_iter()
                .any(|name| name.to_string_lossy().starts_with("tmp-"))
        });
    }
}

#[test]
fn a_killed_server_leaves_no_broken_copy_in_its_store() {
    killed_again_and_again("copies");
}

#[test]
fn a_killed_server_leaves_no_broken_copy_beside_a_file() {
    killed_again_and_again("beside");
}
