//! `precompress` and its kin.

use crate::config::build::{Build, Paths};
use crate::config::directive::{Arity, HSL, HTTP, Outcome, Set, flag, keyword, offset, row};
use crate::config::setting::Setting;
use crate::encoding::best::Effort;
use crate::encoding::negotiate::{Coding, Offers};
use crate::store::{self, Store};
use bytes::Bytes;
use conf::table::Row;
use conf::{Directive, values};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "precompress",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().precompress.on, d),
        "Whether compressed copies of files are made in the background and served (default: off).",
    ),
    row(
        "precompress_level",
        HSL,
        Arity::Exactly(1),
        |b, d| {
            keyword(
                &mut b.location().precompress.effort,
                d,
                &Effort::ALL.map(|effort| (effort.as_str(), effort)),
            )
        },
        "How much effort a copy is worth: fast, best or max (default: best).",
    ),
    row(
        "precompress_codings",
        HSL,
        Arity::AtLeast(1),
        codings,
        "The codings that copies are made in: gzip, br, zstd (default: all).",
    ),
    row(
        "precompress_types",
        HSL,
        Arity::AtLeast(1),
        types,
        "The types that copies are made of beside text/html, `*` for all (default: texts, scripts, styles, fonts and pictures that shrink).",
    ),
    row(
        "precompress_min_length",
        HSL,
        Arity::Exactly(1),
        |b, d| offset(&mut b.location().precompress.min_length, d),
        "Smaller files have no copies (default: 256).",
    ),
    row(
        "precompress_max_length",
        HSL,
        Arity::Exactly(1),
        max_length,
        "Larger files have no copies (default: 16m).",
    ),
    row(
        "precompress_store",
        HSL,
        Arity::Exactly(1),
        store,
        "The directory that copies are kept in, or beside: next to their sources, where gzip_static of nginx finds them (here it is not asked then).",
    ),
    row(
        "precompress_max_size",
        HTTP,
        Arity::Exactly(1),
        |b, d| offset(&mut b.http.precompress.max_size, d),
        "The most that copies in one directory may take; the least used go first (default: 1g).",
    ),
    row(
        "precompress_rate",
        HTTP,
        Arity::Exactly(1),
        |b, d| offset(&mut b.http.precompress.rate, d),
        "The most bytes of files that are compressed a second, 0 for no limit (default: 0).",
    ),
    row(
        "precompress_scan",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().precompress.scan, d),
        "Whether copies are made of all files below the root, before anybody asks (default: off).",
    ),
];

/// The types that shrink.
const TYPES: &[&str] = &[
    "text/html",
    "text/css",
    "text/plain",
    "text/xml",
    "text/csv",
    "text/calendar",
    "text/javascript",
    "text/markdown",
    "text/vtt",
    "text/x-component",
    "application/javascript",
    "application/x-javascript",
    "application/json",
    "application/ld+json",
    "application/manifest+json",
    "application/geo+json",
    "application/xml",
    "application/xhtml+xml",
    "application/rss+xml",
    "application/atom+xml",
    "application/rtf",
    "application/wasm",
    "application/vnd.ms-fontobject",
    "font/ttf",
    "font/otf",
    "image/svg+xml",
    "image/bmp",
    "image/x-icon",
];

/// The longest file that can be compressed: it is read whole, and a thread needs some times its size.
const LENGTH_MAX: u64 = 1 << 30;

/// `precompress_types`.
#[derive(Debug, Clone)]
pub enum Types {
    All,
    These(Arc<HashSet<Box<[u8]>>>),
}

impl Default for Types {
    fn default() -> Types {
        Types::These(Arc::new(
            TYPES.iter().map(|name| name.as_bytes().into()).collect(),
        ))
    }
}

impl Types {
    /// Whether a Content-Type is among them; names are compared in lower case, without parameters.
    #[must_use]
    pub fn contains(&self, kind: &[u8]) -> bool {
        let Types::These(names) = self else {
            return true;
        };
        let name = kind
            .split(|&byte| byte == b';')
            .next()
            .unwrap_or(kind)
            .trim_ascii();
        names.contains(name) || names.contains(&*name.to_ascii_lowercase())
    }
}

/// A store by its directory, opened when it is first used.
#[derive(Clone)]
pub struct Directory {
    path: PathBuf,
    store: Arc<OnceLock<Arc<Store>>>,
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.path.fmt(formatter)
    }
}

