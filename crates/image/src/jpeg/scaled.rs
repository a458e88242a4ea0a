//! A picture while its scans are read: samples at once where a scan holds whole blocks, coefficients until the end where
//! it holds parts of them.

use super::bits::Bits;
use super::decoder::{Channel, Component, Frame, Scan, Tables};
use super::inverse::{Inverse, Square, last_needed};
use super::lookup::Table;
use super::plane::Plane;
use super::progressive::{self, Coefficients};
use super::segments;
use crate::error::Error;
use crate::limits::{Deadline, Limits, at_most};

/// The channels of a picture at `N` eighths of its size.
pub struct Picture<const N: usize> {
    inverse: Inverse<N>,
    /// For each component its samples, whole blocks of them.
    samples: Vec<Vec<u8>>,
    /// For each component its coefficients, of progressive files only.
    coefficients: Vec<Coefficients>,
    /// Steps as they were when a component was first seen: a later table is for later components.
    steps: Vec<Option<[f32; 64]>>,
}

impl<const N: usize> Picture<N> {
    /// Memory for a frame.
    pub fn new(frame: &Frame, source: &[u8], limits: &Limits) -> Result<Picture<N>, Error> {
        let blocks = |component: &Component| component.stored.0 * component.stored.1;
        let kept = if frame.progressive {
            coefficients_kept::<N>(frame, source)
        } else {
            0
        };
        let bytes: usize = frame
            .components
            .iter()
            .map(|c| blocks(c) * (N * N + kept * 2))
            .sum();
        at_most("memory", bytes as u64, limits.memory)?;
        Ok(Picture {
            inverse: Inverse::default(),
            // Brightness that nothing is known of is in the middle.
            samples: frame
                .components
                .iter()
                .map(|c| vec![128; blocks(c) * N * N])
                .collect(),
            coefficients: frame
                .components
                .iter()
                .map(|component| Coefficients::new(blocks(component), kept))
                .collect(),
            steps: vec![None; frame.components.len()],
        })
    }

    /// Reads a scan, or passes over it where nothing in it is needed.
    pub fn scan(
        &mut self,
        source: &[u8],
        frame: &Frame,
        scan: &Scan,
        tables: &Tables,
        deadline: Deadline,
    ) -> Result<(), Error> {
        for (place, _, _) in &scan.components {
            let number = frame.components[*place].quantisation;
            if let (steps @ None, table) = (&mut self.steps[*place], tables.quantisation[number]) {
                *steps = table;
            }
        }
        if frame.progressive {
            return if scan.first > last_needed(N) {
                Ok(())
            } else {
                progressive::scan(
                    source,
                    frame,
                    scan,
                    tables,
                    &mut self.coefficients,
                    deadline,
                )
            };
        }
        self.baseline(source, frame, scan, tables, deadline)
    }

