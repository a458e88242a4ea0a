//! Variables of where the request stands now: its path and arguments, its server, the file it means.

use super::{Fixed, append};
use crate::content::static_files;
use crate::http::Request;
use crate::log::error::{self, Level};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use sys::errno::Errno;

pub const FIXED: &[Fixed] = &[
    ("uri", uri),
    ("document_uri", uri),
    ("args", args),
    ("query_string", args),
    ("is_args", |request, out| {
        let mark: &[u8] = if request.args.is_empty() { b"" } else { b"?" };
        append(Some(mark), out)
    }),
    ("host", |request, out| {
        let name: &[u8] = match request.host.is_empty() {
            true => &request.server().name,
            false => &request.host,
        };
        append(Some(name), out)
    }),
    ("server_name", |request, out| {
        append(Some(&request.server().name), out)
    }),
    ("request_filename", |request, out| {
        if static_files::alias_is_lost(request) {
            return false;
        }
        static_files::map_path(request, &request.uri, out);
        true
    }),
    ("document_root", |request, out| {
        static_files::append_root(request, out);
        true
    }),
    ("realpath_root", realpath_root),
];

/// Not found where the request line could not be read.
fn uri(request: &Request, out: &mut Vec<u8>) -> bool {
    out.extend_from_slice(&request.uri);
    !request.uri.is_empty()
}

fn args(request: &Request, out: &mut Vec<u8>) -> bool {
    out.extend_from_slice(&request.args);
    !request.args.is_empty()
}

/// The root with its symbolic links resolved; one that does not exist has no value.
fn realpath_root(request: &Request, out: &mut Vec<u8>) -> bool {
    let mut path = Vec::new();
    static_files::append_root(request, &mut path);
    match std::fs::canonicalize(Path::new(OsStr::from_bytes(&path))) {
        Ok(real) => append(Some(real.as_os_str().as_bytes()), out),
        Err(reason) => {
            error::write_request(
                request,
                Level::Critical,
                format_args!(
                    "realpath() \"{}\" failed ({})",
                    String::from_utf8_lossy(&path),
                    Errno(&reason)
                ),
            );
            false
        }
    }
}
