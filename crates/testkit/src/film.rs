//! Writes short MP4 films without pictures or sound, so that tests need no file that somebody else made.

/// What is special about a film; words of `film` in a case's `setup`.
#[derive(Debug, Default)]
struct Kind<'k> {
    words: Vec<&'k str>,
}

impl Kind<'_> {
    fn is(&self, word: &str) -> bool {
        self.words.contains(&word)
    }
}

/// A track: so many samples, each so many time units long, of which there are so many a second.
struct Track {
    number: u32,
    timescale: u32,
    /// Counts and durations of samples.
    times: Vec<(u32, u32)>,
    /// Samples in each chunk.
    chunks: Vec<u32>,
    key_frames: Option<Vec<u32>>,
    compositions: Option<Vec<(u32, u32)>>,
}

/// The time units a second of the film itself.
const TIMESCALE: u32 = 600;

/// Two tracks of ten seconds: 20 pictures with key frames, and 50 pieces of sound. Words change it: `last` (described
/// behind the samples), `wide` (numbers of 64 bits), `uniform` (all samples have one size), `plain` (no optional tables),
/// `short` (the second track ends after two seconds), `without=NAME`, `twice=NAME` (a box of the first track).
#[must_use]
pub fn film(words: &[&str]) -> Vec<u8> {
    let kind = Kind {
        words: words.to_vec(),
    };
    let plain = kind.is("plain");
    let tracks = [
        Track {
            number: 1,
            timescale: 1000,
            times: vec![(4, 250), (10, 500), (6, 667)],
            chunks: vec![3, 3, 3, 5, 5, 1],
            key_frames: (!plain).then(|| vec![1, 6, 11, 16]),
            compositions: (!plain).then(|| vec![(5, 0), (7, 40), (8, 80)]),
        },
        Track {
            number: 2,
            timescale: 8000,
            times: vec![(50, if kind.is("short") { 320 } else { 1600 })],
            chunks: vec![10; 5],
            key_frames: None,
            compositions: None,
        },
    ];
    let kind_box = boxed(b"ftyp", b"isom\0\0\x02\0isomavc1");
    let samples = samples(&tracks, &kind);
    let head = if kind.is("wide") { 16 } else { 8 };
    let before = match kind.is("last") {
        true => kind_box.len(),
        false => kind_box.len() + description(&tracks, &kind, &samples, 0).len(),
    };
    let description = description(&tracks, &kind, &samples, before + head);
    let data = match kind.is("wide") {
        true => wide_boxed(b"mdat", &samples.bytes),
        false => boxed(b"mdat", &samples.bytes),
    };
    match kind.is("last") {
        true => [kind_box, data, description].concat(),
        false => [kind_box, description, data].concat(),
    }
}

/// The bytes of all samples, chunk by chunk in turn.
struct Samples {
    bytes: Vec<u8>,
    /// Sizes of samples and places of chunks, by track.
    sizes: Vec<Vec<u32>>,
    places: Vec<Vec<usize>>,
}

fn samples(tracks: &[Track], kind: &Kind<'_>) -> Samples {
    let mut samples = Samples {
        bytes: Vec::new(),
        sizes: vec![Vec::new(); tracks.len()],
        places: vec![Vec::new(); tracks.len()],
    };
    for chunk in 0..6 {
        for (at, track) in tracks.iter().enumerate() {
            let Some(&count) = track.chunks.get(chunk) else {
                continue;
            };
            samples.places[at].push(samples.bytes.len());
            for _ in 0..count {
                let number = samples.sizes[at].len() as u32;
                let size = match kind.is("uniform") {
                    true => 200,
                    false => 200 + number % 5,
                };
                let text = format!("{}{number:03}", ['v', 'a'][at]);
                let letters = text.bytes().cycle().take(size as usize);
                samples.bytes.extend(letters);
                samples.sizes[at].push(size);
            }
        }
    }
    samples
}

fn description(tracks: &[Track], kind: &Kind<'_>, samples: &Samples, base: usize) -> Vec<u8> {
    let mut data = header(kind, b"mvhd", &[TIMESCALE], duration(&tracks[0]), 80);
    for (at, track) in tracks.iter().enumerate() {
        data.extend(described(track, kind, at, samples, base));
    }
    data.extend(boxed(b"udta", b"nothing"));
    boxed(b"moov", &data)
}

/// A track's duration in the film's time.
fn duration(track: &Track) -> u64 {
    let units: u32 = track.times.iter().map(|(count, each)| count * each).sum();
    u64::from(units) * u64::from(TIMESCALE) / u64::from(track.timescale)
}

