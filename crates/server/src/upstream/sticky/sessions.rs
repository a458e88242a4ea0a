//! The sessions that `sticky learn` has learnt: which server each belongs to.

use bytes::Bytes;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// nginx keeps about 4000 sessions in a megabyte.
const SESSION_BYTES: u64 = 256;
/// Longer names of sessions are not learnt.
const NAME_MAX: usize = 256;

type Table = HashMap<Bytes, Session, foldhash::fast::RandomState>;

/// Sessions by name.
#[derive(Debug)]
pub struct Sessions {
    capacity: usize,
    timeout_ms: u64,
    table: Mutex<Table>,
}

#[derive(Debug, Clone)]
struct Session {
    server: Bytes,
    used_ms: u64,
}

impl Sessions {
    /// Room for as many as a zone of so many bytes has; one that is not used for `timeout_ms` is forgotten.
    #[must_use]
    pub fn new(bytes: u64, timeout_ms: u64) -> Sessions {
        Sessions {
            capacity: usize::try_from(bytes / SESSION_BYTES).unwrap_or(usize::MAX),
            timeout_ms,
            table: Mutex::default(),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server of a session, which is used now.
    #[must_use]
    pub fn find(&self, name: &Bytes, now_ms: u64) -> Option<Bytes> {
        let mut table = self.table();
        let session = table.get_mut(name)?;
        if now_ms.saturating_sub(session.used_ms) > self.timeout_ms {
            table.remove(name);
            return None;
        }
        session.used_ms = now_ms;
        Some(session.server.clone())
    }

    /// Notes the server of a session. When there is no room, those that are out of date go, or the less used half.
    pub fn learn(&self, name: Bytes, server: Bytes, now_ms: u64) {
        if name.len() > NAME_MAX {
            return;
        }
        let mut table = self.table();
        if table.len() >= self.capacity && !table.contains_key(&name) {
            let oldest = now_ms.saturating_sub(self.timeout_ms);
            table.retain(|_, session| session.used_ms >= oldest);
            if table.len() >= self.capacity {
                let mut times: Vec<u64> = table.values().map(|session| session.used_ms).collect();
                let middle = times.len() / 2;
                let (_, &mut median, _) = times.select_nth_unstable(middle);
                table.retain(|_, session| session.used_ms > median);
            }
        }
        let used_ms = now_ms;
        table.insert(name, Session { server, used_ms });
    }

    /// Takes over what a former configuration has learnt.
    pub fn adopt(&self, former: &Sessions) {
        let known = former.table().clone();
        *self.table() = known;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_kept_while_they_are_used() {
        let sessions = Sessions::new(1 << 20, 1000);
        sessions.learn("a".into(), "one".into(), 0);
        for (now, found) in [(900, true), (1800, true), (2900, false), (2900, false)] {
            assert_eq!(sessions.find(&"a".into(), now).is_some(), found, "{now}");
        }
        sessions.learn("x".repeat(NAME_MAX + 1).into(), "one".into(), 0);
        assert!(sessions.table().is_empty());
    }

    #[test]
    fn room_is_bounded_and_the_used_ones_stay() {
        let sessions = Sessions::new(8 * SESSION_BYTES, 1000);
        for number in 0..100u64 {
            sessions.learn(format!("{number}").into(), "one".into(), number);
            assert!(sessions.table().len() <= 8);
        }
        assert!(sessions.find(&"99".into(), 100).is_some());
    }
}
