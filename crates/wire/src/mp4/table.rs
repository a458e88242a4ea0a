//! A table of a track: a box whose data are entries of one width.

use super::{Malformed, number, wide_number};

/// The entries of a table; they are read and written in the film's description.
#[derive(Debug, Clone)]
pub struct Table {
    /// What stands between the box's head and its entries.
    pub intro: [u8; 8],
    bytes: Vec<u8>,
    /// Bytes of an entry.
    width: usize,
}

impl Table {
    /// The table in a box's data, whose entries begin at `at` and are counted by the number before.
    pub fn read(data: &[u8], at: usize, width: usize, name: &str) -> Result<Table, Malformed> {
        let small = || Malformed(format!("mp4 {name} atom too small"));
        let count = number(data, at.saturating_sub(4)).ok_or_else(small)?;
        let length = (count as usize).checked_mul(width).ok_or_else(small)?;
        let end = at.checked_add(length).ok_or_else(small)?;
        let bytes = data.get(at..end).ok_or_else(small)?.to_vec();
        let mut intro = [0; 8];
        intro.copy_from_slice(data.get(..8).ok_or_else(small)?);
        Ok(Table {
            intro,
            bytes,
            width,
        })
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.width
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The number in a column (0, 1 or 2) of an entry; 0 where there is no such entry.
    pub fn at(&self, entry: usize, column: usize) -> u32 {
        let place = entry
            .checked_mul(self.width)
            .and_then(|place| place.checked_add(column * 4));
        place
            .and_then(|place| number(&self.bytes, place))
            .unwrap_or(0)
    }

    /// The number of 64 bits that is an entry.
    pub fn wide_at(&self, entry: usize) -> u64 {
        let place = entry.checked_mul(self.width);
        place
            .and_then(|place| wide_number(&self.bytes, place))
            .unwrap_or(0)
    }

    pub fn set(&mut self, entry: usize, column: usize, value: u32) {
        let place = entry * self.width + column * 4;
        if let Some(bytes) = self.bytes.get_mut(place..place + 4) {
            bytes.copy_from_slice(&value.to_be_bytes());
        }
    }

    pub fn set_wide(&mut self, entry: usize, value: u64) {
        let place = entry * self.width;
        if let Some(bytes) = self.bytes.get_mut(place..place + 8) {
            bytes.copy_from_slice(&value.to_be_bytes());
        }
    }

    /// Leaves entries out at the beginning.
    pub fn drop_front(&mut self, entries: usize) {
        let length = (entries * self.width).min(self.bytes.len());
        self.bytes.drain(..length);
    }

    /// Leaves out what comes after so many entries.
    pub fn truncate(&mut self, entries: usize) {
        self.bytes.truncate(entries.saturating_mul(self.width));
    }

    /// Puts an entry before all others.
    pub fn push_front(&mut self, entry: [u32; 3]) {
        let bytes = entry.iter().flat_map(|number| number.to_be_bytes());
        self.bytes.splice(..0, bytes);
    }

    /// Puts an entry behind all others.
    pub fn push(&mut self, entry: [u32; 3]) {
        self.bytes
            .extend(entry.iter().flat_map(|number| number.to_be_bytes()));
    }
}
