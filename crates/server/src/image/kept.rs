//! Pictures that were made before: entries of the variant store. An entry's text begins with what it was made of, as it
//! was then, so that the pictures of a source that changed are never found again.

use super::recipe::{Made, Reason};
use crate::log::error::{Level, write};
use crate::store::{Fetched, Head, Key, Reading, Store};
use ::image::{Format, Master};
use bytes::Bytes;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What an entry's text begins with. Another number: what is made of the same wish is another picture.
pub const PREFIX: &[u8] = b"image 3 ";
/// Larger pictures are sent from their file.
const MEMORY_MAX: u64 = 256 * 1024;
/// Seconds between two lines about a directory that takes nothing.
const SILENCE: u64 = 60;

/// The first byte of an entry's metadata.
const PICTURE: u8 = 1;
const PASSED: u8 = 2;
const UNSUPPORTED: u8 = 3;
const TOO_LARGE: u8 = 4;
const MASTER: u8 = 5;

const FORMATS: [Format; 5] = [
    Format::Jpeg,
    Format::Png,
    Format::Gif,
    Format::Webp,
    Format::Avif,
];

/// A picture as it is kept.
pub enum Kept {
    Memory(Made),
    /// The picture stands in the file from the offset on.
    File {
        file: File,
        offset: u64,
        length: u64,
        format: Format,
    },
}

/// What is kept under a key, where that is known without waiting for a disk.
#[must_use]
pub fn find(store: &Store, key: Key) -> Option<Kept> {
    let slot = store.find(key)?;
    slot.note_use(crate::store::unix_seconds());
    // What cannot be read is as good as missing: it is made anew.
    let fetched = store.fetch(&slot, MEMORY_MAX, Reading::Cached).ok()??;
    decode(fetched)
}

/// What is kept under a key, in memory; waits for the disk.
#[must_use]
pub fn find_on_disk(store: &Store, key: Key) -> Option<Made> {
    let slot = store.find_on_disk(key)?;
    let fetched = store.fetch(&slot, u64::MAX, Reading::Blocking).ok()??;
    match decode(fetched)? {
        Kept::Memory(made) => Some(made),
        Kept::File { .. } => None,
    }
}

fn decode(fetched: Fetched) -> Option<Kept> {
    let (head, body, file) = match fetched {
        Fetched::Memory { head, body } => (head, body, None),
        Fetched::File { head, file } => (head, Bytes::new(), Some(file)),
    };
    let [kind, number] = *head.metadata else {
        return None;
    };
    let format = FORMATS.get(usize::from(number)).copied()?;
    let why = "as it was found before";
    Some(Kept::Memory(match (kind, file) {
        (PICTURE, Some(file)) => {
            return Some(Kept::File {
                file,
                offset: head.bytes(),
                length: head.body_bytes,
                format,
            });
        }
        (PICTURE, None) => Made::Picture(body, format),
        (PASSED, _) => Made::Passed(format),
        (UNSUPPORTED, _) => Made::refused(Reason::Unsupported, why),
        (TOO_LARGE, _) => Made::refused(Reason::TooLarge, why),
        _ => return None,
    }))
}

/// Keeps what was made, refusals too, unless they may pass. Waits for the disk; where it takes nothing, the error log
/// says so now and then.
pub fn keep(store: &Arc<Store>, text: &[u8], group: u64, made: &Made) {
    let (kind, format, body): (u8, Format, &[u8]) = match made {
        Made::Picture(bytes, format) => (PICTURE, *format, bytes),
        Made::Passed(format) => (PASSED, *format, b""),
        Made::Refused(refusal) => match refusal.reason {
            Reason::Unsupported => (UNSUPPORTED, Format::Jpeg, b""),
            Reason::TooLarge => (TOO_LARGE, Format::Jpeg, b""),
            Reason::Passing => return,
        },
        Made::Told(_) => return,
    };
    let place = FORMATS.iter().position(|other| *other == format);
    let metadata = [kind, place.unwrap_or(0) as u8];
    if let Err(error) = store.put(text, &metadata, group, body) {
        tell(store, &error);
    }
}

/// The master of a source. Waits for the disk.
#[must_use]
pub fn find_master(store: &Store, text: &[u8]) -> Option<Master> {
    let slot = store.find_on_disk(Key::of(text))?;
    match store.fetch(&slot, u64::MAX, Reading::Blocking).ok()?? {
        Fetched::Memory { head, body } => match *head.metadata {
            [MASTER, scale] => Some(Master {
                scale,
                bytes: body.to_vec(),
            }),
            _ => None,
        },
        Fetched::File { .. } => None,
    }
}

/// Keeps a master. Waits for the disk.
pub fn keep_master(store: &Arc<Store>, text: &[u8], group: u64, master: &Master) {
    if let Err(error) = store.put(text, &[MASTER, master.scale], group, &master.bytes) {
        tell(store, &error);
    }
}

fn tell(store: &Store, error: &std::io::Error) {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let now = crate::store::unix_seconds();
    let last = LAST.load(Ordering::Relaxed);
    if last + SILENCE > now {
        return;
    }
    LAST.store(now, Ordering::Relaxed);
    write(
        Level::Error,
        format_args!(
            "image: a picture could not be kept in \"{}\" ({})",
            store.directory().display(),
            sys::errno::Errno(error)
        ),
    );
}

/// Whether an entry of the store is one of these.
#[must_use]
pub fn is_ours(head: &Head) -> bool {
    head.text.starts_with(PREFIX)
}
