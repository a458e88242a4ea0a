//! `types` and `default_type`: the Content-Type of a file by its extension.

use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, Outcome, Set, block, row};
use bytes::Bytes;
use conf::table::Row;
use conf::{Directive, Item};
use std::collections::HashMap;
use std::sync::Arc;

pub const DIRECTIVES: &[Row<Set>] = &[
    block(
        "types",
        HSL,
        Arity::Exactly(0),
        types,
        "Content-Types by file extension.",
    ),
    row(
        "default_type",
        HSL,
        Arity::Exactly(1),
        default_type,
        "The Content-Type of other files.",
    ),
];

/// Extensions (lower case, without the dot) and their types.
pub type Types = HashMap<Box<[u8]>, Bytes>;

crate::config::setting::settings! {
    types: Arc<Types> = Arc::new(default_types()),
    default_type: Bytes = Bytes::from_static(b"text/plain"),
}

fn default_types() -> Types {
    [
        (&b"html"[..], &b"text/html"[..]),
        (b"gif", b"image/gif"),
        (b"jpg", b"image/jpeg"),
    ]
    .into_iter()
    .map(|(extension, kind)| (extension.into(), Bytes::from_static(kind)))
    .collect()
}

impl Settings {
    /// The type of a path by what follows its last dot; dots of directories don't count.
    #[must_use]
    pub fn of_path(&self, path: &[u8]) -> Option<Bytes> {
        Some(self.find(path))
            .filter(|kind| !kind.is_empty())
            .cloned()
    }

    fn find(&self, path: &[u8]) -> &Bytes {
        let name = &path[memchr::memrchr(b'/', path).map_or(0, |slash| slash + 1)..];
        // As in nginx the dot of a hidden file begins no extension.
        let Some(dot) = memchr::memrchr(b'.', name).filter(|&dot| dot > 0) else {
            return &self.default_type;
        };
        let extension = &name[dot + 1..];
        let mut lower = [0; MAX_EXTENSION];
        let Some(lower) = lower.get_mut(..extension.len()) else {
            return &self.default_type;
        };
        lower.copy_from_slice(extension);
        lower.make_ascii_lowercase();
        self.types.get(&*lower).unwrap_or(&self.default_type)
    }
}

/// Longer extensions have the default type.
const MAX_EXTENSION: usize = 64;

fn types(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let mut types = build
        .location()
        .mime
        .types
        .0
        .as_deref()
        .cloned()
        .unwrap_or_default();
    for item in directive.block.iter().flat_map(|block| &block.items) {
        let line = match item {
            Item::Directive(line) => line,
            Item::Error(error) => {
                return Err(crate::config::setting::Complaint::bare(error.to_string()));
            }
        };
        if line.block.is_some() {
            let error = line.error("unexpected \"{\"");
            return Err(crate::config::setting::Complaint::bare(error.to_string()));
        }
        for extension in &line.args {
            let extension: Box<[u8]> = extension.to_ascii_lowercase().into();
            let kind = Bytes::copy_from_slice(&line.name);
            if let Some(old) = types.insert(extension.clone(), kind.clone())
                && old != kind
            {
                build.warn(
                    line,
                    format!(
                        "duplicate extension \"{}\", content type: \"{}\", previous content type: \"{}\"",
                        String::from_utf8_lossy(&extension),
                        line.name,
                        String::from_utf8_lossy(&old)
                    ),
                );
            }
        }
    }
    build.location().mime.types.0 = Some(Arc::new(types));
    Ok(())
}

fn default_type(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    build
        .location()
        .mime
        .default_type
        .set(Bytes::copy_from_slice(&directive.args[0]))
}
