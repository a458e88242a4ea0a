//! A film's description (`moov`) is read: the boxes that matter for a part of it, in the order in which they stand.
//! Durations become those of the part on the way; tracks that end before it are left out.

use super::table::Table;
use super::{Head, Malformed, Section, number, wide_number};

/// Tracks of one film.
const TRACKS_MAX: usize = 1024;

/// The data of a box that is sent as it is, perhaps with another duration.
pub type Copied = Option<Vec<u8>>;

/// What is kept of a track.
#[derive(Default, Debug)]
pub struct Track {
    pub track_header: Copied,
    pub media_header: Copied,
    pub handler: Copied,
    /// The head of a track's medium (`vmhd` or `smhd`), with its name.
    pub medium: Option<([u8; 4], Vec<u8>)>,
    pub data_information: Copied,
    pub sample_description: Copied,
    pub times: Option<Table>,
    pub sync_samples: Option<Table>,
    pub compositions: Option<Table>,
    pub chunks: Option<Table>,
    pub sizes: Option<Sizes>,
    pub offsets: Option<Offsets>,
    has_media: bool,
    has_information: bool,
    has_table: bool,
    pub timescale: u32,
    /// Of the part, in the medium's time.
    pub duration: u64,
    /// Of the part, in the film's time.
    pub film_duration: u64,
}

/// The sizes of samples.
#[derive(Debug)]
pub enum Sizes {
    /// All are the same; the box is sent as it is.
    Uniform(Vec<u8>),
    Each(Table),
}

/// Where chunks begin in the file.
#[derive(Debug)]
pub enum Offsets {
    Narrow(Table),
    Wide(Table),
}

impl Offsets {
    /// Chunks.
    pub fn len(&self) -> usize {
        self.table().len()
    }

    pub fn table(&self) -> &Table {
        match self {
            Offsets::Narrow(table) | Offsets::Wide(table) => table,
        }
    }

    pub fn table_mut(&mut self) -> &mut Table {
        match self {
            Offsets::Narrow(table) | Offsets::Wide(table) => table,
        }
    }

    pub fn at(&self, chunk: usize) -> u64 {
        match self {
            Offsets::Narrow(table) => table.at(chunk, 0).into(),
            Offsets::Wide(table) => table.wide_at(chunk),
        }
    }

    /// As many of the low bits as there is room for are written.
    pub fn set(&mut self, chunk: usize, offset: u64) {
        match self {
            Offsets::Narrow(table) => table.set(chunk, 0, offset as u32),
            Offsets::Wide(table) => table.set_wide(chunk, offset),
        }
    }
}

/// A film's description, of which a part is wanted.
#[derive(Default, Debug)]
pub struct Description {
    pub(super) section: Section,
    pub(super) film_header: Copied,
    pub(super) tracks: Vec<Track>,
    timescale: u32,
    /// A box of no size was met: whatever follows in the file is not looked at.
    pub ended: bool,
}

/// Reads one kind of list: the bytes of the description, a box's name, and where its data begin and end.
type Reader = fn(&mut Description, &[u8], [u8; 4], usize, usize) -> Result<Flow, Malformed>;

/// What becomes of the box that is being read.
enum Flow {
    Next,
    /// The track is left out.
    SkipTrack,
    /// Nothing that follows counts.
    End,
}

/// Where a head of times has its parts, by its version.
struct Times {
    name: &'static str,
    /// Bytes that it must have.
    least: [usize; 2],
    timescale: Option<[usize; 2]>,
    duration: [usize; 2],
}

const FILM_HEADER: Times = Times {
    name: "mvhd",
    least: [100, 112],
    timescale: Some([12, 20]),
    duration: [16, 24],
};
const TRACK_HEADER: Times = Times {
    name: "tkhd",
    least: [84, 96],
    timescale: None,
    duration: [20, 28],
};
const MEDIA_HEADER: Times = Times {
    name: "mdhd",
    least: [24, 36],
    timescale: Some([12, 20]),
    duration: [16, 24],
};

impl Times {
    /// The place of the duration, and whether it has 64 bits.
    pub fn duration(&self, data: &[u8]) -> (usize, bool) {
        let version = usize::from(data.first().is_some_and(|&version| version != 0));
        (self.duration[version], version == 1)
    }

    /// Time units a second (where the box says it) and duration.
    fn read(&self, data: &[u8]) -> Result<(u32, u64), Malformed> {
        let (place, wide) = self.duration(data);
        let version = usize::from(wide);
        let small = || Malformed(format!("mp4 {} atom too small", self.name));
        if data.len() < self.least[version].max(self.least[0]) {
            return Err(small());
        }
        let timescale = self.timescale.and_then(|at| number(data, at[version]));
        let duration = match wide {
            true => wide_number(data, place),
            false => number(data, place).map(u64::from),
        };
        Ok((timescale.unwrap_or(0), duration.ok_or_else(small)?))
    }

