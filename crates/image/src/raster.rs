//! Pixels in memory, and what moves them without changing them.

use crate::error::Error;
use crate::plan::Rotation;

/// A picture of 1 (grey), 3 (RGB) or 4 (RGBA) bytes a pixel, without gaps between its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raster {
    /// In pixels.
    pub width: usize,
    /// In pixels.
    pub height: usize,
    /// 1, 3 or 4.
    pub channels: usize,
    /// Row by row.
    pub data: Vec<u8>,
}

/// How a picture is mirrored and turned: from the result's coordinates to the source's, first the mirrors, then the
/// exchange of the axes. All eight orientations of EXIF are of this form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Turn {
    /// Left becomes right.
    pub mirror_x: bool,
    /// Top becomes bottom.
    pub mirror_y: bool,
    /// Rows become columns.
    pub transpose: bool,
}

impl Turn {
    /// What makes a picture of this EXIF orientation upright.
    pub fn upright(orientation: u8) -> Turn {
        let (mirror_x, mirror_y, transpose) = match orientation {
            2 => (true, false, false),
            3 => (true, true, false),
            4 => (false, true, false),
            5 => (false, false, true),
            6 => (true, false, true),
            7 => (true, true, true),
            8 => (false, true, true),
            _ => (false, false, false),
        };
        Turn {
            mirror_x,
            mirror_y,
            transpose,
        }
    }

    /// A rotation.
    pub fn rotation(rotation: Rotation) -> Turn {
        Turn::upright(match rotation {
            Rotation::Quarter => 6,
            Rotation::Half => 3,
            Rotation::ThreeQuarters => 8,
        })
    }

    /// This turn, and then another one.
    pub fn then(self, next: Turn) -> Turn {
        let (x, y) = if next.transpose {
            (self.mirror_y, self.mirror_x)
        } else {
            (self.mirror_x, self.mirror_y)
        };
        Turn {
            mirror_x: next.mirror_x ^ x,
            mirror_y: next.mirror_y ^ y,
            transpose: self.transpose ^ next.transpose,
        }
    }

    /// A size after the turn, or before it.
    pub fn size<T>(self, (width, height): (T, T)) -> (T, T) {
        if self.transpose {
            (height, width)
        } else {
            (width, height)
        }
    }

    /// Where a rectangle (x, y, width, height) of the turned picture lies in the source of this size.
    pub fn rectangle(
        self,
        (x, y, width, height): (u32, u32, u32, u32),
        source: (u32, u32),
    ) -> (u32, u32, u32, u32) {
        let (turned_width, turned_height) = self.size(source);
        let x = if self.mirror_x {
            turned_width.saturating_sub(x).saturating_sub(width)
        } else {
            x
        };
        let y = if self.mirror_y {
            turned_height.saturating_sub(y).saturating_sub(height)
        } else {
            y
        };
        if self.transpose {
            (y, x, height, width)
        } else {
            (x, y, width, height)
        }
    }

    /// Turns pixels of `channels` bytes; the rows of the source are `stride` bytes apart.
    pub fn apply(
        self,
        source: &[u8],
        (width, height): (usize, usize),
        stride: usize,
        channels: usize,
    ) -> Vec<u8> {
        let (out_width, out_height) = self.size((width, height));
        let mut out = Vec::with_capacity(width * height * channels);
        for y in 0..out_height {
            let y = if self.mirror_y { out_height - 1 - y } else { y };
            for x in 0..out_width {
                let x = if self.mirror_x { out_width - 1 - x } else { x };
                let at = if self.transpose {
                    x * stride + y * channels
                } else {
                    y * stride + x * channels
                };
                out.extend_from_slice(source.get(at..at + channels).unwrap_or_default());
            }
        }
        out
    }
}

impl Raster {
    /// A picture of one colour.
    pub fn filled(width: usize, height: usize, pixel: &[u8]) -> Raster {
        Raster {
            width,
            height,
            channels: pixel.len(),
            data: pixel.repeat(width * height),
        }
    }

    /// The bytes of a row.
    pub fn row(&self, y: usize) -> &[u8] {
        let length = self.width * self.channels;
        self.data
            .get(y * length..(y + 1) * length)
            .unwrap_or_default()
    }

    /// Whether parts may be transparent.
    pub fn has_alpha(&self) -> bool {
        self.channels == 4
    }

    /// Whether no pixel is transparent.
    pub fn is_opaque(&self) -> bool {
        self.channels != 4 || self.data.chunks_exact(4).all(|pixel| pixel[3] == 255)
    }

