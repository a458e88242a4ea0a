//! Numbers for variable names while the configuration is read, and the table they are evaluated by afterwards.

use super::builtin::{self, Evaluate, EvaluateSuffix};
use super::map::Map;
use crate::config::setting::Complaint;
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
    Map(Box<Map>),
}

/// What a module of the configuration declares a variable to be.
pub enum Definition {
    Assigned,
    Map(Box<Map>),
}

/// The names met so far.
#[derive(Default)]
pub struct Registry {
    names: Vec<Box<[u8]>>,
    numbers: HashMap<Box<[u8]>, VariableId>,
    definitions: HashMap<VariableId, Definition>,
}

impl Registry {
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

    /// Defines a variable that requests assign; a built-in name that cannot be assigned is nginx's "duplicate variable".
    pub fn assigned(&mut self, name: &[u8]) -> Result<VariableId, Complaint> {
        if builtin::find(&name.to_ascii_lowercase()).is_some() && !builtin::is_assignable(name) {
            return Err(format!(
                "the duplicate \"{}\" variable",
                String::from_utf8_lossy(name)
            )
            .into());
        }
        let id = self.reference(name);
        self.definitions.entry(id).or_insert(Definition::Assigned);
        Ok(id)
    }

    /// Defines a variable worked out by a map.
    pub fn map(&mut self, name: &[u8], map: Map) -> Result<VariableId, Complaint> {
        if builtin::find(&name.to_ascii_lowercase()).is_some() {
            return Err(format!(
                "the duplicate \"{}\" variable",
                String::from_utf8_lossy(name)
            )
            .into());
        }
        let id = self.reference(name);
        self.definitions.insert(id, Definition::Map(Box::new(map)));
        Ok(id)
    }

    /// The table for serving; a name that nobody defines is an error without a position, as in nginx.
    pub fn finish(mut self) -> Result<Variables, Complaint> {
        let mut kinds = Vec::with_capacity(self.names.len());
        for (index, name) in self.names.iter().enumerate() {
            let kind = match self.definitions.remove(&VariableId(index as u32)) {
                Some(Definition::Map(map)) => Kind::Map(map),
                Some(Definition::Assigned) => match builtin::find(name) {
                    Some(kind) => kind,
                    None => Kind::Assigned,
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
        Ok(Variables {
            kinds,
            names: self.names,
        })
    }
}

/// The variables of a configuration by number.
#[derive(Debug, Default)]
pub struct Variables {
    pub kinds: Vec<Kind>,
    pub names: Vec<Box<[u8]>>,
}
