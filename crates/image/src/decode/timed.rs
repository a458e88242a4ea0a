//! A file in memory as a reader that fails once the time is over, so that decoders which look at no clock stop, too.

use crate::limits::Deadline;
use std::io::{self, BufRead, Read, Seek, SeekFrom};

/// Bytes that are given away between two looks at the clock: unpacked, they are at most a few milliseconds' work.
const PART: usize = 4096;

/// The reader.
pub struct Timed<'a> {
    source: &'a [u8],
    at: usize,
    /// Until this place nothing has to be looked at.
    checked: usize,
    deadline: Deadline,
}

impl<'a> Timed<'a> {
    /// From the beginning of a file.
    pub fn new(source: &'a [u8], deadline: Deadline) -> Timed<'a> {
        Timed {
            source,
            at: 0,
            checked: 0,
            deadline,
        }
    }
}

impl BufRead for Timed<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at >= self.checked || self.checked - self.at > PART {
            self.deadline
                .check()
                .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
            self.checked = self.at.saturating_add(PART);
        }
        let end = self.checked.min(self.source.len());
        Ok(self.source.get(self.at..end).unwrap_or_default())
    }

    fn consume(&mut self, count: usize) {
        self.at = self.at.saturating_add(count);
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let part = self.fill_buf()?;
        let count = part.len().min(buffer.len());
        let (to, from) = (buffer.get_mut(..count), part.get(..count));
        if let (Some(to), Some(from)) = (to, from) {
            to.copy_from_slice(from);
        }
        self.consume(count);
        Ok(count)
    }
}

impl Seek for Timed<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let place = match to {
            SeekFrom::Start(place) => i64::try_from(place).ok(),
            SeekFrom::End(more) => (self.source.len() as i64).checked_add(more),
            SeekFrom::Current(more) => (self.at as i64).checked_add(more),
        };
        let place = place.and_then(|place| usize::try_from(place).ok());
        self.at = place.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use std::time::Duration;

    #[test]
    fn bytes_come_in_parts_and_at_any_place() {
        let source: Vec<u8> = (0..10_000).map(|at| (at % 251) as u8).collect();
        let mut reader = Timed::new(&source, Deadline::new(&Limits::default()));
        assert_eq!(reader.fill_buf().unwrap().len(), PART);
        let mut whole = Vec::new();
        reader.read_to_end(&mut whole).unwrap();
        assert_eq!(whole, source);
        for (to, place) in [
            (SeekFrom::Start(5000), 5000),
            (SeekFrom::Current(-1000), 4000),
            (SeekFrom::End(-1), 9999),
            (SeekFrom::Start(3), 3),
        ] {
            assert_eq!(reader.seek(to).unwrap(), place);
            assert_eq!(reader.fill_buf().unwrap()[0], (place % 251) as u8);
        }
        assert!(reader.seek(SeekFrom::End(-20_000)).is_err());
        reader.seek(SeekFrom::Start(u64::from(u32::MAX))).unwrap();
        assert!(reader.fill_buf().unwrap().is_empty());
    }

    #[test]
    fn nothing_comes_once_the_time_is_over() {
        let limits = Limits {
            deadline: Duration::ZERO,
            ..Limits::default()
        };
        let mut reader = Timed::new(b"bytes", Deadline::new(&limits));
        let error = reader.read(&mut [0; 5]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