    /// The pixels with 3 bytes each; alpha is dropped.
    pub fn into_rgb(self) -> Raster {
        let data = match self.channels {
            1 => self.data.iter().flat_map(|grey| [*grey; 3]).collect(),
            4 => self
                .data
                .chunks_exact(4)
                .flat_map(|pixel| [pixel[0], pixel[1], pixel[2]])
                .collect(),
            _ => self.data,
        };
        Raster {
            channels: 3,
            data,
            ..self
        }
    }

    /// The pixels with 4 bytes each.
    pub fn into_rgba(self) -> Raster {
        let data = match self.channels {
            1 => self
                .data
                .iter()
                .flat_map(|grey| [*grey, *grey, *grey, 255])
                .collect(),
            3 => self
                .data
                .chunks_exact(3)
                .flat_map(|pixel| [pixel[0], pixel[1], pixel[2], 255])
                .collect(),
            _ => self.data,
        };
        Raster {
            channels: 4,
            data,
            ..self
        }
    }

    /// Alpha is replaced by this colour shining through.
    pub fn flattened(self, background: [u8; 4]) -> Raster {
        if !self.has_alpha() {
            return self;
        }
        let over = |pixel: &[u8]| {
            let alpha = u32::from(pixel[3]);
            [0, 1, 2].map(|at| {
                let sum = u32::from(pixel[at]) * alpha + u32::from(background[at]) * (255 - alpha);
                ((sum + 127) / 255) as u8
            })
        };
        Raster {
            channels: 3,
            data: self.data.chunks_exact(4).flat_map(over).collect(),
            ..self
        }
    }

    /// The picture turned.
    pub fn turned(self, turn: Turn) -> Raster {
        if turn == Turn::default() {
            return self;
        }
        let size = (self.width, self.height);
        let stride = self.width * self.channels;
        let (width, height) = turn.size(size);
        Raster {
            width,
            height,
            channels: self.channels,
            data: turn.apply(&self.data, size, stride, self.channels),
        }
    }

    /// A rectangle that lies within the picture.
    pub fn cropped(
        &self,
        x: usize,
        y: usize,
        width: usize,
        height: usize,
    ) -> Result<Raster, Error> {
        if x.saturating_add(width) > self.width || y.saturating_add(height) > self.height {
            return Err(Error::corrupt("a crop outside the picture"));
        }
        let columns = x * self.channels..(x + width) * self.channels;
        let mut data = Vec::with_capacity(width * height * self.channels);
        for row in y..y + height {
            data.extend_from_slice(self.row(row).get(columns.clone()).unwrap_or_default());
        }
        Ok(Raster {
            width,
            height,
            channels: self.channels,
            data,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ```text
    /// 1 2 3
    /// 4 5 6
    /// ```
    fn six() -> Raster {
        Raster {
            width: 3,
            height: 2,
            channels: 1,
            data: vec![1, 2, 3, 4, 5, 6],
        }
    }

    #[test]
    fn turns() {
        for (orientation, data) in [
            (1, [1, 2, 3, 4, 5, 6]),
            (2, [3, 2, 1, 6, 5, 4]),
            (3, [6, 5, 4, 3, 2, 1]),
            (4, [4, 5, 6, 1, 2, 3]),
            (5, [1, 4, 2, 5, 3, 6]),
            (6, [4, 1, 5, 2, 6, 3]),
            (7, [6, 3, 5, 2, 4, 1]),
            (8, [3, 6, 2, 5, 1, 4]),
        ] {
            let turned = six().turned(Turn::upright(orientation));
            assert_eq!(turned.data, data, "{orientation}");
        }
    }

    #[test]
    fn turns_one_after_the_other_are_one_turn() {
        for first in (1..=8).map(Turn::upright) {
            for second in (1..=8).map(Turn::upright) {
                let both = six().turned(first).turned(second);
                assert_eq!(
                    both,
                    six().turned(first.then(second)),
                    "{first:?} {second:?}"
                );
            }
        }
    }

    #[test]
    fn rectangles_are_found_in_the_source() {
        for turn in (1..=8).map(Turn::upright) {
            let turned = six().turned(turn);
            let (x, y, width, height) = turn.rectangle((0, 1, 2, 1), (3, 2));
            let before = six().cropped(x as usize, y as usize, width as usize, height as usize);
            let after = turned.cropped(0, 1, 2, 1).expect("inside");
            assert_eq!(before.expect("inside").turned(turn), after, "{turn:?}");
        }
    }
}
