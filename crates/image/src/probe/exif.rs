//! The orientation in EXIF, which is a TIFF file's first directory. All other tags are of no concern here.

/// Entries of a directory that are looked at.
const ENTRIES_MAX: usize = 512;
/// TIFF's tag 0x0112.
const ORIENTATION: u32 = 0x0112;

/// EXIF's orientation, 1 to 8; 1 where nothing sensible is said. `data` may begin with `Exif\0\0`, as in JPEG.
pub fn orientation(data: &[u8]) -> u8 {
    let data = data.strip_prefix(b"Exif\0\0").unwrap_or(data);
    find(data).map_or(1, |(_, value)| value)
}

/// Says that the picture is upright now.
pub fn set_upright(data: &mut [u8]) {
    if let Some((place, _)) = find(data) {
        let one = if data.starts_with(b"II") {
            [1, 0]
        } else {
            [0, 1]
        };
        if let Some(value) = data.get_mut(place) {
            value.copy_from_slice(&one);
        }
    }
}

/// Where the orientation's value stands in `data` (its two bytes), and the value.
pub fn find(data: &[u8]) -> Option<(std::ops::Range<usize>, u8)> {
    let little = match data.get(..4)? {
        b"II*\0" => true,
        b"MM\0*" => false,
        _ => return None,
    };
    let number = |at: usize, count: usize| -> Option<u32> {
        let bytes = data.get(at..at.checked_add(count)?)?;
        let add = |sum: u32, byte: &u8| sum << 8 | u32::from(*byte);
        Some(if little {
            bytes.iter().rev().fold(0, add)
        } else {
            bytes.iter().fold(0, add)
        })
    };
    let directory = number(4, 4)? as usize;
    let entries = number(directory, 2)? as usize;
    for entry in 0..entries.min(ENTRIES_MAX) {
        let at = directory.checked_add(2 + entry * 12)?;
        if number(at, 2)? == ORIENTATION {
            let value = number(at + 8, 2)?;
            let value = u8::try_from(value).ok().filter(|v| (1..=8).contains(v))?;
            return Some((at + 8..at + 10, value));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiff(little: bool, value: u16) -> Vec<u8> {
        let short = |v: u16| {
            if little {
                v.to_le_bytes()
            } else {
                v.to_be_bytes()
            }
        };
        let long = |v: u32| {
            if little {
                v.to_le_bytes()
            } else {
                v.to_be_bytes()
            }
        };
        let mut data = if little {
            b"II*\0".to_vec()
        } else {
            b"MM\0*".to_vec()
        };
        data.extend(long(8));
        data.extend(short(1));
        data.extend(short(0x0112));
        data.extend(short(3));
        data.extend(long(1));
        data.extend(short(value));
        data.extend([0; 6]);
        data
    }

    #[test]
    fn orientation_in_both_byte_orders() {
        for little in [true, false] {
            for value in 1..=8 {
                assert_eq!(orientation(&tiff(little, value)), value as u8);
            }
            assert_eq!(orientation(&tiff(little, 0)), 1);
            assert_eq!(orientation(&tiff(little, 9)), 1);
            assert_eq!(orientation(&tiff(little, 0x0103)), 1);
        }
        for little in [true, false] {
            let mut data = tiff(little, 6);
            set_upright(&mut data);
            assert_eq!(orientation(&data), 1);
            assert_eq!(find(&data).map(|(_, value)| value), Some(1));
        }
        let mut with_prefix = b"Exif\0\0".to_vec();
        with_prefix.extend(tiff(true, 6));
        assert_eq!(orientation(&with_prefix), 6);
    }

    #[test]
    fn nonsense_is_upright() {
        let whole = tiff(true, 6);
        for end in 0..whole.len() {
            let _ = orientation(&whole[..end]);
        }
        assert_eq!(orientation(b"II*\0\xff\xff\xff\xff"), 1);
        assert_eq!(orientation(b""), 1);
    }
}
