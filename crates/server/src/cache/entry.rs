//! A response that is kept: its head as the upstream sent it, what is known of its freshness, and its body. In the store
//! the first two are the entry's metadata: numbers in little-endian, then what has a length with the length before it.

use super::freshness::names;
use crate::http::Request;
use crate::store::{Key, Slot};
use bytes::Bytes;
use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use twox_hash::XxHash3_64;
use wire::http1::response::{Head, Parser};

/// Another number for another form.
const FORM: u8 = 2;

/// Times of a response, in seconds since 1970, and lengths of time in seconds; they change when it is freshened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    pub valid_until: i64,
    pub updating: i64,
    pub on_error: i64,
    /// When it came, or was last found to hold.
    pub stored: i64,
}

/// What is known of a response besides its body.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    pub times: Times,
    /// The head has no status line: a program sent it.
    pub is_cgi: bool,
    /// It was asked for with HEAD: there is no body, whatever its length says.
    pub is_bodiless: bool,
    pub status: u16,
    /// For conditions; only of a status that has them.
    pub last_modified: Option<i64>,
    pub etag: Bytes,
    pub vary: Bytes,
    /// The fields that Vary names, as the request had them; of a form (`forms.rs`) the length of what it was made of.
    pub variant: u64,
    /// Another one for each response that is kept, never 0: a 304 does not change it.
    pub version: u64,
    /// The head as it came.
    pub head: Bytes,
}

/// A response that is kept.
#[derive(Debug)]
pub struct Entry {
    pub text: Bytes,
    pub facts: Facts,
    pub head: Head,
    valid_until: AtomicI64,
    stored: AtomicI64,
    updating: AtomicI64,
    on_error: AtomicI64,
    /// In memory; or in the store's file, from which it is opened for each use.
    pub body: Option<Bytes>,
    /// How often it answered from memory, up to a few times.
    hits: AtomicU8,
    /// Its number among what was kept and purged by this process; 0: it came from the disk.
    pub number: std::sync::atomic::AtomicU64,
    /// Its place in the store; none before it is there.
    pub slot: std::sync::OnceLock<Arc<Slot>>,
}

impl Facts {
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let flags = u8::from(self.is_cgi) | u8::from(self.is_bodiless) << 1;
        let mut out = vec![FORM, flags];
        out.extend_from_slice(&self.status.to_le_bytes());
        let times = &self.times;
        for number in [
            times.valid_until,
            times.updating,
            times.on_error,
            times.stored,
            self.last_modified.unwrap_or(-1),
        ] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.variant.to_le_bytes());
        out.extend_from_slice(&self.version.to_le_bytes());
        for text in [&self.etag, &self.vary, &self.head] {
            out.extend_from_slice(&(text.len() as u32).to_le_bytes());
            out.extend_from_slice(text);
        }
        out
    }

    /// `None`: they are of another form.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Facts> {
        let mut rest = bytes;
        let [form, flags] = take::<2>(&mut rest)?;
        if form != FORM {
            return None;
        }
        let status = u16::from_le_bytes(take(&mut rest)?);
        let mut numbers = [0; 5];
        for number in &mut numbers {
            *number = i64::from_le_bytes(take(&mut rest)?);
        }
        let [valid_until, updating, on_error, stored, last_modified] = numbers;
        let variant = u64::from_le_bytes(take(&mut rest)?);
        let version = u64::from_le_bytes(take(&mut rest)?);
        let mut texts = [const { Bytes::new() }; 3];
        for text in &mut texts {
            let length = u32::from_le_bytes(take(&mut rest)?) as usize;
            let (own, behind) = rest.split_at_checked(length)?;
            *text = Bytes::copy_from_slice(own);
            rest = behind;
        }
        let [etag, vary, head] = texts;
        Some(Facts {
            times: Times {
                valid_until,
                updating,
                on_error,
                stored,
            },
            is_cgi: flags & 1 != 0,
            is_bodiless: flags & 2 != 0,
            status,
            last_modified: Some(last_modified).filter(|&seconds| seconds >= 0),
            etag,
            vary,
            variant,
            version,
            head,
        })
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (own, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*own)
}

