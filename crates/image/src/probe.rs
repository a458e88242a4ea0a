//! What a file's header says of a picture, read without decoding a pixel. Formats are told by their first bytes, never by
//! a name or a Content-Type.

use crate::error::Error;

/// AVIF.
pub(crate) mod avif;
/// Orientation.
pub(crate) mod exif;
mod jpeg;

/// Kinds of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// ITU T.81.
    Jpeg,
    /// RFC 2083 and its successors.
    Png,
    /// GIF87a and GIF89a.
    Gif,
    /// RFC 9649.
    Webp,
    /// AV1 in HEIF, with the feature `avif`.
    Avif,
}

impl Format {
    /// The media type.
    pub fn mime(self) -> &'static str {
        match self {
            Format::Jpeg => "image/jpeg",
            Format::Png => "image/png",
            Format::Gif => "image/gif",
            Format::Webp => "image/webp",
            Format::Avif => "image/avif",
        }
    }

    /// Whether pictures of this kind can be written.
    pub fn can_write(self) -> bool {
        self != Format::Avif || cfg!(feature = "avif")
    }

    /// Whether it can be partly transparent.
    pub fn has_alpha(self) -> bool {
        self != Format::Jpeg
    }
}

/// How colours are written in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Model {
    /// Brightness alone.
    Grey,
    /// Red, green and blue, or what is converted to them without choice.
    Colour,
    /// Indices into a table of colours.
    Palette,
    /// Four inks.
    Cmyk,
}

/// What the header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Of the file.
    pub format: Format,
    /// In pixels, as stored; see `upright`.
    pub width: u32,
    /// In pixels, as stored; see `upright`.
    pub height: u32,
    /// At least 1.
    pub frames: u32,
    /// Of one channel: 8 or 16, 1 to 8 for palettes, 12 for some JPEGs.
    pub bits: u8,
    /// Whether parts may be transparent.
    pub has_alpha: bool,
    /// EXIF's: 1 is upright, 2 to 8 are mirrored or turned.
    pub orientation: u8,
    /// Of the file's colours.
    pub model: Model,
    /// A progressive JPEG, an interlaced PNG.
    pub progressive: bool,
    /// What a JPEG seems to have been written with, 1 to 100.
    pub quality: Option<u8>,
    /// Bytes of a JPEG's application segments and comments: EXIF, ICC, thumbnails.
    pub metadata_bytes: u64,
}

impl Facts {
    fn new(format: Format, width: u32, height: u32) -> Facts {
        Facts {
            format,
            width,
            height,
            frames: 1,
            bits: 8,
            has_alpha: false,
            orientation: 1,
            model: Model::Colour,
            progressive: false,
            quality: None,
            metadata_bytes: 0,
        }
    }

    /// Width and height once the picture is turned as its orientation says.
    pub fn upright(&self) -> (u32, u32) {
        if self.orientation >= 5 {
            (self.height, self.width)
        } else {
            (self.width, self.height)
        }
    }

    fn checked(self) -> Result<Facts, Error> {
        if self.width == 0 || self.height == 0 {
            Err(Error::corrupt("no width or no height"))
        } else {
            Ok(self)
        }
    }
}

/// The kind of a file by its first bytes.
pub fn sniff(source: &[u8]) -> Result<Format, Error> {
    let is = |offset: usize, magic: &[u8]| {
        source
            .get(offset..)
            .is_some_and(|rest| rest.starts_with(magic))
    };
    if is(0, &[0xff, 0xd8]) {
        Ok(Format::Jpeg)
    } else if is(0, b"\x89PNG\r\n\x1a\n") {
        Ok(Format::Png)
    } else if is(0, b"GIF87a") || is(0, b"GIF89a") {
        Ok(Format::Gif)
    } else if is(0, b"RIFF") && is(8, b"WEBP") {
        Ok(Format::Webp)
    } else if cfg!(feature = "avif") && avif::is_avif(source) {
        Ok(Format::Avif)
    } else {
        Err(Error::Unsupported(other_kind(source)))
    }
}

