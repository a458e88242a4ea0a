//! The settings of pictures that small_light and image_filter share: limits, where results are kept, what clients may ask.

use crate::config::build::{Build, Paths};
use crate::config::directive::{
    Arity, HSL, HTTP, Outcome, Set, flag, keyword, msec, number, offset, row,
};
use crate::config::setting::Setting;
use crate::store::{self, Store};
use ::image::{Crop, Limits};
use conf::Directive;
use conf::table::Row;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "image_store",
        HSL,
        Arity::Exactly(1),
        store,
        "The directory that pictures are kept in that were made of others, or off (default: images beside precompress's).",
    ),
    row(
        "image_store_max_size",
        HTTP,
        Arity::Exactly(1),
        |b, d| offset(&mut b.http.image.max_size, d),
        "The most that the pictures in one directory may take; the least used go first (default: 1g).",
    ),
    row(
        "image_master",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().image.master, d),
        "Whether large JPEGs are kept at a part of their size, for further sizes of them (default: on).",
    ),
    row(
        "image_sandbox",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().image.sandbox, d),
        "Whether the process that encodes WebP with loss is shut off by seccomp and landlock (default: on).",
    ),
    row(
        "image_max_source",
        HSL,
        Arity::Exactly(1),
        |b, d| offset(&mut b.location().image.source_bytes, d),
        "The most bytes of a file that pictures are made of; more is 413 (default: 64m).",
    ),
    row(
        "image_max_pixels",
        HSL,
        Arity::Exactly(1),
        |b, d| number(&mut b.location().image.pixels, d),
        "The most pixels that a source may have; more is 413 (default: 50000000).",
    ),
    row(
        "image_max_frames",
        HSL,
        Arity::Exactly(1),
        |b, d| number(&mut b.location().image.frames, d),
        "The most frames of an animation that are kept; more is 413 (default: 500).",
    ),
    row(
        "image_max_output",
        HSL,
        Arity::Exactly(1),
        |b, d| number(&mut b.location().image.output_pixels, d),
        "The most pixels that a result may have; more is 413 (default: 25000000).",
    ),
    row(
        "image_memory",
        HSL,
        Arity::Exactly(1),
        |b, d| offset(&mut b.location().image.memory, d),
        "The most memory that the work on one picture may take; more is 413 (default: 512m).",
    ),
    row(
        "image_timeout",
        HSL,
        Arity::Exactly(1),
        |b, d| msec(&mut b.location().image.deadline_ms, d),
        "How long the work on one picture may take; longer is 415 (default: 10s).",
    ),
    row(
        "image_queue",
        HSL,
        Arity::Exactly(1),
        |b, d| number(&mut b.location().image.queue, d),
        "How many pictures may wait or be worked on at a time; further requests are 429 (default: 64).",
    ),
    row(
        "image_animation",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().image.animation, d),
        "Whether all frames of an animation are kept, in place of the first one (default: off).",
    ),
    row(
        "image_negotiate",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().image.negotiate, d),
        "Whether results take the best format that the client takes, where none is asked for (default: off).",
    ),
    row(
        "image_client_hints",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().image.hints, d),
        "Whether DPR and Width of the client change the size that small_light makes (default: off).",
    ),
    row(
        "image_crop",
        HSL,
        Arity::Exactly(1),
        |b, d| {
            keyword(
                &mut b.location().image.crop,
                d,
                &[
                    ("centre", Crop::Centre),
                    ("center", Crop::Centre),
                    ("smart", Crop::Attention),
                    ("attention", Crop::Attention),
                    ("entropy", Crop::Entropy),
                ],
            )
        },
        "What a crop that names no place keeps: centre, smart, attention, entropy (default: centre).",
    ),
    row(
        "image_max_bytes",
        HSL,
        Arity::Exactly(1),
        |b, d| offset(&mut b.location().image.max_bytes, d),
        "Quality goes down until a result has at most this many bytes, 0 for no limit (default: 0).",
    ),
];

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

/// Where results are kept.
#[derive(Debug, Clone, Default)]
pub enum Place {
    /// The directory that the configuration does not name.
    #[default]
    BuiltIn,
    Directory(Directory),
    Nowhere,
}

crate::config::setting::settings! {
    place: Place = Place::BuiltIn,
    source_bytes: u64 = 64 << 20,
    pixels: u64 = 50_000_000,
    frames: u64 = 500,
    output_pixels: u64 = 25_000_000,
    memory: u64 = 512 << 20,
    deadline_ms: u64 = 10_000,
    queue: u64 = 64,
    master: bool = true,
    sandbox: bool = true,
    animation: bool = false,
    negotiate: bool = false,
    hints: bool = false,
    crop: Crop = Crop::Centre,
    max_bytes: u64 = 0,
}

/// What holds for all pictures, as it was written.
#[derive(Debug, Default)]
pub struct RawHttp {
    pub max_size: Setting<u64>,
}

/// What holds for all pictures.
#[derive(Debug)]
pub struct Http {
    pub max_size: u64,
    pub built_in: Directory,
}

impl Default for Http {
    fn default() -> Http {
        RawHttp::default().resolve(Path::new(BUILT_IN))
    }
}

/// Where results are kept unless told otherwise.
const BUILT_IN: &str = "/var/cache/gannet/images";

impl RawHttp {
    #[must_use]
    pub fn resolve(&self, directory: &Path) -> Http {
        Http {
            max_size: self.max_size.or(&(1 << 30)),
            built_in: Directory::new(directory.to_path_buf()),
        }
    }
}

/// The directory for results where the configuration names none: the system's place for such things, or a place in the
/// prefix where that is not the built-in one.
#[must_use]
pub fn built_in_directory(paths: &Paths) -> PathBuf {
    match paths.prefix == Path::new(crate::config::defaults::PREFIX) {
        true => PathBuf::from(BUILT_IN),
        false => paths.in_prefix("images"),
    }
}

fn store(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let path = directive.args[0].as_str().ok_or("invalid value")?;
    let place = match path {
        "" => return Err("invalid value".into()),
        "off" => Place::Nowhere,
        path => Place::Directory(Directory::new(build.paths.in_prefix(path))),
    };
    build.location().image.place.set(place)
}

impl Settings {
    /// What one picture may cost.
    #[must_use]
    pub fn limits(&self) -> Limits {
        Limits {
            source_bytes: self.source_bytes,
            pixels: self.pixels,
            frames: u32::try_from(self.frames).unwrap_or(u32::MAX),
            output_pixels: self.output_pixels,
            memory: self.memory,
            deadline: Duration::from_millis(self.deadline_ms),
        }
    }

    /// The store for results, if they are kept.
    #[must_use]
    pub fn store(&self, http: &Http) -> Option<Arc<Store>> {
        match &self.place {
            Place::BuiltIn => Some(Arc::clone(http.built_in.store(http))),
            Place::Directory(directory) => Some(Arc::clone(directory.store(http))),
            Place::Nowhere => None,
        }
    }
}
