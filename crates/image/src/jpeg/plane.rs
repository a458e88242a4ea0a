//! Pictures as JPEG holds them: a plane of brightness and two of colour, which may have fewer samples.

/// One channel's samples, row by row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plane {
    /// Samples of a row that belong to the picture.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Samples from one row to the next, at least `width`.
    pub stride: usize,
    /// `stride` times `height` samples at least.
    pub samples: Vec<u8>,
}

impl Plane {
    /// A plane without gaps between its rows.
    pub fn new(width: usize, height: usize, samples: Vec<u8>) -> Plane {
        Plane {
            width,
            height,
            stride: width,
            samples,
        }
    }

    /// The samples of a row, the last one for rows below the picture.
    pub fn row(&self, y: usize) -> &[u8] {
        let start = y.min(self.height.saturating_sub(1)) * self.stride;
        self.samples
            .get(start..start + self.width)
            .unwrap_or_default()
    }
}

/// One plane (grey), three (Y, Cb, Cr) or four: inks as Adobe writes them, 255 for none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planes {
    /// In pixels.
    pub width: usize,
    /// In pixels.
    pub height: usize,
    /// Brightness first. Each has the size of the picture, or half of it in either direction, rounded up.
    pub planes: Vec<Plane>,
    /// Of four planes: the first three are Y, Cb and Cr of what 255 lacks of the inks.
    pub transformed: bool,
}
