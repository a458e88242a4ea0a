//! Settings that PHP's scripts cannot change (`php_admin_value`). php-fpm locks them itself; php-cgi locks what a section
//! of php.ini for a directory says. So such settings are given to it as sections for all directories of the root, in a file
//! that the programs of a pool may read and not write.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use sys::user::Gid;

/// The files of a process, in a directory that is made with the first of them and goes with the process.
#[derive(Debug, Default)]
pub struct LockedIni {
    /// The directory, and the process that made it: a child of it has a copy of this, and must leave the files.
    made: Option<(PathBuf, i32)>,
}

impl LockedIni {
    /// Writes the settings `lines` for programs of this number; gives the directory that PHP is to read.
    pub fn write(&mut self, number: u64, lines: &str, group: Option<Gid>) -> io::Result<PathBuf> {
        let directory = self.directory()?.join(format!("{number:016x}"));
        let (directory_mode, file_mode) = match group {
            Some(_) => (0o750, 0o640),
            None => (0o700, 0o600),
        };
        match DirBuilder::new().mode(0o700).create(&directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        // Written anew for each program, for the root may have other directories by now; in one step, for others read it.
        let (written, place) = (directory.join("new"), directory.join("locked.ini"));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&written)?;
        file.write_all(sections(Path::new("/"), lines)?.as_bytes())?;
        if let Some(group) = group {
            chown(&written, None, Some(group.0))?;
            chown(&directory, None, Some(group.0))?;
        }
        fs::set_permissions(&written, Permissions::from_mode(file_mode))?;
        fs::set_permissions(&directory, Permissions::from_mode(directory_mode))?;
        fs::rename(&written, &place)?;
        Ok(directory)
    }

    fn directory(&mut self) -> io::Result<PathBuf> {
        if let Some((directory, _)) = &self.made
            && directory.is_dir()
        {
            return Ok(directory.clone());
        }
        let mut random = [0; 16];
        sys::machine::random(&mut random)?;
        let name: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let directory = std::env::temp_dir().join(format!("gannet-{name}"));
        // Others may pass through it, and see nothing.
        DirBuilder::new().mode(0o700).create(&directory)?;
        fs::set_permissions(&directory, Permissions::from_mode(0o711))?;
        self.made = Some((directory.clone(), sys::process::own_pid().0));
        Ok(directory)
    }
}

impl Drop for LockedIni {
    fn drop(&mut self) {
        if let Some((directory, owner)) = &self.made
            && *owner == sys::process::own_pid().0
        {
            // Somebody may have cleaned up before.
            let _gone = fs::remove_dir_all(directory);
        }
    }
}

/// The lines for each directory of `root`; PHP knows no section for all.
fn sections(root: &Path, lines: &str) -> io::Result<String> {
    let mut out = String::new();
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        let plain = |byte: &u8| !byte.is_ascii_control() && !b"[]\"';".contains(byte);
        let name = path.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
        if let Some(shown) = path.to_str()
            && name.iter().all(plain)
            && path.is_dir()
        {
            out.push_str(&format!("[PATH={shown}]\n{lines}"));
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_go_with_their_owner() {
        let mut locked = LockedIni::default();
        let directory = locked.write(7, "a=1\n", None).unwrap();
        let text = fs::read_to_string(directory.join("locked.ini")).unwrap();
        assert!(text.contains("[PATH=/usr]\na=1\n"), "{text}");
        assert_eq!(locked.write(7, "a=2\n", None).unwrap(), directory);
        drop(locked);
        assert!(!directory.exists() && !directory.parent().unwrap().exists());
    }
}
