//! Numbers for variable names while the configuration is read, and the table they are evaluated by afterwards.

use super::builtin::{self, Evaluate, EvaluateSuffix};
use super::geo::Geo;
use super::geoip2::Geoip2;
use super::map::Map;
use super::split_clients::SplitClients;
use super::template::Template;
use crate::config::setting::Complaint;
use crate::http::Request;
use std::collections::HashMap;

/// The number of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VariableId(pub u32);

/// How a variable gets its value.
#[derive(Debug)]
pub enum Kind {
    /// Worked out anew at each use.
    Builtin(Evaluate),
    /// `$arg_x`, `$http_x` …: the function and the part of the name after the prefix.
    Prefixed(EvaluateSuffix, Box<[u8]>),
    /// Assigned by `set` or by a pattern's named capture; the request keeps the value.
    Assigned,
    /// Assigned by `set`; the function makes what is read before that.
    Set(Uninitialized),
    /// Worked out by a map; a value that the request keeps goes before it.
    Map(Box<Map>),
    /// Worked out by an address, or a hash; kept as a map's.
    Geo(Box<Geo>),
    Geoip2(Box<Geoip2>),
    SplitClients(Box<SplitClients>),
}

/// What is done about a variable that is read before it was assigned.
pub type Uninitialized = fn(&Request, VariableId);

/// What a module of the configuration declares a variable to be.
pub enum Definition {
    Assigned,
    Set(Uninitialized),
    Map(Box<Map>),
    Geo(Box<Geo>),
    Geoip2(Box<Geoip2>),
    SplitClients(Box<SplitClients>),
}

/// The names met so far.
#[derive(Default)]
pub struct Registry {
    names: Vec<Box<[u8]>>,
    numbers: HashMap<Box<[u8]>, VariableId>,
    definitions: HashMap<VariableId, Definition>,
    /// Some template uses `$1` … `$9`.
    pub captures_used: bool,
    /// One that decides about logs does.
    pub captures_logged: bool,
}

impl Registry {
    /// Notes what a template that decides about logs uses.
    pub fn note_logged(&mut self, template: &Template) {
        self.captures_logged |= template.uses_captures();
    }

    /// The number of `name` (without `$`), lower-cased as nginx does; the variable may be defined later.
    pub fn reference(&mut self, name: &[u8]) -> VariableId {
        let name: Box<[u8]> = name.to_ascii_lowercase().into();
        if let Some(&id) = self.numbers.get(&name) {
            return id;
        }
        let id = VariableId(self.names.len() as u32);
        self.names.push(name.clone());
        self.numbers.insert(name, id);
        id
    }

    /// Defines a variable that requests assign.
    pub fn assigned(&mut self, name: &[u8]) -> Result<VariableId, Complaint> {
        let id = self.define(name)?;
        self.definitions.entry(id).or_insert(Definition::Assigned);
        Ok(id)
    }

    /// Defines a variable that `set` assigns. As in nginx, one that was defined before stays what it was.
    pub fn set(
        &mut self,
        name: &[u8],
        uninitialized: Uninitialized,
    ) -> Result<VariableId, Complaint> {
        let id = self.define(name)?;
        self.definitions
            .entry(id)
            .or_insert(Definition::Set(uninitialized));
        Ok(id)
    }

    /// Defines a variable worked out by a map. As in nginx, a later definition takes the place of an earlier one.
    pub fn map(&mut self, name: &[u8], map: Map) -> Result<VariableId, Complaint> {
        let id = self.define(name)?;
        self.definitions.insert(id, Definition::Map(Box::new(map)));
        Ok(id)
    }

    /// The same for one worked out by an address.
    pub fn geo(&mut self, name: &[u8], geo: Geo) -> Result<VariableId, Complaint> {
        let id = self.define(name)?;
        self.definitions.insert(id, Definition::Geo(Box::new(geo)));
        Ok(id)
    }

    /// The same for one that a database of addresses tells.
    pub fn geoip2(&mut self, name: &[u8], geoip2: Geoip2) -> Result<VariableId, Complaint> {
        let id = self.define(name)?;
        self.definitions
            .insert(id, Definition::Geoip2(Box::new(geoip2)));
        Ok(id)
    }

    /// The same for one worked out by a hash.
    pub fn split_clients(
        &mut self,
        name: &[u8],
        split: SplitClients,
    ) -> Result<VariableId, Complaint> {
        let id = self.define(name)?;
        self.definitions
            .insert(id, Definition::SplitClients(Box::new(split)));
        Ok(id)
    }

    /// The number of a name that the configuration defines; one that is built in is nginx's "duplicate variable".
    pub fn define(&mut self, name: &[u8]) -> Result<VariableId, Complaint> {
        match builtin::is_assignable(&name.to_ascii_lowercase()) {
            true => Ok(self.reference(name)),
            false => Err(format!(
                "the duplicate \"{}\" variable",
                String::from_utf8_lossy(name)
            )
            .into()),
        }
    }