    fn write(&self, data: &mut [u8], duration: u64) {
        let (place, wide) = self.duration(data);
        if wide && let Some(eight) = data.get_mut(place..place + 8) {
            eight.copy_from_slice(&duration.to_be_bytes());
        } else if !wide && let Some(four) = data.get_mut(place..place + 4) {
            four.copy_from_slice(&(duration as u32).to_be_bytes());
        }
    }
}

/// Gives the head of a track's medium its duration.
pub fn set_media_duration(data: &mut [u8], duration: u64) {
    MEDIA_HEADER.write(data, duration);
}

/// Milliseconds in units of which there are so many a second.
pub fn units(milliseconds: u64, timescale: u32) -> u64 {
    milliseconds.wrapping_mul(timescale.into()) / 1000
}

/// Stores what may be there only once.
fn once<T>(place: &mut Option<T>, value: T, name: &str) -> Result<Flow, Malformed> {
    match place.replace(value) {
        None => Ok(Flow::Next),
        Some(_) => Err(Malformed(format!("duplicate mp4 {name} atom"))),
    }
}

fn first(seen: &mut bool, name: &str) -> Result<(), Malformed> {
    match std::mem::replace(seen, true) {
        false => Ok(()),
        true => Err(Malformed(format!("duplicate mp4 {name} atom"))),
    }
}

impl Description {
    /// Reads the description in the first `length` bytes; what follows them in the file may be there, too.
    pub fn read(bytes: &[u8], length: usize, section: Section) -> Result<Description, Malformed> {
        let mut description = Description {
            section,
            ..Description::default()
        };
        let flow = description.boxes(bytes, 0, length, Description::in_film)?;
        description.ended = matches!(flow, Flow::End);
        Ok(description)
    }

    #[must_use]
    pub fn has_tracks(&self) -> bool {
        !self.tracks.is_empty()
    }

    /// Lets `each` see the boxes from `at` to `end`.
    fn boxes(
        &mut self,
        bytes: &[u8],
        mut at: usize,
        end: usize,
        each: Reader,
    ) -> Result<Flow, Malformed> {
        while at < end {
            let rest = bytes.get(at..).unwrap_or_default();
            let Some(head) = Head::read(rest, (end - at) as u64)? else {
                return Ok(Flow::End);
            };
            let next = at + head.size as usize;
            match each(self, bytes, head.name, at + head.length as usize, next)? {
                Flow::Next => at = next,
                flow => return Ok(flow),
            }
        }
        Ok(Flow::Next)
    }

    fn in_film(
        &mut self,
        bytes: &[u8],
        name: [u8; 4],
        at: usize,
        end: usize,
    ) -> Result<Flow, Malformed> {
        match &name {
            b"mvhd" => self.read_film_header(bytes.get(at..end).unwrap_or_default()),
            b"trak" => {
                if self.tracks.len() == TRACKS_MAX {
                    return Err("too many mp4 trak atoms".into());
                }
                self.tracks.push(Track::default());
                match self.boxes(bytes, at, end, Description::in_track)? {
                    Flow::SkipTrack => {
                        self.tracks.pop();
                        Ok(Flow::Next)
                    }
                    flow => Ok(flow),
                }
            }
            b"cmov" => Err("mp4 compressed moov atom (cmov) is not supported".into()),
            _ => Ok(Flow::Next),
        }
    }

    fn read_film_header(&mut self, data: &[u8]) -> Result<Flow, Malformed> {
        if self.film_header.is_some() {
            return Err("duplicate mp4 mvhd atom".into());
        }
        let (timescale, duration) = FILM_HEADER.read(data)?;
        self.timescale = timescale;
        let start = units(self.section.start, timescale);
        if duration < start {
            return Err("mp4 start time exceeds file duration".into());
        }
        let mut data = data.to_vec();
        FILM_HEADER.write(&mut data, self.part(duration - start, timescale));
        self.film_header = Some(data);
        Ok(Flow::Next)
    }

    /// What is wanted of what follows the start.
    fn part(&self, rest: u64, timescale: u32) -> u64 {
        match self.section.length {
            0 => rest,
            length => rest.min(units(length, timescale)),
        }
    }

    /// The duration of the part in a box of a track; `None` where the track ends before it.
    fn cut_duration(&self, duration: u64, timescale: u32) -> Option<u64> {
        let start = units(self.section.start, timescale);
        (duration > start).then(|| self.part(duration - start, timescale))
    }

