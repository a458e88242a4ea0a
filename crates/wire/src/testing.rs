//! Tests only: a deterministic source of random bytes, so that a failure can be run again.

/// An xorshift generator; not for anything but tests.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// 0 to `limit` - 1.
    pub fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 16) % limit
    }

    /// At most `max` bytes, half of them the ones parsers look for.
    pub fn bytes(&mut self, max: u64) -> Vec<u8> {
        const TELLING: &[u8] = b"/.%:?#&=;, \t\r\n\0-_\"[]0123456789aAfFWbytesGETHTP";
        let len = self.below(max + 1);
        (0..len)
            .map(|_| match self.below(2) {
                0 => TELLING[self.below(TELLING.len() as u64) as usize],
                _ => self.next() as u8,
            })
            .collect()
    }
}
