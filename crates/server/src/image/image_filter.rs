//! nginx's `image_filter`: what its directives say, and its arithmetic in whole numbers.

use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, LOCATION, Outcome, Set, flag, row, size};
use crate::config::setting::Setting;
use crate::http::Request;
use crate::variables::Template;
use conf::Directive;
use conf::table::Row;

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "image_filter",
        LOCATION,
        Arity::Between(1, 3),
        image_filter,
        "What is done with pictures: test, size, rotate, resize, crop; here also convert FORMAT.",
    ),
    row(
        "image_filter_buffer",
        HSL,
        Arity::Exactly(1),
        |b, d| size(&mut b.location().image_filter.buffer, d),
        "The most that a picture may have as a file; more is 415.",
    ),
    row(
        "image_filter_interlace",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().image_filter.interlace, d),
        "Whether results are interlaced: for JPEG, progressive.",
    ),
    row(
        "image_filter_jpeg_quality",
        HSL,
        Arity::Exactly(1),
        |b, d| quality(b, d, |b| &mut b.location().image_filter.jpeg_quality),
        "The quality of JPEG results.",
    ),
    row(
        "image_filter_webp_quality",
        HSL,
        Arity::Exactly(1),
        |b, d| quality(b, d, |b| &mut b.location().image_filter.webp_quality),
        "The quality of WebP results.",
    ),
    row(
        "image_filter_avif_quality",
        HSL,
        Arity::Exactly(1),
        |b, d| quality(b, d, |b| &mut b.location().image_filter.avif_quality),
        "The quality of AVIF results (default: 60).",
    ),
    row(
        "image_filter_sharpen",
        HSL,
        Arity::Exactly(1),
        sharpen,
        "How much results are sharpened, in per cent.",
    ),
    row(
        "image_filter_transparency",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().image_filter.transparency, d),
        "Whether what is transparent stays so where a file's colours are a table (GIF, some PNG).",
    ),
];

/// What is done, before variables have values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Action {
    #[default]
    Off,
    /// Answers 415 unless it is a picture.
    Test,
    /// Answers with the picture's sides as JSON.
    Size,
    Rotate,
    Resize,
    Crop,
    /// Only another format.
    Convert,
}

/// A number, or a value with variables that becomes one.
#[derive(Debug, Clone)]
pub enum Number {
    Is(u32),
    Of(Template),
}

/// A side without a limit: `-`.
pub const UNLIMITED: u32 = u32::MAX;

impl Number {
    /// `None`: the value is no number above 0.
    fn value(&self, request: &Request) -> Option<u32> {
        match self {
            Number::Is(number) => Some(*number),
            Number::Of(template) => parse(&template.evaluate(request)),
        }
    }
}

/// What stands in `image_filter`, all of a block's directives together.
#[derive(Debug, Clone, Default)]
pub struct Written {
    pub action: Action,
    width: Option<Number>,
    height: Option<Number>,
    angle: Option<Number>,
    convert: Option<::image::Format>,
}

crate::config::setting::settings! {
    written: Written = Written::default(),
    buffer: u64 = 1 << 20,
    interlace: bool = false,
    jpeg_quality: Number = Number::Is(75),
    webp_quality: Number = Number::Is(80),
    avif_quality: Number = Number::Is(60),
    sharpen: Number = Number::Is(0),
    transparency: bool = true,
}

/// A number above 0, or `-`.
fn parse(word: &[u8]) -> Option<u32> {
    if word == b"-" {
        return Some(UNLIMITED);
    }
    let number = conf::values::parse_number(word)?;
    u32::try_from(number).ok().filter(|&number| number > 0)
}

fn image_filter(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let written = &build.location().image_filter.written;
    let mut written = written.0.clone().unwrap_or_default();
    let invalid = |word: &conf::Word| format!("invalid parameter \"{word}\"").into();
    let mut number = |word: &conf::Word, allowed: fn(u32) -> bool| {
        let template = Template::compile(word, &mut build.variables)?;
        match template.constant() {
            None => Ok(Number::Of(template)),
            Some(text) => match parse(&text).filter(|&number| allowed(number)) {
                Some(number) => Ok(Number::Is(number)),
                None => Err(invalid(word)),
            },
        }
    };
    match &directive.args[..] {
        [word] => {
            written.action = match &word[..] {
                b"off" => Action::Off,
                b"test" => Action::Test,
                b"size" => Action::Size,
                _ => return Err(invalid(word)),
            };
        }
        [word, angle] if &word[..] == b"rotate" => {
            if !matches!(written.action, Action::Resize | Action::Crop) {
                written.action = Action::Rotate;
            }
            written.angle = Some(number(angle, |angle| matches!(angle, 90 | 180 | 270))?);
        }
        [word, format] if &word[..] == b"convert" => {
            let found = format_named(format).ok_or_else(|| invalid(format))?;
            if !found.can_write() {
                return Err(
                    format!("\"{format}\" is not built in: build with --features avif").into(),
                );
            }
            written.convert = Some(found);
            if written.action == Action::Off {
                written.action = Action::Convert;
            }
        }
        [word, width, height] if matches!(&word[..], b"resize" | b"crop") => {
            written.action = match &word[..] {
                b"crop" => Action::Crop,
                _ => Action::Resize,
            };
            written.width = Some(number(width, |_| true)?);
            written.height = Some(number(height, |_| true)?);
        }
        [word, ..] => return Err(invalid(word)),
        [] => return Err("invalid value".into()),
    }
    build.location().image_filter.written = Setting(Some(written));
    Ok(())
}

