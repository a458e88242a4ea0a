//! A track's tables are cut to the part that is wanted (ISO/IEC 14496-12 section 8.6 and 8.7). Samples are counted from
//! 0 here, and from 1 in the tables of key frames and chunks.

use super::chunks;
use super::description::{Offsets, Sizes, Track, units};
use super::table::Table;
use super::{File, Malformed, Section};

/// Where the part of a track lies.
#[derive(Default, Debug)]
pub struct Place {
    /// Samples before the part, and up to its end.
    pub start_sample: u64,
    pub end_sample: u64,
    /// Time units between the key frame that the part begins with and the time that was asked for.
    pub before: u64,
    pub start_chunk: u64,
    pub end_chunk: u64,
    /// Samples of the first chunk that are left out, and bytes of them.
    pub start_chunk_samples: u64,
    start_chunk_bytes: u64,
    /// Samples of the last chunk that are sent, and bytes of them.
    pub end_chunk_samples: u64,
    end_chunk_bytes: u64,
    /// The bytes of the file that have the part's samples; empty: `start` is the file's end, `end` is 0.
    pub start: u64,
    pub end: u64,
}

/// Cuts a track's tables, and says where its part lies.
pub fn crop(track: &mut Track, section: Section, file: &File<'_>) -> Result<Place, Malformed> {
    let mut place = Place::default();
    crop_times(track, section, &mut place)?;
    if let Some(table) = &mut track.sync_samples {
        crop_sync_samples(table, section, &place);
    }
    if let Some(table) = track.compositions.take() {
        track.compositions = crop_compositions(table, section, &place);
    }
    chunks::crop(track, section, &mut place)?;
    if let Some(Sizes::Each(table)) = &mut track.sizes {
        crop_sizes(table, section, &mut place, file)?;
    }
    crop_offsets(track, section, &mut place, file)?;
    Ok(place)
}

/// Durations of samples: entries of a count and a duration.
fn crop_times(track: &mut Track, section: Section, place: &mut Place) -> Result<(), Malformed> {
    let table = track.times.as_mut().ok_or("no mp4 stts atoms were found")?;
    let start = units(section.start, track.timescale);
    let found = find_time(table, start);
    let (mut entry, rest) = found.at.ok_or("start time is out mp4 stts samples")?;
    let mut rest = u64::from(rest);
    let mut back = match &track.sync_samples {
        Some(keys) if section.from_key_frame => to_key_frame(keys, found.samples),
        _ => 0,
    };
    place.start_sample = found.samples.saturating_sub(back);
    while rest < back && entry > 0 {
        place.before += rest * u64::from(table.at(entry, 1));
        back -= rest;
        entry -= 1;
        rest = table.at(entry, 0).into();
    }
    place.before += back.min(rest) * u64::from(table.at(entry, 1));
    rest = rest.saturating_sub(back);
    track.duration = track.duration.wrapping_add(place.before);
    let count = u64::from(table.at(entry, 0)).saturating_sub(rest);
    table.set(entry, 0, count as u32);
    table.drop_front(entry);
    if section.length == 0 {
        return Ok(());
    }
    let end = units(section.length, track.timescale).saturating_add(place.before);
    let found = find_time(table, end);
    if let Some((entry, rest)) = found.at {
        table.set(entry, 0, rest);
        table.truncate(entry + 1);
    }
    place.end_sample = place.start_sample + found.samples;
    Ok(())
}

/// A time in the table of durations.
struct FoundTime {
    /// Samples before it.
    samples: u64,
    /// The entry, and the samples of it that are before; `None`: it is behind the last one.
    at: Option<(usize, u32)>,
}

fn find_time(table: &Table, mut time: u64) -> FoundTime {
    let mut samples = 0;
    for entry in 0..table.len() {
        let (count, duration) = (u64::from(table.at(entry, 0)), u64::from(table.at(entry, 1)));
        if time < count * duration {
            let rest = time / duration;
            return FoundTime {
                samples: samples + rest,
                at: Some((entry, rest as u32)),
            };
        }
        samples += count;
        time -= count * duration;
    }
    FoundTime { samples, at: None }
}

/// Samples back to the last key frame; none where there is no key frame before.
fn to_key_frame(keys: &Table, sample: u64) -> u64 {
    let sample = sample + 1;
    let numbers = (0..keys.len()).map(|entry| u64::from(keys.at(entry, 0)));
    let last = numbers.take_while(|&key| key <= sample).last();
    // The first key frame has the number 1.
    last.map_or(0, |key| sample - key.max(1))
}

