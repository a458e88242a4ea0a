//! Compression dictionaries (RFC 9842): earlier versions of files, say, that clients have and name by their SHA-256.
//! `dcb` is brotli and `dcz` zstd over such a dictionary. What is used here was read from files that the configuration
//! names; a hash stands for its bytes, so that a dictionary cannot be stale, only unknown.

use super::negotiate::{self, Coding, Offers};
use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, Outcome, Set, row};
use crate::http::{Request, Response};
use bytes::Bytes;
use conf::table::Row;
use conf::{Directive, Source};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};
use sys::file::{Identity, Status};
use wire::fields::base64;
use wire::http1::Known;

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "compression_dictionary",
        HSL,
        Arity::AtLeast(1),
        dictionaries,
        "Files (patterns with `*` below the prefix) that brotli and zstd use as dictionaries for clients that have them: `dcb` and `dcz` of RFC 9842. `off`: none.",
    ),
    row(
        "use_as_dictionary",
        HSL,
        Arity::Between(1, 3),
        use_as,
        "Tell clients to keep responses as dictionaries for the URLs that match (`/app/*.js`), with `dest=` (script, style, document …) and `id=`. `off`: do not.",
    ),
];

/// Larger files are no dictionaries.
pub const DICTIONARY_MAX: u64 = 4 << 20;
/// Larger bodies are compressed without one. Together they fit the windows that every client has.
pub const BODY_MAX: u64 = 2 << 20;
/// Files that one directive finds at most, the newest first.
pub const FILES_MAX: usize = 1024;
/// Bytes of dictionaries that one directive holds in memory.
pub const MEMORY_MAX: u64 = 32 << 20;
/// How often the files are looked at again at most, when a client names a dictionary that is not known.
const PAUSE: Duration = Duration::from_secs(2);
/// `id=`, as the RFC has it.
const ID_MAX: usize = 1024;
/// What zstd would not take as plain bytes.
const ZSTD_MAGIC: [u8; 4] = [0x37, 0xa4, 0x30, 0xec];

/// SHA-256 of a dictionary.
pub type Hash = [u8; 32];

/// What a client and the server both have.
#[derive(Debug)]
pub struct Dictionary {
    pub hash: Hash,
    pub bytes: Bytes,
}

impl Dictionary {
    #[must_use]
    pub fn new(bytes: Bytes) -> Dictionary {
        Dictionary {
            hash: Sha256::digest(&bytes).into(),
            bytes,
        }
    }

    /// What stands before a stream that was made with it (RFC 9842 sections 4 and 5).
    pub fn write_head(&self, coding: Coding, out: &mut Vec<u8>) {
        match coding {
            Coding::Zstd => out.extend_from_slice(b"\x5e\x2a\x4d\x18\x20\x00\x00\x00"),
            Coding::Gzip | Coding::Brotli => out.extend_from_slice(b"\xffDCB"),
        }
        out.extend_from_slice(&self.hash);
    }
}

/// The dictionaries of one directive.
pub struct Dictionaries {
    patterns: Vec<PathBuf>,
    known: RwLock<HashMap<Hash, Arc<Dictionary>>>,
    scanned: Mutex<Scanned>,
}

impl std::fmt::Debug for Dictionaries {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.patterns.fmt(formatter)
    }
}

/// What the last look at the files found.
#[derive(Default)]
struct Scanned {
    began: Option<Instant>,
    /// The files whose contents are known, in the order in which they were found.
    files: Vec<(PathBuf, Identity, Hash)>,
}

crate::config::setting::settings! {
    dictionaries: Option<Arc<Dictionaries>> = None,
    /// The value of Use-As-Dictionary.
    use_as: Option<Bytes> = None,
}

impl Settings {
    /// Whether responses have nothing to do with dictionaries.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.dictionaries.is_none() && self.use_as.is_none()
    }
}

