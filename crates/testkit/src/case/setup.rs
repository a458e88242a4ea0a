//! A case's files: `files/` copied to `%ROOT%`, the few things git cannot hold made from `setup`, times fixed.
//!
//! `setup` has one command a line, paths relative to `%ROOT%`: `mkdir PATH`, `size PATH BYTES` (a file of repeating
//! letters), `symlink PATH TARGET`, `chmod OCTAL PATH`, `mtime PATH SECONDS`.

use super::example;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Thu, 02 Jan 2020 03:04:05 GMT.
const MODIFIED: u64 = 1_577_934_245;

/// Lays out the files of the case in `folder` below `directory`.
pub fn files(folder: &Path, directory: &Path) -> Result<(), String> {
    let root = directory.join("html");
    let (source, target) = match example::of(folder) {
        Some(example) => (example, directory),
        None => (folder.join("files"), &*root),
    };
    let result = if source.is_dir() {
        copy(&source, target)
    } else {
        fs::create_dir(&root)
    };
    result.map_err(|error| format!("{}: {error}", source.display()))?;
    let script = fs::read_to_string(folder.join("setup")).unwrap_or_default();
    let commands: Vec<Vec<&str>> = script
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    // Times are fixed after the files are made and before anything is made unreadable.
    run(&root, &commands, make)?;
    fix_times(target).map_err(|error| format!("fixing times: {error}"))?;
    run(&root, &commands, change)
}

type Act = fn(&Path, &[&str]) -> Option<std::io::Result<()>>;

fn run(root: &Path, commands: &[Vec<&str>], act: Act) -> Result<(), String> {
    for words in commands.iter().filter(|words| !words.is_empty()) {
        if make_or_change(words) {
            if let Some(Err(error)) = act(root, words) {
                return Err(format!("setup: {}: {error}", words.join(" ")));
            }
        } else {
            return Err(format!("setup: no such command: {}", words.join(" ")));
        }
    }
    Ok(())
}

fn make_or_change(words: &[&str]) -> bool {
    matches!(
        words,
        ["film", _, ..] | ["mkdir" | "mmdb", _] | ["size" | "symlink" | "chmod" | "mtime", _, _]
    )
}

fn make(root: &Path, words: &[&str]) -> Option<std::io::Result<()>> {
    match words {
        ["mkdir", path] => Some(fs::create_dir_all(root.join(path))),
        ["size", path, bytes] => {
            let size = bytes.parse().unwrap_or(0);
            let letters: Vec<u8> = (b'a'..=b'z').cycle().take(size).collect();
            Some(fs::write(root.join(path), letters))
        }
        ["film", path, words @ ..] => Some(fs::write(root.join(path), crate::film::film(words))),
        ["mmdb", path] => Some(fs::write(root.join(path), crate::mmdb::sample())),
        ["symlink", path, target] => Some(symlink(target, root.join(path))),
        _ => None,
    }
}

fn change(root: &Path, words: &[&str]) -> Option<std::io::Result<()>> {
    match words {
        ["chmod", mode, path] => {
            let mode = u32::from_str_radix(mode, 8).unwrap_or(0o644);
            Some(fs::set_permissions(
                root.join(path),
                Permissions::from_mode(mode),
            ))
        }
        ["mtime", path, seconds] => Some(set_time(
            &root.join(path),
            seconds.parse().unwrap_or(MODIFIED),
        )),
        _ => None,
    }
}

fn copy(source: &Path, target: &Path) -> std::io::Result<()> {
    fs::create_dir_all(target)?;
    for entry in fs::read_dir(source)? {
        let entry = entry?;
        let to = target.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

fn fix_times(path: &Path) -> std::io::Result<()> {
    let kind = fs::symlink_metadata(path)?.file_type();
    if kind.is_symlink() {
        return Ok(());
    }
    if kind.is_dir() {
        for entry in fs::read_dir(path)? {
            fix_times(&entry?.path())?;
        }
    }
    set_time(path, MODIFIED)
}

fn set_time(path: &Path, seconds: u64) -> std::io::Result<()> {
    File::open(path)?.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}
