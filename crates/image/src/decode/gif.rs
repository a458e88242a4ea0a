//! GIF: frames are put together on the canvas as a viewer shows them.

use super::{Contents, Frame, Profiles, Request, Take};
use crate::error::Error;
use crate::limits::at_most;
use crate::raster::Raster;
use gif::{ColorOutput, DecodeOptions, DisposalMethod, MemoryLimit, Repeat};
use std::num::NonZeroU64;

/// The first frame as it is shown, or all of them.
pub fn decode(request: &Request, take: Take) -> Result<Contents, Error> {
    let facts = request.facts;
    let mut options = DecodeOptions::new();
    options.set_color_output(ColorOutput::RGBA);
    options.check_frame_consistency(false);
    if let Some(bytes) = NonZeroU64::new(request.limits.memory) {
        options.set_memory_limit(MemoryLimit::Bytes(bytes));
    }
    let mut decoder = options
        .read_info(request.reader())
        .map_err(Error::corrupt)?;
    let (width, height) = (facts.width as usize, facts.height as usize);
    let mut canvas = Raster::filled(width, height, &[0; 4]);
    let mut frames = 0;
    while let Some(frame) = decoder.read_next_frame().map_err(Error::corrupt)? {
        request.deadline.check()?;
        let before = (frame.dispose == DisposalMethod::Previous).then(|| canvas.clone());
        paint(&mut canvas, frame);
        frames += 1;
        at_most("frames", frames, u64::from(request.limits.frames))?;
        let shown = Frame {
            raster: canvas.clone(),
            delay_ms: u32::from(frame.delay) * 10,
        };
        take(shown, &Profiles::default())?;
        if !request.all_frames {
            break;
        }
        match (frame.dispose, before) {
            (DisposalMethod::Background, _) => clear(&mut canvas, frame),
            (DisposalMethod::Previous, Some(before)) => canvas = before,
            _ => {}
        }
    }
    if frames == 0 {
        return Err(Error::corrupt("GIF without a frame"));
    }
    let repeats = match decoder.repeat() {
        Repeat::Infinite => 0,
        Repeat::Finite(times) => times.saturating_add(1),
    };
    Ok(Contents {
        repeats,
        profiles: Profiles::default(),
    })
}

/// The rows of the canvas that a frame covers, cut at the canvas's edges, each with the frame's row.
fn covered<'a>(
    canvas: &'a mut Raster,
    frame: &gif::Frame<'_>,
) -> impl Iterator<Item = (usize, &'a mut [u8])> + use<'a> {
    let (left, top) = (usize::from(frame.left), usize::from(frame.top));
    let right = (left + usize::from(frame.width)).min(canvas.width);
    let left = left.min(right);
    let stride = canvas.width * 4;
    let rows = canvas.data.chunks_exact_mut(stride.max(4));
    rows.skip(top)
        .take(usize::from(frame.height))
        .enumerate()
        .map(move |(y, row)| (y, row.get_mut(left * 4..right * 4).unwrap_or_default()))
}

fn paint(canvas: &mut Raster, frame: &gif::Frame<'_>) {
    let stride = usize::from(frame.width) * 4;
    for (y, row) in covered(canvas, frame) {
        let source = frame.buffer.get(y * stride..).unwrap_or_default();
        for (to, from) in row.chunks_exact_mut(4).zip(source.chunks_exact(4)) {
            // Where nothing was painted yet, the colour behind a transparent pixel is kept, too.
            if from[3] != 0 || to[3] == 0 {
                to.copy_from_slice(from);
            }
        }
    }
}

fn clear(canvas: &mut Raster, frame: &gif::Frame<'_>) {
    for (_, row) in covered(canvas, frame) {
        row.fill(0);
    }
}
