//! Which location of a server serves a path: exact, longest prefix, `^~`, first matching pattern, nested.

use super::pattern::Pattern;
use crate::config::model::{Http, LocationId};
use crate::http::Request;
use crate::http::request::Slot;
use crate::variables::VariableId;
use bytes::Bytes;
use std::collections::HashMap;

/// The locations directly inside a server or location.
#[derive(Debug, Default)]
pub struct Routes {
    exact: HashMap<Bytes, LocationId>,
    /// Sorted by path, so that the longest prefix is found by bisection.
    prefixes: Vec<Prefix>,
    patterns: Vec<PatternRoute>,
}

#[derive(Debug)]
struct Prefix {
    path: Bytes,
    no_regex: bool,
    location: LocationId,
    /// The next shorter prefix that this one begins with.
    shorter: Option<u32>,
}

#[derive(Debug)]
struct PatternRoute {
    pattern: Pattern,
    groups: Vec<(usize, VariableId)>,
    location: LocationId,
}

/// What a server's locations say to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    Location(LocationId),
    /// None matches: the server's own settings apply.
    None,
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

    pub fn add_pattern(
        &mut self,
        pattern: Pattern,
        groups: Vec<(usize, VariableId)>,
        location: LocationId,
    ) {
        self.patterns.push(PatternRoute {
            pattern,
            groups,
            location,
        });
    }

    /// Orders the prefixes; to be called once after all were added.
    pub fn finish(&mut self) {
        self.prefixes.sort_by(|a, b| a.path.cmp(&b.path));
        for index in 0..self.prefixes.len() {
            let shorter = (0..index).rev().find(|&before| {
                self.prefixes[index]
                    .path
                    .starts_with(&self.prefixes[before].path)
            });
            self.prefixes[index].shorter = shorter.map(|before| before as u32);
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

/// The location of the request's path below `routes`; captures of a matching pattern are kept in the request.
pub fn find(http: &Http, routes: &Routes, request: &Request) -> Found {
    let mut suppressed = false;
    match walk(http, routes, request, &mut suppressed) {
        Some(location) => Found::Location(location),
        None => Found::None,
    }
}

/// nginx descends into the longest prefix first, then tries the patterns of each level from the innermost outwards.
fn walk(
    http: &Http,
    routes: &Routes,
    request: &Request,
    suppressed: &mut bool,
) -> Option<LocationId> {
    let path = &request.uri[..];
    if let Some(&location) = routes.exact.get(path) {
        *suppressed = true;
        return Some(location);
    }
    let mut found = None;
    if let Some(prefix) = routes.longest_prefix(path) {
        *suppressed = prefix.no_regex;
        found = Some(prefix.location);
        let inner = &http.locations[prefix.location as usize].routes;
        if let Some(location) = walk(http, inner, request, suppressed) {
            found = Some(location);
        }
    }
    if *suppressed {
        return found;
    }
    for route in &routes.patterns {
        if !route
            .pattern
            .capture(path, &mut request.captures.borrow_mut())
        {
            continue;
        }
        assign_groups(request, &route.groups);
        *suppressed = true;
        let inner = &http.locations[route.location as usize].routes;
        let mut inner_suppressed = false;
        return Some(walk(http, inner, request, &mut inner_suppressed).unwrap_or(route.location));
    }
    found
}

/// Gives the variables of named groups the values of the last match.
pub fn assign_groups(request: &Request, groups: &[(usize, VariableId)]) {
    for &(group, variable) in groups {
        let mut value = Vec::new();
        let slot = match request.capture(group, &mut value) {
            true => Slot::Value(Bytes::from(value)),
            false => Slot::NotFound,
        };
        request.assign(variable, slot);
    }
}
