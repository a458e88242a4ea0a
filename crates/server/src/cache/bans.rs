//! What was purged and may still lie on the disk: by a key, by the beginning of keys, or by a tag of the responses. From the
//! purge on none of it is used as it was; the background comes after.

use super::entry::{Entry, VARIANT};
use super::tags;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Purges that are under way; beyond them everything is purged.
const BANS_MAX: usize = 1024;

/// What is kept and what is purged, counted together.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// The next number.
pub fn next_number() -> u64 {
    NUMBER.fetch_add(1, Ordering::Relaxed) + 1
}

/// What a purge means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A key in all its variants.
    Key(Box<[u8]>),
    Prefix(Box<[u8]>),
    Tag(Box<[u8]>),
}

/// A purge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ban {
    pub what: What,
    /// When it was; what is younger is not meant. Of what was kept by this process the numbers tell that exactly.
    pub second: i64,
    pub number: u64,
    /// What is meant is out of date from now on, and not gone.
    pub soft: bool,
}

/// What the purges say of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Holds,
    /// It was purged softly in this second.
    OutOfDate(i64),
    Gone,
}

impl Ban {
    fn covers(&self, entry: &Entry) -> bool {
        let text = &entry.text;
        match &self.what {
            What::Key(key) => {
                let behind = text.strip_prefix(&key[..]);
                behind.is_some_and(|behind| behind.is_empty() || behind.starts_with(VARIANT))
            }
            What::Prefix(prefix) => text.starts_with(prefix),
            What::Tag(tag) => tags::of(&entry.head, &entry.facts.head).any(|own| *own == **tag),
        }
    }
}

/// The purges of a zone.
#[derive(Debug, Default)]
pub struct Bans {
    list: Mutex<Vec<Arc<Ban>>>,
    any: AtomicBool,
}

impl Bans {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Ban>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(&self, ban: Ban) {
        let mut list = self.lock();
        list.retain(|known| known.what != ban.what || (ban.soft && !known.soft));
        if list.len() >= BANS_MAX {
            // One for all of them.
            let everything = Ban {
                what: What::Prefix(Box::default()),
                ..ban
            };
            list.clear();
            list.push(Arc::new(Ban {
                soft: false,
                ..everything
            }));
        } else {
            list.push(Arc::new(ban));
        }
        drop(list);
        self.any.store(true, Ordering::Release);
    }

    /// Whether there are any.
    #[must_use]
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    #[must_use]
    pub fn all(&self) -> Vec<Arc<Ban>> {
        self.lock().clone()
    }

    /// These were carried out; whether none is left.
    pub fn remove(&self, done: &[Arc<Ban>]) -> bool {
        let mut list = self.lock();
        list.retain(|ban| !done.iter().any(|other| Arc::ptr_eq(ban, other)));
        self.any.store(!list.is_empty(), Ordering::Release);
        list.is_empty()
    }

    #[must_use]
    pub fn verdict(&self, entry: &Entry) -> Verdict {
        match self.any() {
            false => Verdict::Holds,
            true => verdict(&self.lock(), entry),
        }
    }
}

/// What some purges say of an entry.
#[must_use]
pub fn verdict(bans: &[Arc<Ban>], entry: &Entry) -> Verdict {
    let times = entry.times();
    let number = entry.number.load(Ordering::Relaxed);
    let mut verdict = Verdict::Holds;
    for ban in bans {
        if number > ban.number || times.stored > ban.second || !ban.covers(entry) {
            continue;
        }
        if !ban.soft {
            return Verdict::Gone;
        }
        if times.valid_until >= ban.second {
            verdict = Verdict::OutOfDate(ban.second);
        }
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::entry::{Facts, Times, variant_text};
    use bytes::Bytes;

    fn entry(text: Bytes, tag: &str, stored: i64) -> Entry {
        let facts = Facts {
            times: Times {
                valid_until: 1000,
                stored,
                ..Times::default()
            },
            status: 200,
            head: Bytes::from(format!("HTTP/1.1 200 OK\r\nCache-Tag: {tag}\r\n\r\n")),
            ..Facts::default()
        };
        Entry::new(text, facts, None).expect("a head")
    }

    #[test]
    fn purges_mean_what_is_older_than_they_are() {
        let ban = |what, soft| {
            let second = 100;
            let number = next_number();
            vec![Arc::new(Ban {
                what,
                second,
                number,
                soft,
            })]
        };
        let key = || What::Key(b"/a"[..].into());
        let (text, other) = (Bytes::from_static(b"/a"), Bytes::from_static(b"/ab"));
        for (what, text, tag, stored, expected) in [
            (key(), text.clone(), "", 99, Verdict::Gone),
            (key(), text.clone(), "", 101, Verdict::Holds),
            (key(), variant_text(&text, 7), "", 99, Verdict::Gone),
            (key(), other.clone(), "", 99, Verdict::Holds),
            (What::Prefix(b"/a"[..].into()), other, "", 99, Verdict::Gone),
            (
                What::Tag(b"x"[..].into()),
                text.clone(),
                "y, x",
                99,
                Verdict::Gone,
            ),
            (What::Tag(b"x"[..].into()), text, "xy", 99, Verdict::Holds),
        ] {
            let entry = entry(text, tag, stored);
            assert_eq!(
                verdict(&ban(what.clone(), false), &entry),
                expected,
                "{what:?}"
            );
            let soft = match expected {
                Verdict::Gone => Verdict::OutOfDate(100),
                other => other,
            };
            assert_eq!(verdict(&ban(what, true), &entry), soft);
        }
    }

    #[test]
    fn too_many_purges_are_one_of_everything() {
        let bans = Bans::default();
        for number in 0..=BANS_MAX {
            bans.add(Ban {
                what: What::Tag(number.to_string().as_bytes().into()),
                second: 5,
                number: 1,
                soft: true,
            });
        }
        let all = bans.all();
        assert_eq!(all.len(), 1);
        assert_eq!(
            (all[0].soft, &all[0].what),
            (false, &What::Prefix(Box::default()))
        );
        assert!(bans.remove(&all) && !bans.any());
    }
}
