//! `geoip2 FILE { … }`: variables by what a MaxMind database says of an address: a country, a city, a network's owner.

pub mod database; // the file, read and read again
pub mod directive; // the directives in the configuration

use super::registry::VariableId;
use super::template::Template;
use crate::http::forwarded::{self, Trusted};
use crate::http::network::parse_address;
use crate::http::request::Slot;
use crate::http::{Request, thread};
use bytes::Bytes;
use database::{Database, Path};
use std::net::IpAddr;
use std::sync::Arc;
use wire::http1::Known;

/// Whose X-Forwarded-For is believed.
#[derive(Debug, Default)]
pub struct Proxies {
    pub trusted: Trusted,
    pub recursive: Option<bool>,
}

/// A variable of a block.
#[derive(Debug)]
pub struct Geoip2 {
    pub database: Arc<Database>,
    pub what: What,
}

/// What a variable tells.
#[derive(Debug)]
pub enum What {
    BuildEpoch,
    LastCheck,
    LastChange,
    Record(Record),
}

/// A part of an address's record.
#[derive(Debug)]
pub struct Record {
    pub path: Path,
    pub default: Option<Bytes>,
    /// What holds the address; without it the client's.
    pub source: Option<Template>,
}

impl Geoip2 {
    /// Appends the value for `request`, and keeps it for the variable `id`; false: there is none.
    pub fn append(&self, id: VariableId, request: &Request, out: &mut Vec<u8>) -> bool {
        self.database.check(thread::unix_ms() / 1000);
        let value = match &self.what {
            What::BuildEpoch => Some(number(self.database.build_epoch())),
            What::LastCheck => Some(number(self.database.last_check())),
            What::LastChange => Some(number(self.database.last_change())),
            What::Record(record) => {
                let found = record
                    .address(request)
                    .and_then(|address| self.database.find(address, &record.path));
                found.map(Bytes::from).or_else(|| record.default.clone())
            }
        };
        let Some(value) = value else { return false };
        out.extend_from_slice(&value);
        request.assign(id, Slot::Value(value));
        true
    }
}

fn number(number: u64) -> Bytes {
    Bytes::from(number.to_string())
}

impl Record {
    fn address(&self, request: &Request) -> Option<IpAddr> {
        match &self.source {
            Some(source) => parse_address(&source.evaluate(request)),
            None => client(request),
        }
    }
}

/// The client, or whom the proxies before this server name.
fn client(request: &Request) -> Option<IpAddr> {
    let peer = request.remote().ip();
    let proxies = &request.generation.config.http.geoip2;
    if proxies.trusted.is_empty() {
        return peer;
    }
    let values = request.fields_known(Known::XForwardedFor);
    let recursive = proxies.recursive.unwrap_or(false);
    match forwarded::client(peer, values, &proxies.trusted, recursive) {
        Some(client) => Some(client.ip()),
        None => peer,
    }
}
