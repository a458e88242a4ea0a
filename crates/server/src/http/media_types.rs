//! Sets of media types that filters act on (`gzip_types` and kin), read as nginx reads them.

use crate::config::build::Build;
use crate::config::directive::Outcome;
use conf::Directive;
use std::collections::HashSet;
use std::sync::Arc;

/// The type that belongs to every such set.
const ALWAYS: &[u8] = b"text/html";
/// Longer types are in no set.
const LENGTH_MAX: usize = 128;

/// A set of media types; clones share it.
#[derive(Debug, Clone)]
pub enum MediaTypes {
    /// `*`: all of them.
    Any,
    Only(Arc<HashSet<Box<[u8]>, foldhash::fast::RandomState>>),
}

impl Default for MediaTypes {
    fn default() -> MediaTypes {
        MediaTypes::of(&[ALWAYS])
    }
}

impl MediaTypes {
    /// A set of these types, which are in lower case.
    #[must_use]
    pub fn of(types: &[&[u8]]) -> MediaTypes {
        MediaTypes::Only(Arc::new(types.iter().map(|&kind| kind.into()).collect()))
    }

    /// Whether a response's type belongs to the set. As in nginx a response without a type belongs to `*` alone.
    #[must_use]
    pub fn contains(&self, content_type: Option<&[u8]>) -> bool {
        let MediaTypes::Only(types) = self else {
            return true;
        };
        let Some(kind) = content_type.filter(|kind| !kind.is_empty()) else {
            return false;
        };
        if types.contains(kind) {
            return true;
        }
        let mut lower = [0; LENGTH_MAX];
        let Some(lower) = lower.get_mut(..kind.len()) else {
            return false;
        };
        lower.copy_from_slice(kind);
        lower.make_ascii_lowercase();
        types.contains(&*lower)
    }
}

/// Adds a directive's types to what the block has so far; a second directive adds to the first.
pub fn add(
    build: &mut Build<'_>,
    directive: &Directive,
    written: impl for<'b> Fn(&'b mut Build<'_>) -> &'b mut Option<MediaTypes>,
) -> Outcome {
    let mut types = match written(build).take() {
        Some(MediaTypes::Any) => {
            *written(build) = Some(MediaTypes::Any);
            return Ok(());
        }
        Some(MediaTypes::Only(types)) => Arc::unwrap_or_clone(types),
        None => HashSet::from_iter([ALWAYS.into()]),
    };
    for word in &directive.args {
        if &word[..] == b"*" {
            *written(build) = Some(MediaTypes::Any);
            return Ok(());
        }
        let kind = word.to_ascii_lowercase();
        if types.contains(&kind[..]) {
            let kind = String::from_utf8_lossy(&kind);
            build.warn(directive, format!("duplicate MIME type \"{kind}\""));
        } else {
            types.insert(kind.into());
        }
    }
    *written(build) = Some(MediaTypes::Only(Arc::new(types)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_compared_whole_and_without_case() {
        let types = MediaTypes::of(&[b"text/html", b"text/css"]);
        for (kind, inside) in [
            ("text/html", true),
            ("Text/HTML", true),
            ("text/css", true),
            ("text/html; charset=utf-8", false),
            ("text/plain", false),
            ("", false),
        ] {
            assert_eq!(types.contains(Some(kind.as_bytes())), inside, "{kind}");
            assert!(MediaTypes::Any.contains(Some(kind.as_bytes())), "{kind}");
        }
        assert!(MediaTypes::Any.contains(None));
        assert!(!types.contains(None));
        assert!(!types.contains(Some(&[b'a'; LENGTH_MAX + 1])));
    }
}
