//! The parameters as values: numbers, coordinates, colours. What cannot be read counts as not given, as in small_light.

use super::parameters::{Name, Parameters};

/// A coordinate: pixels, or a share of the picture's side.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Coordinate {
    #[default]
    None,
    Pixels(f64),
    Percent(f64),
}

impl Coordinate {
    fn parse(text: &[u8]) -> Coordinate {
        let is_part = |byte: &&u8| byte.is_ascii_digit() || **byte == b'.';
        let digits = text.iter().take_while(is_part).count();
        match text.get(digits) {
            _ if text.is_empty() => Coordinate::None,
            None => Coordinate::Pixels(number(text)),
            Some(b'p') => Coordinate::Percent(number(text)),
            Some(_) => Coordinate::None,
        }
    }

    /// In pixels of a side of this length.
    #[must_use]
    pub fn of(self, side: f64) -> Option<f64> {
        match self {
            Coordinate::None => None,
            Coordinate::Pixels(pixels) => Some(pixels),
            Coordinate::Percent(percent) => Some(side * percent * 0.01),
        }
    }
}

/// Red, green, blue and opacity.
pub type Colour = [u8; 4];

/// How the destination box is met (`da`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// The whole picture fits into the box.
    Long,
    /// The picture covers the box.
    Short,
    /// The picture takes the box's form.
    Exact,
}

/// When the picture goes out as it is (`pt`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    Never,
    /// It is smaller than the destination on both sides.
    Smaller,
    /// It is larger than the destination on one side.
    Larger,
}

/// Whose resampling and default quality is used (`e`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    ImageMagick,
    Gd,
    Imlib2,
}

/// A format that is asked for (`of`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// That of the source.
    Source,
    Jpeg,
    Png,
    Gif,
    WebP,
    Avif,
    /// The best that the client takes.
    Auto,
}

/// `RADIUSxSIGMA+AMOUNT+THRESHOLD`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Effect {
    pub radius: f64,
    pub sigma: f64,
    pub amount: f64,
    pub threshold: f64,
}

/// What is wished of a picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Wish {
    pub engine: Engine,
    pub source_x: Coordinate,
    pub source_y: Coordinate,
    pub source_width: Coordinate,
    pub source_height: Coordinate,
    pub x: Coordinate,
    pub y: Coordinate,
    pub width: Coordinate,
    pub height: Coordinate,
    pub align: Align,
    /// Scaled even where that enlarges (`ds=s`).
    pub forced: bool,
    pub canvas_width: f64,
    pub canvas_height: f64,
    pub canvas_colour: Colour,
    pub border_width: f64,
    pub border_height: f64,
    pub border_colour: Colour,
    pub pass: Pass,
    /// 0: the engine's own.
    pub quality: f64,
    /// `q=auto`: the smallest that looks as good.
    pub auto_quality: bool,
    pub format: Wanted,
    pub jpeg_hint: bool,
    pub remove_profiles: bool,
    pub sharpen: Option<Effect>,
    pub unsharp: Option<Effect>,
    pub blur: Option<Effect>,
    /// The name of the file that is laid over the picture.
    pub icon: Option<Box<[u8]>>,
    pub icon_x: i32,
    pub icon_y: i32,
    /// 0, 90, 180 or 270, clockwise.
    pub angle: u16,
    pub progressive: bool,
    pub cmyk_to_rgb: bool,
    pub auto_orient: bool,
}

impl Wish {
    #[must_use]
    pub fn new(parameters: &Parameters) -> Wish {
        let text = |name| parameters.text(name);
        let coordinate = |name| Coordinate::parse(text(name));
        let flag = |name| text(name).first() == Some(&b'y');
        // Only what is more than nothing has a meaning.
        let length = |name| number(text(name)).max(0.0);
        Wish {
            engine: engine(text(Name::Engine)),
            source_x: coordinate(Name::SourceX),
            source_y: coordinate(Name::SourceY),
            source_width: coordinate(Name::SourceWidth),
            source_height: coordinate(Name::SourceHeight),
            x: coordinate(Name::X),
            y: coordinate(Name::Y),
            width: coordinate(Name::Width),
            height: coordinate(Name::Height),
            align: match text(Name::Align).first() {
                None | Some(b'l') => Align::Long,
                Some(b's') => Align::Short,
                Some(_) => Align::Exact,
            },
            forced: text(Name::Scale).first() == Some(&b's'),
            canvas_width: length(Name::CanvasWidth),
            canvas_height: length(Name::CanvasHeight),
            canvas_colour: colour(text(Name::CanvasColour)),
            border_width: length(Name::BorderWidth),
            border_height: length(Name::BorderHeight),
            border_colour: colour(text(Name::BorderColour)),
            pass: match text(Name::Pass) {
                b"ptss" => Pass::Smaller,
                b"ptls" => Pass::Larger,
                _ => Pass::Never,
            },
            quality: length(Name::Quality),
            auto_quality: text(Name::Quality) == b"auto",
            format: wanted(text(Name::Format)),
            jpeg_hint: flag(Name::JpegHint),
            remove_profiles: flag(Name::RemoveProfiles),
            sharpen: effect(text(Name::Sharpen)),
            unsharp: effect(text(Name::Unsharp)),
            blur: effect(text(Name::Blur)),
            icon: Some(text(Name::Icon))
                .filter(|name| !name.is_empty())
                .map(Into::into),
            icon_x: number(text(Name::IconX)) as i32,
            icon_y: number(text(Name::IconY)) as i32,
            angle: angle(text(Name::Angle)),
            progressive: flag(Name::Progressive),
            cmyk_to_rgb: flag(Name::CmykToRgb),
            auto_orient: flag(Name::AutoOrient),
        }
    }