    fn baseline(
        &mut self,
        source: &[u8],
        frame: &Frame,
        scan: &Scan,
        tables: &Tables,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let mut sources = Vec::with_capacity(scan.components.len());
        for (place, dc, ac) in &scan.components {
            let missing = || Error::corrupt("a table is missing");
            sources.push(Source {
                dc: tables.dc[*dc].as_ref().ok_or_else(missing)?,
                ac: tables.ac[*ac].as_ref().ok_or_else(missing)?,
                steps: self.steps[*place].ok_or_else(missing)?,
                prediction: 0,
            });
        }
        let mut bits = Bits::new(source, scan.start);
        let (units_across, units_down) = units(frame, scan);
        let alone = scan.components.len() == 1;
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
                        sources.iter_mut().for_each(|source| source.prediction = 0);
                    }
                    until_restart -= 1;
                }
                for ((place, _, _), source) in scan.components.iter().zip(&mut sources) {
                    let component = &frame.components[*place];
                    let (across, down) = if alone {
                        (1, 1)
                    } else {
                        (component.across, component.down)
                    };
                    let stride = component.stored.0 * N;
                    for y in unit_down * down..(unit_down + 1) * down {
                        for x in unit_across * across..(unit_across + 1) * across {
                            let start = y * N * stride + x * N;
                            let out = self.samples[*place].get_mut(start..).unwrap_or_default();
                            source.block(&mut bits, &self.inverse, out, stride);
                        }
                    }
                }
            }
            if bits.is_over() && tables.restart_interval == 0 {
                return ended(unit_down, units_down);
            }
        }
        Ok(())
    }

    /// The planes, once all scans are read.
    pub fn finish(mut self, frame: &Frame, deadline: Deadline) -> Result<Vec<Channel>, Error> {
        if frame.progressive {
            for place in 0..frame.components.len() {
                self.transform(place, &frame.components[place], deadline)?;
            }
        }
        let channel = |(component, samples): (&Component, Vec<u8>)| {
            let size = (
                frame.width as f64 * component.across as f64 / frame.sampling_max.0 as f64,
                frame.height as f64 * component.down as f64 / frame.sampling_max.1 as f64,
            );
            let size = (size.0 * N as f64 / 8.0, size.1 * N as f64 / 8.0);
            Channel {
                plane: Plane {
                    width: size.0.ceil() as usize,
                    height: size.1.ceil() as usize,
                    stride: component.stored.0 * N,
                    samples,
                },
                size,
            }
        };
        Ok(frame
            .components
            .iter()
            .zip(self.samples)
            .map(channel)
            .collect())
    }

    /// Coefficients of a component to samples.
    fn transform(
        &mut self,
        place: usize,
        component: &Component,
        deadline: Deadline,
    ) -> Result<(), Error> {
        // A component that no scan was of stays even.
        let Some(steps) = self.steps[place] else {
            return Ok(());
        };
        let stride = component.stored.0 * N;
        let coefficients = &self.coefficients[place];
        for y in 0..component.stored.1 {
            deadline.check()?;
            for x in 0..component.stored.0 {
                let block = coefficients.block(y * component.stored.0 + x);
                let first = f32::from(block.first().copied().unwrap_or(0)) * steps[0];
                let start = y * N * stride + x * N;
                let out = self.samples[place].get_mut(start..).unwrap_or_default();
                let rest = block
                    .get(1..=last_needed(N).min(block.len() - 1))
                    .unwrap_or_default();
                if N == 1 || rest.iter().all(|value| *value == 0) {
                    self.inverse.even(first, out, stride);
                    continue;
                }
                let mut square: Square<N> = [[0.0; 8]; N];
                square[0][0] = first;
                for (at, value) in (1..).zip(rest) {
                    let to = usize::from(self.inverse.places[at & 63]);
                    if let Some(row) = square.get_mut(to / 8) {
                        row[to % 8] = f32::from(*value) * steps[at & 63];
                    }
                }
                self.inverse.block(&square, out, stride);
            }
        }
        Ok(())
    }
}

/// A scan whose data is over: what is missing of the last row of units is no loss, more is.
pub fn ended(unit_down: usize, units_down: usize) -> Result<(), Error> {
    if unit_down + 1 >= units_down {
        Ok(())
    } else {
        Err(Error::corrupt("the file ends too early"))
    }
}

/// The units of a scan: blocks of the picture where it has one component.
pub fn units(frame: &Frame, scan: &Scan) -> (usize, usize) {
    match scan.components.as_slice() {
        [(place, _, _)] => frame.components[*place].blocks,
        _ => frame.units,
    }
}

/// How many coefficients of a block have to be kept: up to the last one of a scan that is needed.
fn coefficients_kept<const N: usize>(frame: &Frame, source: &[u8]) -> usize {
    let mut kept = 1;
    for segment in segments(source).map_while(Result::ok) {
        if segment.marker == 0xda
            && let Ok(scan) = Scan::new(frame, segment.data, segment.end)
            && scan.first <= last_needed(N)
        {
            kept = kept.max(scan.last + 1);
        }
    }
    kept
}

/// What a component's blocks are read with.
struct Source<'a> {
    dc: &'a Table,
    ac: &'a Table,
    steps: [f32; 64],
    prediction: i32,
}

impl Source<'_> {
    /// Reads a block and writes its samples.
    #[inline(always)]
    fn block<const N: usize>(
        &mut self,
        bits: &mut Bits,
        inverse: &Inverse<N>,
        out: &mut [u8],
        stride: usize,
    ) {
        self.prediction = self.prediction.wrapping_add(self.dc.difference(bits));
        let first = self.prediction as f32 * self.steps[0];
        if N == 1 {
            self.ac.skip(bits, 1);
            inverse.even(first, out, stride);
            return;
        }
        let mut square: Square<N> = [[0.0; 8]; N];
        let mut at = 1u32;
        let mut even = true;
        loop {
            if at > last_needed(N) as u32 {
                self.ac.skip(bits, at);
                break;
            }
            let (run, value) = self.ac.run_and_value(bits);
            if value == 0 {
                if run != 15 {
                    break;
                }
                at += 16;
                continue;
            }
            at += run;
            let place = usize::from(inverse.places[at as usize & 63]);
            if let (Some(row), true) = (square.get_mut(place / 8), at < 64) {
                even = false;
                row[place % 8] = value as f32 * self.steps[at as usize & 63];
            }
            at += 1;
        }
        if even {
            inverse.even(first, out, stride);
        } else {
            square[0][0] = first;
            inverse.block(&square, out, stride);
        }
    }
}
