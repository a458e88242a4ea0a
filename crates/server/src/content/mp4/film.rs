//! A film in a file: its boxes are looked through, what it says of itself is read.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use wire::mp4::{Cut, Description, File, HEAD, Head, Malformed, Section};

/// Bytes that nginx reads behind a description that comes before the samples.
const EXCESS: u64 = 4096;
/// The longest type of a file.
const KIND_MAX: u64 = 1024;
/// A head with a size of 64 bits.
const WIDE_HEAD: u64 = 16;

/// Where the bytes are.
pub enum Source<'s> {
    Memory(&'s [u8]),
    File {
        file: OwnedFd,
        offset: u64,
        length: u64,
    },
}

/// `mp4_buffer_size` and `mp4_max_buffer_size`.
#[derive(Debug, Clone, Copy)]
pub struct Buffers {
    pub size: u64,
    pub most: u64,
}

/// Why there is no part to send.
#[derive(Debug)]
pub enum Failure {
    Malformed(Malformed),
    Read(io::Error),
}

impl From<Malformed> for Failure {
    fn from(malformed: Malformed) -> Failure {
        Failure::Malformed(malformed)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Read(error)
    }
}

impl Failure {
    /// What the error log says of a file.
    #[must_use]
    pub fn line(&self, path: &str) -> String {
        match self {
            // As in nginx, which begins with the path where it begins with the format.
            Failure::Malformed(Malformed(text)) if text.starts_with("mp4 ") => {
                format!("\"{path}\" {text}")
            }
            Failure::Malformed(Malformed(text)) => format!("{text} in \"{path}\""),
            Failure::Read(error) => format!("pread() \"{path}\" failed ({error})"),
        }
    }
}

fn malformed(text: impl fmt::Display) -> Failure {
    Failure::Malformed(Malformed(text.to_string()))
}

impl Source<'_> {
    fn len(&self) -> u64 {
        match self {
            Source::Memory(bytes) => bytes.len() as u64,
            Source::File { length, .. } => *length,
        }
    }

    /// At most `length` bytes from `at`, fewer at the end.
    fn read(&self, at: u64, length: u64) -> io::Result<Vec<u8>> {
        let length = length.min(self.len().saturating_sub(at)) as usize;
        match self {
            Source::Memory(bytes) => {
                let start = (at as usize).min(bytes.len());
                Ok(bytes[start..start + length].to_vec())
            }
            Source::File { file, offset, .. } => {
                let mut bytes = vec![0; length];
                let mut filled = 0;
                while filled < length {
                    let place = offset + at + filled as u64;
                    match sys::io::pread(file, &mut bytes[filled..], place)? {
                        0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                        read => filled += read,
                    }
                }
                Ok(bytes)
            }
        }
    }
}

/// The part of a film; `None`: the whole file is sent as it is.
pub fn cut(
    source: &Source<'_>,
    buffers: Buffers,
    section: Section,
) -> Result<Option<Cut>, Failure> {
    let mut scan = Scan {
        source,
        buffers,
        at: 0,
        seen: 0,
        buffer: buffers.size,
    };
    let Some(found) = scan.run(section)? else {
        return Ok(None);
    };
    let description = found
        .description
        .filter(Description::has_tracks)
        .ok_or_else(|| malformed("no mp4 trak atoms were found"))?;
    let samples_end = found
        .samples_end
        .ok_or_else(|| malformed("no mp4 mdat atom was found"))?;
    let file = File {
        kind: found.kind.as_deref(),
        samples_end,
        length: source.len(),
    };
    Ok(Some(description.cut(&file)?))
}

/// What a look through the boxes found.
#[derive(Default)]
struct Found {
    kind: Option<Vec<u8>>,
    description: Option<Description>,
    samples_end: Option<u64>,
}

/// A look through the boxes of a file. nginx reads into a buffer, and what does not fit is an error; Gannet reads heads
/// only, but keeps account of what that buffer would hold, so that the same films are refused.
struct Scan<'s> {
    source: &'s Source<'s>,
    buffers: Buffers,
    at: u64,
    /// Where the bytes in the buffer end.
    seen: u64,
    /// Bytes of the buffer.
    buffer: u64,
}

