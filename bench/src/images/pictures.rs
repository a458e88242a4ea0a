//! The pictures that are measured: drawn from a seed, or those of `GANNET_BENCH_PICTURES`.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Width and height of what is drawn: 1, 4, 12 and 24 million pixels.
const SIZES: [(u32, u32, u32); 4] = [
    (1, 1200, 900),
    (4, 2400, 1800),
    (12, 4000, 3000),
    (24, 6000, 4000),
];
/// File name, and what ImageMagick is told.
const FORMS: [(&str, &[&str]); 4] = [
    (
        "baseline.jpg",
        &["-quality", "90", "-sampling-factor", "2x2"],
    ),
    (
        "progressive.jpg",
        &[
            "-quality",
            "90",
            "-sampling-factor",
            "2x2",
            "-interlace",
            "JPEG",
        ],
    ),
    ("png", &[]),
    ("webp", &["-quality", "80"]),
];

/// A picture.
pub struct Source {
    pub name: String,
    pub path: PathBuf,
    /// A JPEG in several scans.
    pub progressive: bool,
}

impl Source {
    fn new(path: PathBuf) -> Result<Source> {
        let bytes = fs::read(&path)?;
        let name = path.file_name().context("a name")?;
        Ok(Source {
            name: name.to_string_lossy().into_owned(),
            progressive: bytes.starts_with(&[0xff, 0xd8]) && is_progressive(&bytes),
            path,
        })
    }

    /// Its name's end.
    pub fn kind(&self) -> &str {
        self.name.rsplit_once('.').map_or("", |(_, kind)| kind)
    }
}

/// Whether the first frame header is a progressive one.
fn is_progressive(bytes: &[u8]) -> bool {
    let mut at = 2;
    while let Some(&[0xff, marker, high, low]) = bytes.get(at..at + 4) {
        match marker {
            0xc2 => return true,
            0xc0 | 0xc1 | 0xda => return false,
            _ => at += 2 + usize::from(u16::from_be_bytes([high, low])),
        }
    }
    false
}

/// In the order of their names.
pub fn all(dir: &Path) -> Result<Vec<Source>> {
    if let Some(own) = std::env::var_os("GANNET_BENCH_PICTURES") {
        let mut paths = Vec::new();
        for entry in fs::read_dir(own)? {
            let path = entry?.path();
            let kind = path
                .extension()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if ["jpg", "png", "webp"].contains(&kind.as_str()) {
                paths.push(path);
            }
        }
        paths.sort();
        return paths.into_iter().map(Source::new).collect();
    }
    let mut sources = Vec::new();
    for (millions, width, height) in SIZES {
        let plain = dir.join("drawn.ppm");
        draw(&plain, width, height)?;
        for (end, options) in FORMS {
            let path = dir.join(
                format!("{millions}mp-{end}")
                    .replace("mp-png", "mp.png")
                    .replace("mp-webp", "mp.webp"),
            );
            let converted = Command::new("convert")
                .arg(&plain)
                .args(options)
                .arg(&path)
                .status();
            let converted = converted.context(
                "ImageMagick's convert draws the pictures, unless GANNET_BENCH_PICTURES names a directory of them",
            )?;
            ensure!(
                converted.success(),
                "convert could not write {}",
                path.display()
            );
            sources.push(Source::new(path)?);
        }
        fs::remove_file(plain)?;
    }
    Ok(sources)
}

/// Clouds of all sizes, edges, and the grain of a sensor: about what a photograph is to a codec.
fn draw(path: &Path, width: u32, height: u32) -> Result<()> {
    let mut out = BufWriter::new(fs::File::create(path)?);
    write!(out, "P6\n{width} {height}\n255\n")?;
    let mut row = Vec::with_capacity(width as usize * 3);
    for y in 0..height {
        row.clear();
        for x in 0..width {
            // Of the picture's width, so that all sizes show the same.
            let (across, down) = (x as f32 / width as f32, y as f32 / width as f32);
            let clouds = |seed: u32| {
                (0..9).fold(0.0, |sum, octave| {
                    let scale = (4 << octave) as f32;
                    sum + noise(across * scale, down * scale, seed + octave)
                        / (1.6f32).powi(octave as i32)
                })
            };
            let light = clouds(1);
            let shape = if clouds(40).sin() * 4.0 > light {
                38.0
            } else {
                -24.0
            };
            let grain = (hash(x, y, 99) & 7) as f32 - 3.5;
            let tint = noise(across * 9.0, down * 9.0, 70) * 26.0;
            let base = 122.0 + light * 46.0 + shape + grain;
            row.extend(
                [base + tint, base, base - tint * 0.8].map(|value| value.clamp(0.0, 255.0) as u8),
            );
        }
        out.write_all(&row)?;
    }
    Ok(out.flush()?)
}

fn hash(x: u32, y: u32, seed: u32) -> u32 {
    let mut value =
        x.wrapping_mul(0x9e37_79b1) ^ y.wrapping_mul(0x85eb_ca77) ^ seed.wrapping_mul(0xc2b2_ae3d);
    value = (value ^ value >> 15).wrapping_mul(0x2c1b_3c6d);
    value ^ value >> 13
}

/// Between -1 and 1, smooth between whole places.
fn noise(x: f32, y: f32, seed: u32) -> f32 {
    let at = |x: u32, y: u32| (hash(x, y, seed) & 0xffff) as f32 / 32_768.0 - 1.0;
    let (left, top) = (x as u32, y as u32);
    let smooth = |part: f32| part * part * (3.0 - 2.0 * part);
    let (across, down) = (smooth(x.fract()), smooth(y.fract()));
    let mix = |one: f32, other: f32, part: f32| one + (other - one) * part;
    let above = mix(at(left, top), at(left + 1, top), across);
    let below = mix(at(left, top + 1), at(left + 1, top + 1), across);
    mix(above, below, down)
}
