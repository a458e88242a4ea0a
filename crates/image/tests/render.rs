//! Pictures made by plans: every format to every format, sizes, turns.

use image::{Error, Format, Limits, Output, Plan, Resampling, Rotation, Step, probe, render};

/// A PNG with a gradient, made by the library that reads it, and turned into `format`.
fn source(format: Format, width: u32, height: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header().expect("a header");
    let pixel = |at: u32| {
        [
            (at % width * 255 / width) as u8,
            (at / width * 255 / height) as u8,
            60,
        ]
    };
    let data: Vec<u8> = (0..width * height).flat_map(pixel).collect();
    writer.write_image_data(&data).expect("pixels");
    writer.finish().expect("an end");
    let plan = plan(format, vec![]);
    render(&bytes, &plan, &Limits::default())
        .expect("a picture")
        .bytes
}

fn plan(format: Format, steps: Vec<Step>) -> Plan {
    Plan {
        steps,
        animation: false,
        output: Output::new(format),
    }
}

fn resize(width: u32, height: u32) -> Step {
    Step::Resize {
        width,
        height,
        resampling: Resampling::Best,
    }
}

const FORMATS: [Format; 4] = [Format::Jpeg, Format::Png, Format::Gif, Format::Webp];

#[test]
fn every_format_becomes_every_format() {
    for from in FORMATS {
        let bytes = source(from, 120, 80);
        assert_eq!(probe(&bytes).expect("facts").format, from);
        for to in FORMATS {
            let steps = vec![resize(30, 20), Step::Rotate(Rotation::Quarter)];
            let picture = render(&bytes, &plan(to, steps), &Limits::default()).expect("a picture");
            let facts = probe(&picture.bytes).expect("facts");
            assert_eq!(
                (facts.format, facts.width, facts.height),
                (to, 20, 30),
                "{from:?} {to:?}"
            );
            assert_eq!((picture.width, picture.height), (20, 30));
        }
    }
}

#[test]
fn every_beginning_of_a_file_is_refused_or_taken() {
    for format in FORMATS {
        let bytes = source(format, 40, 30);
        for end in (0..bytes.len()).step_by(7) {
            let _ = render(
                &bytes[..end],
                &plan(Format::Png, vec![resize(5, 5)]),
                &Limits::default(),
            );
        }
    }
}

#[test]
fn limits_are_told_by_name() {
    let bytes = source(Format::Jpeg, 120, 80);
    let steps = || vec![resize(30, 20)];
    let small = |change: fn(&mut Limits)| {
        let mut limits = Limits::default();
        change(&mut limits);
        match render(&bytes, &plan(Format::Jpeg, steps()), &limits) {
            Err(Error::TooLarge { what, .. }) => what,
            Err(Error::Timeout) => "deadline",
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(small(|limits| limits.source_bytes = 10), "source_bytes");
    assert_eq!(small(|limits| limits.pixels = 10), "pixels");
    assert_eq!(small(|limits| limits.output_pixels = 10), "output_pixels");
    assert_eq!(small(|limits| limits.memory = 10), "memory");
    assert_eq!(
        small(|limits| limits.deadline = std::time::Duration::ZERO),
        "deadline"
    );
}

#[test]
fn a_jpeg_is_made_to_fit() {
    let picture = source(Format::Png, 200, 150);
    let bytes = |max_bytes| {
        let mut plan = plan(Format::Jpeg, vec![]);
        plan.output.max_bytes = max_bytes;
        let made = render(&picture, &plan, &Limits::default()).expect("a picture");
        assert_eq!((made.width, made.height), (200, 150));
        made.bytes.len() as u64
    };
    let free = bytes(None);
    assert_eq!(bytes(Some(free)), free);
    let most = free * 3 / 4;
    let fitting = bytes(Some(most));
    assert!(fitting <= most && fitting * 2 > most, "{free} {fitting}");
    // What cannot fit is as small as it gets.
    let least = bytes(Some(1));
    assert!(least < fitting, "{least} {fitting}");
    assert_eq!(bytes(Some(10)), least);
}
