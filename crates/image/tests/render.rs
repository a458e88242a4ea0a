//! Pictures made by plans: every format to every format, sizes, turns.

use image::{
    Aids, Error, Format, Limits, Output, Plan, Quality, Resampling, Rotation, Step, probe, render,
    render_with,
};

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

#[test]
fn a_picture_of_a_master_is_like_one_of_its_source() {
    // Odd sides, of which an eighth is no whole number of pixels.
    let bytes = source(Format::Jpeg, 803, 605);
    let made = |plan: &Plan, aids: Aids<'_>| {
        render_with(&bytes, plan, &Limits::default(), aids).expect("a picture")
    };
    let wants = Aids {
        wants_master: true,
        ..Aids::default()
    };
    let first = made(&plan(Format::Jpeg, vec![resize(160, 120)]), wants);
    let master = first.master.expect("a master");
    assert!(master.scale < 8, "{}", master.scale);
    let with = Aids {
        master: Some(&master),
        wants_master: true,
        ..Aids::default()
    };
    let crop = Step::Crop {
        from: image::Crop::At { x: 100, y: 50 },
        width: 400,
        height: 300,
    };
    for steps in [
        vec![resize(80, 60)],
        vec![Step::Rotate(Rotation::Quarter), resize(60, 80)],
        vec![crop, resize(40, 30)],
    ] {
        let plan = plan(Format::Png, steps);
        let (own, of_master) = (made(&plan, Aids::default()), made(&plan, with));
        assert_eq!(of_master.master, None);
        let (own, of_master) = (pixels(&own.picture.bytes), pixels(&of_master.picture.bytes));
        assert_eq!(own.len(), of_master.len());
        let pairs = own.iter().zip(&of_master);
        let most = pairs.map(|(one, other)| one.abs_diff(*other)).max();
        assert!(most <= Some(6), "{plan:?}: {most:?}");
    }
    // A larger one needs the source, and leaves a larger master.
    let larger = made(&plan(Format::Jpeg, vec![resize(260, 196)]), with);
    assert!(larger.master.expect("a master").scale > master.scale);
}

#[test]
fn pictures_that_are_no_jpeg_have_masters_too() {
    for format in [Format::Png, Format::Webp] {
        let bytes = source(format, 805, 603);
        let made = |steps: Vec<Step>, aids: Aids<'_>| {
            let plan = plan(Format::Png, steps);
            render_with(&bytes, &plan, &Limits::default(), aids).expect("a picture")
        };
        let wants = Aids {
            wants_master: true,
            ..Aids::default()
        };
        let first = made(vec![resize(160, 120)], wants);
        let master = first.master.expect("a master");
        assert_eq!(probe(&master.bytes).expect("facts").format, Format::Png);
        let with = Aids {
            master: Some(&master),
            ..wants
        };
        let same = made(vec![resize(160, 120)], with);
        assert!(same.master.is_none() && same.picture == first.picture);
        let crop = Step::Crop {
            from: image::Crop::At { x: 101, y: 50 },
            width: 400,
            height: 300,
        };
        for steps in [
            vec![Step::Rotate(Rotation::Quarter), resize(60, 80)],
            vec![crop, resize(40, 30)],
        ] {
            let own = pixels(&made(steps.clone(), Aids::default()).picture.bytes);
            let of_master = pixels(&made(steps, with).picture.bytes);
            let pairs = own.iter().zip(&of_master);
            let most = pairs.map(|(one, other)| one.abs_diff(*other)).max();
            assert!(own.len() == of_master.len() && most <= Some(3), "{most:?}");
        }
        // A larger one needs more of the source, and leaves a larger master.
        assert!(made(vec![resize(260, 195)], with).master.is_some());
        let none = made(vec![resize(700, 500)], wants);
        assert!(none.master.is_none(), "of what is hardly smaller");
    }
}

#[test]
fn decoders_stop_when_the_time_is_over() {
    // What a decoder does beyond the first bytes takes longer than this.
    let limits = Limits {
        deadline: std::time::Duration::from_millis(1),
        ..Limits::default()
    };
    for format in [Format::Png, Format::Gif] {
        let bytes = source(format, 2000, 1500);
        let made = render(&bytes, &plan(Format::Png, vec![resize(30, 20)]), &limits);
        assert_eq!(made, Err(Error::Timeout), "{format:?}");
    }
}

fn pixels(png: &[u8]) -> Vec<u8> {
    let mut reader = png::Decoder::new(std::io::Cursor::new(png))
        .read_info()
        .expect("a PNG");
    let mut data = vec![0; reader.output_buffer_size().expect("a size")];
    reader.next_frame(&mut data).expect("pixels");
    data
}

#[test]
fn quality_is_found_by_looking() {
    let picture = source(Format::Png, 200, 150);
    let bytes = |quality| {
        let mut plan = plan(Format::Jpeg, vec![]);
        plan.output.quality = quality;
        let made = render(&picture, &plan, &Limits::default()).expect("a picture");
        made.bytes.len()
    };
    let (auto, best) = (bytes(Quality::Auto), bytes(Quality::Percent(95)));
    assert!(
        auto < best && auto >= bytes(Quality::Percent(40)),
        "{auto} {best}"
    );
}

#[test]
fn transparency_of_a_palette_goes_where_it_is_not_wanted() {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, 8, 8);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_palette(vec![200, 100, 50, 1, 2, 3]);
    encoder.set_trns(vec![0]);
    let mut writer = encoder.write_header().expect("a header");
    writer.write_image_data(&[0; 64]).expect("pixels");
    writer.finish().expect("an end");
    let made = |opaque| {
        let mut plan = plan(Format::Png, vec![resize(4, 4)]);
        plan.output.opaque = opaque;
        let made = render(&bytes, &plan, &Limits::default()).expect("a picture");
        pixels(&made.bytes)
    };
    assert_eq!(made(true), [200, 100, 50].repeat(16));
    let kept = made(false);
    assert!(kept.len() == 64 && kept.chunks(4).all(|pixel| pixel[3] == 0));
}
