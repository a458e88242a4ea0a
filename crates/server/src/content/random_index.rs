//! `random_index`: any file of a directory stands for it.

use super::static_files::PathBuffer;
use crate::config::directive::{Arity, LOCATION, Set, flag, row};
use crate::http::interrupt::Target;
use crate::http::{Interrupt, Phase, Request};
use crate::log::error::{Level, write_request};
use bytes::Bytes;
use conf::table::Row;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use wire::http1::Method;

pub const DIRECTIVES: &[Row<Set>] = &[row(
    "random_index",
    LOCATION,
    Arity::Flag,
    |b, d| flag(&mut b.location().random_index.on, d),
    "Answer with any file of a directory.",
)];

crate::config::setting::settings! {
    on: bool = false,
}

/// Redirects inside the server to one of the directory's files; hidden ones are left out. A directory without files goes
/// on to `index`.
pub async fn respond(request: &Request) -> Phase {
    if !request.location().settings.random_index.on
        || request.uri.last() != Some(&b'/')
        || !matches!(request.method, Method::Get | Method::Head | Method::Post)
    {
        return Ok(());
    }
    let path = PathBuf::from(OsStr::from_bytes(&PathBuffer::mapped(request)));
    let listed = path.clone();
    // It fails only when the thread ends, or by a panic that the log told of.
    let Ok(chosen) = tokio::task::spawn_blocking(move || choose(&listed)).await else {
        return Err(Interrupt::Status(500));
    };
    match chosen {
        Ok(None) => Ok(()),
        Ok(Some(name)) => Err(Interrupt::Redirect(Target::Uri {
            path: Bytes::from([&request.uri[..], &name].concat()),
            args: Some(Bytes::copy_from_slice(&request.args)),
        })),
        Err(error) => {
            let (level, status) = match error.kind() {
                io::ErrorKind::NotFound
                | io::ErrorKind::NotADirectory
                | io::ErrorKind::InvalidFilename => (Level::Error, 404),
                io::ErrorKind::PermissionDenied => (Level::Error, 403),
                _ => (Level::Critical, 500),
            };
            write_request(
                request,
                level,
                format_args!(
                    "opendir() \"{}\" failed ({})",
                    path.display().to_string().trim_end_matches('/'),
                    sys::errno::Errno(&error)
                ),
            );
            Err(Interrupt::Status(status))
        }
    }
}

/// One of the files of a directory, each as likely as the others; it holds one name at a time.
fn choose(path: &std::path::Path) -> io::Result<Option<Vec<u8>>> {
    let mut chosen = None;
    let mut count = 0;
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.as_bytes().starts_with(b".") {
            continue;
        }
        // Links count by what they lead to.
        if !std::fs::metadata(entry.path()).is_ok_and(|status| status.is_file()) {
            continue;
        }
        count += 1;
        if below(count)? == 0 {
            chosen = Some(name.into_vec());
        }
    }
    Ok(chosen)
}

/// A random number below `bound`.
fn below(bound: u64) -> io::Result<u64> {
    let mut bytes = [0; 8];
    sys::machine::random(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes) % bound.max(1))
}