fn dictionaries(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let prefix = build.paths.clone();
    let setting = build.location().dictionary.dictionaries.vacant()?;
    if matches!(&directive.args[..], [only] if &only[..] == b"off") {
        return setting.set(None);
    }
    let mut patterns = Vec::with_capacity(directive.args.len());
    for word in &directive.args {
        match word.as_str() {
            None | Some("" | "off") => return Err(format!("invalid value \"{word}\"").into()),
            Some(path) => patterns.push(prefix.in_prefix(path)),
        }
    }
    setting.set(Some(Arc::new(Dictionaries::new(patterns))))
}

fn use_as(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let setting = build.location().dictionary.use_as.vacant()?;
    let [pattern, parameters @ ..] = &directive.args[..] else {
        return Err("invalid number of arguments".into());
    };
    if &pattern[..] == b"off" && parameters.is_empty() {
        return setting.set(None);
    }
    // A URL pattern of the RFC has no regular expressions.
    if pattern.is_empty() || pattern.contains(&b'(') {
        return Err(format!("invalid pattern \"{pattern}\"").into());
    }
    let mut value = b"match=".to_vec();
    write_string(pattern, &mut value)?;
    for parameter in parameters {
        if let Some(names) = parameter.strip_prefix(b"dest=") {
            value.extend_from_slice(b", match-dest=(");
            for (index, name) in names.split(|&byte| byte == b',').enumerate() {
                value.extend_from_slice(if index > 0 { b" " } else { b"" });
                write_string(name, &mut value)?;
            }
            value.push(b')');
        } else if let Some(id) = parameter
            .strip_prefix(b"id=")
            .filter(|id| id.len() <= ID_MAX)
        {
            value.extend_from_slice(b", id=");
            write_string(id, &mut value)?;
        } else {
            return Err(format!("invalid parameter \"{parameter}\"").into());
        }
    }
    setting.set(Some(Bytes::from(value)))
}

/// A string of structured fields (RFC 9651).
fn write_string(text: &[u8], out: &mut Vec<u8>) -> Outcome {
    out.push(b'"');
    for &byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b' '..=b'~' => out.push(byte),
            _ => return Err("invalid value".into()),
        }
    }
    out.push(b'"');
    Ok(())
}

impl Dictionaries {
    fn new(patterns: Vec<PathBuf>) -> Dictionaries {
        Dictionaries {
            patterns,
            known: RwLock::default(),
            scanned: Mutex::default(),
        }
    }

    /// The dictionary with this hash, if it was read.
    #[must_use]
    pub fn find(&self, hash: &Hash) -> Option<Arc<Dictionary>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.get(hash).cloned()
    }

    /// Whether the files should be looked at (again); the next ones to ask are told no for a while.
    #[must_use]
    pub fn wants_scan(&self, now: Instant) -> bool {
        // Where the lock is held, somebody looks at them already.
        let Ok(mut scanned) = self.scanned.try_lock() else {
            return false;
        };
        let due = scanned.began.is_none_or(|began| now >= began + PAUSE);
        if due {
            scanned.began = Some(now);
        }
        due
    }

    /// Reads what is new among the files; blocks on the disk. What was read before stays as long as there is room, also if
    /// its file is gone or has changed: clients have it.
    pub fn scan(&self) {
        let mut scanned = self.scanned.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = self.candidates();
        found.sort_by_key(|(_, status)| std::cmp::Reverse(status.identity.modified_ns));
        found.truncate(FILES_MAX);
        let mut next = HashMap::new();
        let mut files = Vec::with_capacity(found.len());
        let mut room = MEMORY_MAX;
        for (path, status) in found {
            let identity = status.identity;
            let before = scanned
                .files
                .iter()
                .find(|(known, state, _)| *known == path && *state == identity)
                .and_then(|(_, _, hash)| self.find(hash));
            let Some(dictionary) = before.or_else(|| read(&path, &identity).ok().map(Arc::new))
            else {
                continue;
            };
            if dictionary.bytes.len() as u64 > room {
                break;
            }
            room -= dictionary.bytes.len() as u64;
            files.push((path, identity, dictionary.hash));
            next.insert(dictionary.hash, dictionary);
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for (hash, former) in known.drain() {
            let length = former.bytes.len() as u64;
            if length <= room && !next.contains_key(&hash) && next.len() < FILES_MAX {
                room -= length;
                next.insert(hash, former);
            }
        }
        *known = next;
        scanned.files = files;
    }

    fn candidates(&self) -> Vec<(PathBuf, Status)> {
        let mut found: Vec<(PathBuf, Status)> = Vec::new();
        for pattern in &self.patterns {
            for path in conf::Disk.glob(pattern).unwrap_or_default() {
                let Ok(status) = sys::file::status_at(&path) else {
                    continue;
                };
                if status.is_file() && (1..=DICTIONARY_MAX).contains(&status.identity.size) {
                    found.push((path, status));
                }
            }
        }
        found
    }
}

