//! The directives of gzip, brotli and zstd, and what they set.

use super::padding;
use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, HSLI, Outcome, Set, buffers, flag, row, size};
use crate::config::setting::Setting;
use crate::encoding::levels;
use crate::encoding::negotiate::{CODINGS, Coding, Offers};
use crate::http::Response;
use crate::http::media_types::{self, MediaTypes};
use conf::table::Row;
use conf::{Directive, values};

const BUFFERS: &str = "Accepted: Buffers size themselves.";

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "gzip",
        HSLI,
        Arity::Flag,
        |b, d| flag(&mut coder(b, Coding::Gzip).on, d),
        "Compress responses with gzip.",
    ),
    row(
        "gzip_comp_level",
        HSL,
        Arity::Exactly(1),
        |b, d| level(b, d, Coding::Gzip),
        "How hard gzip tries, from 1 to 9; `auto` or `auto=LEAST-MOST`: as the thread has time.",
    ),
    row(
        "gzip_types",
        HSL,
        Arity::AtLeast(1),
        |b, d| types(b, d, Coding::Gzip),
        "The media types that gzip compresses beside text/html; `*`: all.",
    ),
    row(
        "gzip_min_length",
        HSL,
        Arity::Exactly(1),
        |b, d| size(&mut coder(b, Coding::Gzip).min_length, d),
        "The least Content-Length of what gzip compresses.",
    ),
    row(
        "gzip_buffers",
        HSL,
        Arity::Exactly(2),
        |b, d| buffers(&mut coder(b, Coding::Gzip).buffers, d),
        BUFFERS,
    ),
    row(
        "gzip_window",
        HSL,
        Arity::Exactly(1),
        window,
        "Accepted: The window is 32 KB.",
    ),
    row(
        "gzip_hash",
        HSL,
        Arity::Exactly(1),
        hash,
        "Accepted: The encoder sizes its tables itself.",
    ),
    row(
        "postpone_gzipping",
        HSL,
        Arity::Exactly(1),
        |b, d| size(&mut b.location().compress.postpone, d),
        "Accepted: A response is held back for a moment to be compressed whole.",
    ),
    row(
        "gzip_no_buffer",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().compress.no_buffer, d),
        "Accepted: What an upstream flushes is flushed.",
    ),
    row(
        "brotli",
        HSLI,
        Arity::Flag,
        |b, d| flag(&mut coder(b, Coding::Brotli).on, d),
        "Compress responses with brotli.",
    ),
    row(
        "brotli_comp_level",
        HSL,
        Arity::Exactly(1),
        |b, d| level(b, d, Coding::Brotli),
        "How hard brotli tries, from 0 to 11; `auto` or `auto=LEAST-MOST`: as the thread has time.",
    ),
    row(
        "brotli_types",
        HSL,
        Arity::AtLeast(1),
        |b, d| types(b, d, Coding::Brotli),
        "The media types that brotli compresses beside text/html; `*`: all.",
    ),
    row(
        "brotli_min_length",
        HSL,
        Arity::Exactly(1),
        |b, d| size(&mut coder(b, Coding::Brotli).min_length, d),
        "The least Content-Length of what brotli compresses.",
    ),
    row(
        "brotli_buffers",
        HSL,
        Arity::Exactly(2),
        |b, d| buffers(&mut coder(b, Coding::Brotli).buffers, d),
        BUFFERS,
    ),
    row(
        "brotli_window",
        HSL,
        Arity::Exactly(1),
        |b, d| size(&mut b.location().compress.brotli_window, d),
        "Accepted: The window is 512 KB.",
    ),
    row(
        "zstd",
        HSLI,
        Arity::Flag,
        |b, d| flag(&mut coder(b, Coding::Zstd).on, d),
        "Compress responses with zstd.",
    ),
    row(
        "zstd_comp_level",
        HSL,
        Arity::Exactly(1),
        |b, d| level(b, d, Coding::Zstd),
        "How hard zstd tries, from 1 to 22; `auto` or `auto=LEAST-MOST`: as the thread has time.",
    ),
    row(
        "zstd_types",
        HSL,
        Arity::AtLeast(1),
        |b, d| types(b, d, Coding::Zstd),
        "The media types that zstd compresses beside text/html; `*`: all.",
    ),
    row(
        "zstd_min_length",
        HSL,
        Arity::Exactly(1),
        |b, d| size(&mut coder(b, Coding::Zstd).min_length, d),
        "The least Content-Length of what zstd compresses.",
    ),
    row(
        "zstd_buffers",
        HSL,
        Arity::Exactly(2),
        |b, d| buffers(&mut coder(b, Coding::Zstd).buffers, d),
        BUFFERS,
    ),
    row(
        "compression_cache",
        HSL,
        Arity::Exactly(1),
        cache,
        "How much memory the compressed bodies take that are kept for when the same body comes again, to whichever thread (default: 8m); `off`: none.",
    ),
    row(
        "gzip_padding",
        HSL,
        Arity::Exactly(1),
        gzip_padding,
        "Up to so many random bytes in each gzip response, so that its length tells less of secrets in it; only gzip is used then. `off`: none.",
    ),
];