fn format_named(word: &[u8]) -> Option<::image::Format> {
    Some(match word {
        b"jpeg" | b"jpg" => ::image::Format::Jpeg,
        b"png" => ::image::Format::Png,
        b"gif" => ::image::Format::Gif,
        b"webp" => ::image::Format::Webp,
        b"avif" => ::image::Format::Avif,
        _ => return None,
    })
}

/// A quality; as in nginx the directive may stand twice, and the last one counts.
fn quality(
    build: &mut Build<'_>,
    directive: &Directive,
    setting: for<'b> fn(&'b mut Build<'_>) -> &'b mut Setting<Number>,
) -> Outcome {
    let word = &directive.args[0];
    let template = Template::compile(word, &mut build.variables)?;
    let number = match template.constant() {
        None => Number::Of(template),
        Some(text) => match parse(&text).filter(|&number| number != UNLIMITED) {
            Some(number) => Number::Is(number),
            None => return Err(format!("invalid value \"{word}\"").into()),
        },
    };
    *setting(build) = Setting(Some(number));
    Ok(())
}

/// Whatever is no number asks for nothing.
fn sharpen(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let template = Template::compile(&directive.args[0], &mut build.variables)?;
    let number = match template.constant() {
        None => Number::Of(template),
        Some(text) => Number::Is(parse(&text).unwrap_or(0)),
    };
    build.location().image_filter.sharpen = Setting(Some(number));
    Ok(())
}

impl Settings {
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.written.action == Action::Off
    }
}

/// `image_filter` with the values that its variables have for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish {
    pub action: Action,
    pub width: u32,
    pub height: u32,
    /// Counter-clockwise. What is not 90, 180 or 270 turns nothing.
    pub angle: u32,
    /// 0: the value was no quality. Only what is decoded needs one.
    pub jpeg_quality: u32,
    pub webp_quality: u32,
    pub avif_quality: u32,
    pub sharpen: u32,
    pub interlace: bool,
    pub transparency: bool,
    pub convert: Option<::image::Format>,
}

/// What is wished for a request; `None`: a value is not what it must be, which is 415.
#[must_use]
pub fn wish(settings: &Settings, request: &Request) -> Option<Wish> {
    let written = &settings.written;
    let side = |number: &Option<Number>| match number {
        Some(number) => number.value(request),
        None => Some(UNLIMITED),
    };
    let is_sized = matches!(written.action, Action::Resize | Action::Crop);
    let angle = match &written.angle {
        Some(angle) => angle.value(request).unwrap_or(0),
        None => 0,
    };
    let turns = matches!(angle, 90 | 180 | 270);
    let needs_turn = written.action == Action::Rotate;
    // Beside other actions a strange angle turns nothing, yet has the picture drawn anew.
    if needs_turn && !turns {
        return None;
    }
    Some(Wish {
        action: written.action,
        width: if is_sized {
            side(&written.width)?
        } else {
            UNLIMITED
        },
        height: if is_sized {
            side(&written.height)?
        } else {
            UNLIMITED
        },
        angle,
        jpeg_quality: settings.jpeg_quality.value(request).unwrap_or(0),
        webp_quality: settings.webp_quality.value(request).unwrap_or(0),
        avif_quality: settings.avif_quality.value(request).unwrap_or(0),
        sharpen: settings.sharpen.value(request).unwrap_or(0),
        interlace: settings.interlace,
        transparency: settings.transparency,
        convert: written.convert,
    })
}

/// Sides, and what is cut off to come to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// The sides that the picture is scaled to; `None`: as it is.
    pub scaled: Option<(u32, u32)>,
    /// After it was turned: the left and upper edge of what is kept, and its sides.
    pub kept: Option<(u32, u32, u32, u32)>,
}

impl Wish {
    /// Whether a picture of these sides goes out as it came. `is_bloated`: much of the file is no picture.
    #[must_use]
    pub fn passes(&self, width: u32, height: u32, is_bloated: bool) -> bool {
        matches!(self.action, Action::Resize | Action::Crop)
            && width <= self.width
            && height <= self.height
            && self.angle == 0
            && !is_bloated
    }

