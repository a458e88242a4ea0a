//! What is to be done with a picture: steps in order, in whole pixels, and the form of the result.

use crate::probe::Format;

/// A red, green, blue and alpha value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Colour {
    /// 0 to 255.
    pub red: u8,
    /// 0 to 255.
    pub green: u8,
    /// 0 to 255.
    pub blue: u8,
    /// 0 is transparent, 255 opaque.
    pub alpha: u8,
}

impl Colour {
    /// Opaque black.
    pub const BLACK: Colour = Colour {
        red: 0,
        green: 0,
        blue: 0,
        alpha: 255,
    };
    /// Opaque white.
    pub const WHITE: Colour = Colour {
        red: 255,
        green: 255,
        blue: 255,
        alpha: 255,
    };

    /// As four bytes.
    pub fn rgba(self) -> [u8; 4] {
        [self.red, self.green, self.blue, self.alpha]
    }
}

/// Clockwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rotation {
    /// A quarter turn clockwise.
    Quarter,
    /// Half a turn.
    Half,
    /// Three quarters clockwise, one counter-clockwise.
    ThreeQuarters,
}

/// How sizes are changed: whose pictures the result resembles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Resampling {
    /// Lanczos of three lobes; the sharpest without artefacts.
    #[default]
    Best,
    /// ImageMagick's default: Lanczos when a picture shrinks, Mitchell when it grows or has alpha.
    ImageMagick,
    /// GD's: the mean of the pixels that a new pixel covers.
    Gd,
    /// Imlib2's: the mean when a picture shrinks, linear when it grows.
    Imlib2,
}

/// Which part of a picture a crop keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Crop {
    /// From this corner on; negative coordinates lie outside the picture.
    At {
        /// From the left.
        x: i64,
        /// From the top.
        y: i64,
    },
    /// The middle.
    Centre,
    /// Where most details are: the strip with the least entropy goes, again and again.
    Entropy,
    /// Where edges, saturated colours and skin are.
    Attention,
}

/// A picture that is laid over the picture.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Overlay {
    /// The file: PNG, JPEG, GIF or WebP.
    pub bytes: std::sync::Arc<[u8]>,
    /// From the left, of the overlay's left edge; may be negative.
    pub x: i64,
    /// From the top, of the overlay's top edge; may be negative.
    pub y: i64,
}

/// One step. A step sees the picture as the one before left it.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Turns the picture upright as its EXIF orientation says; the result has orientation 1. Only as the first step.
    Orient,
    /// Turns it.
    Rotate(Rotation),
    /// Keeps a rectangle. What lies outside the picture is left out, so the result may be smaller than `width` times
    /// `height`; an empty result is `Corrupt`.
    Crop {
        /// Which part.
        from: Crop,
        /// Of the rectangle.
        width: u32,
        /// Of the rectangle.
        height: u32,
    },
    /// Changes the size, without regard to the aspect ratio.
    Resize {
        /// At least 1.
        width: u32,
        /// At least 1.
        height: u32,
        /// How.
        resampling: Resampling,
    },
    /// Puts the picture on a canvas.
    Canvas {
        /// Of the canvas.
        width: u32,
        /// Of the canvas.
        height: u32,
        /// Where the picture's left edge lies; may be negative.
        x: i64,
        /// Where the picture's top edge lies; may be negative.
        y: i64,
        /// What shows where the picture is not, and through it.
        background: Colour,
    },
    /// Paints a frame over the edges; the size stays.
    Border {
        /// Thickness left and right.
        width: u32,
        /// Thickness at top and bottom.
        height: u32,
        /// Of the frame.
        colour: Colour,
    },
    /// ImageMagick's sharpen; a radius of 0 is one that suits sigma.
    Sharpen {
        /// In pixels.
        radius: f64,
        /// In pixels.
        sigma: f64,
    },
    /// GD's sharpen, as image_filter does it: per cent.
    SharpenPercent(u32),
    /// ImageMagick's unsharp mask.
    Unsharp {
        /// In pixels; 0 is one that suits sigma.
        radius: f64,
        /// In pixels.
        sigma: f64,
        /// How much of the difference is added; 1 is all of it.
        amount: f64,
        /// Differences below this part of the range are left; 0 to 1.
        threshold: f64,
    },
    /// ImageMagick's blur.
    Blur {
        /// In pixels; 0 is one that suits sigma.
        radius: f64,
        /// In pixels.
        sigma: f64,
    },
    /// Lays a picture over the picture.
    Overlay(Overlay),
}

/// How much a lossy format may lose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Quality {
    /// What the source was written with where that can be told (JPEG), else the format's usual one: JPEG 92, WebP 75,
    /// AVIF 60.
    #[default]
    Source,
    /// 1 to 100, in the format's own scale.
    Percent(u8),
    /// The smallest JPEG that is hardly told from the picture; other formats as `Source`.
    Auto,
}

/// The resolution of colour in a JPEG.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Sampling {
    /// As the source has it; 4:2:0 where the source is no JPEG.
    #[default]
    Source,
    /// 4:2:0, half of it each way.
    Half,
    /// 4:4:4.
    Full,
}

/// What becomes of a picture's EXIF, ICC and XMP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Metadata {
    /// Colours are converted to sRGB by the ICC profile; then everything is left out.
    #[default]
    Srgb,
    /// Everything is left out; colours stay as they are.
    Strip,
    /// Everything is kept where the new format can hold it.
    Keep,
}

/// The form of the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Its format.
    pub format: Format,
    /// How much may be lost.
    pub quality: Quality,
    /// The file shows the whole picture early: progressive JPEG; PNG and GIF are never interlaced yet.
    pub progressive: bool,
    /// Colour in a JPEG.
    pub sampling: Sampling,
    /// Four inks stay four in a JPEG that is only scaled, cut or turned; else they become RGB.
    pub keeps_inks: bool,
    /// WebP without loss, also where there is an encoder for WebP with loss.
    pub lossless: bool,
    /// A JPEG's quality goes down until the file has at most this many bytes; other formats have no quality to give.
    pub max_bytes: Option<u64>,
    /// EXIF, ICC and XMP.
    pub metadata: Metadata,
    /// What is transparent in a source whose colours are a table shows the table's colour.
    pub opaque: bool,
    /// What shows through transparent parts in formats without alpha.
    pub background: Colour,
}

impl Output {
    /// A format with all else by default.
    pub fn new(format: Format) -> Output {
        Output {
            format,
            quality: Quality::Source,
            progressive: false,
            sampling: Sampling::Source,
            keeps_inks: false,
            lossless: false,
            max_bytes: None,
            metadata: Metadata::Srgb,
            opaque: false,
            background: Colour::WHITE,
        }
    }
}

/// All of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// In order.
    pub steps: Vec<Step>,
    /// All frames of an animation are kept where the new format can hold them (GIF, and WebP by an encoder with loss); else
    /// the first one.
    pub animation: bool,
    /// The form of the result.
    pub output: Output,
}
