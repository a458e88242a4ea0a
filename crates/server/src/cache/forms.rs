//! What was made of a response that is kept, such as its body in gzip: entries of the same zone, which belong to the
//! response. They are found by its version, so that those of a former response never are, and go when it goes.

use super::entry::{Entry, Facts, Times};
use super::zone::{AtOnce, Kept, MEMORY_BODY_MAX, Zone};
use crate::store::{Key, Store, Writer, unix_seconds};
use bytes::{Bytes, BytesMut};
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

/// What stands between a response's key and the name of a form.
const MARK: &[u8] = b"\0form:";
/// Forms have no head of their own: the response's serves them.
const NO_HEAD: &[u8] = b"\r\n";
/// The status of a form's entry, by which it is told from responses.
pub const STATUS: u16 = 0;

/// The version of a response that comes. They begin anywhere, so that those of former processes do not come again.
#[must_use]
pub fn next_version() -> u64 {
    static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| {
        let mut bytes = [0; 8];
        // Without randomness, the time.
        match sys::machine::random(&mut bytes) {
            Ok(()) => AtomicU64::new(u64::from_le_bytes(bytes)),
            Err(_) => AtomicU64::new(unix_seconds() << 32),
        }
    });
    NEXT.fetch_add(1, Ordering::Relaxed).max(1)
}

/// The forms of a response that is kept, or about to be.
#[derive(Debug)]
pub struct Forms {
    zone: Arc<Zone>,
    text: Bytes,
    version: u64,
    /// The response is only coming: there are none yet.
    is_new: bool,
    /// The one that was found or made.
    used: RefCell<Option<Arc<Entry>>>,
}

impl Forms {
    /// Of the response of an entry.
    #[must_use]
    pub fn of(zone: &Arc<Zone>, entry: &Entry, is_new: bool) -> Rc<Forms> {
        Rc::new(Forms {
            zone: Arc::clone(zone),
            text: entry.text.clone(),
            version: entry.facts.version,
            is_new,
            used: RefCell::default(),
        })
    }

    /// The form of a name.
    #[must_use]
    pub fn named(self: &Rc<Self>, name: &str) -> Form {
        Form {
            text: Bytes::from(self.text_of(name)),
            forms: Rc::clone(self),
        }
    }

    fn text_of(&self, name: &str) -> Vec<u8> {
        let version = format!("{:016x}:{name}", self.version);
        [&self.text[..], MARK, version.as_bytes()].concat()
    }

    /// Notes a use of the one that was found or made.
    pub fn note_use(&self, second: u64) {
        if let Some(entry) = &*self.used.borrow() {
            entry.note_use(second);
        }
    }

    /// The store, for what is no response's body.
    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.zone.store
    }

    /// What the texts of all forms begin with in the store.
    #[must_use]
    pub fn prefix(&self) -> Vec<u8> {
        self.text_of("")
    }

    /// The group of all forms in the store.
    #[must_use]
    pub fn group(&self) -> u64 {
        Key::of(&self.text).group()
    }
}

/// One form of a response.
#[derive(Debug, Clone)]
pub struct Form {
    forms: Rc<Forms>,
    text: Bytes,
}

impl Form {
    /// The form, if it is kept, as far as that is known at once.
    #[must_use]
    pub fn find(&self) -> AtOnce {
        if self.forms.is_new {
            return AtOnce::Nothing;
        }
        let found = self.forms.zone.find_at_once(&self.text);
        if let AtOnce::Kept(kept) = &found {
            self.note(&kept.entry);
        }
        found
    }

    /// The same, with a look at the disk off the thread.
    pub async fn load(self) -> Option<Kept> {
        let kept = self.forms.zone.find_on_disk(&self.text).await?;
        self.note(&kept.entry);
        Some(kept)
    }

    fn note(&self, entry: &Arc<Entry>) {
        entry.note_use(unix_seconds());
        *self.forms.used.borrow_mut() = Some(Arc::clone(entry));
    }

    /// Keeps the form, which was made of so many bytes.
    pub fn keep(&self, body: &Bytes, made_of: u64) {
        if self.forms.zone.knows(&self.text) {
            return;
        }
        let facts = facts(made_of);
        if let Some(entry) = Entry::new(self.text.clone(), facts, Some(body.clone())) {
            let entry = Arc::new(entry);
            *self.forms.used.borrow_mut() = Some(Arc::clone(&entry));
            self.forms.zone.keep_form(entry, self.forms.group());
        }
    }

    /// Begins to keep the form in pieces, unless it is kept already or somebody else does.
    #[must_use]
    pub fn begin(&self) -> Option<Making> {
        let zone = &self.forms.zone;
        let key = Key::of(&self.text);
        if zone.knows(&self.text) || !zone.begin_form(key) {
            return None;
        }
        let begun = zone
            .store
            .writer(&self.text, &facts(0).encode(), self.forms.group());
        match begun {
            Ok(writer) => Some(Making {
                zone: Arc::clone(zone),
                key,
                text: self.text.clone(),
                writer: Some(writer),
                small: Some(BytesMut::new()),
            }),
            Err(error) => {
                zone.complain("write", &error);
                zone.end_form(key);
                None
            }
        }
    }
}

fn facts(made_of: u64) -> Facts {
    Facts {
        times: Times {
            valid_until: i64::MAX,
            stored: i64::try_from(unix_seconds()).unwrap_or(i64::MAX),
            ..Times::default()
        },
        is_cgi: true,
        status: STATUS,
        variant: made_of,
        head: Bytes::from_static(NO_HEAD),
        ..Facts::default()
    }
}

/// A form that is being made; dropped before its end, it leaves nothing.
pub struct Making {
    zone: Arc<Zone>,
    key: Key,
    text: Bytes,
    /// None after an error.
    writer: Option<Writer>,
    /// What goes into memory, too, while it is small enough.
    small: Option<BytesMut>,
}

impl Making {
    pub fn write(&mut self, bytes: &[u8]) {
        if let Some(small) = &mut self.small {
            small.extend_from_slice(bytes);
            if small.len() as u64 > MEMORY_BODY_MAX {
                self.small = None;
            }
        }
        let written = self.writer.as_mut().map(|writer| writer.write(bytes));
        if let Some(Err(error)) = written {
            self.give_up(&error);
        }
    }

    fn give_up(&mut self, error: &io::Error) {
        self.zone.complain("write", error);
        self.writer = None;
    }

    /// It is whole, and was made of so many bytes.
    pub fn finish(mut self, made_of: u64) {
        let Some(mut writer) = self.writer.take() else {
            return;
        };
        let facts = facts(made_of);
        let body = self.small.take().map(BytesMut::freeze);
        let Some(entry) = Entry::new(self.text.clone(), facts, body) else {
            return;
        };
        let finished = writer
            .set_metadata(&entry.facts.encode())
            .and_then(|()| writer.finish(&self.zone.store));
        match finished {
            Ok(slot) => self.zone.adopt_form(&Arc::new(entry), slot),
            Err(error) => self.zone.complain("write", &error),
        }
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        self.zone.end_form(self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_differ_and_forms_can_be_read() {
        assert_ne!(next_version(), next_version());
        let entry = Entry::new(Bytes::from_static(b"k"), facts(7), None).expect("readable");
        let read = Facts::decode(&facts(7).encode()).expect("readable");
        assert_eq!((entry.facts.variant, read.variant, read.status), (7, 7, 0));
    }
}
