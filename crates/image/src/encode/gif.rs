//! GIF: up to 256 colours a frame, chosen for it.

use super::{Job, Shot};
use crate::error::Error;
use gif::{DisposalMethod, Encoder, Frame, Repeat};

/// How carefully colours are chosen: 1 is best, 30 quickest.
const SPEED: i32 = 10;

/// A still picture or an animation.
pub fn encode(frames: &[Shot], job: &Job) -> Result<Vec<u8>, Error> {
    let side = |length: usize| u16::try_from(length).map_err(Error::corrupt);
    let first = &frames
        .first()
        .ok_or_else(|| Error::corrupt("no frame"))?
        .raster;
    let (width, height) = (side(first.width)?, side(first.height)?);
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out, width, height, &[]).map_err(Error::corrupt)?;
    if frames.len() > 1 {
        let repeat = match job.repeats {
            0 => Repeat::Infinite,
            times => Repeat::Finite(times - 1),
        };
        encoder.set_repeat(repeat).map_err(Error::corrupt)?;
    }
    for shot in frames {
        let mut pixels = shot.raster.clone().into_rgba().data;
        let mut frame = Frame::from_rgba_speed(width, height, &mut pixels, SPEED);
        frame.delay = u16::try_from(shot.delay_ms / 10).unwrap_or(u16::MAX);
        frame.dispose = DisposalMethod::Background;
        frame.interlaced = false;
        encoder.write_frame(&frame).map_err(Error::corrupt)?;
    }
    drop(encoder);
    Ok(out)
}