impl Directory {
    fn new(path: PathBuf) -> Directory {
        Directory {
            path,
            store: Arc::default(),
        }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The store, which keeps to the configuration's limit from now on.
    pub fn store(&self, http: &Http) -> &Arc<Store> {
        self.store
            .get_or_init(|| store::open(&self.path, http.max_size))
    }
}

/// Where copies are kept.
#[derive(Debug, Clone, Default)]
pub enum Place {
    /// The directory that the configuration does not name.
    #[default]
    BuiltIn,
    Directory(Directory),
    Beside,
}

crate::config::setting::settings! {
    on: bool = false,
    effort: Effort = Effort::Best,
    codings: Offers = Offers::GZIP.with(Coding::Brotli).with(Coding::Zstd),
    types: Types = Types::default(),
    min_length: u64 = 256,
    max_length: u64 = 16 << 20,
    place: Place = Place::BuiltIn,
    scan: bool = false,
}

/// What holds for all copies, as it was written.
#[derive(Debug, Default)]
pub struct RawHttp {
    pub max_size: Setting<u64>,
    pub rate: Setting<u64>,
}

/// What holds for all copies.
#[derive(Debug)]
pub struct Http {
    pub max_size: u64,
    /// Bytes a second; 0: no limit.
    pub rate: u64,
    pub built_in: Directory,
}

impl Default for Http {
    fn default() -> Http {
        RawHttp::default().resolve(Path::new(BUILT_IN))
    }
}

/// Where copies are kept unless told otherwise.
const BUILT_IN: &str = "/var/cache/gannet/precompress";

impl RawHttp {
    #[must_use]
    pub fn resolve(&self, directory: &Path) -> Http {
        Http {
            max_size: self.max_size.or(&(1 << 30)),
            rate: self.rate.or(&0),
            built_in: Directory::new(directory.to_path_buf()),
        }
    }
}

/// The directory for copies where the configuration names none: the system's place for such things, or a place in the
/// prefix where that is not the built-in one.
#[must_use]
pub fn built_in_directory(paths: &Paths) -> PathBuf {
    match paths.prefix == Path::new(crate::config::defaults::PREFIX) {
        true => PathBuf::from(BUILT_IN),
        false => paths.in_prefix("precompress"),
    }
}

fn codings(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let setting = build.location().precompress.codings.vacant()?;
    let mut codings = Offers::NONE;
    for word in &directive.args {
        let coding = Coding::of(word).ok_or_else(|| format!("unknown coding \"{word}\""))?;
        codings = codings.with(coding);
    }
    setting.set(codings)
}

fn types(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let setting = build.location().precompress.types.vacant()?;
    if directive.args.iter().any(|word| &word[..] == b"*") {
        return setting.set(Types::All);
    }
    let names = directive
        .args
        .iter()
        .map(|word| word.to_ascii_lowercase().into());
    // As nginx has it wherever types are listed.
    let html = std::iter::once(b"text/html".as_slice().into());
    setting.set(Types::These(Arc::new(names.chain(html).collect())))
}

fn max_length(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let setting = build.location().precompress.max_length.vacant()?;
    let length = values::parse_offset(&directive.args[0]).filter(|&length| length <= LENGTH_MAX);
    setting.set(length.ok_or("invalid value")?)
}

fn store(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let path = directive.args[0].as_str().ok_or("invalid value")?;
    let place = match path {
        "" => return Err("invalid value".into()),
        "beside" => Place::Beside,
        path => Place::Directory(Directory::new(build.paths.in_prefix(path))),
    };
    build.location().precompress.place.set(place)
}

impl Settings {
    /// Whether copies lie beside their sources, so that what lies there may be stale unless it is looked at closely.
    #[must_use]
    pub fn is_beside(&self) -> bool {
        self.on && matches!(self.place, Place::Beside)
    }

    /// Whether a file of this type and size has copies.
    #[must_use]
    pub fn covers(&self, kind: Option<&Bytes>, size: u64) -> bool {
        self.on
            && (self.min_length..=self.max_length).contains(&size)
            && kind.is_some_and(|kind| self.types.contains(kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_compared_by_name() {
        let types = Types::default();
        for kind in [
            "text/html",
            "TEXT/HTML",
            "text/html; charset=utf-8",
            "image/svg+xml",
        ] {
            assert!(types.contains(kind.as_bytes()), "{kind}");
        }
        for kind in ["", "text", "image/png", "application/zip", "text/htmlx"] {
            assert!(!types.contains(kind.as_bytes()), "{kind}");
            assert!(Types::All.contains(kind.as_bytes()));
        }
    }

    #[test]
    fn files_of_the_right_size_are_covered() {
        let mut settings = Settings {
            on: true,
            ..Settings::default()
        };
        let html = Bytes::from_static(b"text/html");
        for (size, covered) in [
            (0, false),
            (255, false),
            (256, true),
            (16 << 20, true),
            ((16 << 20) + 1, false),
        ] {
            assert_eq!(settings.covers(Some(&html), size), covered, "{size}");
        }
        assert!(!settings.covers(None, 1000));
        settings.on = false;
        assert!(!settings.covers(Some(&html), 1000));
    }
}
