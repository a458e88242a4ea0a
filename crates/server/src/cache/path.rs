//! `proxy_cache_path`: a directory, a zone and their limits. Nothing is opened here.

use super::zone::{ENTRIES_MAX, ENTRY_BYTES, Limits, Zone};
use crate::config::build::Build;
use crate::config::directive::Outcome;
use crate::config::setting::Complaint;
use conf::{Directive, Position, values};
use std::path::PathBuf;
use std::sync::Arc;

/// nginx wants two pages at least.
const ZONE_MIN: u64 = 2 * 4096;
/// Bytes of small responses that a zone keeps in memory, unless `memory=` says otherwise.
const MEMORY: u64 = 64 << 20;
const INACTIVE: u64 = 10 * 60;

/// A `proxy_cache_path` as it was read.
#[derive(Debug, Clone)]
pub struct Path {
    pub directory: PathBuf,
    /// The module whose directive it is.
    pub family: &'static str,
    pub name: Box<[u8]>,
    pub limits: Limits,
    position: Position,
}

/// The paths of a configuration.
#[derive(Debug, Default)]
pub struct Paths {
    paths: Vec<Path>,
}

/// The zones of a configuration.
#[derive(Debug, Default, Clone)]
pub struct Zones {
    pub zones: Vec<(Path, Arc<Zone>)>,
}

impl Paths {
    /// The zones, each the process's own of its name where there is one.
    #[must_use]
    pub fn resolve(self) -> Zones {
        let zones = self.paths.into_iter();
        let zones = zones.map(|path| {
            let zone = Zone::of(&path);
            (path, zone)
        });
        Zones {
            zones: zones.collect(),
        }
    }
}

impl Zones {
    /// The zone of a name, for a family.
    #[must_use]
    pub fn find(&self, name: &[u8], family: &str) -> Option<&Arc<Zone>> {
        let mut zones = self.zones.iter();
        let found = zones.find(|(path, _)| *path.name == *name && path.family == family);
        found.map(|(_, zone)| zone)
    }
}

/// Reads a `proxy_cache_path`.
pub fn set(build: &mut Build<'_>, directive: &Directive, family: &'static str) -> Outcome {
    let directory = build
        .paths
        .in_prefix(&String::from_utf8_lossy(&directive.args[0]));
    let mut limits = Limits {
        bytes_max: u64::MAX,
        entries: 0,
        bytes_free_min: 0,
        inactive: INACTIVE,
        memory: MEMORY,
    };
    let mut zone: Option<(Box<[u8]>, u64)> = None;
    for word in directive.args.iter().skip(1) {
        let (name, value) = match memchr::memchr(b'=', word) {
            Some(at) => (&word[..at], &word[at + 1..]),
            None => (&word[..], &b""[..]),
        };
        let shown = String::from_utf8_lossy(name);
        let invalid = || Complaint::from(format!("invalid {shown} value \"{word}\""));
        match name {
            b"keys_zone" => zone = Some(keys_zone(&word.to_string(), value)?),
            b"levels" if is_levels(value) => {}
            b"levels" => return Err(format!("invalid \"levels\" \"{word}\"").into()),
            b"use_temp_path" if matches!(value, b"on" | b"off") => {}
            b"use_temp_path" => {
                return Err(format!(
                    "invalid use_temp_path value \"{word}\", it must be \"on\" or \"off\""
                )
                .into());
            }
            b"inactive" => limits.inactive = values::parse_sec(value).ok_or_else(invalid)?,
            b"max_size" => {
                let bytes = values::parse_offset(value).ok_or_else(invalid)?;
                limits.bytes_max = if bytes == 0 { u64::MAX } else { bytes };
            }
            b"min_free" => {
                limits.bytes_free_min = values::parse_offset(value).ok_or_else(invalid)?;
            }
            b"memory" => limits.memory = values::parse_offset(value).ok_or_else(invalid)?,
            b"loader_files" | b"manager_files" | b"purger_files" => {
                values::parse_number(value).ok_or_else(invalid)?;
            }
            b"loader_sleep" | b"loader_threshold" | b"manager_sleep" | b"manager_threshold"
            | b"purger_sleep" | b"purger_threshold" => {
                values::parse_msec(value).ok_or_else(invalid)?;
            }
            b"purger" if matches!(value, b"on" | b"off") => {}
            _ => return Err(format!("invalid parameter \"{word}\"").into()),
        }
    }
    let Some((name, size)) = zone else {
        let own = &directive.name;
        return Err(format!("\"{own}\" must have \"keys_zone\" parameter").into());
    };
    limits.entries = usize::try_from(size / ENTRY_BYTES)
        .unwrap_or(ENTRIES_MAX)
        .min(ENTRIES_MAX);
    let path = Path {
        directory,
        family,
        name,
        limits,
        position: directive.position.clone(),
    };
    let name = path.name.clone();
    add(&mut build.http.caches, path)?;
    build.zones.add(&name, size, family)
}

fn add(paths: &mut Paths, path: Path) -> Outcome {
    let same = paths
        .paths
        .iter()
        .find(|other| other.directory == path.directory);
    if let Some(other) = same {
        let (directory, before) = (path.directory.display(), &other.position);
        return Err(Complaint::from(format!(
            "the same path name \"{directory}\" used in {before} and"
        )));
    }
    if paths.paths.iter().any(|other| other.name == path.name) {
        let name = String::from_utf8_lossy(&path.name);
        return Err(format!("duplicate zone \"{name}\"").into());
    }
    paths.paths.push(path);
    Ok(())
}

/// Reads `NAME:SIZE`. The size bounds the number of entries; a zone here grows with them.
fn keys_zone(word: &str, value: &[u8]) -> Result<(Box<[u8]>, u64), Complaint> {
    let size = memchr::memchr(b':', value)
        .and_then(|colon| Some((colon, values::parse_size(value.get(colon + 1..)?)?)));
    let Some((colon, size)) = size else {
        return Err(format!("invalid keys zone size \"{word}\"").into());
    };
    if size < ZONE_MIN {
        return Err(format!("keys zone \"{word}\" is too small").into());
    }
    let name = value.get(..colon).unwrap_or_default();
    if name.is_empty() {
        return Err("\"proxy_cache_path\" must have \"keys_zone\" parameter".into());
    }
    Ok((name.into(), size))
}

/// Up to three digits 1 or 2 with colons between them.
fn is_levels(value: &[u8]) -> bool {
    if value.is_empty() {
        return true;
    }
    let levels: Vec<&[u8]> = value.split(|&byte| byte == b':').collect();
    levels.len() <= 3 && levels.iter().all(|level| matches!(level, [b'1' | b'2']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_one_or_two_digits() {
        for (text, expected) in [
            ("1", true),
            ("1:2", true),
            ("2:2:1", true),
            ("", true),
            ("3", false),
            ("1:", false),
            ("1:2:2:2", false),
            ("12", false),
        ] {
            assert_eq!(is_levels(text.as_bytes()), expected, "{text}");
        }
    }
}
