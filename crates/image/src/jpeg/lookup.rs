//! Huffman tables for reading: a code, the bits that follow it, and as many symbols as possible in one look.

use super::bits::Bits;
use super::huffman::Specification;
use crate::error::Error;

/// Bits that one look sees.
const WIDTH: u32 = 12;

/// A symbol's code and what it stands for in an AC table: zeros before the value, and the value's size.
#[derive(Clone, Copy)]
pub struct Symbol {
    /// Zeros.
    pub run: u32,
    /// Bits of the value.
    pub size: u32,
}

/// One table.
pub struct Table {
    /// For the next bits: the code's length above, the symbol below; 0 where the code is longer than a look.
    codes: Box<[u16]>,
    /// For the next bits: several symbols with their values: how far they lead, and how many bits they take. See `Skip`.
    skips: Box<[Skip]>,
    /// For the next bits: a symbol with its value where both fit: value, zeros, bits; 0 bits where they do not.
    values: Box<[Value]>,
    /// For each length: the first code beyond those of this length, brought to 16 bits.
    ends: [u32; 17],
    /// For each length: what is added to a code to find its symbol.
    offsets: [i32; 17],
    symbols: Vec<u8>,
}

/// Some symbols at once.
#[derive(Clone, Copy, Default)]
struct Skip {
    /// 0: one symbol at a time.
    bits: u8,
    /// Coefficients; one more when the block ends.
    advance: u8,
    ends: bool,
}

#[derive(Clone, Copy, Default)]
struct Value {
    value: i16,
    run: u8,
    bits: u8,
}

impl Table {
    /// A table for reading; an error where the lengths make no code.
    pub fn new(specification: &Specification) -> Result<Table, Error> {
        let mut table = Table {
            codes: vec![0; 1 << WIDTH].into(),
            skips: vec![Skip::default(); 1 << WIDTH].into(),
            values: vec![Value::default(); 1 << WIDTH].into(),
            ends: [0; 17],
            offsets: [0; 17],
            symbols: specification.symbols.clone(),
        };
        let (mut code, mut index) = (0u32, 0i32);
        for (length, count) in (1u32..=16).zip(specification.counts) {
            table.offsets[length as usize] = index - code as i32;
            for _ in 0..count {
                let symbol = specification.symbols.get(index as usize).copied();
                if let (true, Some(symbol)) = (length <= WIDTH, symbol) {
                    let first = (code << (WIDTH - length)) as usize;
                    let places = table.codes.get_mut(first..first + (1 << (WIDTH - length)));
                    let entry = (length << 8) as u16 | u16::from(symbol);
                    places
                        .ok_or_else(|| Error::corrupt("codes that are none"))?
                        .fill(entry);
                }
                code += 1;
                index += 1;
            }
            if code > 1 << length {
                return Err(Error::corrupt("codes that are none"));
            }
            table.ends[length as usize] = code << (16 - length);
            code <<= 1;
        }
        Ok(table)
    }

    /// Adds what an AC table needs.
    pub fn with_values(mut self) -> Table {
        for next in 0..1usize << WIDTH {
            self.skips[next] = self.skip_entry(next);
            self.values[next] = self.value_entry(next);
        }
        self
    }

    fn skip_entry(&self, next: usize) -> Skip {
        let mut skip = Skip::default();
        let mut seen = 0;
        while seen < WIDTH {
            let left = next << seen & ((1 << WIDTH) - 1);
            let entry = self.codes[left];
            let length = u32::from(entry >> 8);
            if length == 0 || seen + length > WIDTH {
                break;
            }
            let (run, size) = (entry as u8 >> 4, entry as u8 & 15);
            seen += length + u32::from(size);
            skip.bits = seen as u8;
            skip.advance += match (run, size) {
                (_, 0) if run < 15 => 1,
                _ => run + 1,
            };
            if size == 0 && run < 15 {
                skip.ends = true;
                break;
            }
        }
        skip
    }

    fn value_entry(&self, next: usize) -> Value {
        let entry = self.codes[next];
        let (length, size) = (u32::from(entry >> 8), u32::from(entry & 15));
        if length == 0 || size == 0 || length + size > WIDTH {
            return Value::default();
        }
        let bits = (next >> (WIDTH - length - size)) as i32 & ((1 << size) - 1);
        let value = if bits < 1 << (size - 1) {
            bits - (1 << size) + 1
        } else {
            bits
        };
        Value {
            value: value as i16,
            run: entry as u8 >> 4,
            bits: (length + size) as u8,
        }
    }

    /// The next symbol. Bits have been filled. A code that is none is symbol 0.
    #[inline(always)]
    pub fn symbol(&self, bits: &mut Bits) -> u8 {
        let entry = self.codes[bits.peek(WIDTH)];
        if entry != 0 {
            bits.take(u32::from(entry >> 8));
            entry as u8
        } else {
            let symbol;
            (*bits, symbol) = self.long_symbol(*bits);
            symbol
        }
    }

    #[cold]
    fn long_symbol<'b>(&self, mut bits: Bits<'b>) -> (Bits<'b>, u8) {
        let next = bits.peek(16) as u32;
        for length in 1..=16u32 {
            if next < self.ends[length as usize] {
                bits.take(length);
                let index = (next >> (16 - length)) as i32 + self.offsets[length as usize];
                let symbol = usize::try_from(index)
                    .ok()
                    .and_then(|index| self.symbols.get(index).copied());
                return (bits, symbol.unwrap_or(0));
            }
        }
        bits.take(16);
        (bits, 0)
    }

    /// The next symbol of an AC table.
    #[inline(always)]
    pub fn run_and_size(&self, bits: &mut Bits) -> Symbol {
        let symbol = u32::from(self.symbol(bits));
        Symbol {
            run: symbol >> 4,
            size: symbol & 15,
        }
    }

    /// A difference of DC values.
    #[inline(always)]
    pub fn difference(&self, bits: &mut Bits) -> i32 {
        bits.fill();
        let size = u32::from(self.symbol(bits)).min(15);
        bits.value(size)
    }

    /// The zeros before the next value, and the value; 0 where the block ends or sixteen zeros are told.
    #[inline(always)]
    pub fn run_and_value(&self, bits: &mut Bits) -> (u32, i32) {
        bits.fill();
        let entry = self.values[bits.peek(WIDTH)];
        if entry.bits != 0 {
            bits.take(u32::from(entry.bits));
            return (u32::from(entry.run), i32::from(entry.value));
        }
        let symbol = self.run_and_size(bits);
        if symbol.size == 0 {
            return (symbol.run, 0);
        }
        (symbol.run, bits.value(symbol.size))
    }

    /// Passes over the rest of a block from coefficient `at` on.
    #[inline(always)]
    pub fn skip(&self, bits: &mut Bits, mut at: u32) {
        while at < 64 {
            bits.fill();
            let skip = self.skips[bits.peek(WIDTH)];
            let next = at + u32::from(skip.advance);
            if skip.bits != 0 && next <= 64 {
                bits.take(u32::from(skip.bits));
                if skip.ends {
                    return;
                }
                at = next;
                continue;
            }
            let symbol = self.run_and_size(bits);
            if symbol.size == 0 && symbol.run < 15 {
                return;
            }
            bits.take(symbol.size);
            at += symbol.run + 1;
        }
    }
}
