//! Coefficients to symbols and bits (T.81, annexes F.1 and G.1), counted or written.

use super::encoder::Block;
use super::huffman::Specification;

/// The longest run of blocks that end that one symbol tells.
const END_RUN_MAX: u32 = 0x7fff;

/// Takes symbols of one of four tables, each with the bits that follow it.
pub trait Sink {
    /// `bits` are the lowest `count` ones, at most 16.
    fn put(&mut self, table: usize, symbol: u8, bits: u32, count: u32);
}

/// Counts symbols, for tables that suit them.
pub struct Counter([[u32; 256]; 4]);

impl Default for Counter {
    fn default() -> Counter {
        Counter([[0; 256]; 4])
    }
}

impl Counter {
    /// The best tables for what was counted; a table that nothing used is empty.
    pub fn tables(&self) -> [Specification; 4] {
        [0, 1, 2, 3].map(|table| Specification::best(&self.0[table]))
    }
}

impl Sink for Counter {
    fn put(&mut self, table: usize, symbol: u8, _bits: u32, _count: u32) {
        let count = &mut self.0[table & 3][usize::from(symbol)];
        *count = count.saturating_add(1);
    }
}

/// Writes bits, with a zero byte after each 0xff.
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    /// For each table and symbol: the code above, its length in the lowest byte.
    codes: Box<[[u32; 256]; 4]>,
    /// Bits that are not written yet, in the lowest places.
    pending: u64,
    count: u32,
}

impl Writer<'_> {
    /// Writes with these tables to the end of `out`.
    pub fn new<'a>(out: &'a mut Vec<u8>, tables: &[Specification; 4]) -> Writer<'a> {
        let mut codes = Box::new([[0u32; 256]; 4]);
        for (codes, table) in codes.iter_mut().zip(tables) {
            for (length, code, symbol) in table.codes() {
                codes[usize::from(symbol)] = u32::from(code) << 8 | u32::from(length);
            }
        }
        Writer {
            out,
            codes,
            pending: 0,
            count: 0,
        }
    }

    /// At least 32 bits wait: four bytes go out.
    #[inline]
    fn flush(&mut self) {
        self.count -= 32;
        let word = (self.pending >> self.count) as u32;
        // A byte is 0xff where its complement is zero.
        let inverted = !word;
        let stuffed = inverted.wrapping_sub(0x0101_0101) & word & 0x8080_8080 != 0;
        if stuffed {
            for byte in word.to_be_bytes() {
                self.out.push(byte);
                if byte == 0xff {
                    self.out.push(0);
                }
            }
        } else {
            self.out.extend_from_slice(&word.to_be_bytes());
        }
    }

    /// Fills the last byte with ones.
    pub fn finish(mut self) {
        let filling = (8 - self.count % 8) % 8;
        self.pending = self.pending << filling | ((1 << filling) - 1);
        self.count += filling;
        while self.count > 0 {
            self.count -= 8;
            let byte = (self.pending >> self.count) as u8;
            self.out.push(byte);
            if byte == 0xff {
                self.out.push(0);
            }
        }
    }
}

impl Sink for Writer<'_> {
    #[inline]
    fn put(&mut self, table: usize, symbol: u8, bits: u32, count: u32) {
        let code = self.codes[table & 3][usize::from(symbol)];
        let length = code & 0xff;
        self.pending = self.pending << (length + count) | u64::from(code >> 8 << count | bits);
        self.count += length + count;
        if self.count >= 32 {
            self.flush();
        }
    }
}

/// The size of a value, and its bits as the file has them.
#[inline]
fn sized(value: i32) -> (u32, u32) {
    let size = 32 - value.unsigned_abs().leading_zeros();
    let bits = (value + (value >> 31)) as u32 & ((1 << size) - 1);
    (size, bits)
}

/// A block's DC value, as the difference to the one before.
pub fn dc_bits<S: Sink + ?Sized>(sink: &mut S, table: usize, value: i16, previous: &mut i16) {
    let (size, bits) = sized(i32::from(value) - i32::from(*previous));
    *previous = value;
    sink.put(table, size as u8, bits, size);
}

/// All AC values of a block.
#[inline]
pub fn block_bits<S: Sink + ?Sized>(sink: &mut S, table: usize, block: &Block) {
    let mut left = present(block) & !1;
    let mut before = 0;
    while left != 0 {
        let at = left.trailing_zeros();
        left &= left - 1;
        let mut zeros = at - before - 1;
        before = at;
        while zeros > 15 {
            sink.put(table, 0xf0, 0, 0);
            zeros -= 16;
        }
        let (size, bits) = sized(i32::from(block[at as usize & 63]));
        sink.put(table, (zeros << 4 | size) as u8, bits, size);
    }
    if before < 63 {
        sink.put(table, 0, 0, 0);
    }
}

/// A bit for each value that is not zero.
#[inline]
fn present(block: &Block) -> u64 {
    let mut mask = 0;
    for (row, values) in block.chunks_exact(8).enumerate() {
        let mut byte = 0u64;
        for (at, value) in values.iter().enumerate() {
            byte |= u64::from(*value != 0) << at;
        }
        mask |= byte << (row * 8);
    }
    mask
}

/// The values `first` to `last` of all blocks of a component, a progressive scan without approximation.
pub fn ac_scan<'a>(
    sink: &mut dyn Sink,
    table: usize,
    blocks: impl Iterator<Item = &'a Block>,
    first: usize,
    last: usize,
) {
    let band = u64::MAX >> (63 - last) & u64::MAX << first;
    let mut ended = 0;
    for block in blocks {
        let mut left = present(block) & band;
        let mut before = first as u32;
        if left != 0 {
            end_run(sink, table, &mut ended);
        }
        while left != 0 {
            let at = left.trailing_zeros();
            left &= left - 1;
            let mut zeros = at - before;
            before = at + 1;
            while zeros > 15 {
                sink.put(table, 0xf0, 0, 0);
                zeros -= 16;
            }
            let (size, bits) = sized(i32::from(block[at as usize & 63]));
            sink.put(table, (zeros << 4 | size) as u8, bits, size);
        }
        if before <= last as u32 {
            ended += 1;
            if ended == END_RUN_MAX {
                end_run(sink, table, &mut ended);
            }
        }
    }
    end_run(sink, table, &mut ended);
}

/// Tells that the band is over in so many blocks.
fn end_run(sink: &mut dyn Sink, table: usize, blocks: &mut u32) {
    if *blocks > 0 {
        let size = 31 - blocks.leading_zeros();
        sink.put(table, (size << 4) as u8, *blocks & ((1 << size) - 1), size);
        *blocks = 0;
    }
}
