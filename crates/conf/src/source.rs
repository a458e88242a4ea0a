//! Where configuration texts come from: the disk, or what another process read from it.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::glob;

/// A text larger than this is refused; it is no configuration.
pub const MAX_FILE_BYTES: u64 = 1 << 30;

/// Linux's EFBIG, the answer for a text beyond [`MAX_FILE_BYTES`].
const FILE_TOO_LARGE: i32 = 27;

/// A place that texts are read from by path.
pub trait Source {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// The paths that match `pattern`, in the order of their bytes; none is no error.
    fn glob(&self, pattern: &Path) -> io::Result<Vec<PathBuf>>;
}

/// The file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Source for Disk {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        File::open(path)?
            .take(MAX_FILE_BYTES + 1)
            .read_to_end(&mut text)?;
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(io::Error::from_raw_os_error(FILE_TOO_LARGE));
        }
        Ok(text)
    }

    fn glob(&self, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(glob::expand(pattern))
    }
}

/// The error as nginx shows it: `(2: No such file or directory)`.
pub fn os_error(error: &io::Error) -> String {
    let text = error.to_string();
    match error.raw_os_error() {
        Some(code) => {
            let text = text
                .strip_suffix(&format!(" (os error {code})"))
                .unwrap_or(&text);
            format!("({code}: {text})")
        }
        None => format!("({text})"),
    }
}