    #[must_use]
    pub fn sizes(&self, width: u32, height: u32) -> Sizes {
        let limits = (self.width, self.height);
        let (w, h, scaled) = match self.action {
            Action::Resize => shrink_into(width, height, limits),
            Action::Crop => shrink_over(width, height, limits),
            _ => (width, height, false),
        };
        let turned = if matches!(self.angle, 90 | 270) {
            (h, w)
        } else {
            (w, h)
        };
        let kept = match self.action {
            Action::Crop if turned.0 > self.width || turned.1 > self.height => {
                let (kept_width, kept_height) =
                    (turned.0.min(self.width), turned.1.min(self.height));
                let (x, y) = ((turned.0 - kept_width) / 2, (turned.1 - kept_height) / 2);
                Some((x, y, kept_width, kept_height))
            }
            _ => None,
        };
        Sizes {
            scaled: scaled.then_some((w, h)),
            kept,
        }
    }
}

/// `side * limit / other`, at least a pixel.
fn part(side: u32, limit: u32, other: u32) -> u32 {
    let side = u64::from(side) * u64::from(limit) / u64::from(other.max(1));
    u32::try_from(side).unwrap_or(u32::MAX).max(1)
}

/// Into both limits; always drawn anew.
fn shrink_into(mut w: u32, mut h: u32, (width, height): (u32, u32)) -> (u32, u32, bool) {
    if w > width {
        (w, h) = (width, part(h, width, w));
    }
    if h > height {
        (w, h) = (part(w, height, h), height);
    }
    (w, h, true)
}

/// To the limit that leaves the other side as large as its own, or larger.
fn shrink_over(w: u32, h: u32, (width, height): (u32, u32)) -> (u32, u32, bool) {
    if f64::from(w) / f64::from(h) < f64::from(width) / f64::from(height) {
        match w > width {
            true => (width, part(h, width, w), true),
            false => (w, h, false),
        }
    } else {
        match h > height {
            true => (part(w, height, h), height, true),
            false => (w, h, false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(action: Action, width: u32, height: u32, angle: u32) -> Wish {
        Wish {
            action,
            width,
            height,
            angle,
            jpeg_quality: 75,
            webp_quality: 80,
            avif_quality: 60,
            sharpen: 0,
            interlace: false,
            transparency: true,
            convert: None,
        }
    }

    #[test]
    fn pictures_shrink_into_their_limits() {
        const NO: u32 = UNLIMITED;
        for ((w, h), (width, height), expected) in [
            ((640, 427), (150, 100), (150, 100)),
            ((640, 427), (150, NO), (150, 100)),
            ((640, 427), (NO, 100), (149, 100)),
            ((640, 427), (100, 100), (100, 66)),
            ((427, 640), (100, 100), (67, 100)),
            ((640, 427), (640, 427), (640, 427)),
            ((640, 427), (NO, NO), (640, 427)),
            ((640, 1), (10, 10), (10, 1)),
            ((1, 640), (10, 10), (1, 10)),
            ((10, 10), (100, 5), (5, 5)),
        ] {
            let sizes = wish(Action::Resize, width, height, 0).sizes(w, h);
            let found = sizes.scaled.expect("resize always draws");
            assert_eq!(found, expected, "{w}x{h} into {width}x{height}");
        }
    }

    #[test]
    fn crops_cover_their_box() {
        for ((w, h), (width, height), angle, scaled, kept) in [
            (
                (640, 427),
                (100, 100),
                0,
                Some((149, 100)),
                Some((24, 0, 100, 100)),
            ),
            (
                (427, 640),
                (100, 100),
                0,
                Some((100, 149)),
                Some((0, 24, 100, 100)),
            ),
            ((50, 50), (100, 100), 0, None, None),
            ((200, 50), (100, 100), 0, None, Some((50, 0, 100, 50))),
            (
                (640, 427),
                (100, UNLIMITED),
                0,
                None,
                Some((270, 0, 100, 427)),
            ),
            (
                (640, 427),
                (100, 50),
                90,
                Some((100, 66)),
                Some((0, 25, 66, 50)),
            ),
            ((640, 427), (640, 427), 180, None, None),
        ] {
            let sizes = wish(Action::Crop, width, height, angle).sizes(w, h);
            assert_eq!(sizes, Sizes { scaled, kept }, "{w}x{h} to {width}x{height}");
        }
    }

    #[test]
    fn small_pictures_pass() {
        for (action, angle, sides, bloated, passes) in [
            (Action::Resize, 0, (100, 100), false, true),
            (Action::Resize, 0, (101, 100), false, false),
            (Action::Crop, 0, (100, 50), false, true),
            (Action::Resize, 90, (10, 10), false, false),
            (Action::Resize, 0, (10, 10), true, false),
            (Action::Rotate, 90, (10, 10), false, false),
        ] {
            let found = wish(action, 100, 100, angle).passes(sides.0, sides.1, bloated);
            assert_eq!(found, passes, "{action:?} {sides:?}");
        }
    }

    #[test]
    fn numbers_are_above_zero() {
        for (word, expected) in [
            ("1", Some(1)),
            ("-", Some(UNLIMITED)),
            ("0", None),
            ("", None),
            ("1x", None),
            ("-5", None),
            ("99999999999", None),
        ] {
            assert_eq!(parse(word.as_bytes()), expected, "{word}");
        }
    }
}
