//! `images`: one picture at a time on one core: JPEG, PNG and WebP to 250 and 1000 pixels by Gannet's pipeline and by the
//! libraries that others call, each in a process of its own: CPU time, memory, bytes, and likeness to a reduction in full
//! precision. Then the same through servers.

mod busy;
mod likeness;
mod pictures;
mod program;
mod served;
mod verdicts;

use std::path::Path;

use anyhow::{Context, Result};

use crate::options::{Bench, Options};
use crate::side_by_side::Workspace;
use likeness::Reference;
use pictures::Source;
pub use program::picture;
use program::{Program, Run};

pub const BENCH: Bench = Bench {
    name: "images",
    cases: &["250", "1000", "served", "busy"],
    servers: &["gannet", "vips", "magick-hint", "magick", "gd", "imlib2"],
    // Of `busy`.
    seconds: 60,
    rounds: 5,
    quick: (10, 2),
};

/// Pictures that a process makes in a round; the quickest counts.
const TIMES: usize = 3;
/// Of all JPEG and WebP files.
const QUALITY: u32 = 95;

/// What came of one picture at one size with one program.
struct Row {
    program: String,
    runs: Vec<Run>,
    unlikeness: f64,
}

impl Row {
    fn ns(&self) -> Vec<u64> {
        self.runs.iter().map(|run| run.ns).collect()
    }

    fn memory_kb(&self) -> u64 {
        self.runs.iter().map(|run| run.memory_kb).max().unwrap_or(0)
    }

    fn bytes(&self) -> u64 {
        self.runs.last().map_or(0, |run| run.bytes)
    }
}

pub fn run(options: &Options) -> Result<()> {
    let workspace = Workspace::create()?;
    let sources = pictures::all(&workspace.dir)?;
    let programs = Program::all(&options.servers, &workspace.dir)?;
    let mut verdicts = verdicts::Verdicts::default();
    for case in options
        .cases
        .iter()
        .filter(|case| !["served", "busy"].contains(&case.as_str()))
    {
        let side: u32 = case.parse().context("a size")?;
        println!("| picture to {side} | program | ms | of vips | memory MB | bytes | unlikeness |");
        println!("| --- | --- | ---: | ---: | ---: | ---: | ---: |");
        for source in &sources {
            let rows = measure(source, side, &programs, options.rounds, &workspace.dir)
                .with_context(|| source.name.clone())?;
            print_rows(source, &rows);
            verdicts.add(source, side, &rows);
        }
        println!();
    }
    if options.case("served") {
        served::run(options, &sources, &workspace.dir, &mut verdicts)?;
    }
    if options.case("busy") {
        busy::run(options, &sources, &workspace.dir, &mut verdicts)?;
    }
    verdicts.print();
    Ok(())
}

/// The programs take turns; every other round in reverse.
fn measure(
    source: &Source,
    side: u32,
    programs: &[Program],
    rounds: usize,
    dir: &Path,
) -> Result<Vec<Row>> {
    let reference = Reference::of(&source.path)?;
    let mut rows: Vec<Row> = programs
        .iter()
        .filter(|program| program.takes(source))
        .map(|program| Row {
            program: program.name.clone(),
            runs: Vec::new(),
            unlikeness: 0.0,
        })
        .collect();
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..rows.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for at in order {
            let row = &mut rows[at];
            let program = programs.iter().find(|program| program.name == row.program);
            let program = program.context("a program")?;
            let out = dir.join(format!("made-{}.{}", program.name, source.kind()));
            row.runs
                .push(program.run(&source.path, side, QUALITY, TIMES, &out)?);
            if round == 0 {
                row.unlikeness = reference.unlikeness(&out)?;
            }
        }
    }
    Ok(rows)
}

/// The median over the rounds of a row's time as a part of another's in the same round.
fn ratio(row: &Row, other: &Row) -> f64 {
    let pairs = row.ns().into_iter().zip(other.ns());
    let mut ratios: Vec<f64> = pairs
        .map(|(own, other)| own as f64 / other.max(1) as f64)
        .collect();
    ratios.sort_by(f64::total_cmp);
    ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN)
}

fn print_rows(source: &Source, rows: &[Row]) {
    let vips = rows.iter().find(|row| row.program == "vips");
    for row in rows {
        let mut times = row.ns();
        times.sort_unstable();
        let median = times.get(times.len() / 2).copied().unwrap_or(0);
        let of_vips = vips.map_or("-".to_owned(), |vips| format!("{:.2}", ratio(row, vips)));
        println!(
            "| {} | {} | {:.1} | {of_vips} | {:.1} | {} | {:.5} |",
            source.name,
            row.program,
            median as f64 / 1e6,
            row.memory_kb() as f64 / 1024.0,
            row.bytes(),
            row.unlikeness,
        );
    }
}
