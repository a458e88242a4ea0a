//! A directory's entries, and the forms in which nginx prints them.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use wire::fields::date;
use wire::uri::{self, Class};

/// Columns for a name in HTML; longer ones end in `..>`.
const NAME_COLUMNS: usize = 50;
/// Bytes of a name that is cut.
const CUT_NAME_COLUMNS: usize = NAME_COLUMNS - 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Directory,
    File,
    Other,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Kind::Directory => "directory",
            Kind::File => "file",
            Kind::Other => "other",
        }
    }
}

#[derive(Debug)]
struct Entry {
    name: Vec<u8>,
    kind: Kind,
    size: u64,
    /// Seconds since 1970.
    modified: i64,
}

/// What could not be read.
#[derive(Debug)]
pub struct ReadError {
    pub call: &'static str,
    pub path: Vec<u8>,
    pub error: io::Error,
}

/// The entries of a directory, directories first, each by name.
#[derive(Debug)]
pub struct Listing {
    entries: Vec<Entry>,
}

impl Listing {
    /// Reads a directory; names that begin with a dot are left out. Blocks.
    pub fn read(path: Vec<u8>) -> Result<Listing, ReadError> {
        let directory = match std::fs::read_dir(Path::new(OsStr::from_bytes(&path))) {
            Ok(directory) => directory,
            Err(error) => {
                return Err(ReadError {
                    call: "opendir()",
                    path,
                    error,
                });
            }
        };
        let mut entries = Vec::new();
        for entry in directory {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    return Err(ReadError {
                        call: "readdir()",
                        path,
                        error,
                    });
                }
            };
            let name = entry.file_name().into_vec();
            if name.first() == Some(&b'.') {
                continue;
            }
            match status(&entry.path()) {
                Ok(data) => entries.push(Entry::new(name, &data)),
                // Of a directory that may be read but not searched nothing is told, as in nginx.
                Err(failure) if failure.error.kind() == io::ErrorKind::PermissionDenied => {}
                // Removed since the directory was read.
                Err(failure) if failure.error.kind() == io::ErrorKind::NotFound => {}
                Err(failure) => return Err(failure),
            }
        }
        entries.sort_by(|a, b| {
            let files = |entry: &Entry| entry.kind != Kind::Directory;
            (files(a), &a.name).cmp(&(files(b), &b.name))
        });
        Ok(Listing { entries })
    }

    /// The HTML page for the path `uri`.
    pub fn html(&self, uri: &[u8], exact_size: bool, local_time: bool, out: &mut Vec<u8>) {
        let shown = uri::escape_html(uri);
        out.extend_from_slice(b"<html>\r\n<head><title>Index of ");
        out.extend_from_slice(&shown);
        out.extend_from_slice(b"</title></head>\r\n<body>\r\n<h1>Index of ");
        out.extend_from_slice(&shown);
        out.extend_from_slice(b"</h1><hr><pre><a href=\"../\">../</a>\r\n");
        for entry in &self.entries {
            entry.html_name(out);
            append_time(entry.modified, local_time, out);
            entry.html_size(exact_size, out);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"</pre><hr></body>\r\n</html>\r\n");
    }

    /// A list of objects.
    pub fn json(&self, out: &mut Vec<u8>) {
        out.push(b'[');
        for (at, entry) in self.entries.iter().enumerate() {
            out.extend_from_slice(if at == 0 { b"\r\n" } else { b",\r\n" });
            out.extend_from_slice(b"{ \"name\":\"");
            append_json(&entry.name, out);
            out.extend_from_slice(b"\", \"type\":\"");
            out.extend_from_slice(entry.kind.as_str().as_bytes());
            out.extend_from_slice(b"\", \"mtime\":\"");
            out.extend_from_slice(&date::format(entry.modified));
            out.push(b'"');
            if entry.kind == Kind::File {
                append(out, format_args!(", \"size\":{}", entry.size));
            }
            out.extend_from_slice(b" }");
        }
        out.extend_from_slice(b"\r\n]");
    }

    /// An XML document.
    pub fn xml(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"<?xml version=\"1.0\"?>\r\n<list>\r\n");
        for entry in &self.entries {
            let kind = entry.kind.as_str();
            let time = Moment::new(entry.modified, false);
            append(
                out,
                format_args!(
                    "<{kind} mtime=\"{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z\"",
                    time.year, time.month, time.day, time.hour, time.minute, time.second
                ),
            );
            if entry.kind == Kind::File {
                append(out, format_args!(" size=\"{}\"", entry.size));
            }
            out.push(b'>');
            out.extend_from_slice(&uri::escape_html(&entry.name));
            append(out, format_args!("</{kind}>\r\n"));
        }
        out.extend_from_slice(b"</list>\r\n");
    }
}

/// The status of the file that a path leads to, or of a link that leads nowhere.
fn status(path: &Path) -> Result<Metadata, ReadError> {
    let failed = |call, error| ReadError {
        call,
        path: path.as_os_str().as_bytes().to_vec(),
        error,
    };
    match std::fs::metadata(path) {
        Err(error)
            if error.kind() == io::ErrorKind::NotFound
                || error.raw_os_error() == Some(super::libc_errno::ELOOP) =>
        {
            std::fs::symlink_metadata(path).map_err(|error| failed("lstat()", error))
        }
        other => other.map_err(|error| failed("stat()", error)),
    }
}

