//! Our JPEG decoder beside zune-jpeg, on files of every kind that it takes and some that it does not.

use image::{Error, Format, Limits, Model, Output, Plan, Quality, Resampling, Step, probe, render};
use std::io::Cursor;

/// zune-jpeg does not read scans of one channel each in a baseline file as others do.
const ALONE: &str = "separate_scans";

const NAMES: [&str; 13] = [
    "baseline_411",
    "baseline_420",
    "baseline_440",
    "cmyk",
    "grey",
    "optimised_444",
    "progressive_420",
    "progressive_grey",
    "progressive_restarts_444",
    "restarts_422",
    "rgb",
    "separate_scans",
    "ycck",
];

fn file(name: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pictures/");
    std::fs::read(format!("{folder}{name}.jpg")).expect("a picture of the tests")
}

fn to_png(bytes: &[u8], steps: Vec<Step>) -> Result<Vec<u8>, Error> {
    let plan = Plan {
        steps,
        animation: false,
        output: Output::new(Format::Png),
    };
    render(bytes, &plan, &Limits::default()).map(|picture| picture.bytes)
}

/// A PNG's pixels, and how many bytes one has.
fn pixels(png: &[u8]) -> (Vec<u8>, usize) {
    let mut reader = png::Decoder::new(Cursor::new(png))
        .read_info()
        .expect("a PNG");
    let mut data = vec![0; reader.output_buffer_size().expect("a size")];
    let info = reader.next_frame(&mut data).expect("pixels");
    (data, info.color_type.samples())
}

fn zune(bytes: &[u8], channels: usize) -> Vec<u8> {
    use zune_core::colorspace::ColorSpace;
    let colours = if channels == 1 {
        ColorSpace::Luma
    } else {
        ColorSpace::RGB
    };
    let options = zune_core::options::DecoderOptions::default().jpeg_set_out_colorspace(colours);
    let source = zune_core::bytestream::ZCursor::new(bytes);
    let mut decoder = zune_jpeg::JpegDecoder::new_with_options(source, options);
    decoder.decode().expect("a JPEG")
}

/// The mean difference of two pictures.
fn difference(one: &[u8], other: &[u8]) -> f64 {
    assert_eq!(one.len(), other.len());
    let sum: u64 = one
        .iter()
        .zip(other)
        .map(|(a, b)| u64::from(a.abs_diff(*b)))
        .sum();
    sum as f64 / one.len() as f64
}

#[test]
fn whole_pictures_are_as_zune_jpeg_reads_them() {
    for name in NAMES.into_iter().filter(|name| *name != ALONE) {
        let bytes = file(name);
        let (ours, channels) = pixels(&to_png(&bytes, vec![]).expect(name));
        let found = difference(&ours, &zune(&bytes, channels));
        // Where colour is drawn out, each does it in its own way.
        let allowed = match name {
            "baseline_411" => 5.0,
            _ if name.contains("444") || name.contains("grey") => 0.6,
            "rgb" | "cmyk" => 0.6,
            _ => 2.5,
        };
        assert!(found < allowed, "{name}: {found}");
    }
}

#[test]
fn scans_of_one_channel_each_give_the_same_picture() {
    let pixels_of = |name| pixels(&to_png(&file(name), vec![]).expect(name));
    assert!(pixels_of(ALONE) == pixels_of("baseline_420"));
}

#[test]
fn pictures_at_a_part_of_their_size_look_like_whole_ones_made_smaller() {
    for name in NAMES {
        let bytes = file(name);
        let whole = to_png(&bytes, vec![]).expect(name);
        for (width, height) in [(42, 31), (28, 20), (20, 15), (13, 10), (7, 5)] {
            let steps = vec![Step::Resize {
                width,
                height,
                resampling: Resampling::Best,
            }];
            let (ours, _) = pixels(&to_png(&bytes, steps.clone()).expect(name));
            let (wanted, _) = pixels(&to_png(&whole, steps).expect(name));
            let found = difference(&ours, &wanted);
            // Edges of colour are blurred where there is little of it.
            let full = name.contains("444") || ["grey", "rgb"].contains(&name);
            let allowed = if full { 5.0 } else { 15.0 };
            assert!(found < allowed, "{name} at {width}: {found}");
        }
    }
}

#[test]
fn what_is_not_taken_falls_back_or_is_refused() {
    assert!(to_png(&file("arithmetic"), vec![]).is_err());
}

#[test]
fn four_inks_stay_where_they_are_kept() {
    for name in ["cmyk", "ycck"] {
        for progressive in [false, true] {
            let steps = vec![Step::Resize {
                width: 41,
                height: 30,
                resampling: Resampling::Best,
            }];
            let mut output = Output::new(Format::Jpeg);
            output.progressive = progressive;
            let mut plan = Plan {
                steps: steps.clone(),
                animation: false,
                output,
            };
            let model = |plan: &Plan| {
                let made = render(&file(name), plan, &Limits::default()).expect(name);
                let facts = probe(&made.bytes).expect(name);
                assert_eq!((facts.width, facts.height), (41, 30));
                (facts.model, made.bytes)
            };
            assert_eq!(model(&plan).0, Model::Colour, "{name}");
            plan.output.keeps_inks = true;
            plan.output.quality = Quality::Percent(95);
            let (kept, bytes) = model(&plan);
            assert_eq!(kept, Model::Cmyk, "{name}");
            // And they are the same colours, for others too.
            let (wanted, channels) = pixels(&to_png(&file(name), steps).expect(name));
            let found = difference(&zune(&bytes, channels), &wanted);
            assert!(found < 6.0, "{name}: {found}");
            plan.steps.push(Step::Blur {
                radius: 0.0,
                sigma: 1.0,
            });
            assert_eq!(model(&plan).0, Model::Colour, "{name} with an effect");
        }
    }
}

#[test]
fn truncated_files_are_refused_unless_hardly_anything_is_missing() {
    for name in NAMES {
        let bytes = file(name);
        let facts = probe(&bytes).expect(name);
        assert_eq!((facts.width, facts.height), (83, 61));
        assert!(
            to_png(&bytes[..bytes.len() - 2], vec![]).is_ok(),
            "{name} without its end"
        );
        if !name.contains("progressive") && name != "rgb" {
            assert!(
                to_png(&bytes[..bytes.len() / 2], vec![]).is_err(),
                "half of {name}"
            );
        }
        for end in (0..bytes.len()).step_by(5) {
            let _ = to_png(&bytes[..end], vec![]);
        }
    }
}

#[test]
fn broken_bytes_break_nothing() {
    let mut state = 9u32;
    for name in NAMES {
        let bytes = file(name);
        for _ in 0..60 {
            let mut broken = bytes.clone();
            for _ in 0..3 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let at = (state >> 8) as usize % broken.len();
                broken[at] = state as u8;
            }
            let small = vec![Step::Resize {
                width: 9,
                height: 9,
                resampling: Resampling::Best,
            }];
            let limits = Limits {
                pixels: 1_000_000,
                ..Limits::default()
            };
            let plan = Plan {
                steps: small,
                animation: false,
                output: Output::new(Format::Jpeg),
            };
            let _ = render(&broken, &plan, &limits);
        }
    }
}
