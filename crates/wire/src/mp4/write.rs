//! A film's head is written anew for a part of it: type, description, the head of its samples.

use super::crop::{self, Place};
use super::description::{Description, Offsets, Sizes, Track, set_media_duration};
use super::table::Table;
use super::{Cut, File, Malformed};

impl Description {
    /// The part that was wanted.
    pub fn cut(mut self, file: &File<'_>) -> Result<Cut, Malformed> {
        let (mut start, mut end) = (file.length, 0);
        let mut places = Vec::with_capacity(self.tracks.len());
        for track in &mut self.tracks {
            let place = crop::crop(track, self.section, file)?;
            start = start.min(place.start);
            end = end.max(place.end);
            places.push(place);
        }
        if end <= start {
            return Err("no data between start time and end time".into());
        }
        if start > file.samples_end {
            return Err("start time is out mp4 mdat atom".into());
        }
        let mut head = Vec::new();
        if let Some(kind) = file.kind {
            write(&mut head, b"ftyp", |out| out.extend_from_slice(kind));
        }
        // Offsets of chunks are known when everything before the samples is written.
        let mut offsets = Vec::with_capacity(self.tracks.len());
        write(&mut head, b"moov", |out| {
            write_copied(out, b"mvhd", self.film_header.as_deref());
            for (track, place) in self.tracks.iter_mut().zip(&places) {
                write(out, b"trak", |out| {
                    write_track(out, track, place, &mut offsets);
                });
            }
        });
        write_head_of_samples(&mut head, end - start);
        let shift = (head.len() as u64).wrapping_sub(start);
        for (at, track) in offsets.iter().zip(&self.tracks) {
            move_offsets(&mut head, *at, track, shift);
        }
        Ok(Cut { head, start, end })
    }
}

/// Writes a box.
fn write(out: &mut Vec<u8>, name: &[u8; 4], data: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(name);
    data(out);
    let size = (out.len() - start) as u32;
    if let Some(place) = out.get_mut(start..start + 4) {
        place.copy_from_slice(&size.to_be_bytes());
    }
}

fn write_copied(out: &mut Vec<u8>, name: &[u8; 4], data: Option<&[u8]>) {
    if let Some(data) = data {
        write(out, name, |out| out.extend_from_slice(data));
    }
}

/// A box of so many bytes of samples; only its head.
fn write_head_of_samples(out: &mut Vec<u8>, length: u64) {
    match u32::try_from(length + super::HEAD) {
        Ok(size) => {
            out.extend_from_slice(&size.to_be_bytes());
            out.extend_from_slice(b"mdat");
        }
        Err(_) => {
            out.extend_from_slice(&1u32.to_be_bytes());
            out.extend_from_slice(b"mdat");
            out.extend_from_slice(&(length + super::WIDE_HEAD).to_be_bytes());
        }
    }
}

/// Writes what is in a track, and notes where its offsets begin.
fn write_track(out: &mut Vec<u8>, track: &mut Track, place: &Place, offsets: &mut Vec<usize>) {
    write_copied(out, b"tkhd", track.track_header.as_deref());
    if place.before > 0 {
        write_edits(out, track.film_duration, place.before);
    }
    if let Some(header) = &mut track.media_header {
        set_media_duration(header, track.duration);
    }
    write(out, b"mdia", |out| {
        write_copied(out, b"mdhd", track.media_header.as_deref());
        write_copied(out, b"hdlr", track.handler.as_deref());
        write(out, b"minf", |out| {
            if let Some((name, data)) = &track.medium {
                write_copied(out, name, Some(data));
            }
            write_copied(out, b"dinf", track.data_information.as_deref());
            write(out, b"stbl", |out| offsets.push(write_tables(out, track)));
        });
    });
}

/// Has players begin at the time that was asked for, behind the key frame.
fn write_edits(out: &mut Vec<u8>, duration: u64, before: u64) {
    write(out, b"edts", |out| {
        write(out, b"elst", |out| {
            // Version 1, one entry.
            out.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 1]);
            out.extend_from_slice(&duration.to_be_bytes());
            out.extend_from_slice(&before.to_be_bytes());
            // At its usual speed.
            out.extend_from_slice(&[0, 1, 0, 0]);
        });
    });
}

/// Writes the tables of a track; where the offsets begin.
fn write_tables(out: &mut Vec<u8>, track: &Track) -> usize {
    write_copied(out, b"stsd", track.sample_description.as_deref());
    let table = |out: &mut Vec<u8>, name: &[u8; 4], table: Option<&Table>| {
        let Some(table) = table else { return };
        write(out, name, |out| {
            out.extend_from_slice(&table.intro[..4]);
            out.extend_from_slice(&(table.len() as u32).to_be_bytes());
            out.extend_from_slice(table.bytes());
        });
    };
    table(out, b"stts", track.times.as_ref());
    table(out, b"stss", track.sync_samples.as_ref());
    table(out, b"ctts", track.compositions.as_ref());
    table(out, b"stsc", track.chunks.as_ref());
    match &track.sizes {
        Some(Sizes::Uniform(data)) => write_copied(out, b"stsz", Some(data)),
        Some(Sizes::Each(table)) => write(out, b"stsz", |out| {
            out.extend_from_slice(&table.intro);
            out.extend_from_slice(&(table.len() as u32).to_be_bytes());
            out.extend_from_slice(table.bytes());
        }),
        None => {}
    }
    // The head of the box, version and flags, the number of entries.
    let at = out.len() + 16;
    match &track.offsets {
        Some(Offsets::Narrow(offsets)) => table(out, b"stco", Some(offsets)),
        Some(Offsets::Wide(offsets)) => table(out, b"co64", Some(offsets)),
        None => {}
    }
    at
}

/// Lets the offsets of a track, which are written at `at`, say where its chunks are now.
fn move_offsets(head: &mut [u8], at: usize, track: &Track, shift: u64) {
    let Some(offsets) = &track.offsets else {
        return;
    };
    let width = match offsets {
        Offsets::Narrow(_) => 4,
        Offsets::Wide(_) => 8,
    };
    let places = head.get_mut(at..).unwrap_or_default();
    for (entry, place) in places
        .chunks_exact_mut(width)
        .take(offsets.len())
        .enumerate()
    {
        let offset = offsets.at(entry).wrapping_add(shift).to_be_bytes();
        // The low bits, where there is room for no others.
        place.copy_from_slice(&offset[8 - width..]);
    }
}