    /// The first name that nobody defines.
    #[must_use]
    pub fn undefined(&self) -> Option<&[u8]> {
        let names = self.names.iter().enumerate();
        names
            .filter(|(index, _)| !self.definitions.contains_key(&VariableId(*index as u32)))
            .map(|(_, name)| &**name)
            .find(|name| builtin::find(name).is_none())
    }

    /// The table for serving; a name that nobody defines is an error without a position, as in nginx.
    pub fn finish(mut self) -> Result<Variables, Complaint> {
        let mut kinds = Vec::with_capacity(self.names.len());
        for (index, name) in self.names.iter().enumerate() {
            let kind = match self.definitions.remove(&VariableId(index as u32)) {
                Some(Definition::Map(map)) => Kind::Map(map),
                Some(Definition::Geo(geo)) => Kind::Geo(geo),
                Some(Definition::Geoip2(geoip2)) => Kind::Geoip2(geoip2),
                Some(Definition::SplitClients(split)) => Kind::SplitClients(split),
                Some(definition) => match (builtin::find(name), definition) {
                    (Some(kind), _) if builtin::is_assigned_to_request(name) => kind,
                    (_, Definition::Set(uninitialized)) => Kind::Set(uninitialized),
                    _ => Kind::Assigned,
                },
                None => builtin::find(name).ok_or_else(|| {
                    Complaint::bare(format!(
                        "unknown \"{}\" variable",
                        String::from_utf8_lossy(name)
                    ))
                })?,
            };
            kinds.push(kind);
        }
        let uses_sent = self
            .names
            .iter()
            .any(|name| builtin::needs_sent_fields(name));
        let uses_upstream_fields = self
            .names
            .iter()
            .any(|name| builtin::needs_upstream_fields(name));
        Ok(Variables {
            kinds,
            uses_sent,
            uses_upstream_fields,
            captures_used: self.captures_used,
            names: self.names,
            numbers: self.numbers,
        })
    }
}

/// The variables of a configuration by number.
#[derive(Debug, Default)]
pub struct Variables {
    pub kinds: Vec<Kind>,
    /// Some template uses `$sent_http_…` or `$sent_trailer_…`, so that the fields of responses are recorded.
    pub uses_sent: bool,
    /// Some template uses `$upstream_http_…` or its kin, so that the fields of other servers' responses are kept.
    pub uses_upstream_fields: bool,
    /// Some template uses `$1` … `$9`, so that patterns without named groups are worth capturing.
    pub captures_used: bool,
    pub names: Vec<Box<[u8]>>,
    /// Their numbers, for names that stand in pages (`ssi`).
    pub numbers: HashMap<Box<[u8]>, VariableId>,
}

impl Variables {
    /// Appends the value of a name, in lower case, that stands in no configuration but in a page.
    pub fn append_named(&self, name: &[u8], request: &Request, out: &mut Vec<u8>) -> bool {
        if let Some(&id) = self.numbers.get(name) {
            return request.variable(id, out);
        }
        match builtin::find(name) {
            Some(Kind::Builtin(evaluate)) => evaluate(request, out),
            Some(Kind::Prefixed(evaluate, suffix)) => evaluate(request, &suffix, out),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_numbered_once_and_in_any_case() {
        let mut registry = Registry::default();
        let id = registry.reference(b"Host");
        assert_eq!(registry.reference(b"host"), id);
        assert_ne!(registry.reference(b"uri"), id);
        let variables = registry.finish().expect("both are built in");
        assert!(matches!(variables.kinds[0], Kind::Builtin(_)));
        assert!(!variables.uses_sent);
    }

    #[test]
    fn built_in_names_are_taken_and_others_must_be_defined() {
        let mut registry = Registry::default();
        let complaint = registry.assigned(b"URI").expect_err("built in");
        assert_eq!(complaint.text, "the duplicate \"URI\" variable");
        assert!(registry.assigned(b"http_x").is_ok());
        registry.reference(b"Nobody");
        let complaint = registry.finish().expect_err("never defined");
        assert_eq!(complaint.text, "unknown \"nobody\" variable");
    }

    #[test]
    fn assigning_to_a_prefixed_name_hides_the_built_in_one() {
        let mut registry = Registry::default();
        registry.assigned(b"http_x").expect("free");
        registry.assigned(b"args").expect("free");
        registry.reference(b"sent_http_x");
        let variables = registry.finish().expect("all are known");
        assert!(matches!(variables.kinds[0], Kind::Assigned));
        assert!(matches!(variables.kinds[1], Kind::Builtin(_)));
        assert!(variables.uses_sent);
    }
}