/// The name of a kind that is not taken.
fn other_kind(source: &[u8]) -> &'static str {
    let head = source.get(..source.len().min(512)).unwrap_or(source);
    let brand = head.get(4..12).unwrap_or(b"");
    let text = head.trim_ascii_start();
    if source.is_empty() {
        "an empty file"
    } else if avif::is_avif(head) {
        "AVIF, which this build does not read"
    } else if brand.starts_with(b"ftyp") {
        "HEIF or a film"
    } else if head.starts_with(b"II*\0") || head.starts_with(b"MM\0*") {
        "TIFF"
    } else if head.starts_with(b"BM") {
        "BMP"
    } else if memchr::memmem::find(text, b"<svg").is_some() {
        "SVG"
    } else {
        "not a picture"
    }
}

/// What `source` says of itself. Takes time in proportion to the number of segments, chunks or blocks, not of pixels.
pub fn probe(source: &[u8]) -> Result<Facts, Error> {
    match sniff(source)? {
        Format::Jpeg => jpeg::facts(source),
        Format::Png => png(source),
        Format::Gif => gif(source),
        Format::Webp => webp(source),
        Format::Avif => avif::facts(source),
    }?
    .checked()
}

fn truncated() -> Error {
    Error::corrupt("the file ends too early")
}

/// `count` bytes from `at` on.
fn bytes(source: &[u8], at: usize, count: usize) -> Result<&[u8], Error> {
    at.checked_add(count)
        .and_then(|end| source.get(at..end))
        .ok_or_else(truncated)
}

fn big_endian_u32(source: &[u8], at: usize) -> Result<u32, Error> {
    let b = bytes(source, at, 4)?;
    Ok(b.iter().fold(0, |sum, b| sum << 8 | u32::from(*b)))
}

fn little_endian(source: &[u8], at: usize, count: usize) -> Result<u32, Error> {
    let b = bytes(source, at, count)?;
    Ok(b.iter().rev().fold(0, |sum, b| sum << 8 | u32::from(*b)))
}

fn png(source: &[u8]) -> Result<Facts, Error> {
    if bytes(source, 12, 4)? != b"IHDR" {
        return Err(Error::corrupt("PNG without IHDR"));
    }
    let mut facts = Facts::new(
        Format::Png,
        big_endian_u32(source, 16)?,
        big_endian_u32(source, 20)?,
    );
    let rest = bytes(source, 24, 5)?;
    let (bits, colour, interlace) = (rest[0], rest[1], rest[4]);
    facts.bits = bits;
    facts.progressive = interlace != 0;
    facts.has_alpha = colour & 4 != 0;
    facts.model = match colour {
        0 | 4 => Model::Grey,
        2 | 6 => Model::Colour,
        3 => Model::Palette,
        _ => return Err(Error::corrupt("PNG of an unknown colour type")),
    };
    let mut at = 33;
    while let Ok(length) = big_endian_u32(source, at) {
        let length = length as usize;
        match bytes(source, at + 4, 4) {
            Ok(b"tRNS") => facts.has_alpha = true,
            Ok(b"eXIf") => {
                let data = bytes(source, at + 8, length).unwrap_or(&[]);
                facts.orientation = exif::orientation(data);
            }
            Ok(b"IDAT") | Err(_) => break,
            Ok(_) => {}
        }
        at = at.saturating_add(length).saturating_add(12);
    }
    Ok(facts)
}

fn gif(source: &[u8]) -> Result<Facts, Error> {
    let size = |at| little_endian(source, at, 2);
    let mut facts = Facts::new(Format::Gif, size(6)?, size(8)?);
    facts.model = Model::Palette;
    let flags = bytes(source, 10, 1)?[0];
    facts.bits = (flags & 7) + 1;
    let mut at = 13;
    if flags & 0x80 != 0 {
        at += 3 << ((flags & 7) + 1);
    }
    let mut frames = 0u32;
    // A file that ends too early has as many frames as begin in it.
    while let Some(introducer) = source.get(at) {
        match introducer {
            0x21 => {
                let control = bytes(source, at + 1, 4).unwrap_or(&[]);
                if control.starts_with(&[0xf9, 4]) && control.get(2).is_some_and(|f| f & 1 != 0) {
                    facts.has_alpha = true;
                }
                at = after_sub_blocks(source, at + 2);
            }
            0x2c => {
                frames = frames.saturating_add(1);
                let Some(flags) = source.get(at + 9) else {
                    break;
                };
                let palette = if flags & 0x80 != 0 {
                    3 << ((flags & 7) + 1)
                } else {
                    0
                };
                at = after_sub_blocks(source, at + 10 + palette + 1);
            }
            _ => break,
        }
    }
    if frames == 0 {
        return Err(Error::corrupt("GIF without a frame"));
    }
    facts.frames = frames;
    Ok(facts)
}

