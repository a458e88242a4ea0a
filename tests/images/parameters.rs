//! Every parameter of small_light's by itself: the sides of what comes of it, and the colour of some of its pixels.

use super::{Running, start};
use std::fs;

/// Sides of the source, whose quarters have a colour each.
const SIDES: (u32, u32) = (40, 20);
const RED: [u8; 3] = [170, 80, 80];
const GREEN: [u8; 3] = [80, 170, 80];
const BLUE: [u8; 3] = [80, 80, 170];
const GREY: [u8; 3] = [170, 170, 170];
const BLACK: [u8; 3] = [0, 0, 0];
const PINK: [u8; 3] = [255, 0, 255];

/// Of small_light's, as they stand in a URL, the sides of the result, and colours by their places.
type Row = (&'static str, (u32, u32), &'static [((u32, u32), [u8; 3])]);

#[rustfmt::skip]
const TABLE: &[Row] = &[
    ("p=half", (20, 10), &[((0, 0), RED), ((19, 9), GREY)]),
    ("dw=20", (20, 10), &[((0, 9), BLUE), ((19, 0), GREEN)]),
    ("dh=5", (10, 5), &[((0, 0), RED)]),
    ("dw=10,dh=10,da=l", (10, 5), &[((9, 4), GREY)]),
    ("dw=10,dh=10,da=s", (20, 10), &[((19, 9), GREY)]),
    ("dw=10,dh=10,da=n", (10, 10), &[((0, 9), BLUE)]),
    ("dw=80", (40, 20), &[]),
    ("dw=80,ds=s", (80, 40), &[((0, 0), RED), ((79, 39), GREY)]),
    ("sx=20,sw=20,dw=10,ds=s", (10, 10), &[((0, 0), GREEN), ((0, 9), GREY)]),
    ("sy=10,sh=10,dw=20,ds=s", (20, 5), &[((0, 0), BLUE), ((19, 0), GREY)]),
    ("sx=50p,sy=50p,sw=50p,sh=50p,dw=10,ds=s", (10, 5), &[((0, 0), GREY)]),
    ("dw=20,cw=30,ch=20,cc=ff00ff", (30, 20), &[((4, 5), PINK), ((5, 5), RED), ((24, 14), GREY), ((25, 15), PINK)]),
    ("dw=20,cw=30,ch=20,cc=ff00ff,dx=2,dy=3", (30, 20), &[((1, 3), PINK), ((2, 3), RED), ((21, 12), GREY), ((22, 12), PINK)]),
    ("cw=20,ch=10", (20, 10), &[((0, 0), RED), ((19, 0), GREEN), ((0, 9), BLUE), ((19, 9), GREY)]),
    ("dw=20,bw=2,bh=1,bc=ff00ff", (20, 10), &[((1, 5), PINK), ((5, 0), PINK), ((2, 1), RED), ((17, 8), GREY), ((18, 9), PINK)]),
    ("angle=90", (20, 40), &[((0, 0), BLUE), ((19, 0), RED), ((19, 39), GREEN)]),
    ("angle=180", (40, 20), &[((0, 0), GREY), ((39, 19), RED)]),
    ("angle=270", (20, 40), &[((0, 0), GREEN), ((19, 0), GREY)]),
    ("embedicon=icon.png,ix=10,iy=5", (40, 20), &[((9, 5), RED), ((10, 5), BLACK), ((13, 8), BLACK), ((14, 8), RED)]),
    ("e=gd,dw=20", (20, 10), &[((0, 0), RED), ((19, 9), GREY)]),
    ("e=imlib2,dw=20", (20, 10), &[((0, 0), RED), ((19, 9), GREY)]),
];

/// A PNG of four quarters.
fn quarters() -> Vec<u8> {
    let (width, height) = SIDES;
    let pixel = |at: u32| match (at % width < width / 2, at / width < height / 2) {
        (true, true) => RED,
        (false, true) => GREEN,
        (true, false) => BLUE,
        (false, false) => GREY,
    };
    written(width, height, &|at| pixel(at))
}

pub fn written(width: u32, height: u32, pixel: &dyn Fn(u32) -> [u8; 3]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header().unwrap();
    let pixels: Vec<u8> = (0..width * height).flat_map(pixel).collect();
    writer.write_image_data(&pixels).unwrap();
    writer.finish().unwrap();
    bytes
}

/// Sides and pixels of a PNG.
pub struct Pixels {
    pub sides: (u32, u32),
    channels: usize,
    data: Vec<u8>,
}

impl Pixels {
    pub fn of(png: &[u8]) -> Pixels {
        let mut reader = png::Decoder::new(std::io::Cursor::new(png))
            .read_info()
            .unwrap();
        let mut data = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut data).unwrap();
        Pixels {
            sides: (info.width, info.height),
            channels: info.color_type.samples(),
            data,
        }
    }

    pub fn at(&self, (x, y): (u32, u32)) -> [u8; 3] {
        let at = (y * self.sides.0 + x) as usize * self.channels;
        self.data[at..at + 3].try_into().unwrap()
    }
}

