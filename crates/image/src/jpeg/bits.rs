//! Entropy-coded data as bits: zero bytes after 0xff are dropped, a marker ends them.

/// Reads bits from the top of a word that is filled ahead. What is rare takes and gives it by value: so a loop keeps it in
/// registers.
#[derive(Clone, Copy)]
pub struct Bits<'a> {
    data: &'a [u8],
    /// The next byte to be taken.
    at: usize,
    /// The next bits, the first one on top. Below `count` there may be bits that are taken again later.
    buffer: u64,
    count: u32,
    /// Bits that were made up after the end.
    made_up: u32,
}

impl<'a> Bits<'a> {
    /// Reads from `at` on.
    pub fn new(data: &'a [u8], at: usize) -> Bits<'a> {
        Bits {
            data,
            at,
            buffer: 0,
            count: 0,
            made_up: 0,
        }
    }

    /// At least 48 bits are there afterwards; beyond the end they are zero.
    #[inline(always)]
    pub fn fill(&mut self) {
        if self.count < 48 {
            self.refill();
        }
    }

    #[inline(always)]
    fn refill(&mut self) {
        let next = self.data.get(self.at..).and_then(<[u8]>::first_chunk::<8>);
        if let Some(next) = next {
            let word = u64::from_be_bytes(*next);
            // Every byte of 0xff has its top bit set, and carries when one is added to it.
            let candidates = word & !word.wrapping_add(0x0101_0101_0101_0101);
            if candidates & 0x8080_8080_8080_8080 == 0 {
                let bytes = (63 - self.count) >> 3;
                self.buffer |= word >> self.count;
                self.at += bytes as usize;
                self.count += bytes * 8;
                return;
            }
        }
        *self = self.refilled_slowly();
    }

    #[cold]
    #[inline(never)]
    fn refilled_slowly(mut self) -> Bits<'a> {
        self.buffer &= !(u64::MAX >> self.count);
        while self.count <= 56 {
            let byte = match (self.data.get(self.at), self.data.get(self.at + 1)) {
                (Some(0xff), Some(0)) => {
                    self.at += 2;
                    0xff
                }
                (Some(0xff), _) | (None, _) => {
                    self.made_up = self.made_up.saturating_add(8);
                    0
                }
                (Some(byte), _) => {
                    self.at += 1;
                    *byte
                }
            };
            self.buffer |= u64::from(byte) << (56 - self.count);
            self.count += 8;
        }
        self
    }

    /// The next bits, at most 32, without taking them.
    #[inline(always)]
    pub fn peek(&self, bits: u32) -> usize {
        (self.buffer >> (64 - bits)) as usize
    }

    /// Takes bits; not more than are there.
    #[inline(always)]
    pub fn take(&mut self, bits: u32) {
        self.buffer <<= bits;
        self.count = self.count.saturating_sub(bits);
    }

    /// Takes the next bits as a number; 0 to 16 of them.
    #[inline(always)]
    pub fn number(&mut self, bits: u32) -> u32 {
        let value = (self.buffer >> 1 >> (63 - bits)) as u32;
        self.take(bits);
        value
    }

    /// Takes a value of this size as T.81 F.2.2.1 extends it.
    #[inline(always)]
    pub fn value(&mut self, size: u32) -> i32 {
        let bits = self.number(size) as i32;
        if bits < 1 << size >> 1 {
            bits - (1 << size) + 1
        } else {
            bits
        }
    }

    /// Whether bits were taken that the file does not have.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.made_up > self.count
    }

    /// Goes to what follows the next restart marker; false when another marker, or the end, comes first.
    #[inline(always)]
    pub fn restart(&mut self) -> bool {
        let found;
        (*self, found) = self.restarted();
        found
    }

    #[inline(never)]
    fn restarted(mut self) -> (Bits<'a>, bool) {
        // What is read ahead and not taken goes; it ended at a marker, or the data is broken and goes on there.
        (self.buffer, self.count, self.made_up) = (0, 0, 0);
        while let Some(found) = self
            .data
            .get(self.at..)
            .and_then(|rest| memchr::memchr(0xff, rest))
        {
            self.at += found + 1;
            match self.data.get(self.at) {
                Some(0xd0..=0xd7) => {
                    self.at += 1;
                    return (self, true);
                }
                Some(0x00 | 0xff) => {}
                _ => {
                    self.at -= 1;
                    return (self, false);
                }
            }
        }
        (self, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_in_order_at_any_width() {
        let mut data = Vec::new();
        let mut plain = Vec::new();
        let mut state = 1u32;
        for _ in 0..500 {
            state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            let byte = if state >> 28 == 0 {
                0xff
            } else {
                (state >> 16) as u8
            };
            plain.push(byte);
            data.push(byte);
            if byte == 0xff {
                data.push(0);
            }
        }
        data.extend([0xff, 0xd9]);
        for width in 1..=16u32 {
            let mut bits = Bits::new(&data, 0);
            for index in 0..(500 * 8 / width) {
                bits.fill();
                let found = bits.number(width);
                let wanted = (0..width).fold(0, |sum, bit| {
                    let at = index * width + bit;
                    sum << 1 | u32::from(plain[at as usize / 8] >> (7 - at % 8) & 1)
                });
                assert_eq!(found, wanted, "{width} at {index}");
                assert!(!bits.is_over());
            }
            for _ in 0..10 {
                bits.fill();
                bits.number(16);
            }
            assert!(bits.is_over());
        }
    }

    #[test]
    fn restarts_are_found() {
        let data = [0x12, 0x34, 0xff, 0xd3, 0x56, 0xff, 0xd9];
        let mut bits = Bits::new(&data, 0);
        bits.fill();
        assert!(bits.restart());
        bits.fill();
        assert_eq!(bits.number(8), 0x56);
        assert!(!bits.restart());
    }
}