fn after_sub_blocks(source: &[u8], mut at: usize) -> usize {
    while let Some(length) = source.get(at) {
        at += 1 + usize::from(*length);
        if *length == 0 {
            break;
        }
    }
    at
}

fn webp(source: &[u8]) -> Result<Facts, Error> {
    let mut facts = match bytes(source, 12, 4)? {
        b"VP8 " => {
            if bytes(source, 23, 3)? != [0x9d, 0x01, 0x2a] {
                return Err(Error::corrupt("WebP without a key frame"));
            }
            let size = |at| little_endian(source, at, 2).map(|size| size & 0x3fff);
            Facts::new(Format::Webp, size(26)?, size(28)?)
        }
        b"VP8L" => {
            let word = little_endian(source, 21, 4)?;
            let (width, height) = ((word & 0x3fff) + 1, (word >> 14 & 0x3fff) + 1);
            let mut facts = Facts::new(Format::Webp, width, height);
            facts.has_alpha = word >> 28 & 1 != 0;
            facts
        }
        b"VP8X" => {
            let size = |at| little_endian(source, at, 3).map(|size| size + 1);
            let mut facts = Facts::new(Format::Webp, size(24)?, size(27)?);
            facts.has_alpha = bytes(source, 20, 1)?[0] & 0x10 != 0;
            facts
        }
        _ => return Err(Error::corrupt("WebP of an unknown kind")),
    };
    let mut at = 12usize;
    let mut frames = 0u32;
    while let (Ok(name), Ok(length)) = (bytes(source, at, 4), little_endian(source, at + 4, 4)) {
        let length = length as usize;
        match name {
            b"ANMF" => frames = frames.saturating_add(1),
            b"EXIF" => {
                facts.orientation = exif::orientation(bytes(source, at + 8, length).unwrap_or(&[]));
            }
            _ => {}
        }
        at = at.saturating_add(8 + length + (length & 1));
    }
    facts.frames = frames.max(1);
    Ok(facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_that_are_not_taken_are_named() {
        for (source, name) in [
            (&b""[..], "an empty file"),
            (b"\0\0\0\x20ftypheic\0\0", "HEIF or a film"),
            (b"BM000", "BMP"),
            (b"II*\0", "TIFF"),
            (b"<?xml version='1.0'?><svg xmlns=''>", "SVG"),
            (b"  <svg/>", "SVG"),
            (b"<html>", "not a picture"),
            (b"\xff", "not a picture"),
        ] {
            assert_eq!(probe(source), Err(Error::Unsupported(name)), "{source:?}");
        }
    }

    #[test]
    fn headers_alone_suffice() {
        let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
        png.extend([
            0, 0, 0xff, 0xdc, 0, 0, 0xff, 0xdc, 16, 6, 0, 0, 1, 0, 0, 0, 0,
        ]);
        let facts = probe(&png).expect("a PNG");
        assert_eq!((facts.width, facts.height, facts.bits), (65500, 65500, 16));
        assert!(facts.has_alpha && facts.progressive);
        let gif = b"GIF89a\x02\0\x03\0\0\0\0,\0\0\0\0\x02\0\x03\0\0\x02\x01\0\0;";
        let facts = probe(gif).expect("a GIF");
        assert_eq!((facts.width, facts.height, facts.frames), (2, 3, 1));
        let webp = b"RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0\x2f\x03\xc0\0\x10";
        let facts = probe(webp).expect("a WebP");
        assert_eq!((facts.width, facts.height, facts.has_alpha), (4, 4, true));
    }

    #[test]
    fn every_beginning_of_a_file_is_told_without_a_panic() {
        let gif = b"GIF89a\x02\0\x03\0\x80\0\0\0\0\0\0\0\0!\xf9\x04\x01\0\0\0\0,\0\0\0\0\x02\0\x03\0\0\x02\x01\0\0;";
        for end in 0..gif.len() {
            let _ = probe(&gif[..end]);
        }
    }
}
