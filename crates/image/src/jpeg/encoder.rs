//! Planes to a JPEG file: baseline with annex K's tables, or progressive with tables made for the picture.

use super::huffman::{Specification, standard};
use super::plane::{Plane, Planes};
use super::quantisation::{CHROMINANCE, LUMINANCE, ZIGZAG, scaled};
use super::scans::{Counter, Sink, Writer, ac_scan, block_bits, dc_bits};
use super::transform::forward;

/// How a file is written.
pub struct Options<'a> {
    /// 1 to 100.
    pub quality: u8,
    /// In several scans, so that a viewer shows the whole picture early.
    pub progressive: bool,
    /// Markers 0xe0 to 0xef and what their segments hold; too long ones are left out.
    pub segments: &'a [(u8, Vec<u8>)],
}

/// The largest width and height that a frame header can tell.
pub const SIDE_MAX: usize = 65_535;

struct Component<'a> {
    plane: &'a Plane,
    /// Blocks in a unit of the scan, each way.
    across: usize,
    down: usize,
    /// 0 for brightness, 1 for colour.
    kind: usize,
}

/// One block's coefficients in the order of the file.
pub type Block = [i16; 64];

struct Frame<'a> {
    components: Vec<Component<'a>>,
    /// For each kind, one over eight times the step, in the order of the transform's result.
    reciprocals: [[f32; 64]; 2],
    units_across: usize,
    units_down: usize,
}

/// Writes a file. The planes have samples, and at most `SIDE_MAX` pixels each way.
pub fn encode(planes: &Planes, options: &Options) -> Vec<u8> {
    let tables = [
        scaled(&LUMINANCE, options.quality),
        scaled(&CHROMINANCE, options.quality),
    ];
    let frame = Frame::new(planes, &tables);
    let mut out = Vec::with_capacity(planes.width * planes.height / 4 + 1024);
    out.extend([0xff, 0xd8]);
    if planes.planes.len() == 4 {
        let transform = if planes.transformed { 2 } else { 0 };
        segment(
            &mut out,
            0xee,
            &[b"Adobe\0\x64\0\0\0\0", &[transform][..]].concat(),
        );
    } else {
        let jfif = [b'J', b'F', b'I', b'F', 0, 1, 1, 0, 0, 1, 0, 1, 0, 0];
        segment(&mut out, 0xe0, &jfif);
    }
    for (marker, data) in options.segments {
        segment(&mut out, *marker, data);
    }
    let kinds = frame.components.iter().map(|component| component.kind);
    let kinds = kinds.max().unwrap_or(0) + 1;
    for (number, table) in tables.iter().enumerate().take(kinds) {
        let mut data = vec![number as u8];
        data.extend(ZIGZAG.map(|at| table[usize::from(at)]));
        segment(&mut out, 0xdb, &data);
    }
    frame.header(
        &mut out,
        planes,
        if options.progressive { 0xc2 } else { 0xc0 },
    );
    if options.progressive {
        frame.progressive(&mut out);
    } else {
        frame.baseline(&mut out, kinds);
    }
    out.extend([0xff, 0xd9]);
    out
}

fn segment(out: &mut Vec<u8>, marker: u8, data: &[u8]) {
    if let Ok(length) = u16::try_from(data.len() + 2) {
        out.extend([0xff, marker]);
        out.extend(length.to_be_bytes());
        out.extend(data);
    }
}

fn tables_segment(out: &mut Vec<u8>, number: u8, table: &Specification) {
    let mut data = vec![number];
    data.extend(table.counts);
    data.extend(&table.symbols);
    segment(out, 0xc4, &data);
}

/// The header of a scan: components by number with their tables, the band of coefficients.
fn scan_header(out: &mut Vec<u8>, components: &[(usize, u8)], first: u8, last: u8) {
    let mut data = vec![components.len() as u8];
    for (number, tables) in components {
        data.extend([*number as u8 + 1, *tables]);
    }
    data.extend([first, last, 0]);
    segment(out, 0xda, &data);
}

