//! Sessions of TLS that later connections take up again: a ticket for each of many users who connect at a time. The store
//! of the library holds eight a server, and those who come when there is none shake hands in full.

use rustls::NamedGroup;
use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue,
};
use rustls::pki_types::ServerName;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Tickets kept of a server; the oldest goes.
const TICKETS_MAX: usize = 4096;
/// Names whose sessions of TLS 1.2 are kept.
const NAMES_MAX: usize = 256;

/// All users share it.
#[derive(Debug)]
pub struct Sessions {
    /// Of TLS 1.2, where a session may be taken up any number of times.
    reusable: ClientSessionMemoryCache,
    tickets: Mutex<HashMap<ServerName<'static>, VecDeque<Tls13ClientSessionValue>>>,
}

impl Sessions {
    pub fn new() -> Sessions {
        Sessions {
            reusable: ClientSessionMemoryCache::new(NAMES_MAX),
            tickets: Mutex::default(),
        }
    }

    fn tickets(
        &self,
    ) -> MutexGuard<'_, HashMap<ServerName<'static>, VecDeque<Tls13ClientSessionValue>>> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, name: ServerName<'static>, group: NamedGroup) {
        self.reusable.set_kx_hint(name, group);
    }

    fn kx_hint(&self, name: &ServerName<'_>) -> Option<NamedGroup> {
        self.reusable.kx_hint(name)
    }

    fn set_tls12_session(&self, name: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.reusable.set_tls12_session(name, value);
    }

    fn tls12_session(&self, name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.reusable.tls12_session(name)
    }

    fn remove_tls12_session(&self, name: &ServerName<'static>) {
        self.reusable.remove_tls12_session(name);
    }

    fn insert_tls13_ticket(&self, name: ServerName<'static>, value: Tls13ClientSessionValue) {
        let mut tickets = self.tickets();
        let kept = tickets.entry(name).or_default();
        if kept.len() >= TICKETS_MAX {
            kept.pop_front();
        }
        kept.push_back(value);
    }

    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.tickets().get_mut(name)?.pop_back()
    }
}
