//! Huffman codes as JPEG writes them (T.81, annexes C and K).

/// How many codes of each length there are, and the symbols in the order of their codes: what a segment DHT holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Specification {
    /// Of 1 to 16 bits.
    pub counts: [u8; 16],
    /// As many as `counts` says.
    pub symbols: Vec<u8>,
}

/// Annex K.3's tables: DC and AC of brightness, DC and AC of colour.
pub fn standard() -> [Specification; 4] {
    let table = |counts: [u8; 16], symbols: &[u8]| Specification {
        counts,
        symbols: symbols.to_vec(),
    };
    let dc: Vec<u8> = (0..12).collect();
    [
        table([0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0], &dc),
        table(
            [0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 0x7d],
            &LUMINANCE_AC,
        ),
        table([0, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0], &dc),
        table(
            [0, 2, 1, 2, 4, 4, 3, 4, 7, 5, 4, 4, 0, 1, 2, 0x77],
            &CHROMINANCE_AC,
        ),
    ]
}

const LUMINANCE_AC: [u8; 162] = [
    0x01, 0x02, 0x03, 0x00, 0x04, 0x11, 0x05, 0x12, 0x21, 0x31, 0x41, 0x06, 0x13, 0x51, 0x61, 0x07,
    0x22, 0x71, 0x14, 0x32, 0x81, 0x91, 0xa1, 0x08, 0x23, 0x42, 0xb1, 0xc1, 0x15, 0x52, 0xd1, 0xf0,
    0x24, 0x33, 0x62, 0x72, 0x82, 0x09, 0x0a, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x25, 0x26, 0x27, 0x28,
    0x29, 0x2a, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49,
    0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69,
    0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89,
    0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7,
    0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3, 0xc4, 0xc5,
    0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda, 0xe1, 0xe2,
    0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8,
    0xf9, 0xfa,
];

const CHROMINANCE_AC: [u8; 162] = [
    0x00, 0x01, 0x02, 0x03, 0x11, 0x04, 0x05, 0x21, 0x31, 0x06, 0x12, 0x41, 0x51, 0x07, 0x61, 0x71,
    0x13, 0x22, 0x32, 0x81, 0x08, 0x14, 0x42, 0x91, 0xa1, 0xb1, 0xc1, 0x09, 0x23, 0x33, 0x52, 0xf0,
    0x15, 0x62, 0x72, 0xd1, 0x0a, 0x16, 0x24, 0x34, 0xe1, 0x25, 0xf1, 0x17, 0x18, 0x19, 0x1a, 0x26,
    0x27, 0x28, 0x29, 0x2a, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48,
    0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68,
    0x69, 0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87,
    0x88, 0x89, 0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0xa2, 0xa3, 0xa4, 0xa5,
    0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3,
    0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda,
    0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8,
    0xf9, 0xfa,
];

impl Specification {
    /// The codes by length and symbol, in order: length in bits, code, symbol.
    pub fn codes(&self) -> impl Iterator<Item = (u8, u16, u8)> + '_ {
        let lengths = (1u8..=16)
            .zip(self.counts)
            .flat_map(|(length, count)| std::iter::repeat_n(length, usize::from(count)));
        let mut code = 0u32;
        let mut previous = 0;
        lengths.zip(&self.symbols).map(move |(length, symbol)| {
            code <<= length - previous;
            previous = length;
            let this = (length, code as u16, *symbol);
            code += 1;
            this
        })
    }

    /// The best codes for symbols that occur this often (K.2): at most 16 bits, and none of ones alone.
    pub fn best(frequencies: &[u32; 256]) -> Specification {
        let mut weight: Vec<u64> = frequencies.iter().map(|f| u64::from(*f)).collect();
        // A symbol of its own takes the code of ones alone.
        weight.push(1);
        let mut length = [0u32; 257];
        let mut next = [None::<usize>; 257];
        while let Some((first, second)) = two_rarest(&weight) {
            weight[first] += weight[second];
            weight[second] = 0;
            let mut at = first;
            length[at] += 1;
            while let Some(following) = next[at] {
                at = following;
                length[at] += 1;
            }
            next[at] = Some(second);
            at = second;
            length[at] += 1;
            while let Some(following) = next[at] {
                at = following;
                length[at] += 1;
            }
        }
        let mut counts = [0u32; 64];
        for length in length.iter().filter(|length| **length > 0) {
            counts[(*length as usize).min(63)] += 1;
        }
        shorten(&mut counts);
        let mut symbols: Vec<u8> = Vec::with_capacity(256);
        for wanted in 1..64 {
            symbols.extend((0..=255u8).filter(|s| length[usize::from(*s)].min(63) == wanted));
        }
        let mut out = [0u8; 16];
        for (out, count) in out.iter_mut().zip(&counts[1..]) {
            *out = *count as u8;
        }
        Specification {
            counts: out,
            symbols,
        }
    }
}

/// The rarest symbol and the next one; of equals, those with the higher number, so that 256 gets a longest code.
fn two_rarest(weight: &[u64]) -> Option<(usize, usize)> {
    let rarest = |except: Option<usize>| {
        (0..weight.len())
            .rev()
            .filter(|at| weight[*at] > 0 && Some(*at) != except)
            .min_by_key(|at| weight[*at])
    };
    let first = rarest(None)?;
    Some((first, rarest(Some(first))?))
}

/// Brings codes of more than 16 bits below that (K.2, figure K.3), and takes one of the longest away.
fn shorten(counts: &mut [u32; 64]) {
    for long in (17..64).rev() {
        while counts[long] > 0 {
            let mut short = long - 2;
            while short > 0 && counts[short] == 0 {
                short -= 1;
            }
            counts[long] = counts[long].saturating_sub(2);
            counts[long - 1] += 1;
            counts[short + 1] += 2;
            counts[short] = counts[short].saturating_sub(1);
        }
    }
    if let Some(longest) = counts.iter().rposition(|count| *count > 0) {
        counts[longest] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_codes_are_complete_but_one() {
        for power in [0, 1, 3, 20] {
            let mut frequencies = [0u32; 256];
            for (at, frequency) in frequencies.iter_mut().enumerate().take(40) {
                *frequency = 1 + ((at as u32).pow(2) << power.min(12));
            }
            // Fibonacci's numbers make the longest codes.
            if power == 20 {
                let (mut a, mut b) = (1u32, 1u32);
                for frequency in &mut frequencies[..40] {
                    *frequency = a;
                    (a, b) = (b, a + b);
                }
            }
            let table = Specification::best(&frequencies);
            assert_eq!(table.symbols.len(), 40);
            let used: u32 = (1u32..=16)
                .zip(table.counts)
                .map(|(length, count)| u32::from(count) << (16 - length))
                .sum();
            assert!(used < 1 << 16, "no code of ones alone");
            assert!(
                table
                    .codes()
                    .all(|(length, code, _)| u32::from(code) + 1 < 1 << length)
            );
        }
    }

    #[test]
    fn one_symbol_has_a_code() {
        let mut frequencies = [0u32; 256];
        frequencies[7] = 3;
        let table = Specification::best(&frequencies);
        assert_eq!(table.codes().collect::<Vec<_>>(), vec![(1, 0, 7)]);
    }
}