impl Scan<'_> {
    /// `None`: the whole film is wanted, and can be played while it comes.
    fn run(&mut self, section: Section) -> Result<Option<Found>, Failure> {
        let mut found = Found::default();
        while self.at < self.source.len() {
            let Some(head) = self.head()? else { break };
            let next = self.at + head.size;
            self.at += head.length;
            match &head.name {
                b"ftyp" => {
                    let kind = self.kind(head.data())?;
                    if found.kind.replace(kind).is_some() {
                        return Err(malformed("duplicate mp4 ftyp atom"));
                    }
                }
                b"moov" => {
                    let is_first = found.samples_end.is_none();
                    if is_first && section.start == 0 && section.length == 0 {
                        return Ok(None);
                    }
                    if found.description.is_some() {
                        return Err(malformed("duplicate mp4 moov atom"));
                    }
                    let description = self.description(head.data(), is_first, section)?;
                    let ended = description.ended;
                    found.description = Some(description);
                    if ended || !is_first {
                        break;
                    }
                }
                b"mdat" => {
                    if found.samples_end.replace(next).is_some() {
                        return Err(malformed("duplicate mp4 mdat atom"));
                    }
                    if found
                        .description
                        .as_ref()
                        .is_some_and(Description::has_tracks)
                    {
                        break;
                    }
                }
                _ => {}
            }
            self.at = next;
        }
        Ok(Some(found))
    }

    /// Has the buffer hold `size` bytes from here.
    fn hold(&mut self, size: u64) -> Result<(), Failure> {
        if self.at + size <= self.seen {
            return Ok(());
        }
        self.buffer = self.buffer.min(self.source.len().saturating_sub(self.at));
        if self.buffer < size {
            return Err(malformed("mp4 file truncated"));
        }
        self.seen = self.at + self.buffer;
        Ok(())
    }

    fn head(&mut self) -> Result<Option<Head>, Failure> {
        self.hold(4)?;
        let bytes = self.source.read(self.at, WIDE_HEAD)?;
        match bytes.get(..4) {
            Some([0, 0, 0, 0]) => return Ok(None),
            Some([0, 0, 0, 1]) => self.hold(WIDE_HEAD)?,
            Some([0, 0, 0, 2..HEAD_SIZE]) => {}
            _ => self.hold(HEAD)?,
        }
        Ok(Head::read(&bytes, self.source.len() - self.at)?)
    }

    fn kind(&mut self, length: u64) -> Result<Vec<u8>, Failure> {
        if length > KIND_MAX || self.at + length > self.seen {
            let text = format!("mp4 ftyp atom is too large:{length}");
            return Err(malformed(text));
        }
        Ok(self.source.read(self.at, length)?)
    }

    fn description(
        &mut self,
        length: u64,
        is_first: bool,
        section: Section,
    ) -> Result<Description, Failure> {
        if length > self.buffers.size {
            if length > self.buffers.most {
                return Err(malformed(format_args!(
                    "mp4 moov atom is too large:{length}, you may want to increase mp4_max_buffer_size"
                )));
            }
            self.seen = self.at;
            self.buffer = length + if is_first { EXCESS } else { 0 };
        }
        self.hold(length)?;
        let bytes = self.source.read(self.at, length + WIDE_HEAD)?;
        let description = Description::read(&bytes, length as usize, section)?;
        if is_first {
            self.buffer = EXCESS;
        }
        Ok(description)
    }
}

/// The last byte of a size that has no room for a head.
const HEAD_SIZE: u8 = HEAD as u8;

#[cfg(test)]
mod tests {
    use super::*;

    const BUFFERS: Buffers = Buffers {
        size: 512 * 1024,
        most: 1024 * 1024,
    };

    fn part(film: &[u8], start: u64, length: u64) -> Result<Option<Cut>, Failure> {
        let section = Section {
            start,
            length,
            from_key_frame: true,
        };
        cut(&Source::Memory(film), BUFFERS, section)
    }

    /// What comes out is a film, which can be cut again.
    #[test]
    fn a_part_is_a_film() {
        for words in [&[][..], &["last"], &["wide"], &["plain"], &["wide", "last"]] {
            let film = testkit::film::film(words);
            let cut = part(&film, 3000, 4000).unwrap().unwrap();
            let samples = &film[cut.start as usize..cut.end as usize];
            let shorter = [&cut.head, samples].concat();
            assert!(shorter.len() < film.len());
            let again = part(&shorter, 1000, 0).unwrap().unwrap();
            assert!(again.end as usize == shorter.len(), "{words:?}");
        }
    }

    /// A film that is cut off or has a wrong byte anywhere is refused, or its part lies inside it.
    #[test]
    fn broken_films_do_no_harm() {
        let film = testkit::film::film(&["last"]);
        let check = |film: &[u8]| {
            if let Ok(Some(cut)) = part(film, 3000, 4000) {
                assert!(cut.end <= film.len() as u64 && cut.start < cut.end);
            }
        };
        let description = film.len() - 2000;
        for end in (0..100).chain(description..film.len()) {
            check(&film[..end]);
        }
        for at in (0..100).chain(description..film.len()) {
            for value in [0, 1, 0x7f, 0xff] {
                let mut broken = film.clone();
                broken[at] = value;
                check(&broken);
            }
        }
    }
}
