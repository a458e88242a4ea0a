//! A certificate that a server wants: its place in memory, which all servers that want the same share and which a reload
//! keeps, and its file.

use super::directive::Place;
use acme::order::Validity;
use acme::{Issued, Wanted};
use bytes::Bytes;
use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, RwLock};
use twox_hash::XxHash3_64;

/// A file beyond this size is none of ours.
const FILE_MAX: u64 = 1 << 20;
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----";

/// A certificate, wanted or there.
#[derive(Debug)]
pub struct Slot {
    pub place: Arc<Place>,
    pub wanted: Wanted,
    pair: RwLock<Option<Arc<Pair>>>,
}

/// A certificate and its key in the form of `ssl_certificate data:…`.
#[derive(Debug)]
pub struct Pair {
    pub certificate: Bytes,
    pub key: Bytes,
    pub validity: Validity,
}

impl Pair {
    fn new(issued: &Issued) -> Result<Pair, acme::Error> {
        let data = |pem: &str| Bytes::from(format!("data:{pem}"));
        Ok(Pair {
            validity: Validity::of(&issued.chain_pem)?,
            certificate: data(&issued.chain_pem),
            key: data(&issued.key_pem),
        })
    }
}

type Known = HashMap<(String, Wanted), Arc<Slot>>;

/// The slots of the process, by what is wanted of whom.
static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

impl Slot {
    #[must_use]
    pub fn new(place: Arc<Place>, wanted: Wanted) -> Slot {
        Slot {
            place,
            wanted,
            pair: RwLock::default(),
        }
    }

    /// What is there.
    #[must_use]
    pub fn pair(&self) -> Option<Arc<Pair>> {
        self.pair
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Takes what the former configuration had, or else what the file holds.
    pub fn begin(self: &Arc<Slot>) {
        let id = (self.place.name.clone(), self.wanted.clone());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let former = known.insert(id, Arc::clone(self));
        drop(known);
        let kept = former.and_then(|former| former.pair());
        let kept = kept.or_else(|| self.load().map(Arc::new));
        if let Some(pair) = kept {
            self.put(pair);
        }
    }

    fn put(&self, pair: Arc<Pair>) {
        *self.pair.write().unwrap_or_else(PoisonError::into_inner) = Some(pair);
    }

    /// A certificate has come: it is used from now on, and kept.
    pub fn take(&self, issued: &Issued) -> Result<(), acme::Error> {
        self.put(Arc::new(Pair::new(issued)?));
        self.save(issued).map_err(|error| {
            let file = self.file().unwrap_or_default();
            acme::Error(format!(
                "the certificate is used, but cannot be kept in \"{}\" ({})",
                file.display(),
                sys::errno::Errno(&error)
            ))
        })
    }

    /// One file for both, so that they always belong together: `NAME-HASH.pem`.
    fn file(&self) -> Option<PathBuf> {
        let directory = self.place.state.as_ref()?;
        let first = self.wanted.names.first().map_or("", String::as_str);
        let plain = |letter: char| match letter {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '.' => letter,
            _ => '_',
        };
        let shown: String = first.chars().map(plain).collect();
        let whole = format!(
            "{}\n{}",
            self.wanted.names.join("\n"),
            self.wanted.key.name()
        );
        let hash = XxHash3_64::oneshot(whole.as_bytes());
        Some(directory.join(format!("{shown}-{hash:016x}.pem")))
    }

    fn load(&self) -> Option<Pair> {
        let file = self.file()?;
        if fs::metadata(&file).ok()?.len() > FILE_MAX {
            return None;
        }
        let text = fs::read_to_string(file).ok()?;
        let (key, chain) = text.split_at(text.find(CERTIFICATE)?);
        let issued = Issued {
            chain_pem: chain.to_owned(),
            key_pem: key.to_owned(),
        };
        Pair::new(&issued).ok()
    }

    fn save(&self, issued: &Issued) -> io::Result<()> {
        match self.file() {
            Some(file) => write(
                &file,
                format!("{}{}", issued.key_pem, issued.chain_pem).as_bytes(),
            ),
            None => Ok(()),
        }
    }
}

/// Writes a file that only its owner may read, whole or not at all.
pub fn write(file: &std::path::Path, bytes: &[u8]) -> io::Result<()> {
    let unfinished = file.with_extension("new");
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut opened = options.open(&unfinished)?;
    opened.write_all(bytes)?;
    opened.sync_all()?;
    fs::rename(&unfinished, file)
}