impl Entry {
    /// `None`: the head cannot be read, which it could when it came.
    #[must_use]
    pub fn new(text: Bytes, facts: Facts, body: Option<Bytes>) -> Option<Entry> {
        let mut parser = match facts.is_cgi {
            true => Parser::for_cgi(),
            false => Parser::new(),
        };
        let length = facts.head.len();
        match parser.parse(&facts.head, length) {
            Ok(Some(parsed)) if parsed == length => {}
            _ => return None,
        }
        let mut head = parser.take_head();
        head.status = facts.status;
        let times = facts.times;
        Some(Entry {
            text,
            facts,
            head,
            valid_until: AtomicI64::new(times.valid_until),
            stored: AtomicI64::new(times.stored),
            updating: AtomicI64::new(times.updating),
            on_error: AtomicI64::new(times.on_error),
            body,
            hits: AtomicU8::new(0),
            number: std::sync::atomic::AtomicU64::new(0),
            slot: std::sync::OnceLock::new(),
        })
    }

    #[must_use]
    pub fn key(&self) -> Key {
        Key::of(&self.text)
    }

    #[must_use]
    pub fn times(&self) -> Times {
        Times {
            valid_until: self.valid_until.load(Ordering::Relaxed),
            updating: self.updating.load(Ordering::Relaxed),
            on_error: self.on_error.load(Ordering::Relaxed),
            stored: self.stored.load(Ordering::Relaxed),
        }
    }

    pub fn set_times(&self, times: Times) {
        self.valid_until.store(times.valid_until, Ordering::Relaxed);
        self.updating.store(times.updating, Ordering::Relaxed);
        self.on_error.store(times.on_error, Ordering::Relaxed);
        self.stored.store(times.stored, Ordering::Relaxed);
    }

    /// Notes a use, for what goes when room is needed.
    pub fn note_use(&self, seconds: u64) {
        if let Some(slot) = self.slot.get() {
            slot.note_use(seconds);
        }
    }

    /// Counts an answer from memory; whether there were some before it, so that what is asked for once costs no more.
    #[must_use]
    pub fn is_asked_for_again(&self) -> bool {
        const SOME: u8 = 2;
        let before = self.hits.load(Ordering::Relaxed);
        if before < SOME {
            self.hits.store(before + 1, Ordering::Relaxed);
        }
        before >= SOME
    }

    /// Bytes of memory, more or less.
    #[must_use]
    pub fn memory(&self) -> u64 {
        const FIXED: usize = 512;
        let body = self.body.as_ref().map_or(0, Bytes::len);
        let fields = self.head.fields.len() * size_of::<wire::http1::Field>();
        (FIXED + self.text.len() + self.facts.head.len() + fields + body) as u64
    }
}

/// What a request says in the fields that a Vary names.
#[must_use]
pub fn variant(request: &Request, vary: &[u8]) -> u64 {
    let mut hasher = XxHash3_64::with_seed(0);
    for name in names(vary) {
        hasher.write(&name.to_ascii_lowercase());
        hasher.write(b":");
        for (index, value) in request.fields_named(name).enumerate() {
            // A field that is empty is none.
            if index > 0 {
                hasher.write(b",");
            }
            hasher.write(value);
        }
        hasher.write(b"\n");
    }
    hasher.finish()
}

/// What stands between a key and the number of a variant.
pub const VARIANT: &[u8] = b"\0vary:";

/// The key of another variant than the first.
#[must_use]
pub fn variant_text(text: &[u8], variant: u64) -> Bytes {
    Bytes::from([text, VARIANT, format!("{variant:016x}").as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            times: Times {
                valid_until: 100,
                updating: 5,
                on_error: 6,
                stored: 50,
            },
            is_cgi: false,
            is_bodiless: true,
            status: 404,
            last_modified: Some(7),
            etag: Bytes::from_static(b"\"x\""),
            vary: Bytes::from_static(b"Accept"),
            variant: 77,
            version: 9,
            head: Bytes::from_static(b"HTTP/1.1 404 No\r\nA: b\r\n\r\n"),
        }
    }

    #[test]
    fn facts_are_read_as_they_were_written_or_not_at_all() {
        let bytes = facts().encode();
        let read = Facts::decode(&bytes).expect("whole");
        assert_eq!(format!("{read:?}"), format!("{:?}", facts()));
        for cut in 0..bytes.len() {
            assert!(Facts::decode(&bytes[..cut]).is_none(), "cut at {cut}");
        }
        let mut other = bytes;
        other[0] = 9;
        assert!(Facts::decode(&other).is_none());
    }

    #[test]
    fn a_head_must_be_readable() {
        let entry = Entry::new(Bytes::from_static(b"k"), facts(), None).expect("readable");
        assert_eq!((entry.head.status, entry.head.fields.len()), (404, 1));
        let mut broken = facts();
        broken.head = Bytes::from_static(b"HTTP/1.1 404 No\r\nA: b\r\n");
        assert!(Entry::new(Bytes::new(), broken, None).is_none());
    }
}
