//! Pictures beside those of ImageMagick, GD and Imlib2, called as small_light calls them: the same sides, and pixels that differ
//! by no more than is stated here. The programs are those of the bench; a library that is not installed is left out, by name.

use super::parameters::{Pixels, written};
use super::start;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The engine, its program, its package, and the most mean and single difference of 255 steps.
const PEERS: [(&str, &str, &str, f64, u8); 3] = [
    (
        "imagemagick",
        include_str!("../../bench/src/images/peers/magick.c"),
        "MagickWand",
        1.0,
        16,
    ),
    (
        "gd",
        include_str!("../../bench/src/images/peers/gd.c"),
        "gdlib",
        1.5,
        16,
    ),
    (
        "imlib2",
        include_str!("../../bench/src/images/peers/imlib2.c"),
        "imlib2",
        4.0,
        60,
    ),
];
const COMMON: &str = include_str!("../../bench/src/images/peers/common.h");

/// Slopes, waves and edges.
fn drawn() -> Vec<u8> {
    written(300, 200, &|at| {
        let (x, y) = (at % 300, at / 300);
        let wave = ((f64::from(x) / 9.0).sin() * (f64::from(y) / 13.0).cos() * 60.0) as i32;
        let block = if (x / 50 + y / 40) % 2 == 0 { 40 } else { 0 };
        let value = |base: u32| (base as i32 + wave + block).clamp(0, 255) as u8;
        [value(60 + x / 3), value(60 + y / 2), value(180 - x / 4)]
    })
}

/// The program, compiled; none where the library or a compiler is missing.
fn compiled(
    name: &str,
    source: &str,
    package: &str,
    directory: &Path,
) -> Option<std::path::PathBuf> {
    let flags = Command::new("pkg-config")
        .args(["--cflags", "--libs", package])
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let flags = String::from_utf8(flags.stdout).ok()?;
    let (file, program) = (directory.join("peer.c"), directory.join(name));
    fs::write(directory.join("common.h"), COMMON).unwrap();
    fs::write(&file, source).unwrap();
    let status = Command::new("cc")
        .args(["-O1", "-DPLAIN", "-o"])
        .arg(&program)
        .arg(&file)
        .args(flags.split_whitespace())
        .status()
        .ok()?;
    status.success().then_some(program)
}

#[test]
fn pictures_are_like_those_of_the_libraries_that_engines_are_named_after() {
    let running = start("", |root| fs::write(root.join("a.png"), drawn()).unwrap());
    let directory = running.directory.path();
    for (engine, source, package, mean_most, most) in PEERS {
        let Some(program) = compiled(engine, source, package, directory) else {
            println!("skipped: {engine} is not installed for programs in C");
            continue;
        };
        for side in [150, 97, 40] {
            let out = directory.join("made.png");
            let status = Command::new(&program)
                .arg(directory.join("html/a.png"))
                .args([&side.to_string(), "95", "1"])
                .arg(&out)
                .env("MAGICK_THREAD_LIMIT", "1")
                .output()
                .unwrap()
                .status;
            assert!(status.success(), "{engine}");
            let theirs = Pixels::of(&fs::read(&out).unwrap());
            let path = format!("/small_light(dw={side},dh={side},e={engine})/a.png");
            let ours = Pixels::of(&running.get(&path, "").body);
            assert_eq!(ours.sides, theirs.sides, "{engine} {side}");
            let places = (0..ours.sides.1).flat_map(|y| (0..ours.sides.0).map(move |x| (x, y)));
            let differences: Vec<u8> = places
                .flat_map(|place| {
                    let pairs = ours.at(place).into_iter().zip(theirs.at(place));
                    pairs
                        .map(|(one, other)| one.abs_diff(other))
                        .collect::<Vec<u8>>()
                })
                .collect();
            let sum: f64 = differences.iter().map(|far| f64::from(*far)).sum();
            let mean = sum / differences.len() as f64;
            let worst = differences.into_iter().max().unwrap_or(0);
            assert!(
                mean <= mean_most && worst <= most,
                "{engine} at {side}: {mean:.2} on average, {worst} at most"
            );
        }
    }
}
