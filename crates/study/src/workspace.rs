//! The directory that a study works in, and free ports. Nothing is left of it.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A directory that workers under another user can read; removed when dropped.
pub struct Workspace {
    dir: PathBuf,
}

impl Workspace {
    pub fn create() -> Result<Workspace, String> {
        let name = format!("gannet-study-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let failed = |error| format!("cannot make \"{}\": {error}", dir.display());
        fs::create_dir(&dir).map_err(failed)?;
        // From here on it is removed, whatever happens.
        let workspace = Workspace { dir: dir.clone() };
        let readable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&dir, readable).map_err(failed)?;
        fs::create_dir(workspace.root()).map_err(failed)?;
        Ok(workspace)
    }

    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// The drawn files.
    pub fn root(&self) -> PathBuf {
        self.dir.join("www")
    }

    /// Empties what servers keep over a restart.
    pub fn forget(&self) -> Result<(), String> {
        let kept = self.dir.join("cache");
        match fs::remove_dir_all(&kept) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(format!("cannot remove \"{}\": {error}", kept.display()))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, String> {
        let path = self.dir.join(name);
        fs::write(&path, bytes)
            .map_err(|error| format!("cannot write \"{}\": {error}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            eprintln!("gannet: cannot remove \"{}\": {error}", self.dir.display());
        }
    }
}

/// A port of 127.0.0.1 that was free a moment ago.
pub fn free_port() -> Result<u16, String> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|error| format!("no free port: {error}"))
}
