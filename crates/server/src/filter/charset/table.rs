//! `charset_map`: the bytes of one character set and what they are in another one, which may be UTF-8.

use crate::filter::rewritten::Change;
use std::collections::HashMap;
use std::sync::Arc;

/// What stands for a character that the other set does not have.
const UNKNOWN: u8 = b'?';
/// Bytes of a character in UTF-8.
const UTF8_MAX: usize = 4;

/// A map between two character sets; only the second may be UTF-8.
#[derive(Debug)]
pub struct CharsetMap {
    pub from: Box<[u8]>,
    pub to: Box<[u8]>,
    utf8: bool,
    forward: Box<[Vec<u8>]>,
    back: Box<[u8; 256]>,
    /// Characters of UTF-8 and the bytes that they are.
    characters: HashMap<Vec<u8>, u8>,
}

impl CharsetMap {
    pub fn new(from: &[u8], to: &[u8]) -> CharsetMap {
        let plain = |byte: u8| if byte < 128 { byte } else { UNKNOWN };
        CharsetMap {
            from: from.into(),
            to: to.into(),
            utf8: to.eq_ignore_ascii_case(b"utf-8"),
            forward: (0..=255).map(|byte| vec![plain(byte)]).collect(),
            back: Box::new(std::array::from_fn(|byte| plain(byte as u8))),
            characters: HashMap::new(),
        }
    }

    /// A line of the map, both in hexadecimal; the error is the word that is none.
    pub fn add<'w>(&mut self, from: &'w [u8], to: &'w [u8]) -> Result<(), &'w [u8]> {
        let byte = match parse(from).as_deref() {
            Some([byte]) => *byte,
            _ => return Err(from),
        };
        let bytes = parse(to).ok_or(to)?;
        match (self.utf8, &bytes[..]) {
            (false, &[other]) => self.back[usize::from(other)] = byte,
            (false, _) => return Err(to),
            (true, _) => drop(self.characters.insert(bytes.clone(), byte)),
        }
        self.forward[usize::from(byte)] = bytes;
        Ok(())
    }
}

/// Hexadecimal digits, one or two a byte.
fn parse(text: &[u8]) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text
        .iter()
        .map(|&byte| char::from(byte).to_digit(16).map(|digit| digit as u8))
        .collect();
    let digits = digits.filter(|digits| !digits.is_empty())?;
    if let [digit] = digits[..] {
        return Some(vec![digit]);
    }
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty()
        .then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

/// A body on its way from one character set to the other.
pub struct Changing {
    map: Arc<CharsetMap>,
    forward: bool,
    /// The beginning of a character.
    kept: Vec<u8>,
}

impl Changing {
    pub fn new(map: &Arc<CharsetMap>, forward: bool) -> Changing {
        Changing {
            map: Arc::clone(map),
            forward,
            kept: Vec::new(),
        }
    }

    /// Whether the body may become shorter or longer.
    pub fn changes_length(&self) -> bool {
        self.map.utf8
    }

    /// Out of UTF-8: a character without a byte becomes a reference to its number, what is no character a question mark.
    fn put_character(&self, character: &[u8], out: &mut Vec<u8>) {
        if let Some(&byte) = self.map.characters.get(character) {
            out.push(byte);
            return;
        }
        match std::str::from_utf8(character)
            .ok()
            .and_then(|text| text.chars().next())
        {
            Some(character) => {
                out.extend_from_slice(format!("&#{};", u32::from(character)).as_bytes())
            }
            None => out.push(UNKNOWN),
        }
    }

    fn change_from_utf8(&mut self, input: &[u8], out: &mut Vec<u8>) {
        for &byte in input {
            let continues = byte & 0xc0 == 0x80;
            if !self.kept.is_empty() && !continues {
                out.push(UNKNOWN);
                self.kept.clear();
            }
            if byte < 0x80 {
                out.push(byte);
                continue;
            }
            if self.kept.is_empty() && length(byte).is_none() {
                out.push(UNKNOWN);
                continue;
            }
            self.kept.push(byte);
            if length(self.kept[0]) == Some(self.kept.len()) {
                let character = std::mem::take(&mut self.kept);
                self.put_character(&character, out);
            }
        }
    }
}

/// Bytes of the character that begins with this one.
fn length(first: u8) -> Option<usize> {
    match first {
        0xc2..=0xdf => Some(2),
        0xe0..=0xef => Some(3),
        0xf0..=0xf4 => Some(UTF8_MAX),
        _ => None,
    }
}

impl Change for Changing {
    fn feed(&mut self, input: &[u8], out: &mut Vec<u8>) {
        match (self.forward, self.map.utf8) {
            (true, _) => {
                for &byte in input {
                    out.extend_from_slice(&self.map.forward[usize::from(byte)]);
                }
            }
            (false, false) => {
                out.extend(input.iter().map(|&byte| self.map.back[usize::from(byte)]))
            }
            (false, true) => self.change_from_utf8(input, out),
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        if !self.kept.is_empty() {
            self.kept.clear();
            out.push(UNKNOWN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_in_pieces_of_any_size() {
        let mut map = CharsetMap::new(b"koi8-r", b"UTF-8");
        for (from, to) in [("C0", "D18E"), ("C1", "D0B0"), ("80", "E282AC")] {
            map.add(from.as_bytes(), to.as_bytes()).expect("right");
        }
        assert_eq!(map.add(b"100", b"00"), Err(&b"100"[..]));
        assert_eq!(map.add(b"G0", b"00"), Err(&b"G0"[..]));
        let map = Arc::new(map);
        for (forward, text, expected) in [
            (true, &b"a\xc0\x80\xff"[..], "aю€?".as_bytes()),
            (false, "aю€аñ日".as_bytes(), b"a\xc0\x80\xc1&#241;&#26085;"),
            (false, b"\xd1a\xff\xd1", b"?a??"),
        ] {
            for size in 1..=text.len() {
                let mut changing = Changing::new(&map, forward);
                let mut out = Vec::new();
                for piece in text.chunks(size) {
                    changing.feed(piece, &mut out);
                }
                changing.finish(&mut out);
                assert_eq!(out, expected, "in pieces of {size}");
            }
        }
    }
}
