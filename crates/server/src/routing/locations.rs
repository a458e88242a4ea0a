//! Which location of a server serves a path: exact, longest prefix, `^~`, first matching pattern, nested.

use super::pattern::{GivenUp, Matcher};
use crate::config::model::{Http, LocationId};
use crate::http::Request;
use bytes::Bytes;
use std::collections::HashMap;

type Hasher = foldhash::fast::RandomState;

/// The locations directly inside a server or location.
#[derive(Debug, Default)]
pub struct Routes {
    exact: HashMap<Bytes, LocationId, Hasher>,
    /// Sorted by path, so that the longest prefix is found by bisection.
    prefixes: Vec<Prefix>,
    patterns: Vec<(Matcher, LocationId)>,
    /// Locations that pass requests on and whose path ends in a slash, by the path without it: requests for that are
    /// sent there.
    slashes: HashMap<Bytes, LocationId, Hasher>,
}

#[derive(Debug)]
struct Prefix {
    path: Bytes,
    no_regex: bool,
    location: LocationId,
    /// The next shorter prefix that this one begins with.
    shorter: Option<u32>,
}

impl Routes {
    /// Adds `location = path`; false if it is there already.
    pub fn add_exact(&mut self, path: Bytes, location: LocationId) -> bool {
        self.exact.insert(path, location).is_none()
    }

    /// Adds a prefix location; false if it is there already.
    pub fn add_prefix(&mut self, path: Bytes, no_regex: bool, location: LocationId) -> bool {
        if self.prefixes.iter().any(|prefix| prefix.path == path) {
            return false;
        }
        self.prefixes.push(Prefix {
            path,
            no_regex,
            location,
            shorter: None,
        });
        true
    }

    /// Notes that the location `path` passes requests on.
    pub fn add_relay(&mut self, path: &Bytes, location: LocationId) {
        if path.last() == Some(&b'/') {
            self.slashes.insert(path.slice(..path.len() - 1), location);
        }
    }

    /// Adds a location with a pattern; they are tried in the order they are added.
    pub fn add_pattern(&mut self, matcher: Matcher, location: LocationId) {
        self.patterns.push((matcher, location));
    }

    /// Orders the prefixes; to be called once after all were added.
    pub fn finish(&mut self) {
        self.prefixes.sort_by(|a, b| a.path.cmp(&b.path));
        // The prefixes of the one at hand that were passed; each begins with the one before it.
        let mut open: Vec<usize> = Vec::new();
        for index in 0..self.prefixes.len() {
            let path = self.prefixes[index].path.clone();
            while open
                .last()
                .is_some_and(|&before| !path.starts_with(&self.prefixes[before].path))
            {
                open.pop();
            }
            self.prefixes[index].shorter = open.last().map(|&before| before as u32);
            open.push(index);
        }
    }

    fn longest_prefix(&self, path: &[u8]) -> Option<&Prefix> {
        let after = self
            .prefixes
            .partition_point(|prefix| prefix.path[..] <= *path);
        let mut candidate = after.checked_sub(1);
        while let Some(index) = candidate {
            let prefix = &self.prefixes[index];
            if path.starts_with(&prefix.path) {
                return Some(prefix);
            }
            candidate = prefix.shorter.map(|shorter| shorter as usize);
        }
        None
    }
}

/// How sure a location is.
enum Found {
    /// Nothing that stands further out can take its place.
    Final(LocationId),
    /// A prefix; a pattern further out goes before it.
    Prefix(LocationId),
    None,
}

/// The location of the request's path below `routes`, if there is one; captures of its pattern are kept in the request.
pub fn find(
    http: &Http,
    routes: &Routes,
    request: &Request,
) -> Result<Option<LocationId>, GivenUp> {
    Ok(match walk(http, routes, request)? {
        Found::Final(location) | Found::Prefix(location) => Some(location),
        Found::None => None,
    })
}

/// nginx's order: the exact path, else down into the longest prefix, then the patterns from the innermost level outwards.
/// `^~` holds off the patterns of its own level only.
fn walk(http: &Http, routes: &Routes, request: &Request) -> Result<Found, GivenUp> {
    let path = &request.uri[..];
    if !routes.exact.is_empty()
        && let Some(&location) = routes.exact.get(path)
    {
        return Ok(Found::Final(location));
    }
    let mut found = Found::None;
    let mut no_regex = false;
    let prefix = routes.longest_prefix(path);
    if !routes.slashes.is_empty()
        && let Some(&location) = routes.slashes.get(path)
        && prefix.is_none_or(|prefix| prefix.path.len() < path.len())
    {
        return Ok(Found::Final(location));
    }
    if let Some(prefix) = prefix {
        no_regex = prefix.no_regex;
        let inner = &http.locations[prefix.location as usize].routes;
        found = match walk(http, inner, request)? {
            Found::Final(location) => return Ok(Found::Final(location)),
            Found::Prefix(location) => Found::Prefix(location),
            Found::None => Found::Prefix(prefix.location),
        };
    }
    if no_regex {
        return Ok(found);
    }
    for (matcher, location) in &routes.patterns {
        if matcher.matches(request, path)? {
            let inner = &http.locations[*location as usize].routes;
            return Ok(Found::Final(match walk(http, inner, request)? {
                Found::Final(inner) | Found::Prefix(inner) => inner,
                Found::None => *location,
            }));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The prefix that is found for each path.
    fn check(prefixes: &[&'static str], expected: &[(&str, Option<&str>)]) {
        let mut routes = Routes::default();
        for (id, prefix) in prefixes.iter().enumerate() {
            assert!(routes.add_prefix(Bytes::from(*prefix), false, id as LocationId));
            assert!(!routes.add_prefix(Bytes::from(*prefix), true, id as LocationId));
        }
        routes.finish();
        for (path, expected) in expected {
            let found = routes
                .longest_prefix(path.as_bytes())
                .map(|prefix| prefixes[prefix.location as usize]);
            assert_eq!(found, *expected, "{path}");
        }
    }

    #[test]
    fn the_longest_prefix_is_found() {
        check(
            &["/", "/abd", "/a", "/abc", "/abcde", "/b/"],
            &[
                ("/", Some("/")),
                ("/abcd", Some("/abc")),
                ("/abcde", Some("/abcde")),
                ("/abcdf", Some("/abc")),
                ("/abdd", Some("/abd")),
                ("/abe", Some("/a")),
                ("/b", Some("/")),
                ("/b/c", Some("/b/")),
                ("/z", Some("/")),
                ("x", None),
                ("", None),
            ],
        );
        check(&[], &[("/", None)]);
        check(&["", "/a"], &[("x", Some("")), ("/b", Some(""))]);
    }
}