impl Entry {
    fn new(name: Vec<u8>, data: &Metadata) -> Entry {
        let kind = match data.file_type() {
            kind if kind.is_dir() => Kind::Directory,
            kind if kind.is_file() => Kind::File,
            _ => Kind::Other,
        };
        Entry {
            name,
            kind,
            size: data.len(),
            modified: data.mtime(),
        }
    }

    /// The link, padded to the column of the time.
    fn html_name(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"<a href=\"");
        uri::escape_into(&self.name, Class::UriComponent, out);
        let directory = self.kind == Kind::Directory;
        if directory {
            out.push(b'/');
        }
        out.extend_from_slice(b"\">");
        let mut length = self.name.len();
        if length > NAME_COLUMNS {
            out.extend_from_slice(&uri::escape_html(&self.name[..CUT_NAME_COLUMNS]));
            out.extend_from_slice(b"..&gt;</a>");
        } else {
            out.extend_from_slice(&uri::escape_html(&self.name));
            if directory && length < NAME_COLUMNS {
                out.push(b'/');
                length += 1;
            }
            out.extend_from_slice(b"</a>");
            out.resize(out.len() + NAME_COLUMNS - length, b' ');
        }
        out.push(b' ');
    }

    fn html_size(&self, exact: bool, out: &mut Vec<u8>) {
        const K: u64 = 1024;
        const M: u64 = 1024 * K;
        const G: u64 = 1024 * M;
        /// Sizes up to this are shown in bytes.
        const BYTES_MAX: u64 = 9999;
        let rounded = |unit: u64| self.size / unit + u64::from(self.size % unit > unit / 2 - 1);
        match (self.kind, exact) {
            (Kind::Directory, true) => append(out, format_args!("{:>20}", "-")),
            (Kind::Directory, false) => append(out, format_args!("{:>8}", "-")),
            (_, true) => append(out, format_args!(" {:>19}", self.size)),
            (_, false) => match self.size {
                G.. => append(out, format_args!("{:>7}G", rounded(G))),
                M.. => append(out, format_args!("{:>7}M", rounded(M))),
                size if size > BYTES_MAX => append(out, format_args!("{:>7}K", rounded(K))),
                size => append(out, format_args!("{size:>8}")),
            },
        }
    }
}

fn append(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text)
        .expect("memory takes all that is written");
}

/// A point in time as a calendar shows it.
struct Moment {
    year: i64,
    month: u32,
    day: u32,
    hour: u32,
    minute: u32,
    second: u32,
}

impl Moment {
    fn new(seconds: i64, local: bool) -> Moment {
        let offset = match local {
            true => sys::machine::local_time(seconds).map_or(0, |time| i64::from(time.offset)),
            false => 0,
        };
        // `Sun, 06 Nov 1994 08:49:37 GMT`
        let text = date::format(seconds.saturating_add(offset));
        let number = |from: usize, to: usize| {
            text[from..to]
                .iter()
                .fold(0, |value, digit| value * 10 + u32::from(digit - b'0'))
        };
        let month = MONTHS
            .iter()
            .position(|name| name.as_bytes() == &text[8..11])
            .unwrap_or_default();
        Moment {
            year: i64::from(number(12, 16)),
            month: month as u32 + 1,
            day: number(5, 7),
            hour: number(17, 19),
            minute: number(20, 22),
            second: number(23, 25),
        }
    }
}

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// `02-Jan-2020 03:04`
fn append_time(seconds: i64, local: bool, out: &mut Vec<u8>) {
    let time = Moment::new(seconds, local);
    append(
        out,
        format_args!(
            "{:02}-{}-{:04} {:02}:{:02}",
            time.day,
            MONTHS[time.month as usize - 1],
            time.year,
            time.hour,
            time.minute
        ),
    );
}

/// A JSON string without its quotes. Bytes that are no UTF-8 stay, as in nginx.
fn append_json(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            0..=0x1f => append(out, format_args!("\\u{byte:04X}")),
            byte => out.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_json() {
        let mut out = Vec::new();
        append_json(b"a\"b\\c\nd\x01\x1f\t\xff/", &mut out);
        assert_eq!(out, b"a\\\"b\\\\c\\nd\\u0001\\u001F\\t\xff/");
    }

    /// What git cannot keep; seen on nginx 1.22.
    #[test]
    fn odd_entries() {
        let root = std::env::temp_dir().join(format!("gannet-listing-{}", std::process::id()));
        std::fs::create_dir_all(root.join("b")).unwrap();
        std::fs::write(root.join("a"), b"").unwrap();
        std::os::unix::fs::symlink("nowhere", root.join("dangling")).unwrap();
        std::os::unix::fs::symlink("loop", root.join("loop")).unwrap();
        let listing = Listing::read(root.as_os_str().as_bytes().to_vec()).unwrap();
        std::fs::remove_dir_all(&root).unwrap();
        let shown: Vec<_> = listing
            .entries
            .iter()
            .map(|entry| (&entry.name[..], entry.kind))
            .collect();
        assert_eq!(
            shown,
            [
                (&b"b"[..], Kind::Directory),
                (b"a", Kind::File),
                (b"dangling", Kind::Other),
                (b"loop", Kind::Other),
            ]
        );
        let missing = Listing::read(root.as_os_str().as_bytes().to_vec()).unwrap_err();
        assert_eq!(missing.call, "opendir()");
    }
}