    fn in_track(
        &mut self,
        bytes: &[u8],
        name: [u8; 4],
        at: usize,
        end: usize,
    ) -> Result<Flow, Malformed> {
        let data = bytes.get(at..end).unwrap_or_default();
        let film_timescale = self.timescale;
        match &name {
            b"tkhd" => {
                let (_, duration) = TRACK_HEADER.read(data)?;
                let Some(duration) = self.cut_duration(duration, film_timescale) else {
                    return Ok(Flow::SkipTrack);
                };
                let mut data = data.to_vec();
                TRACK_HEADER.write(&mut data, duration);
                let track = self.track()?;
                track.film_duration = duration;
                once(&mut track.track_header, data, "tkhd")
            }
            b"mdia" => {
                first(&mut self.track()?.has_media, "mdia")?;
                self.boxes(bytes, at, end, Description::in_media)
            }
            _ => Ok(Flow::Next),
        }
    }

    fn in_media(
        &mut self,
        bytes: &[u8],
        name: [u8; 4],
        at: usize,
        end: usize,
    ) -> Result<Flow, Malformed> {
        let data = bytes.get(at..end).unwrap_or_default();
        match &name {
            b"mdhd" => {
                let (timescale, duration) = MEDIA_HEADER.read(data)?;
                let Some(duration) = self.cut_duration(duration, timescale) else {
                    return Ok(Flow::SkipTrack);
                };
                let track = self.track()?;
                track.timescale = timescale;
                track.duration = duration;
                once(&mut track.media_header, data.to_vec(), "mdhd")
            }
            b"hdlr" => once(&mut self.track()?.handler, data.to_vec(), "hdlr"),
            b"minf" => {
                first(&mut self.track()?.has_information, "minf")?;
                self.boxes(bytes, at, end, Description::in_information)
            }
            _ => Ok(Flow::Next),
        }
    }

    fn in_information(
        &mut self,
        bytes: &[u8],
        name: [u8; 4],
        at: usize,
        end: usize,
    ) -> Result<Flow, Malformed> {
        let data = bytes.get(at..end).unwrap_or_default();
        match &name {
            b"vmhd" | b"smhd" => once(
                &mut self.track()?.medium,
                (name, data.to_vec()),
                "vmhd/smhd",
            ),
            b"dinf" => once(&mut self.track()?.data_information, data.to_vec(), "dinf"),
            b"stbl" => {
                first(&mut self.track()?.has_table, "stbl")?;
                self.boxes(bytes, at, end, Description::in_table)
            }
            _ => Ok(Flow::Next),
        }
    }

    fn in_table(
        &mut self,
        bytes: &[u8],
        name: [u8; 4],
        at: usize,
        end: usize,
    ) -> Result<Flow, Malformed> {
        let data = bytes.get(at..end).unwrap_or_default();
        let track = self.track()?;
        match &name {
            b"stsd" if data.len() < 16 => Err("mp4 stsd atom too small".into()),
            b"stsd" => once(&mut track.sample_description, data.to_vec(), "stsd"),
            b"stts" => once(&mut track.times, Table::read(data, 8, 8, "stts")?, "stts"),
            b"stss" => {
                let table = Table::read(data, 8, 4, "stss")?;
                once(&mut track.sync_samples, table, "stss")
            }
            b"ctts" => {
                let table = Table::read(data, 8, 8, "ctts")?;
                once(&mut track.compositions, table, "ctts")
            }
            b"stsc" => {
                let table = Table::read(data, 8, 12, "stsc")?;
                once(&mut track.chunks, table, "stsc")
            }
            b"stsz" => {
                let intro = data.get(..12).ok_or("mp4 stsz atom too small")?;
                let sizes = match number(data, 4) {
                    Some(0) => Sizes::Each(Table::read(data, 12, 4, "stsz")?),
                    _ => Sizes::Uniform(intro.to_vec()),
                };
                once(&mut track.sizes, sizes, "stsz")
            }
            b"stco" => {
                let offsets = Offsets::Narrow(Table::read(data, 8, 4, "stco")?);
                once(&mut track.offsets, offsets, "stco/co64")
            }
            b"co64" => {
                let offsets = Offsets::Wide(Table::read(data, 8, 8, "co64")?);
                once(&mut track.offsets, offsets, "stco/co64")
            }
            _ => Ok(Flow::Next),
        }
    }

    /// The track that is being read.
    fn track(&mut self) -> Result<&mut Track, Malformed> {
        self.tracks
            .last_mut()
            .ok_or_else(|| "no mp4 trak atoms were found".into())
    }
}