fn read(path: &Path, identity: &Identity) -> io::Result<Dictionary> {
    let mut file = sys::file::open(path)?;
    let mut bytes = Vec::new();
    // One byte more, so that a file that grew is seen.
    (&mut file)
        .take(identity.size + 1)
        .read_to_end(&mut bytes)?;
    // One that changes while it is read is of no use to anybody.
    if bytes.len() as u64 != identity.size || sys::file::status(&file)?.identity != *identity {
        return Err(io::ErrorKind::Interrupted.into());
    }
    if bytes.starts_with(&ZSTD_MAGIC) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(Dictionary::new(Bytes::from(bytes)))
}

/// The hash in a value of Available-Dictionary: a byte sequence of structured fields, parameters aside.
fn parse(value: &[u8]) -> Option<Hash> {
    let rest = value.trim_ascii().strip_prefix(b":")?;
    let end = memchr::memchr(b':', rest)?;
    let (text, after) = rest.split_at(end);
    if !matches!(after, [b':'] | [b':', b';', ..]) {
        return None;
    }
    let bytes = base64::decode(text, base64::Alphabet::Standard)?;
    bytes.try_into().ok()
}

/// The hash that the client names.
#[must_use]
pub fn named(request: &Request) -> Option<Hash> {
    let mut values = request.fields_named(b"Available-Dictionary");
    let hash = parse(values.next()?)?;
    values.next().is_none().then_some(hash)
}

/// The coding with a dictionary that a response in one of the codings on offer gets, if the client has a dictionary that
/// is known here.
#[must_use]
pub fn choose(
    request: &Request,
    response: &Response,
    offers: Offers,
) -> Option<(Coding, Arc<Dictionary>)> {
    find(request, response, offers).filter(|_| is_readable(request, Some(response)))
}

/// The same before the configuration's fields are added to the response, which may permit it.
#[must_use]
pub fn may_be_chosen(request: &Request, response: &Response, offers: Offers) -> bool {
    find(request, response, offers).is_some() && is_readable(request, None)
}

fn find(
    request: &Request,
    response: &Response,
    offers: Offers,
) -> Option<(Coding, Arc<Dictionary>)> {
    let settings = &request.location().settings;
    let dictionaries = settings.dictionary.dictionaries.as_ref()?;
    let dictionary = dictionaries.find(&named(request)?)?;
    // Of a body without a length nobody knows whether it fits brotli's window.
    let offers = match response.content_length {
        Some(length) if length > BODY_MAX => Offers::NONE,
        Some(_) => offers,
        None => offers.without(Coding::Brotli),
    };
    let accepted = request.field(Known::AcceptEncoding).unwrap_or_default();
    let coding = negotiate::with_dictionary(accepted, offers, settings.compression.order)?;
    Some((coding, dictionary))
}

