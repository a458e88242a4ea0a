//! small_light's arithmetic: which part of a picture becomes how large, and where it lies on its canvas. Numbers are kept
//! whole to the end and then cut, not rounded: 640 × 427 in a box of 250 is 250 × 166.

use super::wish::{Align, Coordinate, Engine, Pass, Wish};

/// The side of the picture that the hint for the JPEG decoder is worked out on, before the real one is known.
const HINT_SIDE: f64 = 10_000.0;
/// What stands for a side that is not given: larger than any.
const UNBOUNDED: f64 = 1e38;

/// A part of the source, in its pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    pub x: u32,
    pub y: u32,
    pub width: u32,
    pub height: u32,
}

/// A part of the source and the size that it gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    pub part: Part,
    pub width: u32,
    pub height: u32,
}

/// A canvas and where the picture's corner lies on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Canvas {
    pub width: u32,
    pub height: u32,
    pub x: i32,
    pub y: i32,
}

/// What is done with a picture's pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// `None`: all of it at its own size.
    pub scale: Option<Scale>,
    pub canvas: Option<Canvas>,
}

/// What becomes of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It goes out as it came.
    Passed,
    Made(Geometry),
    /// The wish leads to a picture without pixels.
    Empty,
}

/// What is to be done with a picture of these sides (after it was turned). `is_jpeg` says whether the hint counts.
#[must_use]
pub fn outcome(wish: &Wish, width: u32, height: u32, is_jpeg: bool) -> Outcome {
    let eighths = if is_jpeg {
        hint(wish, width, height)
    } else {
        8
    };
    let reduced = (reduce(width, eighths), reduce(height, eighths));
    let numbers = Numbers::of(wish, f64::from(reduced.0), f64::from(reduced.1));
    if numbers.passes(wish.pass) {
        return Outcome::Passed;
    }
    let scale = match numbers.scale(wish, reduced) {
        Err(Nothing) => return Outcome::Empty,
        Ok(Some(scale)) => Some(Scale {
            part: enlarge(scale.part, eighths, width, height),
            ..scale
        }),
        Ok(None) if eighths < 8 => Some(Scale {
            part: whole(width, height),
            width: reduced.0,
            height: reduced.1,
        }),
        Ok(None) => None,
    };
    let picture = scale.map_or((width, height), |scale| (scale.width, scale.height));
    match canvas(wish, &numbers, scale.is_some(), picture) {
        Err(Nothing) => Outcome::Empty,
        Ok(canvas) => Outcome::Made(Geometry { scale, canvas }),
    }
}

/// No pixels are left.
struct Nothing;

/// The source rectangle and the destination box, in pixels.
struct Numbers {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
    /// `UNBOUNDED` where none is given.
    to_width: f64,
    to_height: f64,
    at_x: Option<f64>,
    at_y: Option<f64>,
}

impl Numbers {
    fn of(wish: &Wish, width: f64, height: f64) -> Numbers {
        let from =
            |coordinate: Coordinate, side, otherwise| coordinate.of(side).unwrap_or(otherwise);
        let source_width = from(wish.source_width, width, width);
        let source_height = from(wish.source_height, height, height);
        let aspect = source_width / source_height;
        let (to_width, to_height) = match (wish.width.of(width), wish.height.of(height)) {
            (None, None) => (UNBOUNDED, UNBOUNDED),
            (Some(to), None) => (to, to / aspect),
            (None, Some(to)) => (to * aspect, to),
            (Some(to_width), Some(to_height)) => {
                let is_narrower = source_width / to_width < source_height / to_height;
                match (wish.align, is_narrower) {
                    (Align::Exact, _) => (to_width, to_height),
                    (Align::Long, true) | (Align::Short, false) => (to_height * aspect, to_height),
                    (Align::Long, false) | (Align::Short, true) => (to_width, to_width / aspect),
                }
            }
        };
        Numbers {
            x: from(wish.source_x, width, 0.0),
            y: from(wish.source_y, height, 0.0),
            width: source_width,
            height: source_height,
            to_width,
            to_height,
            at_x: wish.x.of(width),
            at_y: wish.y.of(height),
        }
    }

    fn passes(&self, pass: Pass) -> bool {
        match pass {
            Pass::Never => false,
            Pass::Smaller => self.width < self.to_width && self.height < self.to_height,
            Pass::Larger => self.width > self.to_width || self.height > self.to_height,
        }
    }

