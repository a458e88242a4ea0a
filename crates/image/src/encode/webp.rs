//! WebP: without loss by image-webp, with loss by an encoder that the caller brings. What else the file holds is put
//! around its result here (RFC 9649).

use super::{Frames, Job, Shot};
use crate::decode::Profiles;
use crate::error::Error;
use crate::probe::Format;
use image_webp::{ColorType, WebPEncoder};

/// Flags of the extended header.
const ICC: u8 = 0x20;
const ALPHA: u8 = 0x10;
const EXIF: u8 = 0x08;
const XMP: u8 = 0x04;

/// A still picture, or an animation where there is an encoder for it.
pub fn encode(frames: &[Shot], job: &Job) -> Result<Vec<u8>, Error> {
    let first = &frames
        .first()
        .ok_or_else(|| Error::corrupt("no frame"))?
        .raster;
    let size = (first.width as u32, first.height as u32);
    let Some(webp) = job
        .elsewhere
        .filter(|_| !job.output.lossless || frames.len() > 1)
    else {
        return Ok(with_profiles(lossless(first)?, size, job.profiles));
    };
    let pixels = |shot: &Shot| (shot.delay_ms, shot.raster.clone().into_rgba().data);
    let file = webp(&Frames {
        format: Format::Webp,
        width: size.0,
        height: size.1,
        frames: frames.iter().map(pixels).collect(),
        quality: job.quality,
        repeats: job.repeats,
        profiles: Profiles::default(),
        until: job.until,
    })?;
    Ok(with_profiles(file, size, job.profiles))
}

fn lossless(raster: &crate::raster::Raster) -> Result<Vec<u8>, Error> {
    let kind = match raster.channels {
        1 => ColorType::L8,
        3 => ColorType::Rgb8,
        _ => ColorType::Rgba8,
    };
    let mut out = Vec::new();
    let (width, height) = (raster.width as u32, raster.height as u32);
    WebPEncoder::new(&mut out)
        .encode(&raster.data, width, height, kind)
        .map_err(Error::corrupt)?;
    Ok(out)
}

/// A chunk: its name, its length, its data, a byte to an even place.
fn chunk(out: &mut Vec<u8>, name: &[u8; 4], data: &[u8]) {
    out.extend(name);
    out.extend((data.len() as u32).to_le_bytes());
    out.extend(data);
    out.resize(out.len() + data.len() % 2, 0);
}

/// The chunks of a file: names and data.
fn chunks(file: &[u8]) -> impl Iterator<Item = (&[u8; 4], &[u8])> {
    let mut rest = file.get(12..).unwrap_or_default();
    std::iter::from_fn(move || {
        let (name, after) = rest.split_first_chunk::<4>()?;
        let (length, after) = after.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length) as usize;
        let data = after.get(..length)?;
        rest = after.get(length + length % 2..).unwrap_or_default();
        Some((name, data))
    })
}

/// The same picture with profiles beside it.
fn with_profiles(file: Vec<u8>, (width, height): (u32, u32), profiles: &Profiles) -> Vec<u8> {
    let extra = [
        (ICC, &profiles.icc),
        (EXIF, &profiles.exif),
        (XMP, &profiles.xmp),
    ];
    let mut flags = extra
        .iter()
        .filter(|(_, data)| data.is_some())
        .fold(0, |flags, (flag, _)| flags | flag);
    if flags == 0 {
        return file;
    }
    let mut body = Vec::with_capacity(file.len());
    for (name, data) in chunks(&file) {
        match name {
            b"VP8X" => flags |= data.first().copied().unwrap_or(0),
            // Byte 4 of a lossless stream tells of alpha in its fifth bit.
            b"VP8L" if data.get(4).is_some_and(|byte| byte & 0x10 != 0) => flags |= ALPHA,
            _ => {}
        }
        if name != b"VP8X" {
            chunk(&mut body, name, data);
        }
    }
    let mut head = vec![flags, 0, 0, 0];
    head.extend(&width.saturating_sub(1).to_le_bytes()[..3]);
    head.extend(&height.saturating_sub(1).to_le_bytes()[..3]);
    let mut out = b"RIFF\0\0\0\0WEBP".to_vec();
    chunk(&mut out, b"VP8X", &head);
    if let Some(icc) = &profiles.icc {
        chunk(&mut out, b"ICCP", icc);
    }
    out.extend(body);
    if let Some(exif) = &profiles.exif {
        chunk(&mut out, b"EXIF", exif);
    }
    if let Some(xmp) = &profiles.xmp {
        chunk(&mut out, b"XMP ", xmp);
    }
    let length = (out.len() - 8) as u32;
    out[4..8].copy_from_slice(&length.to_le_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raster::Raster;

    #[test]
    fn profiles_stand_around_the_picture() {
        let raster = Raster::filled(5, 3, &[1, 2, 3, 100]);
        let profiles = Profiles {
            icc: Some(vec![7; 5]),
            exif: Some(vec![8; 4]),
            xmp: None,
        };
        let file = with_profiles(lossless(&raster).unwrap(), (5, 3), &profiles);
        let names: Vec<_> = chunks(&file).map(|(name, _)| *name).collect();
        assert_eq!(names, [*b"VP8X", *b"ICCP", *b"VP8L", *b"EXIF"]);
        let (_, head) = chunks(&file).next().unwrap();
        assert_eq!(head, [ICC | ALPHA | EXIF, 0, 0, 0, 4, 0, 0, 2, 0, 0]);
        let mut decoder = image_webp::WebPDecoder::new(std::io::Cursor::new(&file)).unwrap();
        assert_eq!(decoder.dimensions(), (5, 3));
        assert_eq!(decoder.icc_profile().unwrap(), Some(vec![7; 5]));
        let mut data = vec![0; decoder.output_buffer_size().unwrap()];
        decoder.read_image(&mut data).unwrap();
        assert_eq!(data[..4], [1, 2, 3, 100]);
    }
}
