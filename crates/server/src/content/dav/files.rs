//! Changes of files and directories; they block, and follow no symbolic link on their way down.

use std::fs::{self, DirBuilder, File, FileTimes, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

/// Directories inside one another that are copied.
const DEPTH_MAX: usize = 256;

/// A change that a request asks for.
#[derive(Debug)]
pub enum Change {
    Put {
        temporary: PathBuf,
        target: PathBuf,
        access: u32,
        /// Seconds since 1970.
        modified: Option<u64>,
        makes_path: bool,
    },
    Delete {
        path: PathBuf,
        /// The path ends with a slash.
        is_collection: bool,
        /// The depth: all, none, or one that there is not.
        is_whole: Option<bool>,
    },
    MakeCollection {
        path: PathBuf,
        access: u32,
    },
    Copy {
        from: PathBuf,
        to: PathBuf,
        is_collection: bool,
        is_move: bool,
        overwrites: bool,
        access: u32,
    },
}

/// Why it was not done.
#[derive(Debug)]
pub enum Failed {
    Status {
        status: u16,
        message: String,
    },
    System {
        call: &'static str,
        path: PathBuf,
        error: io::Error,
        /// The status where something is missing.
        missing: u16,
    },
}

/// The status for an error of the system, and whether it is critical.
pub fn meaning(error: &io::Error, missing: u16) -> (u16, bool) {
    match error.kind() {
        // As in nginx what keeps a new file from its place is the server's fault, whatever it is.
        _ if missing == 500 => (500, true),
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename => {
            (missing, false)
        }
        ErrorKind::PermissionDenied => (403, false),
        ErrorKind::AlreadyExists => (405, false),
        ErrorKind::StorageFull => (507, true),
        _ => (500, true),
    }
}

fn failed(call: &'static str, path: &Path, missing: u16) -> impl FnOnce(io::Error) -> Failed {
    let path = path.to_owned();
    move |error| Failed::System {
        call,
        path,
        error,
        missing,
    }
}

fn refused(status: u16, message: String) -> Failed {
    Failed::Status { status, message }
}

/// Who may read a directory may enter it.
fn directory_access(access: u32) -> u32 {
    access | ((access & 0o444) >> 2)
}

/// The path without the slash that ends a collection's.
fn bare(path: &Path) -> PathBuf {
    path.components().collect()
}

/// Does it; gives the status of success.
pub fn carry_out(change: Change) -> Result<u16, Failed> {
    match change {
        Change::Put {
            temporary,
            target,
            access,
            modified,
            makes_path,
        } => put(&temporary, &target, access, modified, makes_path),
        Change::Delete {
            path,
            is_collection,
            is_whole,
        } => delete(&path, is_collection, is_whole),
        Change::MakeCollection { path, access } => {
            let path = bare(&path);
            make_directory(&path, access).map_err(failed("mkdir()", &path, 409))?;
            Ok(201)
        }
        Change::Copy {
            from,
            to,
            is_collection,
            is_move,
            overwrites,
            access,
        } => {
            let (from, to) = (bare(&from), bare(&to));
            let kind = (is_collection, is_move);
            copy_or_move(&from, &to, kind, overwrites, access)
        }
    }
}

fn make_directory(path: &Path, access: u32) -> io::Result<()> {
    DirBuilder::new()
        .mode(directory_access(access))
        .create(path)
}

fn put(
    temporary: &Path,
    target: &Path,
    access: u32,
    modified: Option<u64>,
    makes_path: bool,
) -> Result<u16, Failed> {
    let status = match fs::metadata(target) {
        Ok(found) if found.is_dir() => {
            let message = format!("\"{}\" could not be created", target.display());
            return Err(refused(409, message));
        }
        Ok(_) => 204,
        Err(_) => 201,
    };
    fs::set_permissions(temporary, Permissions::from_mode(access))
        .map_err(failed("chmod()", temporary, 500))?;
    if let Some(seconds) = modified {
        let time = UNIX_EPOCH + Duration::from_secs(seconds);
        let file = File::options().write(true).open(temporary);
        file.and_then(|file| file.set_times(FileTimes::new().set_modified(time)))
            .map_err(failed("utimes()", temporary, 500))?;
    }
    if let Some(directory) = target.parent().filter(|_| makes_path) {
        DirBuilder::new()
            .recursive(true)
            .mode(directory_access(access))
            .create(directory)
            .map_err(failed("mkdir()", directory, 500))?;
    }
    match fs::rename(temporary, target) {
        Err(error) if error.kind() == ErrorKind::CrossesDevices => {
            copy_file(temporary, target)?;
            Ok(status)
        }
        renamed => renamed
            .map(|()| status)
            .map_err(failed("rename()", target, 500)),
    }
}

/// Numbers copies, so that no two have the same name.
static COPIES: AtomicU64 = AtomicU64::new(0);

/// A copy comes into its place when it is whole.
fn copy_file(from: &Path, to: &Path) -> Result<(), Failed> {
    let mut name = to.file_name().unwrap_or_default().to_owned();
    name.push(format!(
        ".{}-{}.part",
        std::process::id(),
        COPIES.fetch_add(1, Ordering::Relaxed)
    ));
    let part = to.with_file_name(name);
    let copied = fs::copy(from, &part)
        .map_err(failed("open()", &part, 500))
        .and_then(|_| {
            let times = fs::metadata(from).and_then(|found| found.modified());
            if let Ok(time) = times
                && let Ok(file) = File::options().write(true).open(&part)
            {
                // The copy is whole; only its time would be another one.
                let _kept = file.set_times(FileTimes::new().set_modified(time));
            }
            fs::rename(&part, to).map_err(failed("rename()", to, 500))
        });
    if copied.is_err() {
        // It may not have been made.
        let _gone = fs::remove_file(&part);
    }
    copied
}

fn delete(path: &Path, is_collection: bool, is_whole: Option<bool>) -> Result<u16, Failed> {
    let found = match is_collection {
        // As `lstat` with a slash: what is no directory is an error.
        true => fs::symlink_metadata(path.join("")),
        false => fs::symlink_metadata(path),
    };
    let found = found.map_err(|error| {
        let missing = match error.kind() {
            ErrorKind::NotADirectory => 409,
            _ => 404,
        };
        failed("lstat()", path, missing)(error)
    })?;
    if found.is_dir() {
        if !is_collection {
            let message = format!("DELETE \"{}\" failed (21: Is a directory)", path.display());
            return Err(refused(409, message));
        }
        if is_whole != Some(true) {
            return Err(refused(400, "\"Depth\" header must be infinity".to_owned()));
        }
        let path = bare(path);
        fs::remove_dir_all(&path).map_err(failed("rmdir()", &path, 404))?;
        return Ok(204);
    }
    if is_whole.is_none() {
        return Err(refused(
            400,
            "\"Depth\" header must be 0 or infinity".to_owned(),
        ));
    }
    fs::remove_file(path).map_err(failed("unlink()", path, 404))?;
    Ok(204)
}

fn copy_or_move(
    from: &Path,
    to: &Path,
    (is_collection, is_move): (bool, bool),
    overwrites: bool,
    access: u32,
) -> Result<u16, Failed> {
    let existing = match fs::symlink_metadata(to) {
        Ok(found) => Some(found),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(failed("lstat()", to, 404)(error)),
    };
    if existing.is_some() && !overwrites {
        let message = format!(
            "\"{}\" could not be created (17: File exists)",
            to.display()
        );
        return Err(refused(412, message));
    }
    let source = fs::symlink_metadata(from).map_err(failed("lstat()", from, 404))?;
    let replaced = existing.as_ref().is_some_and(fs::Metadata::is_dir);
    if !source.is_dir() {
        if is_collection || replaced {
            let message = format!(
                "\"{}\" is no collection, or its destination is one",
                from.display()
            );
            return Err(refused(409, message));
        }
        match is_move {
            true => move_file(from, to)?,
            false => copy_file(from, to)?,
        }
        return Ok(204);
    }
    if !is_collection {
        return Err(refused(
            400,
            format!("\"{}\" is collection", from.display()),
        ));
    }
    if to.starts_with(from) || from.starts_with(to) {
        let message = format!(
            "\"{}\" and \"{}\" are one inside the other",
            from.display(),
            to.display()
        );
        return Err(refused(409, message));
    }
    match existing {
        Some(found) if found.is_dir() => {
            fs::remove_dir_all(to).map_err(failed("rmdir()", to, 404))?;
        }
        Some(_) => fs::remove_file(to).map_err(failed("unlink()", to, 404))?,
        None => {}
    }
    if is_move && fs::rename(from, to).is_ok() {
        return Ok(201);
    }
    copy_directory(from, to, access, 0)?;
    if is_move {
        fs::remove_dir_all(from).map_err(failed("rmdir()", from, 404))?;
    }
    Ok(201)
}

fn move_file(from: &Path, to: &Path) -> Result<(), Failed> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == ErrorKind::CrossesDevices => {
            copy_file(from, to)?;
            fs::remove_file(from).map_err(failed("unlink()", from, 404))
        }
        moved => moved.map_err(failed("rename()", to, 500)),
    }
}

fn copy_directory(from: &Path, to: &Path, access: u32, depth: usize) -> Result<(), Failed> {
    if depth > DEPTH_MAX {
        return Err(refused(500, format!("\"{}\" is too deep", from.display())));
    }
    make_directory(to, access).map_err(failed("mkdir()", to, 409))?;
    for entry in fs::read_dir(from).map_err(failed("opendir()", from, 404))? {
        let entry = entry.map_err(failed("readdir()", from, 404))?;
        let kind = entry.file_type().map_err(failed("lstat()", from, 404))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if kind.is_dir() {
            copy_directory(&source, &target, access, depth + 1)?;
        } else if kind.is_file() {
            copy_file(&source, &target)?;
        }
    }
    Ok(())
}