const CMYK: &[u8] = include_bytes!("../../crates/image/tests/pictures/cmyk.jpg");
/// 43 pixels across, 64 down, and to be turned; with EXIF, which says so.
const TURNED: &[u8] = include_bytes!("../cases/image/small_light_sizes/files/turned.jpg");

fn running() -> Running {
    let inside = "small_light_pattern_define half dw=20; small_light_material_dir html;";
    start(inside, |root| {
        fs::write(root.join("a.png"), quarters()).unwrap();
        fs::write(root.join("icon.png"), written(4, 4, &|_| BLACK)).unwrap();
        fs::write(root.join("cmyk.jpg"), CMYK).unwrap();
        fs::write(root.join("turned.jpg"), TURNED).unwrap();
    })
}

impl Running {
    fn made(&self, parameters: &str, name: &str) -> Vec<u8> {
        let reply = self.get(&format!("/small_light({parameters})/{name}"), "");
        assert_eq!(reply.status(), 200, "{parameters}");
        reply.body
    }
}

#[test]
fn sizes_places_and_colours() {
    let running = running();
    for (parameters, sides, colours) in TABLE {
        let pixels = Pixels::of(&running.made(parameters, "a.png"));
        assert_eq!(pixels.sides, *sides, "{parameters}");
        for (place, wanted) in *colours {
            let found = pixels.at(*place);
            let far = found.iter().zip(wanted).map(|(a, b)| a.abs_diff(*b)).max();
            assert!(far <= Some(12), "{parameters} at {place:?}: {found:?}");
        }
    }
}

#[test]
fn effects() {
    let running = running();
    // Red is 170 left of the edge and 80 right of it.
    let red = |parameters| Pixels::of(&running.made(parameters, "a.png")).at((19, 5))[0];
    assert_eq!(red("e=gd"), 170);
    assert!((90..165).contains(&red("blur=0x2")));
    assert!(red("sharpen=0x1") > 175);
    assert!(red("unsharp=0x1+1+0") > 175);
    assert!(red("e=gd,sharpen=10") > 170);
    // Beyond small_light_radius_max and small_light_sigma_max nothing is done.
    assert_eq!(red("blur=11x2"), 170);
    assert_eq!(red("sharpen=1x11"), 170);
}

/// The marker of a JPEG's frame, and how many channels it has.
fn frame_of(jpeg: &[u8]) -> (u8, u8) {
    let mut at = 2;
    while !matches!(jpeg[at + 1], 0xc0..=0xc2) {
        at += 2 + usize::from(u16::from_be_bytes([jpeg[at + 2], jpeg[at + 3]]));
    }
    (jpeg[at + 1], jpeg[at + 9])
}

#[test]
fn forms_of_files() {
    let running = running();
    let made = |parameters| running.made(parameters, "a.png");
    let starts =
        |parameters, first: &[u8]| assert!(made(parameters).starts_with(first), "{parameters}");
    starts("of=jpg", b"\xff\xd8");
    starts("of=gif", b"GIF89a");
    starts("of=webp", b"RIFF");
    starts("of=png", b"\x89PNG");
    starts("of=bmp", b"\x89PNG");
    assert!(made("of=jpg,q=95").len() > made("of=jpg,q=20").len());
    assert!(made("of=jpg,q=auto").len() <= made("of=jpg,q=95").len());
    assert_eq!(frame_of(&made("of=jpg")), (0xc0, 3));
    assert_eq!(frame_of(&made("of=jpg,progressive=y")), (0xc2, 3));
    assert_eq!(frame_of(&made("of=jpg,e=gd")), (0xc2, 3));
    assert_eq!(frame_of(&made("of=jpg,e=imlib2,progressive=y")), (0xc0, 3));
    // What is smaller than the box, or larger, goes out as it is.
    assert_eq!(made("dw=99,pt=ptss"), quarters());
    assert_eq!(made("dw=10,pt=ptls"), quarters());
    assert_ne!(made("dw=10,pt=ptss"), quarters());
    let hinted = running.made("dw=20,dh=20,of=png,jpeghint=y", "cmyk.jpg");
    assert_eq!(Pixels::of(&hinted).sides, (20, 14));
}

#[test]
fn what_a_file_holds_besides_pixels() {
    let running = running();
    let frame = |parameters| frame_of(&running.made(parameters, "cmyk.jpg"));
    assert_eq!(frame("dw=40"), (0xc0, 4));
    assert_eq!(frame("dw=40,cmyk2rgb=y"), (0xc0, 3));
    assert_eq!(frame("dw=40,e=gd").1, 3);
    let turned = |parameters| running.made(parameters, "turned.jpg");
    let has_exif = |bytes: Vec<u8>| bytes.windows(6).any(|six| six == b"Exif\0\0");
    assert!(has_exif(turned("dw=20")));
    assert!(!has_exif(turned("dw=20,rmprof=y")));
    let sides = |parameters| Pixels::of(&turned(parameters)).sides;
    let (width, height) = sides("of=png");
    assert_eq!(sides("of=png,autoorient=y"), (height, width));
    assert_eq!(sides("of=png,autoorient=y,e=gd"), (width, height));
}
