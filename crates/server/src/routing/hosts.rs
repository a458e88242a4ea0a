//! `server_name`: which server answers for a host at one listening address.

use super::pattern::Matcher;
use crate::config::model::ServerId;
use crate::http::Request;
use crate::variables::map::hosts::{HostKey, HostKeys};
use bytes::Bytes;
use std::collections::HashMap;

type Hasher = foldhash::fast::RandomState;

/// One name of a `server_name` directive.
#[derive(Debug, Clone)]
pub struct ServerName {
    /// As written, in lower case unless it is a pattern; a pattern with its `~`.
    pub text: Bytes,
    pattern: Option<Box<Matcher>>,
}

impl ServerName {
    /// A name, perhaps with wildcards.
    #[must_use]
    pub fn plain(text: &[u8]) -> ServerName {
        ServerName {
            text: text.to_ascii_lowercase().into(),
            pattern: None,
        }
    }

    /// `~pattern`.
    #[must_use]
    pub fn pattern(text: &[u8], matcher: Matcher) -> ServerName {
        ServerName {
            text: Bytes::copy_from_slice(text),
            pattern: Some(Box::new(matcher)),
        }
    }

    /// The pattern, if the name is one.
    #[must_use]
    pub fn as_pattern(&self) -> Option<&Matcher> {
        self.pattern.as_deref()
    }

    /// The name as `$server_name` has it: without the dot of `.example.org`.
    #[must_use]
    pub fn shown(&self) -> Bytes {
        match self.text.first() {
            Some(b'.') => self.text.slice(1..),
            _ => self.text.clone(),
        }
    }
}

/// The servers of one listening address.
#[derive(Debug, Default)]
pub struct Hosts {
    pub default: ServerId,
    /// The address has one server and no pattern of it has groups, so that no name matters.
    only_default: bool,
    exact: HashMap<Bytes, ServerId, Hasher>,
    wildcards: Option<Box<HostKeys>>,
    patterns: Vec<(Box<Matcher>, ServerId)>,
}

/// What is wrong with a name among others of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameError {
    /// It stands here already; the second one is ignored.
    Conflict(Bytes),
    /// Its asterisks or dots stand where they may not.
    Invalid(Bytes),
}

impl Hosts {
    /// An address of which only the default server is known.
    #[must_use]
    pub fn of_default(default: ServerId) -> Hosts {
        Hosts {
            default,
            only_default: true,
            ..Hosts::default()
        }
    }

    /// The table of an address with `servers` in the order of the file; what is wrong with their names goes to `errors`.
    /// As in nginx, the names of an address's only server are not looked at.
    #[must_use]
    pub fn new(
        default: ServerId,
        servers: &[(ServerId, &[ServerName])],
        errors: &mut Vec<NameError>,
    ) -> Hosts {
        let captures = |name: &ServerName| {
            name.pattern
                .as_ref()
                .is_some_and(|matcher| matcher.pattern.has_groups())
        };
        let mut hosts = Hosts {
            default,
            only_default: match servers {
                [(_, names)] => !names.iter().any(captures),
                _ => false,
            },
            ..Hosts::default()
        };
        if hosts.only_default {
            return hosts;
        }
        for (server, names) in servers {
            for name in *names {
                if let Err(error) = hosts.add(name, *server) {
                    errors.push(error);
                }
            }
            if names.is_empty() {
                // A server without a name answers where no host was given.
                if let Err(error) = hosts.add(&ServerName::plain(b""), *server) {
                    errors.push(error);
                }
            }
        }
        hosts
    }

    fn add(&mut self, name: &ServerName, server: ServerId) -> Result<(), NameError> {
        if let Some(matcher) = &name.pattern {
            self.patterns.push((matcher.clone(), server));
            return Ok(());
        }
        let key =
            HostKey::parse(&name.text).ok_or_else(|| NameError::Invalid(name.text.clone()))?;
        let conflict = || NameError::Conflict(name.text.clone());
        let has_domain = |name: &[u8]| {
            self.wildcards
                .as_ref()
                .is_some_and(|wildcards| wildcards.has_domain(name))
        };
        match key {
            HostKey::Exact(host) => {
                if has_domain(host) || self.exact.contains_key(host) {
                    return Err(conflict());
                }
                self.exact.insert(name.text.clone(), server);
            }
            HostKey::Domain(host) if self.exact.contains_key(host) => return Err(conflict()),
            key => {
                let wildcards = self.wildcards.get_or_insert_default();
                if !wildcards.add(key, server as usize) {
                    return Err(conflict());
                }
            }
        }
        Ok(())
    }

    /// The server for `host` (lower case, without port): exact, longest `*.x`, longest `x.*`, first pattern, default.
    /// A pattern's captures are kept in the request.
    pub fn find(&self, host: &[u8], request: &Request) -> ServerId {
        self.named(host, request).unwrap_or(self.default)
    }

    /// The same for a server that has this name. As in nginx, the names of an address's only server are not looked at.
    pub fn named(&self, host: &[u8], request: &Request) -> Option<ServerId> {
        if self.only_default {
            return None;
        }
        if let Some(&server) = self.exact.get(host) {
            return Some(server);
        }
        let wildcard = self.wildcards.as_ref().and_then(|keys| keys.find(host));
        if let Some(server) = wildcard {
            return Some(server as ServerId);
        }
        if !host.is_empty() {
            for (matcher, server) in &self.patterns {
                if matcher.matches(request, host).unwrap_or(false) {
                    return Some(*server);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(names: &[&[&str]]) -> Vec<NameError> {
        let names: Vec<Vec<ServerName>> = names
            .iter()
            .map(|names| {
                let plain = |name: &&str| ServerName::plain(name.as_bytes());
                names.iter().map(plain).collect()
            })
            .collect();
        let servers: Vec<(ServerId, &[ServerName])> = names
            .iter()
            .enumerate()
            .map(|(id, names)| (id as ServerId, &names[..]))
            .collect();
        let mut errors = Vec::new();
        let hosts = Hosts::new(0, &servers, &mut errors);
        assert_eq!(hosts.only_default, servers.len() == 1);
        errors
    }

    #[test]
    fn names_may_stand_once_at_an_address() {
        let conflict = |name: &'static str| NameError::Conflict(Bytes::from(name));
        assert_eq!(errors(&[&["a", "a", "x*y"]]), []);
        assert_eq!(errors(&[&["a"], &["b", "A"]]), [conflict("a")]);
        assert_eq!(
            errors(&[&[".a"], &["a"], &["*.a"]]),
            [conflict("a"), conflict("*.a")]
        );
        assert_eq!(errors(&[&["a"], &[".a"]]), [conflict(".a")]);
        assert_eq!(errors(&[&[], &[""]]), [conflict("")]);
        assert_eq!(
            errors(&[&["a*b"], &["b"]]),
            [NameError::Invalid(Bytes::from("a*b"))]
        );
    }

    #[test]
    fn a_leading_dot_is_not_shown() {
        assert_eq!(ServerName::plain(b".Example.org").shown(), "example.org");
        assert_eq!(ServerName::plain(b"*.example.org").shown(), "*.example.org");
    }
}
