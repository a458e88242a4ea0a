//! The file with the master's process number.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::journal::{Journal, open_failed};

/// Writes the own number.
pub fn write(path: &Path) -> Result<(), String> {
    let mut options = options();
    let opened = options.truncate(true).open(path);
    let mut file = opened.map_err(|error| open_failed(path, &error))?;
    writeln!(file, "{}", sys::process::own_pid()).map_err(|error| {
        let reason = sys::errno::Errno(&error);
        format!("write() to \"{}\" failed ({reason})", path.display())
    })
}

/// For `-t`: whether it could be written. An empty file stays behind where there was none, as with nginx.
pub fn probe(path: &Path) -> Result<(), String> {
    let opened = options().truncate(false).open(path);
    opened.map(drop).map_err(|error| open_failed(path, &error))
}

/// A daemon has no umask: the rights are said here.
fn options() -> OpenOptions {
    let mut options = File::options();
    options.write(true).create(true).mode(0o644);
    options
}

pub fn remove(path: &Path, journal: &Journal) {
    if let Err(error) = std::fs::remove_file(path) {
        let reason = sys::errno::Errno(&error);
        journal.alert(format_args!(
            "unlink() \"{}\" failed ({reason})",
            path.display()
        ));
    }
}

/// Where the pid file stands while a new binary has the usual place.
pub fn former(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".oldbin");
    PathBuf::from(name)
}

/// What a pid file holds.
#[derive(Debug, PartialEq, Eq)]
pub enum Content {
    Pid(sys::process::Pid),
    Invalid(String),
}

/// nginx reads no further than this.
const MAX_BYTES: usize = 22;

pub fn read(path: &Path) -> io::Result<Content> {
    let mut bytes = std::fs::read(path)?;
    bytes.truncate(MAX_BYTES);
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_end_matches(['\r', '\n']);
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse().ok().filter(|&pid| digits && pid > 0) {
        Some(pid) => Ok(Content::Pid(sys::process::Pid(pid))),
        None => Ok(Content::Invalid(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_number_is_a_pid() {
        let path = std::env::temp_dir().join(format!("gannet-pid-{}", std::process::id()));
        let invalid = |text: &str| Content::Invalid(text.to_owned());
        for (text, content) in [
            ("123\n", Content::Pid(sys::process::Pid(123))),
            ("123\r\n\n", Content::Pid(sys::process::Pid(123))),
            ("", invalid("")),
            ("\n", invalid("")),
            ("0\n", invalid("0")),
            ("-5\n", invalid("-5")),
            ("+5\n", invalid("+5")),
            ("12 \n", invalid("12 ")),
            ("99999999999\n", invalid("99999999999")),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(read(&path).unwrap(), content, "{text:?}");
        }
        write(&path).unwrap();
        probe(&path).unwrap();
        assert_eq!(read(&path).unwrap(), Content::Pid(sys::process::own_pid()));
        std::fs::remove_file(&path).unwrap();
        assert!(read(&path).is_err());
    }
}
