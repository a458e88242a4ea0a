//! A temporary directory, removed on drop (kept when KEEP is set in the environment).

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

pub struct Directory {
    path: PathBuf,
}

impl Directory {
    /// Makes a directory whose path has the same length in every run, because paths turn up in bodies.
    pub fn create() -> Directory {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = PathBuf::from(format!("/tmp/gannet-{:08}-{number:05}", std::process::id()));
        remove(&path);
        std::fs::create_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Directory { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if std::env::var_os("KEEP").is_none() {
            remove(&self.path);
        }
    }
}

fn remove(path: &Path) {
    if path.exists() && std::fs::remove_dir_all(path).is_err() {
        // A case may have taken the permissions of a folder away; only root is not stopped by that.
        let _ = std::process::Command::new("chmod")
            .arg("-R")
            .arg("u+rwx")
            .arg(path)
            .status();
        let _ = std::fs::remove_dir_all(path);
    }
}
