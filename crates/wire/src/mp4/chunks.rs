//! The table of samples in chunks (`stsc`) is cut: entries of the first chunk, the samples in each chunk from it on, and
//! the number of their description. Chunks are counted from 1 there, and from 0 in `Place`.

use super::crop::Place;
use super::description::{Offsets, Track};
use super::table::Table;
use super::{Malformed, Section};

/// Columns of an entry.
const CHUNK: usize = 0;
const SAMPLES: usize = 1;
const DESCRIPTION: usize = 2;

/// Where a sample stands.
struct Found {
    entry: usize,
    /// The first chunk of the entry, and of the next one.
    chunk: u64,
    next_chunk: u64,
    /// Samples of each chunk, of each in the entry before, and those before the sample in this entry's chunks.
    samples: u64,
    samples_before: u64,
    rest: u64,
    description: u32,
}

impl Found {
    /// Chunks before the one that the sample is in. There is no chunk 0: what it would be in is out of the table.
    fn target(&self) -> u64 {
        match self.chunk.checked_sub(1) {
            Some(before) => before + self.rest / self.samples,
            None => u64::from(u32::MAX),
        }
    }

    /// Samples before it in its chunk.
    fn in_chunk(&self) -> u64 {
        self.rest % self.samples
    }
}

/// Cuts the table, and notes which chunks the part begins and ends in.
pub fn crop(track: &mut Track, section: Section, place: &mut Place) -> Result<(), Malformed> {
    let chunks = track.offsets.as_ref().map_or(0, Offsets::len) as u64;
    let table = track
        .chunks
        .as_mut()
        .ok_or("no mp4 stsc atoms were found")?;
    if table.len() == 0 {
        return Err("zero number of entries in stsc atom".into());
    }
    let mut first = crop_start(table, chunks, place)?;
    let mut last = None;
    if section.length > 0 {
        last = crop_end(table, chunks, place, &mut first)?;
    }
    for entry in 0..table.len() {
        let chunk = u64::from(table.at(entry, CHUNK)).wrapping_sub(place.start_chunk);
        table.set(entry, CHUNK, chunk as u32);
    }
    if let Some(entry) = first {
        table.push_front(entry);
    }
    if let Some(entry) = last {
        table.push(entry);
    }
    Ok(())
}

/// Leaves out what comes before the part; the entry of a chunk that begins with it, if others of its kind follow.
fn crop_start(
    table: &mut Table,
    chunks: u64,
    place: &mut Place,
) -> Result<Option<[u32; 3]>, Malformed> {
    let found = find(table, chunks, place.start_sample, "start")?;
    let in_chunk = found.in_chunk();
    place.start_chunk = found.target();
    place.start_chunk_samples = in_chunk;
    table.drop_front(found.entry);
    table.set(0, CHUNK, (place.start_chunk + 1) as u32);
    let samples = (found.samples - in_chunk) as u32;
    if in_chunk == 0 {
        return Ok(None);
    }
    if found.next_chunk == place.start_chunk + 2 {
        table.set(0, SAMPLES, samples);
        return Ok(None);
    }
    table.set(0, CHUNK, (place.start_chunk + 2) as u32);
    Ok(Some([1, samples, found.description]))
}

/// Leaves out what comes behind the part; the entry of a chunk that ends with it, if others of its kind come before.
fn crop_end(
    table: &mut Table,
    chunks: u64,
    place: &mut Place,
    first: &mut Option<[u32; 3]>,
) -> Result<Option<[u32; 3]>, Malformed> {
    let mut wanted = place.end_sample.saturating_sub(place.start_sample);
    if let Some([_, samples, _]) = first {
        *samples = u64::from(*samples).min(wanted) as u32;
        wanted -= u64::from(*samples);
    }
    let found = find(table, chunks, wanted, "end")?;
    let (target, in_chunk) = (found.target(), found.in_chunk());
    if found.rest > 0 {
        table.truncate(found.entry + 1);
        place.end_chunk_samples = found.samples;
    } else {
        table.truncate(found.entry);
        place.end_chunk_samples = found.samples_before;
    }
    place.end_chunk = target;
    if in_chunk == 0 {
        return Ok(None);
    }
    place.end_chunk = target + 1;
    place.end_chunk_samples = in_chunk;
    if target + 1 == found.chunk {
        table.set(found.entry, SAMPLES, in_chunk as u32);
        return Ok(None);
    }
    let chunk = place.end_chunk.wrapping_sub(place.start_chunk) as u32;
    Ok(Some([chunk, in_chunk as u32, found.description]))
}

/// Finds the sample after `rest` others.
fn find(table: &Table, chunks: u64, mut rest: u64, which: &str) -> Result<Found, Malformed> {
    let mut samples_before = 0;
    for entry in 0..table.len() {
        let chunk = u64::from(table.at(entry, CHUNK));
        let samples = u64::from(table.at(entry, SAMPLES));
        let is_last = entry + 1 == table.len();
        let next_chunk = match is_last {
            true => chunks + 1,
            false => table.at(entry + 1, CHUNK).into(),
        };
        let between = next_chunk.checked_sub(chunk);
        let count = between.ok_or("unordered mp4 stsc chunks")? * samples;
        if is_last && rest > count {
            break;
        }
        if rest < count || is_last {
            if samples == 0 {
                return Err("zero number of samples".into());
            }
            return Ok(Found {
                entry,
                chunk,
                next_chunk,
                samples,
                samples_before,
                rest,
                description: table.at(entry, DESCRIPTION),
            });
        }
        rest -= count;
        samples_before = samples;
    }
    Err(Malformed(format!("{which} time is out mp4 stsc chunks")))
}