    /// Whether it asks for a size, a part or a canvas.
    #[must_use]
    pub fn cuts_or_grows(&self) -> bool {
        let coordinates = [
            self.source_x,
            self.source_y,
            self.source_width,
            self.source_height,
            self.x,
            self.y,
            self.width,
            self.height,
        ];
        coordinates.iter().any(|side| *side != Coordinate::None)
            || self.canvas_width > 0.0
            || self.canvas_height > 0.0
    }

    /// The box and the canvas where both are plain numbers of whole pixels, and nothing else moves or cuts.
    #[must_use]
    pub fn box_in_pixels(&self) -> Option<[(Option<u32>, Option<u32>); 2]> {
        let parts = [
            self.source_x,
            self.source_y,
            self.source_width,
            self.source_height,
            self.x,
            self.y,
        ];
        if parts.iter().any(|side| *side != Coordinate::None) {
            return None;
        }
        let whole = |number: f64| (number.fract() == 0.0).then_some(number as u32);
        let side = |side: Coordinate| match side {
            Coordinate::None => Some(None),
            Coordinate::Pixels(pixels) => whole(pixels).map(Some),
            Coordinate::Percent(_) => None,
        };
        let canvas = |number: f64| match number > 0.0 {
            true => whole(number).map(Some),
            false => Some(None),
        };
        Some([
            (side(self.width)?, side(self.height)?),
            (canvas(self.canvas_width)?, canvas(self.canvas_height)?),
        ])
    }

    /// Enlarges what is given in pixels, for screens with more than one point for each.
    pub fn multiply(&mut self, ratio: f64) {
        for side in [&mut self.width, &mut self.height, &mut self.x, &mut self.y] {
            if let Coordinate::Pixels(pixels) = side {
                *pixels *= ratio;
            }
        }
        self.canvas_width *= ratio;
        self.canvas_height *= ratio;
        self.border_width *= ratio;
        self.border_height *= ratio;
    }

    /// Whether the sides are exchanged.
    #[must_use]
    pub fn turns_sides(&self) -> bool {
        self.angle % 180 == 90
    }
}

/// The number that a text begins with, else 0: digits, perhaps after a sign, perhaps with a fraction.
#[must_use]
pub fn number(text: &[u8]) -> f64 {
    let sign = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let mut end = sign;
    let mut points = 0;
    while let Some(&byte) = text.get(end) {
        match byte {
            b'0'..=b'9' => {}
            b'.' if points == 0 => points = 1,
            _ => break,
        }
        end += 1;
    }
    let digits = std::str::from_utf8(&text[..end]).unwrap_or_default();
    let value: f64 = digits.parse().unwrap_or(0.0);
    if value.is_finite() { value } else { 0.0 }
}

/// `rgb`, `rgba`, `rrggbb` or `rrggbbaa`; black where it is none of these.
fn colour(text: &[u8]) -> Colour {
    const BLACK: Colour = [0, 0, 0, 255];
    let digits: Option<Vec<u8>> = text
        .iter()
        .map(|&byte| char::from(byte).to_digit(16).map(|digit| digit as u8))
        .collect();
    match digits.as_deref() {
        Some(&[r, g, b]) => [r, g, b, 255],
        Some(&[r, g, b, a]) => [r, g, b, a],
        Some(&[r1, r0, g1, g0, b1, b0]) => [r1 * 16 + r0, g1 * 16 + g0, b1 * 16 + b0, 255],
        Some(&[r1, r0, g1, g0, b1, b0, a1, a0]) => {
            [r1 * 16 + r0, g1 * 16 + g0, b1 * 16 + b0, a1 * 16 + a0]
        }
        _ => BLACK,
    }
}

fn engine(text: &[u8]) -> Engine {
    match text {
        b"gd" => Engine::Gd,
        b"imlib2" => Engine::Imlib2,
        _ => Engine::ImageMagick,
    }
}

