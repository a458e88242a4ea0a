//! `server_name`: which server answers for a host at one listening address.

use super::pattern::Pattern;
use crate::config::model::ServerId;
use crate::http::Request;
use crate::variables::VariableId;
use bytes::Bytes;
use std::collections::HashMap;

/// One name of a `server_name` directive.
#[derive(Debug, Clone)]
pub enum ServerName {
    Exact(Bytes),
    /// `*.example.org`; also `.example.org`, which adds the bare name as an exact one. Kept without the asterisk and dot.
    LeadingWildcard(Bytes),
    /// `www.example.*`, kept without `.*`.
    TrailingWildcard(Bytes),
    Regex(Box<NamePattern>),
}

/// `~pattern` with the variables that its named groups assign.
#[derive(Debug, Clone)]
pub struct NamePattern {
    pub pattern: Pattern,
    pub groups: Vec<(usize, VariableId)>,
}

/// The servers of one listening address.
#[derive(Debug, Default)]
pub struct Hosts {
    pub default: ServerId,
    exact: HashMap<Bytes, ServerId>,
    leading: HashMap<Bytes, ServerId>,
    trailing: HashMap<Bytes, ServerId>,
    patterns: Vec<(Box<NamePattern>, ServerId)>,
}

impl Hosts {
    /// The table of an address whose default server is `default`.
    #[must_use]
    pub fn new(default: ServerId) -> Hosts {
        Hosts {
            default,
            ..Hosts::default()
        }
    }

    /// Adds a server's name; false if the same name stands here already (nginx warns and ignores the second).
    pub fn add(&mut self, name: &ServerName, server: ServerId) -> bool {
        let (table, key) = match name {
            ServerName::Exact(key) => (&mut self.exact, key),
            ServerName::LeadingWildcard(key) => (&mut self.leading, key),
            ServerName::TrailingWildcard(key) => (&mut self.trailing, key),
            ServerName::Regex(pattern) => {
                self.patterns.push((pattern.clone(), server));
                return true;
            }
        };
        if table.contains_key(key) {
            return false;
        }
        table.insert(key.clone(), server);
        true
    }

    /// The server for `host` (lower case, without port): exact, longest `*.x`, longest `x.*`, first pattern, default.
    /// A pattern's captures are kept in the request.
    pub fn find(&self, host: &[u8], request: &mut Request) -> ServerId {
        if let Some(&server) = self.exact.get(host) {
            return server;
        }
        if self.leading.is_empty() && self.trailing.is_empty() && self.patterns.is_empty() {
            return self.default;
        }
        self.find_leading(host)
            .or_else(|| self.find_trailing(host))
            .or_else(|| self.find_pattern(host, request))
            .unwrap_or(self.default)
    }

    fn find_leading(&self, host: &[u8]) -> Option<ServerId> {
        if self.leading.is_empty() {
            return None;
        }
        memchr::memchr_iter(b'.', host).find_map(|dot| self.leading.get(&host[dot + 1..]).copied())
    }

    fn find_trailing(&self, host: &[u8]) -> Option<ServerId> {
        if self.trailing.is_empty() {
            return None;
        }
        memchr::memrchr_iter(b'.', host).find_map(|dot| self.trailing.get(&host[..dot]).copied())
    }

    fn find_pattern(&self, host: &[u8], request: &mut Request) -> Option<ServerId> {
        for (name, server) in &self.patterns {
            if !name
                .pattern
                .capture(host, &mut request.captures.borrow_mut())
            {
                continue;
            }
            super::locations::assign_groups(request, &name.groups);
            return Some(*server);
        }
        None
    }
}
