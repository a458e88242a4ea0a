//! Scans of progressive files (T.81, annex G): parts of the coefficients, first roughly, then bit by bit.

use super::bits::Bits;
use super::decoder::{Frame, Scan, Tables};
use super::lookup::Table;
use super::scaled::{ended, units};
use crate::error::Error;
use crate::limits::Deadline;

/// The first coefficients of a component's blocks.
pub struct Coefficients {
    values: Vec<i16>,
    kept: usize,
}

impl Coefficients {
    /// Zeros: `kept` for each block.
    pub fn new(blocks: usize, kept: usize) -> Coefficients {
        Coefficients {
            values: vec![0; blocks * kept],
            kept,
        }
    }

    /// A block's coefficients in the order of the file.
    pub fn block(&self, number: usize) -> &[i16] {
        let start = number * self.kept;
        self.values.get(start..start + self.kept).unwrap_or(&[0])
    }

    fn block_mut(&mut self, number: usize) -> &mut [i16] {
        let start = number * self.kept;
        self.values
            .get_mut(start..start + self.kept)
            .unwrap_or_default()
    }
}

/// What is remembered from block to block.
struct State {
    predictions: [i32; 4],
    /// Further blocks in which the band is over.
    ended: u32,
}

/// Reads a scan.
pub fn scan(
    source: &[u8],
    frame: &Frame,
    scan: &Scan,
    tables: &Tables,
    coefficients: &mut [Coefficients],
    deadline: Deadline,
) -> Result<(), Error> {
    let mut chosen = Vec::with_capacity(scan.components.len());
    for (place, dc, ac) in &scan.components {
        let table = if scan.first == 0 {
            &tables.dc[*dc]
        } else {
            &tables.ac[*ac]
        };
        let needed = scan.first > 0 || scan.high == 0;
        if needed && table.is_none() {
            return Err(Error::corrupt("a table is missing"));
        }
        chosen.push((*place, table.as_ref()));
    }
    let mut bits = Bits::new(source, scan.start);
    let mut state = State {
        predictions: [0; 4],
        ended: 0,
    };
    let (units_across, units_down) = units(frame, scan);
    let alone = chosen.len() == 1;
    let mut until_restart = tables.restart_interval;
    for unit_down in 0..units_down {
        deadline.check()?;
        for unit_across in 0..units_across {
            if tables.restart_interval > 0 {
                if until_restart == 0 {
                    until_restart = tables.restart_interval;
                    if !bits.restart() {
                        return ended(unit_down, units_down);
                    }
                    (state.predictions, state.ended) = ([0; 4], 0);
                }
                until_restart -= 1;
            }
            for (place, table) in &chosen {
                let component = &frame.components[*place];
                let (across, down) = if alone {
                    (1, 1)
                } else {
                    (component.across, component.down)
                };
                for y in unit_down * down..(unit_down + 1) * down {
                    for x in unit_across * across..(unit_across + 1) * across {
                        let block = coefficients[*place].block_mut(y * component.stored.0 + x);
                        one(&mut bits, block, scan, *table, *place, &mut state);
                    }
                }
            }
        }
        if bits.is_over() && tables.restart_interval == 0 && state.ended == 0 {
            return ended(unit_down, units_down);
        }
    }
    Ok(())
}

#[inline(always)]
fn one(
    bits: &mut Bits,
    block: &mut [i16],
    scan: &Scan,
    table: Option<&Table>,
    place: usize,
    state: &mut State,
) {
    match (scan.first, scan.high, table) {
        (0, 0, Some(table)) => {
            let prediction = &mut state.predictions[place & 3];
            *prediction = prediction.wrapping_add(table.difference(bits));
            if let Some(first) = block.first_mut() {
                *first = (*prediction << scan.low) as i16;
            }
        }
        (0, _, _) => {
            bits.fill();
            let bit = bits.number(1) as i16;
            if let Some(first) = block.first_mut() {
                *first |= bit << scan.low;
            }
        }
        (_, 0, Some(table)) => first_bits(bits, block, scan, table, &mut state.ended),
        (_, _, Some(table)) => next_bit(bits, block, scan, table, &mut state.ended),
        _ => {}
    }
}

/// A band's values, less their lowest bits (G.1.2.2).
fn first_bits(bits: &mut Bits, block: &mut [i16], scan: &Scan, table: &Table, over: &mut u32) {
    if *over > 0 {
        *over -= 1;
        return;
    }
    let mut at = scan.first;
    while at <= scan.last {
        let (run, value) = table.run_and_value(bits);
        if value == 0 {
            if run != 15 {
                bits.fill();
                *over = (1 << run) - 1 + bits.number(run);
                return;
            }
            at += 16;
            continue;
        }
        at += run as usize;
        if let Some(to) = block.get_mut(at) {
            *to = (value << scan.low) as i16;
        }
        at += 1;
    }
}

/// The next bit of a band's values (G.1.2.3): each value that is there has one, in passing; new values are one or minus one.
fn next_bit(bits: &mut Bits, block: &mut [i16], scan: &Scan, table: &Table, over: &mut u32) {
    let one = 1i16 << scan.low;
    let mut at = scan.first;
    let Some(block) = block.get_mut(..=scan.last) else {
        return;
    };
    if *over == 0 {
        while at <= scan.last {
            bits.fill();
            let symbol = table.run_and_size(bits);
            let mut zeros = symbol.run;
            let mut value = 0;
            if symbol.size == 0 {
                if symbol.run != 15 {
                    *over = (1 << symbol.run) + bits.number(symbol.run);
                    break;
                }
            } else {
                value = if bits.number(1) == 1 { one } else { -one };
            }
            while let Some(to) = block.get_mut(at) {
                at += 1;
                if *to != 0 {
                    refine(bits, to, one);
                } else if zeros == 0 {
                    *to = value;
                    break;
                } else {
                    zeros -= 1;
                }
            }
        }
    }
    if *over > 0 {
        for to in block.iter_mut().skip(at).filter(|to| **to != 0) {
            refine(bits, to, one);
        }
        *over -= 1;
    }
}

#[inline(always)]
fn refine(bits: &mut Bits, value: &mut i16, one: i16) {
    bits.fill();
    if bits.number(1) == 1 && *value & one == 0 {
        *value = value.wrapping_add(if *value >= 0 { one } else { -one });
    }
}