fn wanted(text: &[u8]) -> Wanted {
    match text {
        b"jpg" | b"jpeg" => Wanted::Jpeg,
        b"png" => Wanted::Png,
        b"gif" => Wanted::Gif,
        b"webp" => Wanted::WebP,
        b"avif" => Wanted::Avif,
        b"auto" => Wanted::Auto,
        _ => Wanted::Source,
    }
}

fn angle(text: &[u8]) -> u16 {
    match number(text) as i32 {
        90 => 90,
        180 => 180,
        270 => 270,
        _ => 0,
    }
}

/// Numbers between `x` and `+`; one that is missing is 0.
fn effect(text: &[u8]) -> Option<Effect> {
    if text.is_empty() {
        return None;
    }
    let mut parts = text.splitn(4, |&byte| matches!(byte, b'x' | b'X' | b'+'));
    let mut next = || parts.next().map_or(0.0, number).max(0.0);
    Some(Effect {
        radius: next(),
        sigma: next(),
        amount: next(),
        threshold: next(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_have_units() {
        use Coordinate::{None, Percent, Pixels};
        for (text, expected) in [
            ("100", Pixels(100.0)),
            ("100.5", Pixels(100.5)),
            ("50p", Percent(50.0)),
            ("12.5p", Percent(12.5)),
            ("50px", Percent(50.0)),
            ("0", Pixels(0.0)),
            (".5", Pixels(0.5)),
            ("1.2.3", Pixels(1.2)),
            ("", None),
            ("abc", None),
            ("-5", None),
            ("+5", None),
            ("5x", None),
            ("5%", None),
            ("p", Percent(0.0)),
        ] {
            assert_eq!(Coordinate::parse(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(Percent(25.0).of(400.0), Some(100.0));
        assert_eq!(Pixels(25.0).of(400.0), Some(25.0));
        assert_eq!(None.of(400.0), Option::None);
    }

    #[test]
    fn numbers_are_what_a_text_begins_with() {
        for (text, expected) in [
            ("75", 75.0),
            ("75.5x", 75.5),
            ("-3", -3.0),
            ("+3", 3.0),
            ("x3", 0.0),
            ("", 0.0),
            ("-", 0.0),
            (".", 0.0),
            ("1e3", 1.0),
            ("inf", 0.0),
            ("99999999999", 99_999_999_999.0),
        ] {
            assert_eq!(number(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(
            number("9".repeat(400).as_bytes()),
            0.0,
            "beyond all numbers"
        );
    }

    #[test]
    fn colours_have_three_to_eight_digits() {
        for (text, expected) in [
            ("ff0000", [255, 0, 0, 255]),
            ("FF8000", [255, 128, 0, 255]),
            ("00ff0080", [0, 255, 0, 128]),
            ("123", [1, 2, 3, 255]),
            ("1234", [1, 2, 3, 4]),
            ("red", [0, 0, 0, 255]),
            ("", [0, 0, 0, 255]),
            ("ff000", [0, 0, 0, 255]),
        ] {
            assert_eq!(colour(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn effects_are_geometries() {
        for (text, expected) in [
            ("2x1", Some((2.0, 1.0, 0.0, 0.0))),
            ("2", Some((2.0, 0.0, 0.0, 0.0))),
            ("0x1.5+0.8+0.02", Some((0.0, 1.5, 0.8, 0.02))),
            ("1x1+2+3+4", Some((1.0, 1.0, 2.0, 3.0))),
            ("x", Some((0.0, 0.0, 0.0, 0.0))),
            ("", None),
        ] {
            let found = effect(text.as_bytes());
            let parts = found.map(|e| (e.radius, e.sigma, e.amount, e.threshold));
            assert_eq!(parts, expected, "{text}");
        }
    }

    #[test]
    fn words_have_defaults() {
        let mut parameters = Parameters::default();
        let plain = Wish::new(&parameters);
        assert_eq!(plain.align, Align::Long);
        assert_eq!(plain.engine, Engine::ImageMagick);
        assert_eq!(plain.format, Wanted::Source);
        assert!(!plain.forced && !plain.jpeg_hint && plain.icon.is_none());
        parameters.add_list(b"da=n,ds=s,e=gd,of=jpeg,angle=270,jpeghint=yes,pt=ptls,q=auto");
        let wish = Wish::new(&parameters);
        assert_eq!(wish.align, Align::Exact);
        assert_eq!(wish.engine, Engine::Gd);
        assert_eq!(wish.format, Wanted::Jpeg);
        assert_eq!((wish.angle, wish.turns_sides()), (270, true));
        assert_eq!(wish.pass, Pass::Larger);
        assert!(wish.forced && wish.jpeg_hint && wish.auto_quality);
        for (text, expected) in [("45", 0), ("90x", 90), ("-90", 0), ("360", 0), ("x", 0)] {
            assert_eq!(angle(text.as_bytes()), expected, "{text}");
        }
    }
}