/// What nginx's `gzip_comp_level` is where it is not written.
const GZIP_LEVEL: u8 = 1;
const BROTLI_LEVEL: u8 = 6;
const ZSTD_LEVEL: u8 = 3;
/// `gzip_min_length` and kin.
const MIN_LENGTH: u64 = 20;
/// `compression_cache`.
const CACHE: u64 = 8 * 1024 * 1024;

/// `gzip_comp_level` and kin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Fixed(u8),
    /// As the thread has time.
    Auto {
        least: u8,
        most: u8,
    },
}

impl std::fmt::Display for Level {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Level::Fixed(level) => write!(formatter, "{level}"),
            Level::Auto { least, most } => write!(formatter, "auto={least}-{most}"),
        }
    }
}

/// What was written of one coding.
#[derive(Default, Debug, Clone)]
pub struct RawCoder {
    pub on: Setting<bool>,
    pub level: Setting<Level>,
    pub types: Option<MediaTypes>,
    pub min_length: Setting<u64>,
    pub buffers: Setting<(u64, u64)>,
}

/// What holds of one coding.
#[derive(Debug, Clone)]
pub struct Coder {
    pub on: bool,
    pub level: Level,
    pub types: MediaTypes,
    pub min_length: u64,
}

/// What was written in one block.
#[derive(Default, Debug, Clone)]
pub struct Raw {
    coders: [RawCoder; CODINGS],
    cache: Setting<u64>,
    padding: Setting<u64>,
    window: Setting<u64>,
    hash: Setting<u64>,
    postpone: Setting<u64>,
    no_buffer: Setting<bool>,
    brotli_window: Setting<u64>,
}

/// What holds in one block.
#[derive(Debug, Clone)]
pub struct Settings {
    coders: [Coder; CODINGS],
    pub cache: u64,
    pub padding: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        let coder = |level| Coder {
            on: false,
            level: Level::Fixed(level),
            types: MediaTypes::default(),
            min_length: MIN_LENGTH,
        };
        Settings {
            coders: [coder(GZIP_LEVEL), coder(BROTLI_LEVEL), coder(ZSTD_LEVEL)],
            cache: CACHE,
            padding: 0,
        }
    }
}

impl Settings {
    #[must_use]
    pub fn coder(&self, coding: Coding) -> &Coder {
        &self.coders[coding as usize]
    }

    /// Whether the same file comes out the same each time, so that it may be kept compressed.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        let is_fixed = |coder: &Coder| !coder.on || matches!(coder.level, Level::Fixed(_));
        self.is_off() || (self.cache > 0 && self.padding == 0 && self.coders.iter().all(is_fixed))
    }

    /// Whether what is made of a response of the cache is kept with it.
    #[must_use]
    pub fn keeps_forms(&self) -> bool {
        !self.is_off() && self.cache > 0 && self.padding == 0
    }

    /// The codings that are allowed for a response of this type and length.
    #[must_use]
    pub fn offers(&self, response: &Response) -> Offers {
        let mut offers = Offers::NONE;
        for coding in Coding::ALL {
            let coder = self.coder(coding);
            // Only gzip has room for padding.
            if coder.on
                && (self.padding == 0 || coding == Coding::Gzip)
                && response
                    .content_length
                    .is_none_or(|length| length >= coder.min_length)
                && coder.types.contains(response.content_type.as_deref())
            {
                offers = offers.with(coding);
            }
        }
        offers
    }

    /// Whether nothing is compressed.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.coders.iter().all(|coder| !coder.on)
    }
}

impl RawCoder {
    fn resolve(&self, parent: &Coder) -> Coder {
        Coder {
            on: self.on.or(&parent.on),
            level: self.level.or(&parent.level),
            types: self.types.as_ref().unwrap_or(&parent.types).clone(),
            min_length: self.min_length.or(&parent.min_length),
        }
    }
}

