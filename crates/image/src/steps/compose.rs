//! Pictures over pictures: canvases, borders, icons.

use super::pixel;
use crate::plan::Colour;
use crate::raster::Raster;

/// Puts a picture on a canvas, whose colour shines through it.
pub fn canvas(
    raster: &Raster,
    (width, height): (u32, u32),
    at: (i64, i64),
    background: Colour,
) -> Raster {
    let size = (width as usize, height as usize);
    // A grey picture on a coloured canvas is a coloured one; a canvas that can be seen through has alpha.
    let (channels, raster) = match (pixel(background, raster.channels), background.alpha) {
        (Some(_), _) => (raster.channels, raster.clone()),
        (None, 255) => (3, raster.clone().into_rgb()),
        (None, _) => (4, raster.clone().into_rgba()),
    };
    let filling = pixel(background, channels).unwrap_or_else(|| vec![0; channels]);
    over(Raster::filled(size.0, size.1, &filling), raster, at)
}

/// Paints a frame over the edges.
pub fn border(raster: Raster, width: u32, height: u32, colour: Colour) -> Raster {
    let mut raster = match (pixel(colour, raster.channels), raster.channels) {
        (Some(_), _) | (None, 3 | 4) => raster,
        (None, _) => raster.into_rgb(),
    };
    let filling = match raster.channels {
        4 => colour.rgba().to_vec(),
        channels => colour.rgba()[..channels.min(3)].to_vec(),
    };
    let (rows, channels) = (raster.height, raster.channels);
    let bar = filling.repeat(raster.width);
    let (width, height) = ((width as usize).min(raster.width), height as usize);
    for (y, row) in raster.data.chunks_exact_mut(bar.len().max(1)).enumerate() {
        if y < height || y + height >= rows {
            row.copy_from_slice(&bar);
        } else {
            let length = row.len();
            let side = bar.get(..width * channels).unwrap_or_default();
            row[..side.len()].copy_from_slice(side);
            row[length - side.len()..].copy_from_slice(side);
        }
    }
    raster
}

/// Lays `top` over `bottom`, with its left upper corner at `at`; what lies outside is left out.
pub fn over(mut bottom: Raster, top: Raster, (left, above): (i64, i64)) -> Raster {
    if bottom.channels == 1 && top.channels != 1 {
        bottom = bottom.into_rgb();
    }
    let (width, channels) = (bottom.width, bottom.channels);
    let first_column = left.clamp(0, width as i64) as usize;
    let last_column = left
        .saturating_add(top.width as i64)
        .clamp(first_column as i64, width as i64) as usize;
    for y in 0..top.height {
        let Some(row) = above.checked_add(y as i64) else {
            break;
        };
        let Ok(row) = usize::try_from(row) else {
            continue;
        };
        if row >= bottom.height {
            break;
        }
        let start = row * width * channels;
        let to = start + first_column * channels..start + last_column * channels;
        let skipped = (first_column as i64).saturating_sub(left) as usize;
        let from = top.row(y).get(skipped * top.channels..).unwrap_or_default();
        let to = bottom.data.get_mut(to).unwrap_or_default();
        for (to, from) in to
            .chunks_exact_mut(channels)
            .zip(from.chunks_exact(top.channels))
        {
            blend(to, from);
        }
    }
    bottom
}

/// A pixel over another one. A grey one below lies under grey ones only.
fn blend(below: &mut [u8], above: &[u8]) {
    let (colour, alpha) = match above {
        [grey] => ([*grey; 3], 255),
        [red, green, blue] => ([*red, *green, *blue], 255),
        [red, green, blue, alpha, ..] => ([*red, *green, *blue], u32::from(*alpha)),
        _ => return,
    };
    let beneath = match below {
        [_, _, _, beneath] => u32::from(*beneath),
        _ => 255,
    };
    // Of what is seen, in 255ths of 255ths: this pixel's part and the other one's.
    let (ours, theirs) = (alpha * 255, beneath * (255 - alpha));
    let sum = ours + theirs;
    if sum == 0 {
        return;
    }
    for (to, from) in below.iter_mut().take(3).zip(colour) {
        *to = ((u32::from(from) * ours + u32::from(*to) * theirs + sum / 2) / sum) as u8;
    }
    if let [_, _, _, beneath] = below {
        *beneath = ((sum + 127) / 255) as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RED: Colour = Colour {
        red: 255,
        green: 0,
        blue: 0,
        alpha: 255,
    };

    #[test]
    fn canvases_show_around_and_through() {
        let white = Raster::filled(2, 2, &[255; 3]);
        for (at, expected) in [
            ((0, 0), "wwrwwrrrr"),
            ((1, 1), "rrrrwwrww"),
            ((-1, -1), "wrrrrrrrr"),
            ((2, 2), "rrrrrrrrw"),
            ((3, 0), "rrrrrrrrr"),
            ((i64::MAX, i64::MIN), "rrrrrrrrr"),
        ] {
            let shown = canvas(&white, (3, 3), at, RED);
            let text: String = shown
                .data
                .chunks(3)
                .map(|pixel| if pixel == [255; 3] { 'w' } else { 'r' })
                .collect();
            assert_eq!(text, expected, "{at:?}");
        }
        let half = Raster::filled(1, 1, &[255, 255, 255, 128]);
        let shown = canvas(&half, (1, 1), (0, 0), RED);
        assert_eq!((shown.channels, shown.data), (4, vec![255, 128, 128, 255]));
        let grey = Raster::filled(1, 1, &[9]);
        assert_eq!(canvas(&grey, (1, 1), (0, 0), Colour::BLACK).channels, 1);
        assert_eq!(canvas(&grey, (1, 1), (0, 0), RED).channels, 3);
        assert_eq!(
            canvas(&grey, (1, 1), (0, 0), Colour { alpha: 0, ..RED }).channels,
            4
        );
    }

    #[test]
    fn borders_are_painted_over() {
        let shown = border(Raster::filled(5, 4, &[0]), 1, 1, Colour::WHITE);
        let expected = "wwwww w...w w...w wwwww".replace(' ', "");
        let text: String = shown
            .data
            .iter()
            .map(|value| if *value == 255 { 'w' } else { '.' })
            .collect();
        assert_eq!(text, expected);
        let all = border(Raster::filled(2, 2, &[0]), 9, 0, Colour::WHITE);
        assert_eq!(all.data, vec![255; 4]);
    }
}
