//! Places that cannot be written to: told once in the error log, and left alone for a while. Files are served without
//! copies meanwhile.

use super::place::Home;
use crate::log::error::{Level, write};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a place is left alone.
const PAUSE: Duration = Duration::from_secs(60);
/// Places that are remembered; beyond them all are tried anew.
const PLACES_MAX: usize = 1024;

#[derive(Clone, Copy)]
struct Trouble {
    until: Instant,
    /// The kernel's number of the error that was told.
    told: Option<i32>,
}

static PLACES: Mutex<Option<HashMap<PathBuf, Trouble>>> = Mutex::new(None);

/// The directory that copies are written to.
fn directory<'a>(home: &'a Home, path: &'a Path) -> &'a Path {
    match home {
        Home::Store(store) => store.directory(),
        Home::Beside => path.parent().unwrap_or(path),
    }
}

#[must_use]
pub fn is_paused(home: &Home, path: &Path) -> bool {
    let places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
    let known = places
        .as_ref()
        .and_then(|places| places.get(directory(home, path)));
    known.is_some_and(|trouble| Instant::now() < trouble.until)
}

/// Notes that a copy could not be written.
pub fn note(home: &Home, path: &Path, error: &io::Error) {
    let directory = directory(home, path);
    let mut places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
    let places = places.get_or_insert_default();
    if places.len() >= PLACES_MAX {
        places.clear();
    }
    let number = error.raw_os_error();
    let known = places
        .get(directory)
        .is_some_and(|trouble| trouble.told == number);
    let trouble = Trouble {
        until: Instant::now() + PAUSE,
        told: number,
    };
    places.insert(directory.to_path_buf(), trouble);
    if !known {
        write(
            Level::Error,
            format_args!(
                "precompress: a copy of \"{}\" could not be kept in \"{}\" ({})",
                path.display(),
                directory.display(),
                sys::errno::Errno(error)
            ),
        );
    }
}

/// A copy was written: what is wrong next time is told again.
pub fn clear(home: &Home) {
    if let Home::Store(store) = home {
        let mut places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(places) = places.as_mut() {
            places.remove(store.directory());
        }
    }
}