impl<'a> Frame<'a> {
    fn new(planes: &'a Planes, tables: &[[u8; 64]; 2]) -> Frame<'a> {
        let half = |size: usize, of: usize| if size < of { 2 } else { 1 };
        let colour = planes.planes.get(1);
        // Brightness has twice the blocks of colour where colour has half the samples.
        let across = colour.map_or(1, |plane| half(plane.width, planes.width));
        let down = colour.map_or(1, |plane| half(plane.height, planes.height));
        let inks = planes.planes.len() == 4;
        let component = |(number, plane): (usize, &'a Plane)| {
            let is_colour = matches!(number, 1 | 2) && (!inks || planes.transformed);
            Component {
                plane,
                across: if is_colour { 1 } else { across },
                down: if is_colour { 1 } else { down },
                kind: usize::from(is_colour),
            }
        };
        Frame {
            components: planes.planes.iter().enumerate().map(component).collect(),
            reciprocals: [0, 1].map(|kind| super::transform::reciprocals(&tables[kind])),
            units_across: planes.width.div_ceil(8 * across),
            units_down: planes.height.div_ceil(8 * down),
        }
    }

    fn header(&self, out: &mut Vec<u8>, planes: &Planes, marker: u8) {
        let mut data = vec![8];
        data.extend((planes.height.min(SIDE_MAX) as u16).to_be_bytes());
        data.extend((planes.width.min(SIDE_MAX) as u16).to_be_bytes());
        data.push(self.components.len() as u8);
        for (number, component) in self.components.iter().enumerate() {
            let sampling = (component.across << 4 | component.down) as u8;
            data.extend([number as u8 + 1, sampling, component.kind as u8]);
        }
        segment(out, marker, &data);
    }

    /// A block by its place among the component's blocks; samples beyond the edges repeat the edge.
    fn block(&self, component: &Component, across: usize, down: usize) -> Block {
        let mut samples = [0f32; 64];
        let plane = component.plane;
        for (y, row) in samples.chunks_exact_mut(8).enumerate() {
            let source = plane.row(down * 8 + y);
            let left = across * 8;
            if let Some(source) = source.get(left..left + 8) {
                for (sample, value) in row.iter_mut().zip(source) {
                    *sample = f32::from(*value) - 128.0;
                }
            } else {
                let edge = source.last().copied().unwrap_or(128);
                for (x, sample) in row.iter_mut().enumerate() {
                    *sample = f32::from(*source.get(left + x).unwrap_or(&edge)) - 128.0;
                }
            }
        }
        forward(&mut samples, &self.reciprocals[component.kind])
    }

    /// Hands every block over in the order of an interleaved scan: component, place across, place down.
    fn each_block(&self, mut with: impl FnMut(usize, usize, usize)) {
        for unit_down in 0..self.units_down {
            for unit_across in 0..self.units_across {
                for (number, component) in self.components.iter().enumerate() {
                    for y in 0..component.down {
                        for x in 0..component.across {
                            let across = unit_across * component.across + x;
                            with(number, across, unit_down * component.down + y);
                        }
                    }
                }
            }
        }
    }

    fn baseline(&self, out: &mut Vec<u8>, kinds: usize) {
        let tables = standard();
        for (number, table) in [0, 0x10, 1, 0x11].into_iter().zip(&tables).take(kinds * 2) {
            tables_segment(out, number, table);
        }
        let numbers = self.numbers(0x11);
        scan_header(out, &numbers, 0, 63);
        let mut writer = Writer::new(out, &tables);
        let mut predictions = [0i16; 4];
        self.each_block(|number, across, down| {
            let component = &self.components[number];
            let block = self.block(component, across, down);
            dc_bits(
                &mut writer,
                component.kind * 2,
                block[0],
                &mut predictions[number],
            );
            block_bits(&mut writer, component.kind * 2 + 1, &block);
        });
        writer.finish();
    }

    /// DC of all components, then two bands of AC for each, without successive approximation.
    fn progressive(&self, out: &mut Vec<u8>) {
        let mut blocks: Vec<Vec<Block>> = vec![Vec::new(); self.components.len()];
        for (component, blocks) in self.components.iter().zip(&mut blocks) {
            let (across, down) = self.stored(component);
            blocks.reserve_exact(across * down);
            for y in 0..down {
                blocks.extend((0..across).map(|x| self.block(component, x, y)));
            }
        }
        let every = self.numbers(0x10);
        let dc = |sink: &mut dyn Sink| {
            let mut predictions = [0i16; 4];
            self.each_block(|number, across, down| {
                let component = &self.components[number];
                let (stored, _) = self.stored(component);
                if let Some(block) = blocks[number].get(down * stored + across) {
                    dc_bits(sink, component.kind * 2, block[0], &mut predictions[number]);
                }
            });
        };
        self.scan(out, &every, (0, 0), &[0, 2], dc);
        for (first, last) in [(1u8, 5u8), (6, 63)] {
            for (number, component) in self.components.iter().enumerate() {
                let (stored, _) = self.stored(component);
                let across = component.plane.width.div_ceil(8);
                let rows = component.plane.height.div_ceil(8);
                let table = component.kind * 2 + 1;
                let ac = |sink: &mut dyn Sink| {
                    let rows = blocks[number].chunks(stored.max(1)).take(rows);
                    let each = rows.flat_map(|row| row.iter().take(across));
                    ac_scan(sink, table, each, usize::from(first), usize::from(last));
                };
                self.scan(
                    out,
                    &[(number, component.kind as u8)],
                    (first, last),
                    &[table],
                    ac,
                );
            }
        }
    }

    /// The components by number, with the tables of their kind.
    fn numbers(&self, of_colour: u8) -> Vec<(usize, u8)> {
        let tables = |component: &Component| component.kind as u8 * of_colour;
        self.components.iter().map(tables).enumerate().collect()
    }

    /// Blocks that are kept of a component: whole units.
    fn stored(&self, component: &Component) -> (usize, usize) {
        (
            self.units_across * component.across,
            self.units_down * component.down,
        )
    }

    /// One scan, gone through twice: to count symbols, and to write them.
    fn scan(
        &self,
        out: &mut Vec<u8>,
        components: &[(usize, u8)],
        band: (u8, u8),
        used: &[usize],
        pass: impl Fn(&mut dyn Sink),
    ) {
        let mut counter = Counter::default();
        pass(&mut counter);
        let tables = counter.tables();
        for table in used {
            if !tables[*table].symbols.is_empty() {
                let class = (table & 1) << 4;
                tables_segment(out, (class | table >> 1) as u8, &tables[*table]);
            }
        }
        scan_header(out, components, band.0, band.1);
        let mut writer = Writer::new(out, &tables);
        pass(&mut writer);
        writer.finish();
    }
}