impl Raw {
    /// The settings of a block inside one with the settings `parent`.
    #[must_use]
    pub fn resolve(&self, parent: &Settings) -> Settings {
        let resolve =
            |coding: Coding| self.coders[coding as usize].resolve(&parent.coders[coding as usize]);
        Settings {
            coders: Coding::ALL.map(resolve),
            cache: self.cache.or(&parent.cache),
            padding: self.padding.or(&parent.padding),
        }
    }
}

fn coder<'b>(build: &'b mut Build<'_>, coding: Coding) -> &'b mut RawCoder {
    &mut build.location().compress.coders[coding as usize]
}

fn types(build: &mut Build<'_>, directive: &Directive, coding: Coding) -> Outcome {
    media_types::add(build, directive, |build| {
        &mut build.location().compress.coders[coding as usize].types
    })
}

/// The least level of a coding's directive.
fn least(coding: Coding) -> u8 {
    match coding {
        Coding::Brotli => 0,
        Coding::Gzip | Coding::Zstd => 1,
    }
}

/// The highest level of a coding's directive.
#[must_use]
pub fn most(coding: Coding) -> u8 {
    match coding {
        Coding::Gzip => levels::GZIP_MAX,
        Coding::Brotli => levels::BROTLI_MAX,
        Coding::Zstd => levels::ZSTD_MAX,
    }
}

/// The highest level that `auto` reaches by itself: beyond it the bytes saved are not worth a visitor's wait.
fn most_by_itself(coding: Coding) -> u8 {
    match coding {
        Coding::Gzip => levels::GZIP_MAX,
        Coding::Brotli => 6,
        Coding::Zstd => 9,
    }
}

fn level(build: &mut Build<'_>, directive: &Directive, coding: Coding) -> Outcome {
    let setting = coder(build, coding).level.vacant()?;
    let word = &directive.args[0];
    let (least, most) = (least(coding), most(coding));
    let within = |text: &[u8]| {
        values::parse_number(text)
            .and_then(|number| u8::try_from(number).ok())
            .filter(|level| (least..=most).contains(level))
    };
    if &word[..] == b"auto" {
        let most = most_by_itself(coding);
        return setting.set(Level::Auto { least, most });
    }
    if let Some(bounds) = word.strip_prefix(b"auto=") {
        let dash = memchr::memchr(b'-', bounds).ok_or("invalid value")?;
        let (low, high) = (within(&bounds[..dash]), within(&bounds[dash + 1..]));
        return match (low, high) {
            (Some(least), Some(most)) if least <= most => setting.set(Level::Auto { least, most }),
            _ => Err(format!("value must be between {least} and {most}").into()),
        };
    }
    values::parse_number(word).ok_or("invalid number")?;
    let level = within(word).ok_or_else(|| format!("value must be between {least} and {most}"))?;
    setting.set(Level::Fixed(level))
}

/// A size that is a power of two between 512 and `most`.
fn power(setting: &mut Setting<u64>, directive: &Directive, most: u64, sizes: &str) -> Outcome {
    let setting = setting.vacant()?;
    let size = values::parse_size(&directive.args[0]).ok_or("invalid value")?;
    if !size.is_power_of_two() || !(512..=most).contains(&size) {
        return Err(format!("\"{}\" directive must be {sizes}", directive.name).into());
    }
    setting.set(size)
}

fn window(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let sizes = "512, 1k, 2k, 4k, 8k, 16k, or 32k";
    power(
        &mut build.location().compress.window,
        directive,
        32 * 1024,
        sizes,
    )
}

fn hash(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let sizes = "512, 1k, 2k, 4k, 8k, 16k, 32k, 64k, or 128k";
    power(
        &mut build.location().compress.hash,
        directive,
        128 * 1024,
        sizes,
    )
}

/// A size, or `off` for none.
fn size_or_off(setting: &mut Setting<u64>, directive: &Directive) -> Outcome {
    let setting = setting.vacant()?;
    match &directive.args[0][..] {
        b"off" => setting.set(0),
        text => setting.set(values::parse_size(text).ok_or("invalid value")?),
    }
}

fn cache(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    size_or_off(&mut build.location().compress.cache, directive)
}

fn gzip_padding(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let setting = &mut build.location().compress.padding;
    size_or_off(setting, directive)?;
    match setting.0 {
        Some(most) if most > padding::PADDING_MAX => {
            Err(format!("value must be between 0 and {}", padding::PADDING_MAX).into())
        }
        _ => Ok(()),
    }
}
