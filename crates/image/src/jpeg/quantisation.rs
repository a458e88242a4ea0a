//! Quantisation tables (T.81, annex K.1), and the quality that a table was made for.

/// From the order of coefficients in the file to rows of eight.
pub const ZIGZAG: [u8; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20,
    13, 6, 7, 14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59,
    52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
];

/// Annex K's table for brightness, in rows.
pub const LUMINANCE: [u8; 64] = [
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56,
    14, 17, 22, 29, 51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113,
    92, 49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
];

/// Annex K's table for colour, in rows.
pub const CHROMINANCE: [u8; 64] = [
    17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99, 99, 99,
    47, 66, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
];

/// `table` for a quality of 1 to 100, as the common encoders scale it: 50 is the table, 100 all ones.
pub fn scaled(table: &[u8; 64], quality: u8) -> [u8; 64] {
    let quality = u32::from(quality.clamp(1, 100));
    let per_cent = if quality < 50 {
        5000 / quality
    } else {
        200 - 2 * quality
    };
    table.map(|step| ((u32::from(step) * per_cent + 50) / 100).clamp(1, 255) as u8)
}

/// The quality whose brightness table is nearest to the first table of a segment DQT; none if that is no table of 8 bits.
pub fn quality(segment: &[u8]) -> Option<u8> {
    let (head, table) = segment.split_first()?;
    // The table for brightness is number 0 in all files that matter.
    if *head != 0 {
        return None;
    }
    let sum: u32 = table.get(..64)?.iter().map(|step| u32::from(*step)).sum();
    let distance = |quality: &u8| {
        let ours: u32 = scaled(&LUMINANCE, *quality)
            .iter()
            .map(|step| u32::from(*step))
            .sum();
        ours.abs_diff(sum)
    };
    // Of two that are equally near, the better one.
    (1..=100).rev().min_by_key(distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quality_is_found_again() {
        for wanted in 1..=100 {
            let mut segment = vec![0];
            let table = scaled(&LUMINANCE, wanted);
            segment.extend(ZIGZAG.map(|at| table[usize::from(at)]));
            let found = quality(&segment).expect("a table");
            // The lowest qualities share tables full of 255.
            assert!(found == wanted || wanted < 4, "{wanted} became {found}");
        }
        assert_eq!(quality(&[]), None);
        assert_eq!(quality(&[0, 1]), None);
    }
}