/// Whether the one who asks may read the response, as far as the fields of a browser tell (RFC 9842 section 9.3.2): the
/// lengths of others' responses would tell of their content. Without a response its fields are taken to allow it.
fn is_readable(request: &Request, response: Option<&Response>) -> bool {
    let field = |name: &'static [u8]| request.fields_named(name).next();
    let Some(site) = field(b"Sec-Fetch-Site") else {
        return true;
    };
    if site == b"same-origin" {
        return true;
    }
    match field(b"Sec-Fetch-Mode") {
        None | Some(b"navigate" | b"same-origin") => true,
        Some(b"cors") => {
            let Some(response) = response else {
                return true;
            };
            let allowed = response.headers.find("Access-Control-Allow-Origin");
            match (allowed, field(b"Origin")) {
                (Some(allowed), Some(origin)) => allowed == "*" || **allowed == *origin,
                _ => false,
            }
        }
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_read() {
        let hash = Dictionary::new(Bytes::from_static(b"abc")).hash;
        let text = String::from_utf8(base64::encode(&hash)).unwrap();
        for (value, read) in [
            (format!(":{text}:"), true),
            (format!("  :{text}: "), true),
            (format!(":{text}:;a=1"), true),
            (format!(":{text}"), false),
            (text.clone(), false),
            (format!(":{text}:x"), false),
            (String::from(":YWJj:"), false),
            (String::from("::"), false),
            (String::from(":"), false),
            (String::new(), false),
            (format!(":!{}:", &text[1..]), false),
        ] {
            assert_eq!(parse(value.as_bytes()), read.then_some(hash), "{value}");
        }
        let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(hex.starts_with("ba7816bf8f01cfea"));
    }

    struct Folder(PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _left = std::fs::remove_dir_all(&self.0);
        }
    }

    fn folder(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("gannet-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    #[test]
    fn what_was_read_once_stays_known() {
        let folder = folder("dictionaries");
        let dictionaries = Dictionaries::new(vec![folder.0.join("app.*.js")]);
        let hash = |text: &'static str| Dictionary::new(Bytes::from(text)).hash;
        std::fs::write(folder.0.join("app.1.js"), "one").unwrap();
        std::fs::write(folder.0.join("app.2.js"), "two").unwrap();
        std::fs::write(folder.0.join("other.js"), "three").unwrap();
        std::fs::write(folder.0.join("app.3.js"), "").unwrap();
        std::fs::write(folder.0.join("app.4.js"), b"\x37\xa4\x30\xec!").unwrap();
        std::fs::create_dir_all(folder.0.join("app.5.js")).unwrap();
        dictionaries.scan();
        assert_eq!(dictionaries.known.read().unwrap().len(), 2);
        assert_eq!(dictionaries.find(&hash("one")).unwrap().bytes, "one");
        assert!(dictionaries.find(&hash("three")).is_none());
        std::fs::remove_file(folder.0.join("app.1.js")).unwrap();
        std::fs::rename(folder.0.join("other.js"), folder.0.join("app.2.js")).unwrap();
        dictionaries.scan();
        for text in ["one", "two", "three"] {
            assert_eq!(dictionaries.find(&hash(text)).unwrap().bytes, text);
        }
    }

    #[test]
    fn files_are_looked_at_now_and_then() {
        let dictionaries = Dictionaries::new(Vec::new());
        let start = Instant::now();
        assert!(dictionaries.wants_scan(start));
        assert!(!dictionaries.wants_scan(start + PAUSE / 2));
        assert!(dictionaries.wants_scan(start + PAUSE));
        dictionaries.scan();
    }

    #[test]
    fn memory_is_bounded() {
        let folder = folder("dictionaries-bounded");
        for number in 0..10 {
            let mut text = vec![b'x'; DICTIONARY_MAX as usize];
            text[0] = number;
            std::fs::write(folder.0.join(number.to_string()), &text).unwrap();
        }
        std::fs::write(
            folder.0.join("large"),
            vec![b'x'; DICTIONARY_MAX as usize + 1],
        )
        .unwrap();
        let dictionaries = Dictionaries::new(vec![folder.0.join("*")]);
        dictionaries.scan();
        let count = (MEMORY_MAX / DICTIONARY_MAX) as usize;
        assert_eq!(dictionaries.known.read().unwrap().len(), count);
    }
}
