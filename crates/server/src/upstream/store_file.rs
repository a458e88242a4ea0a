//! `proxy_store`: a response is kept as a file on its way to the client, so that the next request finds it there.

use super::settings::{Family, Settings, Store};
use crate::content::static_files::PathBuffer;
use crate::http::temp_file::TempFile;
use crate::http::trace::{Late, Severity};
use crate::http::{Request, Response};
use crate::log::error::{self, Level};
use std::ffi::OsStr;
use std::fs::{File, FileTimes, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};
use sys::errno::Errno;

/// Numbers copies on their way to another file system, so that no two have the same name.
static COPIES: AtomicU64 = AtomicU64::new(0);

/// A file that is being written. It comes into its place when it is whole, and not before.
pub struct StoreFile {
    /// None once writing has failed.
    file: Option<TempFile>,
    target: PathBuf,
    mode: u32,
    /// Seconds since 1970: the response's Last-Modified.
    modified: Option<u64>,
    late: Rc<Late>,
}

impl StoreFile {
    /// Begins to keep a response, if the settings ask for it and it is worth it.
    pub fn begin(
        request: &Request,
        settings: &Settings,
        family: Family,
        response: &Response,
        late: &Rc<Late>,
    ) -> Option<StoreFile> {
        if response.status != 200 || request.is_head() {
            return None;
        }
        let target = match &settings.store {
            Store::Off => return None,
            Store::On => PathBuf::from(OsStr::from_bytes(&PathBuffer::mapped(request))),
            Store::Path(path) => PathBuf::from(OsStr::from_bytes(&path.evaluate(request))),
        };
        let file = match settings.temp_path(family).create() {
            Ok(file) => file,
            Err((path, error)) => {
                complain(late, "open", &path, &error);
                return None;
            }
        };
        let modified = response.last_modified.as_ref();
        Some(StoreFile {
            file: Some(file),
            target,
            mode: settings.store_access,
            modified: modified.and_then(|modified| u64::try_from(modified.seconds).ok()),
            late: Rc::clone(late),
        })
    }

    /// The next piece of the body.
    pub fn write(&mut self, bytes: &[u8]) {
        if let Some(file) = &mut self.file
            && let Err(error) = file.write(bytes)
        {
            complain(&self.late, "write", &file.path, &error);
            self.file = None;
        }
    }

    /// The response is whole: the file takes its place.
    pub fn complete(mut self) {
        let Some(mut file) = self.file.take() else {
            return;
        };
        match settle(&file, &self.target, self.mode, self.modified) {
            Ok(Settled::Done) => file.stays = true,
            Ok(Settled::ElsewhereStill) => {
                tokio::task::spawn_local(copy_later(file, self.target, self.modified));
            }
            Err((call, error)) => complain(&self.late, call, &self.target, &error),
        }
    }
}

/// What became of a whole file.
enum Settled {
    Done,
    /// Its place is on another file system.
    ElsewhereStill,
}

/// Copying takes as long as the disks want, so it is no matter of this thread. The request may be over by then: what goes
/// wrong is told by the process.
async fn copy_later(file: TempFile, target: PathBuf, modified: Option<u64>) {
    let source = file.path.clone();
    let shown = target.clone();
    let copied = tokio::task::spawn_blocking(move || copy(&source, &target, modified)).await;
    let error = match copied {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error,
        Err(error) => io::Error::other(error),
    };
    let (shown, reason) = (shown.display(), Errno(&error));
    error::write(
        Level::Critical,
        format_args!("rename() \"{shown}\" failed ({reason}) while reading upstream"),
    );
}

fn complain(late: &Late, call: &str, path: &Path, error: &io::Error) {
    let (path, reason) = (path.display(), Errno(error));
    late.say(
        Severity::Critical,
        format!("{call}() \"{path}\" failed ({reason}) while reading upstream"),
    );
}

/// Gives the file its mode, time and, where that is one step, its place.
fn settle(
    temporary: &TempFile,
    target: &Path,
    mode: u32,
    modified: Option<u64>,
) -> Result<Settled, (&'static str, io::Error)> {
    let file = File::from(
        temporary
            .file
            .fd
            .try_clone()
            .map_err(|error| ("dup", error))?,
    );
    file.set_permissions(Permissions::from_mode(mode))
        .map_err(|error| ("chmod", error))?;
    if let Some(seconds) = modified {
        let time = UNIX_EPOCH + Duration::from_secs(seconds);
        let times = FileTimes::new().set_modified(time);
        file.set_times(times).map_err(|error| ("futimens", error))?;
    }
    match std::fs::rename(&temporary.path, target) {
        Ok(()) => return Ok(Settled::Done),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(directory) = target.parent() {
                std::fs::create_dir_all(directory).map_err(|error| ("mkdir", error))?;
            }
            match std::fs::rename(&temporary.path, target) {
                Ok(()) => return Ok(Settled::Done),
                Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
                Err(error) => return Err(("rename", error)),
            }
        }
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
        Err(error) => return Err(("rename", error)),
    }
    Ok(Settled::ElsewhereStill)
}

/// A copy beside the target takes its place in one step.
fn copy(source: &Path, target: &Path, modified: Option<u64>) -> io::Result<()> {
    let mut name = target.as_os_str().to_owned();
    let number = COPIES.fetch_add(1, Ordering::Relaxed);
    name.push(format!(".{}.{number}", std::process::id()));
    let beside = PathBuf::from(name);
    let copied = std::fs::copy(source, &beside)
        .and_then(|_| {
            let copy = File::options().write(true).open(&beside)?;
            match modified {
                Some(seconds) => copy.set_modified(UNIX_EPOCH + Duration::from_secs(seconds)),
                None => Ok(()),
            }
        })
        .and_then(|()| std::fs::rename(&beside, target));
    if copied.is_err() {
        // It may not even have been made.
        let _gone = std::fs::remove_file(&beside);
    }
    copied
}
