//! A MaxMind database in memory, and its values as text. With `auto_reload` the file is looked at again, by a thread of
//! the background, after a request has found that it is time to.

use crate::background::{self, Urgency};
use crate::log::error::{self, Level};
use maxminddb::{PathElement, Reader};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

/// The largest file that is read: ten times the largest that MaxMind gives out.
const FILE_MAX: u64 = 2 * 1024 * 1024 * 1024;

/// A file's content.
pub struct Opened {
    reader: Reader<Vec<u8>>,
    /// When the file was changed, in seconds.
    changed: u64,
}

impl Opened {
    /// Reads a file; the error is what there is to say of it.
    pub fn read(path: &std::path::Path) -> Result<Opened, String> {
        let read = || -> io::Result<(Vec<u8>, u64)> {
            let mut file = File::open(path)?;
            let changed = seconds(file.metadata()?.modified()?);
            let mut bytes = Vec::new();
            (&mut file).take(FILE_MAX + 1).read_to_end(&mut bytes)?;
            if bytes.len() as u64 > FILE_MAX {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            Ok((bytes, changed))
        };
        // The words are those of the library that nginx's module asks.
        let (bytes, changed) =
            read().map_err(|_| "Error opening the specified MaxMind DB file".to_string())?;
        let reader = Reader::from_source(bytes)
            .map_err(|_| "The MaxMind DB file contains invalid metadata".to_string())?;
        Ok(Opened { reader, changed })
    }

    fn find(&self, address: IpAddr, path: &Path) -> Option<Vec<u8>> {
        let record = self.reader.lookup(address).ok()?;
        let find = |elements: Vec<PathElement<'_>>| -> Option<Vec<u8>> {
            record.decode_path::<Text>(&elements).ok().flatten()?.0
        };
        find(path.elements(true)).or_else(|| match path.has_numbers() {
            true => find(path.elements(false)),
            false => None,
        })
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Opened").finish_non_exhaustive()
    }
}

/// The way to a value in a record: names, and places in lists.
#[derive(Debug)]
pub struct Path(pub Vec<Box<str>>);

impl Path {
    fn has_numbers(&self) -> bool {
        self.0.iter().any(|step| step.parse::<isize>().is_ok())
    }

    /// A number is a place where there is a list, and a name where there is none.
    fn elements(&self, with_places: bool) -> Vec<PathElement<'_>> {
        let steps = self.0.iter();
        steps
            .map(|step| match step.parse::<isize>() {
                Ok(place) if with_places => PathElement::from(place),
                _ => PathElement::Key(step),
            })
            .collect()
    }
}

/// A database of the configuration.
#[derive(Debug)]
pub struct Database {
    first: Opened,
    checks: Option<Checks>,
    last_check: AtomicU64,
}

/// How it is read again.
#[derive(Debug)]
struct Checks {
    path: PathBuf,
    /// Seconds between looks at the file.
    interval: u64,
    newer: RwLock<Option<Arc<Opened>>>,
}

impl Database {
    /// `interval`: seconds between looks at the file, 0 for none.
    #[must_use]
    pub fn new(path: PathBuf, opened: Opened, interval: u64) -> Database {
        Database {
            first: opened,
            checks: (interval > 0).then(|| Checks {
                path,
                interval,
                newer: RwLock::new(None),
            }),
            last_check: AtomicU64::new(seconds(SystemTime::now())),
        }
    }

    /// Has the file looked at when it is time to.
    pub fn check(self: &Arc<Self>, now: u64) {
        let Some(checks) = &self.checks else { return };
        let last = self.last_check.load(Ordering::Relaxed);
        if now < last.saturating_add(checks.interval) {
            return;
        }
        // One thread of all.
        let exchanged =
            self.last_check
                .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed);
        if exchanged.is_ok() {
            let database = Arc::clone(self);
            // Where the queue is full the next look is an interval later.
            let _full = background::pool().submit(Urgency::Idle, move || database.read_again());
        }
    }

    fn read_again(&self) {
        let Some(checks) = &self.checks else { return };
        let shown = checks.path.display();
        let changed = match checks.path.metadata().and_then(|data| data.modified()) {
            Ok(changed) => seconds(changed),
            Err(error) => {
                return error::write(
                    Level::Error,
                    format_args!("stat() \"{shown}\" failed ({error})"),
                );
            }
        };
        if changed <= self.last_change() {
            return;
        }
        match Opened::read(&checks.path) {
            Ok(opened) => {
                let mut newer = checks.newer.write().unwrap_or_else(PoisonError::into_inner);
                *newer = Some(Arc::new(opened));
                drop(newer);
                error::write(Level::Info, format_args!("Reload MMDB \"{shown}\""));
            }
            Err(reason) => error::write(
                Level::Error,
                format_args!("MMDB_open(\"{shown}\") failed to reload - {reason}"),
            ),
        }
    }

    fn with<T>(&self, read: impl FnOnce(&Opened) -> T) -> T {
        let newer = self.checks.as_ref().and_then(|checks| {
            let newer = checks.newer.read().unwrap_or_else(PoisonError::into_inner);
            newer.clone()
        });
        read(newer.as_deref().unwrap_or(&self.first))
    }

    /// The value at `path` of an address's record, as text.
    #[must_use]
    pub fn find(&self, address: IpAddr, path: &Path) -> Option<Vec<u8>> {
        self.with(|opened| opened.find(address, path))
    }

    #[must_use]
    pub fn build_epoch(&self) -> u64 {
        self.with(|opened| opened.reader.metadata().build_epoch)
    }

    #[must_use]
    pub fn last_check(&self) -> u64 {
        self.last_check.load(Ordering::Relaxed)
    }

    #[must_use]
    pub fn last_change(&self) -> u64 {
        self.with(|opened| opened.changed)
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

/// A value as nginx's module writes it; maps and lists have no text.
struct Text(Option<Vec<u8>>);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
        deserializer.deserialize_any(Written)
    }
}

struct Written;

/// What is shown as it is written in decimal.
macro_rules! decimal {
    ($($visit:ident $number:ty),*) => {
        $(fn $visit<E>(self, number: $number) -> Result<Text, E> {
            Ok(Text(Some(number.to_string().into_bytes())))
        })*
    };
}

impl<'de> Visitor<'de> for Written {
    type Value = Text;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value of a database")
    }

    decimal!(visit_i64 i64, visit_u64 u64);

    fn visit_bool<E>(self, is: bool) -> Result<Text, E> {
        Ok(Text(Some(vec![if is { b'1' } else { b'0' }])))
    }

    fn visit_u128<E>(self, number: u128) -> Result<Text, E> {
        Ok(Text(Some(format!("0x{number:032x}").into_bytes())))
    }

    fn visit_f32<E: serde::de::Error>(self, number: f32) -> Result<Text, E> {
        self.visit_f64(f64::from(number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Text, E> {
        Ok(Text(Some(format!("{number:.5}").into_bytes())))
    }

    fn visit_str<E>(self, text: &str) -> Result<Text, E> {
        Ok(Text(Some(text.as_bytes().to_vec())))
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Text, E> {
        Ok(Text(Some(bytes.to_vec())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Text, A::Error> {
        while values.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Text(None))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Text, A::Error> {
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Text(None))
    }
}