fn described(track: &Track, kind: &Kind<'_>, at: usize, samples: &Samples, base: usize) -> Vec<u8> {
    let units: u32 = track.times.iter().map(|(count, each)| count * each).sum();
    let join = |boxes: Vec<(&[u8; 4], Vec<u8>)>| -> Vec<u8> {
        let mut data = Vec::new();
        for (name, one) in boxes {
            let letters = String::from_utf8_lossy(name);
            let here = at == 0;
            let times = match here {
                true if kind.is(&format!("without={letters}")) => 0,
                true if kind.is(&format!("twice={letters}")) => 2,
                _ => 1,
            };
            data.extend(one.repeat(times));
        }
        data
    };
    let tables = boxed(b"stbl", &join(tables(track, kind, at, samples, base)));
    let medium: &[u8; 4] = [b"vmhd", b"smhd"][at];
    let information = boxed(
        b"minf",
        &join(vec![
            (medium, boxed(medium, &[0; 8])),
            (b"dinf", boxed(b"dinf", &[0; 4])),
            (b"stbl", tables),
        ]),
    );
    let media = boxed(
        b"mdia",
        &join(vec![
            (
                b"mdhd",
                header(kind, b"mdhd", &[track.timescale], units.into(), 4),
            ),
            (b"hdlr", boxed(b"hdlr", &[0; 24])),
            (b"minf", information),
        ]),
    );
    let head = header(kind, b"tkhd", &[track.number, 0], duration(track), 60);
    let parts = join(vec![
        (b"tkhd", head),
        (b"edts", boxed(b"edts", &boxed(b"elst", &[0; 8]))),
        (b"mdia", media),
    ]);
    boxed(b"trak", &parts)
}

fn tables(
    track: &Track,
    kind: &Kind<'_>,
    at: usize,
    samples: &Samples,
    base: usize,
) -> Vec<(&'static [u8; 4], Vec<u8>)> {
    let pairs = |pairs: &[(u32, u32)]| -> Vec<Vec<u32>> {
        pairs.iter().map(|&(one, two)| vec![one, two]).collect()
    };
    let mut boxes: Vec<(&[u8; 4], Vec<u8>)> = vec![
        (
            b"stsd",
            boxed(
                b"stsd",
                &[&[0; 7][..], &[1], &boxed(b"code", &[0; 8])].concat(),
            ),
        ),
        (b"stts", table(b"stts", &pairs(&track.times))),
    ];
    if let Some(keys) = &track.key_frames {
        let keys: Vec<Vec<u32>> = keys.iter().map(|&key| vec![key]).collect();
        boxes.push((b"stss", table(b"stss", &keys)));
    }
    if let Some(compositions) = &track.compositions {
        boxes.push((b"ctts", table(b"ctts", &pairs(compositions))));
    }
    let mut chunks: Vec<Vec<u32>> = Vec::new();
    for (chunk, &count) in track.chunks.iter().enumerate() {
        if chunks.last().is_none_or(|last| last[1] != count) {
            chunks.push(vec![chunk as u32 + 1, count, 1]);
        }
    }
    boxes.push((b"stsc", table(b"stsc", &chunks)));
    let count = (samples.sizes[at].len() as u32).to_be_bytes();
    let sizes: Vec<u8> = match kind.is("uniform") {
        true => [&[0; 7][..], &[200], &count].concat(),
        false => {
            let sizes = samples.sizes[at].iter().flat_map(|size| size.to_be_bytes());
            [&[0; 8][..], &count]
                .concat()
                .into_iter()
                .chain(sizes)
                .collect()
        }
    };
    boxes.push((b"stsz", boxed(b"stsz", &sizes)));
    let places = samples.places[at].iter().map(|place| (place + base) as u32);
    match kind.is("wide") {
        true => {
            let places: Vec<Vec<u32>> = places.map(|place| vec![0, place]).collect();
            boxes.push((b"co64", table(b"co64", &places)));
        }
        false => {
            let places: Vec<Vec<u32>> = places.map(|place| vec![place]).collect();
            boxes.push((b"stco", table(b"stco", &places)));
        }
    }
    boxes
}

/// A box with times of making, some numbers, a duration, and what follows it.
fn header(kind: &Kind<'_>, name: &[u8; 4], numbers: &[u32], duration: u64, rest: usize) -> Vec<u8> {
    let wide = kind.is("wide");
    let mut data = vec![u8::from(wide), 0, 0, 0];
    data.resize(if wide { 20 } else { 12 }, 0);
    data.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
    match wide {
        true => data.extend(duration.to_be_bytes()),
        false => data.extend((duration as u32).to_be_bytes()),
    }
    data.resize(data.len() + rest, 0);
    boxed(name, &data)
}

fn table(name: &[u8; 4], entries: &[Vec<u32>]) -> Vec<u8> {
    let mut data = vec![0; 4];
    data.extend((entries.len() as u32).to_be_bytes());
    data.extend(
        entries
            .iter()
            .flatten()
            .flat_map(|number| number.to_be_bytes()),
    );
    boxed(name, &data)
}

fn boxed(name: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let size = (data.len() as u32 + 8).to_be_bytes();
    [&size[..], name, data].concat()
}

fn wide_boxed(name: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let size = (data.len() as u64 + 16).to_be_bytes();
    [&1u32.to_be_bytes()[..], name, &size, data].concat()
}
