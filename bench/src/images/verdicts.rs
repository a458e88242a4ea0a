//! What Gannet has to reach with pictures, and whether it did.

use super::pictures::Source;
use super::{Row, ratio};

/// Name of the other, the picture's kind, its side (0: any), and the most of the other's time.
const TIMES: [(&str, Kind, u32, f64); 6] = [
    ("vips", Kind::Baseline, 250, 0.65),
    ("vips", Kind::Progressive, 250, 0.15),
    ("vips", Kind::Jpeg, 1000, 0.65),
    ("vips", Kind::Png, 250, 0.60),
    ("magick-hint", Kind::Jpeg, 250, 0.65),
    ("magick-hint", Kind::Jpeg, 1000, 0.40),
];
const UNLIKENESS: f64 = 0.0006;
const BYTES_OF_VIPS: f64 = 1.02;
/// A second size of a picture, of the first one's time.
const SECOND: f64 = 0.35;
/// A picture that was made before costs what a file does, or a tenth more.
const AGAIN: f64 = 1.1;
/// Milliseconds that static requests may take longer while pictures are made.
const BUSY_MS: f64 = 2.0;
/// A small output has the greater share of what no decoder can save.
const SOURCE_MIN: u64 = 1_000_000;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Jpeg,
    Baseline,
    Progressive,
    Png,
}

impl Kind {
    fn holds(self, source: &Source) -> bool {
        let jpeg = source.kind() == "jpg";
        match self {
            Kind::Jpeg => jpeg,
            Kind::Baseline => jpeg && !source.progressive,
            Kind::Progressive => source.progressive,
            Kind::Png => source.kind() == "png",
        }
    }
}

/// Lines of the table at the end.
#[derive(Default)]
pub struct Verdicts(Vec<String>);

impl Verdicts {
    pub fn add(&mut self, source: &Source, side: u32, rows: &[Row]) {
        let find = |name: &str| rows.iter().find(|row| row.program == name);
        let Some(own) = find("gannet") else { return };
        let small = std::fs::metadata(&source.path).is_ok_and(|file| file.len() < SOURCE_MIN);
        for (name, kind, wanted, most) in TIMES {
            if let (Some(other), true) =
                (find(name), kind.holds(source) && side == wanted && !small)
            {
                self.line(
                    &source.name,
                    side,
                    &format!("time of {name}"),
                    ratio(own, other),
                    most,
                );
            }
        }
        if let Some(vips) = find("vips") {
            let memory = own.memory_kb() as f64 / vips.memory_kb().max(1) as f64;
            self.line(&source.name, side, "memory of vips", memory, 1.0);
            let bytes = own.bytes() as f64 / vips.bytes().max(1) as f64;
            self.line(&source.name, side, "bytes of vips", bytes, BYTES_OF_VIPS);
            // Where the format itself loses more, nothing better than the library's can be asked for.
            let most = UNLIKENESS.max(vips.unlikeness);
            self.line(&source.name, side, "unlikeness", own.unlikeness, most);
        }
    }

    /// The time of a second size through the server, of the first one's.
    pub fn add_second(&mut self, source: &Source, of_first: f64) {
        self.line(&source.name, 250, "time of a first size", of_first, SECOND);
    }

    /// The time of a picture that was made before, of a file's.
    pub fn add_again(&mut self, source: &Source, of_file: f64) {
        self.line(
            &source.name,
            250,
            "cost of a file, made before",
            of_file,
            AGAIN,
        );
    }

    /// How much longer the slowest hundredth of static requests takes while pictures are made, in milliseconds.
    pub fn add_busy(&mut self, source: &Source, more_ms: f64) {
        self.line(
            &source.name,
            0,
            "ms more at p99 of a static file",
            more_ms,
            BUSY_MS,
        );
    }

    fn line(&mut self, name: &str, side: u32, what: &str, found: f64, most: f64) {
        let verdict = if found <= most { "met" } else { "MISSED" };
        self.0.push(format!(
            "| {name} | {side} | {what} | {found:.4} | {most} | {verdict} |"
        ));
    }

    pub fn print(&self) {
        println!("| picture | size | of what | found | at most | |");
        println!("| --- | ---: | --- | ---: | ---: | --- |");
        self.0.iter().for_each(|line| println!("{line}"));
    }
}
