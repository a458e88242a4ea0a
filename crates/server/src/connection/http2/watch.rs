//! Looks at the frames that come, for what the h2 crate passes over: PRIORITY_UPDATE (RFC 9218, 7.1).

use super::turns::Priority;
use wire::http2::PREFACE;

/// A frame's head.
const HEAD: usize = 9;
const PRIORITY_UPDATE: u8 = 0x10;
/// A longer value is not looked at.
const VALUE_MAX: usize = 64;
/// Updates that wait to be taken; further ones are dropped.
const UPDATES_MAX: usize = 128;

/// Where in the stream of frames the reading stands.
pub struct Watch {
    /// Bytes to pass over.
    skip: usize,
    /// A frame's head, or a frame that is looked at, as far as it came.
    begun: Vec<u8>,
    /// Streams and what they are told to be.
    pub updates: Vec<(u32, Priority)>,
}

impl Default for Watch {
    fn default() -> Watch {
        Watch {
            skip: PREFACE.len(),
            begun: Vec::new(),
            updates: Vec::new(),
        }
    }
}

impl Watch {
    /// Takes what came next.
    pub fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = bytes.get(skipped..).unwrap_or_default();
            if bytes.is_empty() {
                break;
            }
            // Most heads lie in what came as a whole.
            if self.begun.is_empty()
                && let Some(head) = bytes.first_chunk::<HEAD>()
                && head[3] != PRIORITY_UPDATE
            {
                self.skip = HEAD + length(head);
                continue;
            }
            bytes = self.collect(bytes);
        }
    }

    /// Takes a byte or more of a frame that came in pieces or is looked at; gives the rest.
    fn collect<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let wanted = match self.begun.first_chunk::<HEAD>() {
            None => HEAD,
            Some(head) => HEAD + length(head),
        };
        let count = wanted.saturating_sub(self.begun.len()).min(bytes.len());
        let (now, rest) = bytes.split_at(count);
        self.begun.extend_from_slice(now);
        let Some(&head) = self.begun.first_chunk::<HEAD>() else {
            return rest;
        };
        let length = length(&head);
        if head[3] != PRIORITY_UPDATE || length > VALUE_MAX {
            self.skip = HEAD + length - self.begun.len().min(HEAD + length);
            self.begun = Vec::new();
        } else if self.begun.len() == HEAD + length {
            self.update();
            self.begun = Vec::new();
        }
        rest
    }

    fn update(&mut self) {
        let payload = self.begun.get(HEAD..).unwrap_or_default();
        if let Some((id, value)) = payload.split_first_chunk::<4>()
            && self.updates.len() < UPDATES_MAX
        {
            let id = u32::from_be_bytes(*id) & (u32::MAX >> 1);
            self.updates.push((id, Priority::parse(value)));
        }
    }
}

/// The length of the payload behind a head.
fn length(head: &[u8; HEAD]) -> usize {
    u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_are_found_however_the_bytes_come() {
        let frame = |kind: u8, payload: &[u8]| {
            let length = (payload.len() as u32).to_be_bytes();
            [&length[1..], &[kind, 0, 0, 0, 0, 0], payload].concat()
        };
        let bytes = [
            PREFACE.to_vec(),
            frame(4, b""),
            frame(PRIORITY_UPDATE, b"\0\0\0\x05u=1, i"),
            frame(1, &[PRIORITY_UPDATE; 100]),
            frame(PRIORITY_UPDATE, &[b'x'; 100]),
            frame(PRIORITY_UPDATE, b"\0\0"),
            frame(PRIORITY_UPDATE, b"\0\0\0\x07"),
            frame(6, b"12345678"),
        ]
        .concat();
        let expected = vec![(5, Priority::parse(b"u=1, i")), (7, Priority::default())];
        for size in 1..bytes.len() {
            let mut watch = Watch::default();
            for piece in bytes.chunks(size) {
                watch.take(piece);
            }
            assert_eq!(watch.updates, expected, "in pieces of {size}");
        }
    }
}