/// The numbers of key frames. A table without any stays, because without one every sample would be a key frame.
fn crop_sync_samples(table: &mut Table, section: Section, place: &Place) {
    let before = |table: &Table, sample: u64| {
        let mut entries = 0..table.len();
        let found = entries.position(|entry| u64::from(table.at(entry, 0)) > sample);
        found.unwrap_or(table.len())
    };
    table.drop_front(before(table, place.start_sample));
    if section.length > 0 {
        table.truncate(before(table, place.end_sample));
    }
    for entry in 0..table.len() {
        let number = u64::from(table.at(entry, 0)).wrapping_sub(place.start_sample);
        table.set(entry, 0, number as u32);
    }
}

/// Offsets of compositions: entries of a count and an offset; `None` where the part has none.
fn crop_compositions(mut table: Table, section: Section, place: &Place) -> Option<Table> {
    // The entry in which the sample after so many stands, and the samples of the entry before it.
    let find = |table: &Table, mut samples: u64| {
        for entry in 0..table.len() {
            let count = u64::from(table.at(entry, 0));
            if samples < count {
                return Some((entry, samples));
            }
            samples -= count;
        }
        None
    };
    let (entry, rest) = find(&table, place.start_sample)?;
    let count = u64::from(table.at(entry, 0)) - rest;
    table.set(entry, 0, count as u32);
    table.drop_front(entry);
    if section.length > 0
        && let Some((entry, rest)) = find(&table, place.end_sample - place.start_sample)
    {
        table.set(entry, 0, rest as u32);
        table.truncate(entry + 1);
    }
    (table.len() > 0).then_some(table)
}

/// Sizes of samples.
fn crop_sizes(
    table: &mut Table,
    section: Section,
    place: &mut Place,
    file: &File<'_>,
) -> Result<(), Malformed> {
    let samples = table.len() as u64;
    if place.start_sample > samples {
        return Err("start time is out mp4 stsz samples".into());
    }
    let bytes_before = |table: &Table, sample: u64, count: u64| -> u64 {
        let from = sample.saturating_sub(count) as usize..sample as usize;
        from.map(|entry| u64::from(table.at(entry, 0))).sum()
    };
    place.start_chunk_bytes = bytes_before(table, place.start_sample, place.start_chunk_samples);
    if place.start_chunk_bytes > file.length {
        return Err("too large mp4 start samples size".into());
    }
    if section.length > 0 {
        if place.end_sample > samples {
            return Err("end time is out mp4 stsz samples".into());
        }
        place.end_chunk_bytes = bytes_before(table, place.end_sample, place.end_chunk_samples);
        if place.end_chunk_bytes > file.length {
            return Err("too large mp4 end samples size".into());
        }
        table.truncate(place.end_sample as usize);
    }
    table.drop_front(place.start_sample as usize);
    Ok(())
}

/// Where chunks begin.
fn crop_offsets(
    track: &mut Track,
    section: Section,
    place: &mut Place,
    file: &File<'_>,
) -> Result<(), Malformed> {
    let offsets = track
        .offsets
        .as_mut()
        .ok_or("no mp4 stco atoms were found")?;
    let (name, most) = match offsets {
        Offsets::Narrow(_) => ("stco", u64::from(u32::MAX)),
        Offsets::Wide(_) => ("co64", u64::MAX),
    };
    let inside = |offset: u64, bytes: u64| match offset.checked_add(bytes) {
        Some(sum) if sum <= file.length && sum <= most => Ok(sum),
        _ => Err(Malformed::from("too large chunk offset")),
    };
    let is_out = |which: &str| Malformed(format!("{which} time is out mp4 {name} chunks"));
    let chunks = offsets.len() as u64;
    if place.start_chunk > chunks {
        return Err(is_out("start"));
    }
    if section.length > 0 && (place.end_chunk > chunks || place.end_chunk < place.start_chunk) {
        return Err(is_out("end"));
    }
    let last = match section.length {
        0 => chunks,
        _ => place.end_chunk,
    };
    offsets.table_mut().truncate(last as usize);
    offsets.table_mut().drop_front(place.start_chunk as usize);
    if offsets.len() == 0 {
        (place.start, place.end) = (file.length, 0);
        return Ok(());
    }
    place.start = inside(offsets.at(0), place.start_chunk_bytes)?;
    offsets.set(0, place.start);
    place.end = match section.length {
        0 => file.samples_end,
        _ => inside(offsets.at(offsets.len() - 1), place.end_chunk_bytes)?,
    };
    Ok(())
}
