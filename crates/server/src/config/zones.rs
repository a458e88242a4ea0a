//! The names of shared memory zones: one set for all features that share state between threads. Here is nothing but who
//! declared which name with which size; the state itself is the feature's.

use super::setting::Complaint;
use conf::{Error, Word, values};

/// nginx wants eight pages at least.
const SIZE_MIN: u64 = 8 * 4096;

struct Zone {
    name: Box<[u8]>,
    /// 0: named, but not declared so far.
    size: u64,
    /// The feature, by its module's name.
    user: &'static str,
}

/// The zones named so far, in the order of the file.
#[derive(Default)]
pub struct Zones {
    zones: Vec<Zone>,
}

impl Zones {
    /// Names a zone of the feature `user`, with its size where it is declared and with 0 where it is only used.
    pub fn add(&mut self, name: &[u8], size: u64, user: &'static str) -> Result<(), Complaint> {
        let Some(zone) = self.zones.iter_mut().find(|zone| *zone.name == *name) else {
            self.zones.push(Zone {
                name: name.into(),
                size,
                user,
            });
            return Ok(());
        };
        let shown = String::from_utf8_lossy(name);
        if zone.user != user {
            return Err(format!(
                "the shared memory zone \"{shown}\" is already declared for a different use"
            )
            .into());
        }
        match (zone.size, size) {
            (_, 0) => Ok(()),
            (0, size) => {
                zone.size = size;
                Ok(())
            }
            (before, size) if before == size => Ok(()),
            (before, size) => Err(format!(
                "the size {size} of shared memory zone \"{shown}\" conflicts with already declared size {before}"
            )
            .into()),
        }
    }

    /// A zone that is used and nowhere declared.
    pub fn check(&self) -> Result<(), Error> {
        match self.zones.iter().find(|zone| zone.size == 0) {
            None => Ok(()),
            Some(zone) => {
                let name = String::from_utf8_lossy(&zone.name);
                Err(Error::new(
                    format!("zero size shared memory zone \"{name}\""),
                    None,
                ))
            }
        }
    }
}

/// The name and the size of `zone=NAME:SIZE`; `text` is what stands after the `=` of `word`.
pub fn parse<'w>(word: &Word, text: &'w [u8]) -> Result<(&'w [u8], u64), Complaint> {
    let invalid = || format!("invalid zone size \"{word}\"");
    let colon = memchr::memchr(b':', text).ok_or_else(invalid)?;
    let size = values::parse_size(&text[colon + 1..]).ok_or_else(invalid)?;
    if size < SIZE_MIN {
        return Err(format!("zone \"{word}\" is too small").into());
    }
    Ok((&text[..colon], size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_belongs_to_one_feature_and_has_one_size() {
        let mut zones = Zones::default();
        assert!(zones.add(b"a", 0, "one").is_ok());
        let error = zones.check().expect_err("only used");
        assert_eq!(error.message, "zero size shared memory zone \"a\"");
        assert!(zones.add(b"a", 65536, "one").is_ok());
        assert!(zones.add(b"a", 0, "one").is_ok());
        assert!(zones.check().is_ok());
        let complaint = zones.add(b"a", 65537, "one").expect_err("another size");
        assert_eq!(
            complaint.text,
            "the size 65537 of shared memory zone \"a\" conflicts with already declared size 65536"
        );
        let complaint = zones.add(b"a", 0, "two").expect_err("another feature");
        assert_eq!(
            complaint.text,
            "the shared memory zone \"a\" is already declared for a different use"
        );
    }
}