    /// The part and its new size, where there is to be one.
    fn scale(&self, wish: &Wish, (width, height): (u32, u32)) -> Result<Option<Scale>, Nothing> {
        // As small_light has it, the offset counts as if it were cut off the size.
        let is_smaller =
            self.to_width < self.width - self.x || self.to_height < self.height - self.y;
        if !wish.forced && !is_smaller {
            return Ok(None);
        }
        let part = Part {
            x: cut(self.x),
            y: cut(self.y),
            width: cut(self.width),
            height: cut(self.height),
        };
        let given = |side: f64, own: f64| if side >= UNBOUNDED { own } else { side };
        Ok(Some(Scale {
            part: clip(part, width, height).ok_or(Nothing)?,
            width: size(given(self.to_width, self.width))?,
            height: size(given(self.to_height, self.height))?,
        }))
    }
}

fn canvas(
    wish: &Wish,
    numbers: &Numbers,
    is_scaled: bool,
    picture: (u32, u32),
) -> Result<Option<Canvas>, Nothing> {
    if wish.canvas_width <= 0.0 || wish.canvas_height <= 0.0 {
        return Ok(None);
    }
    // The middle is that of the numbers before they are cut.
    let exact = |side: f64, cut: u32| match is_scaled && side < UNBOUNDED {
        true => side,
        false => f64::from(cut),
    };
    let x = (wish.canvas_width - exact(numbers.to_width, picture.0)) * 0.5;
    let y = (wish.canvas_height - exact(numbers.to_height, picture.1)) * 0.5;
    Ok(Some(Canvas {
        width: size(wish.canvas_width)?,
        height: size(wish.canvas_height)?,
        x: numbers.at_x.unwrap_or(x) as i32,
        y: numbers.at_y.unwrap_or(y) as i32,
    }))
}

/// How many eighths of its size a JPEG is decoded at. The decoder's whole divisor goes to the next eighth above.
#[must_use]
pub fn hint(wish: &Wish, width: u32, height: u32) -> u32 {
    if !wish.jpeg_hint || wish.engine == Engine::Gd {
        return 8;
    }
    let numbers = Numbers::of(wish, HINT_SIDE, HINT_SIDE);
    let (to_width, to_height) = (numbers.to_width.trunc(), numbers.to_height.trunc());
    if numbers.to_width >= UNBOUNDED || to_width < 1.0 || to_height < 1.0 {
        return 8;
    }
    let (width, height) = match wish.turns_sides() {
        true => (height, width),
        false => (width, height),
    };
    let divisor = (f64::from(width) / to_width).min(f64::from(height) / to_height);
    let divisor = divisor.trunc().clamp(1.0, 8.0) as u32;
    8u32.div_ceil(divisor)
}

fn reduce(side: u32, eighths: u32) -> u32 {
    let reduced = (u64::from(side) * u64::from(eighths)).div_ceil(8);
    u32::try_from(reduced).unwrap_or(side)
}

/// A part of the reduced picture as a part of the whole one.
fn enlarge(part: Part, eighths: u32, width: u32, height: u32) -> Part {
    if eighths == 8 {
        return part;
    }
    let side = |at: u32, length: u32, whole: u32| {
        let from = u64::from(at) * 8 / u64::from(eighths);
        let to = (u64::from(at) + u64::from(length)) * 8 / u64::from(eighths);
        let (from, to) = (from.min(u64::from(whole)), to.min(u64::from(whole)));
        (from as u32, (to - from).max(1) as u32)
    };
    let (x, part_width) = side(part.x, part.width, width);
    let (y, part_height) = side(part.y, part.height, height);
    Part {
        x,
        y,
        width: part_width,
        height: part_height,
    }
}

fn whole(width: u32, height: u32) -> Part {
    Part {
        x: 0,
        y: 0,
        width,
        height,
    }
}

/// What of a part lies in the picture.
fn clip(part: Part, width: u32, height: u32) -> Option<Part> {
    let clipped = Part {
        width: part.width.min(width.checked_sub(part.x)?),
        height: part.height.min(height.checked_sub(part.y)?),
        ..part
    };
    (clipped.width > 0 && clipped.height > 0).then_some(clipped)
}

/// Without the fraction; what is no size is 0.
fn cut(number: f64) -> u32 {
    number as u32
}

/// A side of the result: at least a pixel, unless none was asked for.
fn size(number: f64) -> Result<u32, Nothing> {
    match number > 0.0 {
        true => Ok(cut(number).max(1)),
        false => Err(Nothing),
    }
}

#[cfg(test)]
#[path = "geometry_tests.rs"]
mod tests;
