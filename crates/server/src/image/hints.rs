//! What a client says of its screen: `DPR` and `Width`, also under their names with `Sec-CH-`. Both are cut to steps, so that
//! screens that differ little share pictures.

use super::small_light::wish::{Coordinate, Wish, number};
use crate::http::{Request, Response};

/// Points for a pixel, at most.
const RATIO_MAX: f64 = 4.0;
/// Steps of a ratio in one.
const RATIO_STEPS: f64 = 4.0;
/// Widths are multiples of this.
const WIDTH_STEP: f64 = 50.0;
/// A wider picture is not asked for by a hint.
const WIDTH_MAX: f64 = 8000.0;

const FIELDS: &str = "DPR, Width, Sec-CH-DPR, Sec-CH-Width";

/// The value of a hint, under either name.
fn hint(request: &Request, names: [&[u8]; 2]) -> Option<f64> {
    let value = |name| request.fields_named(name).next().map(number);
    let found = value(names[0]).or_else(|| value(names[1]))?;
    (found > 0.0).then_some(found)
}

/// Lets the client's hints change the wish: a ratio what is given in pixels, a width what is given in no way.
pub fn apply(request: &Request, wish: &mut Wish) {
    let ratio = hint(request, [b"sec-ch-dpr", b"dpr"]);
    let width = hint(request, [b"sec-ch-width", b"width"]);
    if let Some(width) = width
        && wish.width == Coordinate::None
        && wish.height == Coordinate::None
    {
        // It is one of the screen's points already.
        wish.width = Coordinate::Pixels(width_step(width));
    } else if let Some(ratio) = ratio {
        wish.multiply(ratio_step(ratio));
    }
}

fn ratio_step(ratio: f64) -> f64 {
    ((ratio * RATIO_STEPS).round() / RATIO_STEPS).clamp(1.0, RATIO_MAX)
}

fn width_step(width: f64) -> f64 {
    (width / WIDTH_STEP).ceil().min(WIDTH_MAX / WIDTH_STEP) * WIDTH_STEP
}

/// Asks for hints, and says that other ones lead to another response.
pub fn tell(response: &mut Response) {
    response.headers.push("Accept-CH", FIELDS);
    response.headers.push("Vary", FIELDS);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_cut_to_steps() {
        for (ratio, expected) in [
            (1.0, 1.0),
            (0.5, 1.0),
            (1.3, 1.25),
            (2.63, 2.75),
            (9.0, 4.0),
        ] {
            assert_eq!(ratio_step(ratio), expected, "{ratio}");
        }
        for (width, expected) in [(1.0, 50.0), (50.0, 50.0), (320.5, 350.0), (1e9, 8000.0)] {
            assert_eq!(width_step(width), expected, "{width}");
        }
    }
}
