//! What was read, as plain data: the master process reads, records and sends; the worker reads the same from it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::source::Source;

/// First bytes of an encoded bundle; the last one is the format's version.
const MAGIC: &[u8; 8] = b"gnt-cnf\x01";

/// Linux's ENOENT, the answer for what was never recorded.
const NO_SUCH_FILE: i32 = 2;
/// Linux's EIO, kept for an error that has no number of its own.
const IO_ERROR: i32 = 5;

/// Recorded answers to reads and globs, errors included. Reading what was never recorded is "no such file".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundle {
    texts: BTreeMap<PathBuf, Result<Vec<u8>, i32>>,
    globs: BTreeMap<PathBuf, Result<Vec<PathBuf>, i32>>,
}

impl Bundle {
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        put_count(&mut out, self.texts.len());
        for (path, text) in &self.texts {
            put_path(&mut out, path);
            put_answer(&mut out, text, |out, text| put_bytes(out, text));
        }
        put_count(&mut out, self.globs.len());
        for (pattern, paths) in &self.globs {
            put_path(&mut out, pattern);
            put_answer(&mut out, paths, |out, paths| {
                put_count(out, paths.len());
                paths.iter().for_each(|path| put_path(out, path));
            });
        }
        out
    }

    /// The inverse of [`Bundle::to_bytes`], for exactly one bundle.
    pub fn from_bytes(bytes: &[u8]) -> Result<Bundle, Malformed> {
        let mut input = Input {
            rest: bytes.strip_prefix(MAGIC).ok_or(Malformed)?,
        };
        let mut bundle = Bundle::default();
        for _ in 0..input.count()? {
            let path = input.path()?;
            let text = input.answer(|input| input.bytes().map(<[u8]>::to_vec))?;
            bundle.texts.insert(path, text);
        }
        for _ in 0..input.count()? {
            let pattern = input.path()?;
            let paths =
                input.answer(|input| (0..input.count()?).map(|_| input.path()).collect())?;
            bundle.globs.insert(pattern, paths);
        }
        if input.rest.is_empty() {
            Ok(bundle)
        } else {
            Err(Malformed)
        }
    }
}

/// Texts by path, as if they had been read from there.
impl FromIterator<(PathBuf, Vec<u8>)> for Bundle {
    fn from_iter<T: IntoIterator<Item = (PathBuf, Vec<u8>)>>(texts: T) -> Bundle {
        let texts = texts.into_iter().map(|(path, text)| (path, Ok(text)));
        Bundle {
            texts: texts.collect(),
            globs: BTreeMap::new(),
        }
    }
}

impl Source for Bundle {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        answer(self.texts.get(path))
    }

    fn glob(&self, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        answer(self.globs.get(pattern))
    }
}

fn answer<T: Clone>(recorded: Option<&Result<T, i32>>) -> io::Result<T> {
    recorded
        .cloned()
        .unwrap_or(Err(NO_SUCH_FILE))
        .map_err(io::Error::from_raw_os_error)
}

/// Bytes that are no bundle, or one of another version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("malformed configuration bundle")
    }
}

impl std::error::Error for Malformed {}

/// A source that passes on another's answers and remembers them. A path asked twice gets the first answer again, so
/// that the record holds for both.
pub struct Recorder<S> {
    source: S,
    bundle: RefCell<Bundle>,
}

impl<S: Source> Recorder<S> {
    pub fn new(source: S) -> Recorder<S> {
        Recorder {
            source,
            bundle: RefCell::default(),
        }
    }

    /// What was read so far.
    pub fn into_bundle(self) -> Bundle {
        self.bundle.into_inner()
    }
}

impl<S: Source> Source for Recorder<S> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut bundle = self.bundle.borrow_mut();
        let texts = &mut bundle.texts;
        if !texts.contains_key(path) {
            texts.insert(
                path.to_owned(),
                self.source.read(path).map_err(|error| code_of(&error)),
            );
        }
        answer(texts.get(path))
    }

    fn glob(&self, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        let mut bundle = self.bundle.borrow_mut();
        let globs = &mut bundle.globs;
        if !globs.contains_key(pattern) {
            globs.insert(
                pattern.to_owned(),
                self.source.glob(pattern).map_err(|error| code_of(&error)),
            );
        }
        answer(globs.get(pattern))
    }
}

fn code_of(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(IO_ERROR)
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&(count as u64).to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_count(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn put_path(out: &mut Vec<u8>, path: &Path) {
    put_bytes(out, path.as_os_str().as_bytes());
}

/// The error's number, 0 for none, then the answer.
fn put_answer<T>(out: &mut Vec<u8>, answer: &Result<T, i32>, put: impl FnOnce(&mut Vec<u8>, &T)) {
    match answer {
        Ok(value) => {
            out.extend_from_slice(&0_i32.to_le_bytes());
            put(out, value);
        }
        Err(code) => out.extend_from_slice(&code.to_le_bytes()),
    }
}

/// Encoded bytes not yet taken. Nothing is allocated by a count that the bytes do not bear out.
struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Malformed)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed)
    }

    fn count(&mut self) -> Result<usize, Malformed> {
        usize::try_from(u64::from_le_bytes(self.array()?)).map_err(|_| Malformed)
    }

    fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.count()?;
        self.take(length)
    }

    fn path(&mut self) -> Result<PathBuf, Malformed> {
        Ok(PathBuf::from(OsStr::from_bytes(self.bytes()?)))
    }

    fn answer<T>(
        &mut self,
        value: impl FnOnce(&mut Input<'a>) -> Result<T, Malformed>,
    ) -> Result<Result<T, i32>, Malformed> {
        match i32::from_le_bytes(self.array()?) {
            0 => value(self).map(Ok),
            code => Ok(Err(code)),
        }
    }
}
