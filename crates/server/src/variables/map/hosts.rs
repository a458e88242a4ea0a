//! Host names with wildcards as keys: `*.example.org`, `.example.org`, `www.example.*`.

use std::collections::{HashMap, HashSet};

type Table = HashMap<Box<[u8]>, usize, super::Hasher>;

/// What a key looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostKey<'k> {
    Exact(&'k [u8]),
    /// `.example.org`: the name and all below it.
    Domain(&'k [u8]),
    /// `*.example.org`: all below the name.
    Below(&'k [u8]),
    /// `www.example.*`.
    Trailing(&'k [u8]),
}

impl HostKey<'_> {
    /// Reads a key; `None` if its asterisks or dots stand where they may not.
    #[must_use]
    pub fn parse(key: &[u8]) -> Option<HostKey<'_>> {
        let asterisks = key.iter().filter(|&&byte| byte == b'*').count();
        if asterisks > 1 || key.contains(&0) || key.windows(2).any(|pair| pair == b"..") {
            return None;
        }
        match key {
            [b'.', name @ ..] if !name.is_empty() => Some(HostKey::Domain(name)),
            [b'*', b'.', name @ ..] if !name.is_empty() => Some(HostKey::Below(name)),
            [name @ .., b'.', b'*'] if !name.is_empty() => Some(HostKey::Trailing(name)),
            _ if asterisks > 0 => None,
            name => Some(HostKey::Exact(name)),
        }
    }
}

/// The keys with wildcards, in lower case.
#[derive(Debug, Default)]
pub struct HostKeys {
    /// Names that are a `.name` key; they also stand in `below`.
    domains: HashSet<Box<[u8]>, super::Hasher>,
    below: Table,
    trailing: Table,
}

impl HostKeys {
    /// Whether `.name` is a key, so that `name` may not be one.
    #[must_use]
    pub fn has_domain(&self, name: &[u8]) -> bool {
        self.domains.contains(name)
    }

    /// Adds a key; false if it is there already. Exact names are not kept here.
    pub fn add(&mut self, key: HostKey<'_>, value: usize) -> bool {
        let (table, name) = match key {
            HostKey::Exact(_) => return true,
            HostKey::Domain(name) | HostKey::Below(name) => (&mut self.below, name),
            HostKey::Trailing(name) => (&mut self.trailing, name),
        };
        if table.contains_key(name) {
            return false;
        }
        table.insert(name.into(), value);
        if let HostKey::Domain(name) = key {
            self.domains.insert(name.into());
        }
        true
    }

    /// The longest wildcard at the front that matches, or else the longest at the end.
    #[must_use]
    pub fn find(&self, host: &[u8]) -> Option<usize> {
        if self.has_domain(host) {
            return self.below.get(host).copied();
        }
        let below = || {
            memchr::memchr_iter(b'.', host)
                .find_map(|dot| self.below.get(&host[dot + 1..]).copied())
        };
        let trailing = || {
            memchr::memrchr_iter(b'.', host)
                .find_map(|dot| self.trailing.get(&host[..dot]).copied())
        };
        below().or_else(trailing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_nginx_reads_them() {
        for (key, expected) in [
            ("a.b", Some(HostKey::Exact(b"a.b"))),
            ("", Some(HostKey::Exact(b""))),
            (".", Some(HostKey::Exact(b"."))),
            (".a.b", Some(HostKey::Domain(b"a.b"))),
            ("*.a.b", Some(HostKey::Below(b"a.b"))),
            ("a.b.*", Some(HostKey::Trailing(b"a.b"))),
            ("*", None),
            ("a.*.b", None),
            ("*.a.*", None),
            ("a..b", None),
        ] {
            assert_eq!(HostKey::parse(key.as_bytes()), expected, "{key}");
        }
    }

    #[test]
    fn the_longest_name_wins() {
        let mut keys = HostKeys::default();
        for (value, key) in [".a.b", "*.x.a.b", "*.c", "www.*", "www.d.*"]
            .iter()
            .enumerate()
        {
            let key = HostKey::parse(key.as_bytes()).expect("a key");
            assert!(keys.add(key, value));
            assert!(!keys.add(key, value));
        }
        for (host, expected) in [
            ("a.b", Some(0)),
            ("q.a.b", Some(0)),
            ("x.a.b", Some(0)),
            ("q.x.a.b", Some(1)),
            ("c", None),
            (".c", Some(2)),
            ("www.c", Some(2)),
            ("www.d", Some(3)),
            ("www.d.e", Some(4)),
            ("www.e.f", Some(3)),
            ("www", None),
        ] {
            assert_eq!(keys.find(host.as_bytes()), expected, "{host}");
        }
    }
}
