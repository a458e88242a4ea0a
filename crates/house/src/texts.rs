//! The rules about every text of the repository, whatever it is written in: nothing of the machine it was written on.

use crate::source::{line_number, words};
use std::path::Path;

/// A larger file is data.
const LARGEST: u64 = 1 << 20;

/// Folders, relative to the repository, that are not part of it.
const OUTSIDE: &[&str] = &[".git", "target", "fuzz/target"];

/// Directories that one machine has and another has not.
const PLACES: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/."),
    concat!("/tmp/", "wt/"),
    concat!("/tmp/", "target"),
    concat!(".car", "go/registry"),
];

/// How the hosts of package registries and their mirrors are called: their first label.
const REGISTRIES: &[&str] = &[
    "deb", "files", "index", "mirror", "proxy", "pypi", "registry", "repo", "repo1", "security",
    "snapshot", "static",
];
const DOMAINS: &[&str] = &["org", "com", "io", "net", "dev"];

/// Words about who wrote it and how.
const WRITERS: &[&str] = &[
    concat!("C", "EO"),
    concat!("sub", "agent"),
    concat!("Clau", "de"),
    concat!("Anthro", "pic"),
    concat!("Chat", "GPT"),
    concat!("LL", "M"),
    concat!("language ", "model"),
    concat!("this ", "session"),
    concat!("work", "tree"),
];

/// Every text of the repository: its path and what it says.
pub fn texts(root: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    collect(root, root, &mut found);
    found.sort();
    found
}

fn collect(root: &Path, folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = path
            .strip_prefix(root)
            .unwrap_or(&path)
            .to_string_lossy()
            .into_owned();
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        if OUTSIDE.contains(&name.as_str()) {
            continue;
        } else if metadata.is_dir() {
            collect(root, &path, found);
        } else if metadata.is_file() && metadata.len() <= LARGEST {
            let bytes = std::fs::read(&path).unwrap_or_default();
            found.push((name, String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
}

/// What in this text belongs to a machine, a registry or a writer.
pub fn foreign(path: &str, text: &str) -> Vec<String> {
    let complaint = |at, what: &str| format!("{path}:{}: names `{what}`", line_number(text, at));
    let mut complaints = Vec::new();
    for place in PLACES {
        // In the middle of a longer path it is something else.
        let begins = |at: usize| !text[..at].ends_with(|c: char| c.is_alphanumeric());
        let places = text
            .match_indices(place)
            .filter(|&(at, _)| begins(at) || place.starts_with('.'));
        complaints.extend(places.map(|(at, _)| complaint(at, place)));
    }
    for word in WRITERS {
        complaints.extend(words(text, word).map(|at| complaint(at, word)));
    }
    complaints.extend(
        hosts(text)
            .filter(|(_, host)| is_registry(host))
            .map(|(at, host)| complaint(at, host)),
    );
    complaints
}

/// The runs of characters that a host name is made of, with their places.
fn hosts(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
    text.split(move |c| !part(c))
        .filter(|run| run.contains('.'))
        .map(|run| (run.as_ptr() as usize - text.as_ptr() as usize, run))
}

fn is_registry(host: &str) -> bool {
    let labels: Vec<&str> = host.trim_end_matches('.').split('.').collect();
    let (Some(first), Some(last)) = (labels.first(), labels.last()) else {
        return false;
    };
    // example.com and its kin are for examples.
    labels.len() > 1
        && REGISTRIES.contains(first)
        && DOMAINS.contains(last)
        && !labels.contains(&"example")
}
