//! `gzip_static`, `brotli_static`, `zstd_static`: the compressed copy that lies beside a file, for clients that take it.

use super::file_cache::failure::libc_errno;
use super::file_cache::{self, Lookup};
use super::static_files::{PathBuffer, check_alias, file_response, log_failure};
use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, Outcome, Set, keyword, row};
use crate::config::setting::Setting;
use crate::encoding::negotiate::{CODINGS, Coding, Offers};
use crate::encoding::{permission, verify};
use crate::http::file::Entry;
use crate::http::{Interrupt, Phase, Request, Response};
use crate::log::error::{Level, write_request};
use conf::Directive;
use conf::table::Row;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::rc::Rc;
use sys::file::Identity;
use wire::http1::Method;

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "gzip_static",
        HSL,
        Arity::Exactly(1),
        |b, d| set(b, d, Coding::Gzip),
        "Send the file with `.gz` after its name to clients that take gzip; `always`: to all; `auto`: where it unpacks to the file as it is now.",
    ),
    row(
        "brotli_static",
        HSL,
        Arity::Exactly(1),
        |b, d| set(b, d, Coding::Brotli),
        "The same for brotli and `.br`.",
    ),
    row(
        "zstd_static",
        HSL,
        Arity::Exactly(1),
        |b, d| set(b, d, Coding::Zstd),
        "The same for zstd and `.zst`.",
    ),
];

/// `gzip_static` and kin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    #[default]
    Off,
    On,
    Always,
    /// Where it belongs to the file as it is now.
    Auto,
}

/// What was written in one block.
#[derive(Default, Debug, Clone)]
pub struct Raw {
    modes: [Setting<Mode>; CODINGS],
}

/// What holds in one block.
#[derive(Default, Debug, Clone)]
pub struct Settings {
    modes: [Mode; CODINGS],
}

impl Settings {
    /// Whether no copies are looked for.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.modes == [Mode::Off; CODINGS]
    }

    fn mode(&self, coding: Coding) -> Mode {
        self.modes[coding as usize]
    }
}

impl Raw {
    /// The settings of a block inside one with the settings `parent`.
    #[must_use]
    pub fn resolve(&self, parent: &Settings) -> Settings {
        let mode = |coding: Coding| self.modes[coding as usize].or(&parent.modes[coding as usize]);
        Settings {
            modes: Coding::ALL.map(mode),
        }
    }
}

fn set(build: &mut Build<'_>, directive: &Directive, coding: Coding) -> Outcome {
    let modes = &[
        ("off", Mode::Off),
        ("on", Mode::On),
        ("always", Mode::Always),
        ("auto", Mode::Auto),
    ];
    let setting = &mut build.location().static_variants.modes[coding as usize];
    keyword(setting, directive, modes)
}

/// Larger sources are not compared with their copies, and copies in `auto` not used for them.
const VERIFY_MAX: u64 = 64 * 1024 * 1024;
/// Pairs of source and copy that a thread knows.
const VERIFIED_MAX: usize = 4096;

/// A source and its copy as they were when they were compared.
struct Verified {
    source: Identity,
    copy: Identity,
    belongs: bool,
}

thread_local! {
    static VERIFIED: RefCell<HashMap<Box<[u8]>, Verified, foldhash::fast::RandomState>> =
        RefCell::default();
}

/// Sends the copy that the client takes, if there is one.
pub async fn respond(request: &Request) -> Phase<Option<Response>> {
    let location = &request.location().settings;
    let settings = &location.static_variants;
    if settings.is_off()
        || location.precompress.is_beside()
        || !matches!(request.method, Method::Get | Method::Head)
        || request.uri.last() == Some(&b'/')
    {
        return Ok(None);
    }
    check_alias(request)?;
    let mut path = PathBuffer::mapped(request);
    let length = path.len();
    let chosen = |coding: &Coding| matches!(settings.mode(*coding), Mode::On | Mode::Auto);
    let offers = Coding::ALL
        .into_iter()
        .filter(chosen)
        .fold(Offers::NONE, Offers::with);
    let mut tried = Offers::NONE;
    for coding in permission::codings(request, None, offers) {
        tried = tried.with(coding);
        let found = copy(request, &mut path, length, coding).await?;
        request
            .vary_accept_encoding
            .set(request.vary_accept_encoding.get() | found.varies());
        if let Copy::File(entry) = found {
            return Ok(Some(variant(request, &entry, coding)));
        }
    }
    for coding in location.compression.order.0 {
        match settings.mode(coding) {
            Mode::Always => {
                if let Copy::File(entry) = copy(request, &mut path, length, coding).await? {
                    return Ok(Some(variant(request, &entry, coding)));
                }
            }
            Mode::On | Mode::Auto => {
                // Another client would get it.
                let unknown = location.compression.vary && !tried.contains(coding);
                if unknown && copy(request, &mut path, length, coding).await?.varies() {
                    request.vary_accept_encoding.set(true);
                }
            }
            Mode::Off => {}
        }
    }
    Ok(None)
}

fn variant(request: &Request, entry: &Rc<Entry>, coding: Coding) -> Response {
    let mut response = file_response(request, entry);
    response.allow_ranges = false;
    response.headers.push("Content-Encoding", coding.as_str());
    response
}

/// What stands at the name of a copy.
enum Copy {
    None,
    /// No copy; but as in nginx the response varies where there is one.
    Directory,
    File(Rc<Entry>),
}

impl Copy {
    /// Whether another client would get something else.
    fn varies(&self) -> bool {
        !matches!(self, Copy::None)
    }
}

/// The copy of the file whose path is the first `length` bytes of `path`, if there is one to be used.
async fn copy(
    request: &Request,
    path: &mut PathBuffer,
    length: usize,
    coding: Coding,
) -> Phase<Copy> {
    path.truncate(length);
    let source = match request.location().settings.static_variants.mode(coding) {
        Mode::Auto => match file_cache::lookup(request, path).await {
            Lookup::File(entry) => Some(entry),
            _ => return Ok(Copy::None),
        },
        _ => None,
    };
    path.extend_from_slice(coding.suffix().as_bytes());
    let entry = match file_cache::lookup(request, path).await {
        Lookup::File(entry) => entry,
        Lookup::Directory => return Ok(Copy::Directory),
        Lookup::Failed(failure) => {
            let missing = matches!(
                failure.number,
                libc_errno::ENOENT | libc_errno::ENOTDIR | libc_errno::ENAMETOOLONG
            );
            if !missing {
                log_failure(request, failure.level(), path, &failure);
            }
            return Ok(Copy::None);
        }
        Lookup::Other => {
            write_request(
                request,
                Level::Critical,
                format_args!(
                    "\"{}\" is not a regular file",
                    String::from_utf8_lossy(path)
                ),
            );
            return Err(Interrupt::Status(404));
        }
    };
    match source {
        Some(source) if !belongs(&source, &entry, coding).await => Ok(Copy::None),
        _ => Ok(Copy::File(entry)),
    }
}

/// Whether a copy unpacks to its source as both are now. They are compared once for as long as neither changes.
async fn belongs(source: &Rc<Entry>, copy: &Rc<Entry>, coding: Coding) -> bool {
    let known = VERIFIED.with_borrow(|verified| {
        let known = verified.get(&copy.path[..])?;
        let same = known.source == source.identity && known.copy == copy.identity;
        same.then_some(known.belongs)
    });
    if let Some(belongs) = known {
        return belongs;
    }
    if source.identity.size > VERIFY_MAX || copy.identity.size > VERIFY_MAX {
        return false;
    }
    let paths = [source, copy].map(|entry| PathBuf::from(OsStr::from_bytes(&entry.path)));
    let identities = [source, copy].map(|entry| entry.identity);
    // Read anew, away from the network thread, so that what is compared is what stands there.
    let compared = tokio::task::spawn_blocking(move || compare(&paths, &identities, coding));
    let Ok(Ok(Some((belongs, lasting)))) = compared.await else {
        return false;
    };
    if lasting {
        VERIFIED.with_borrow_mut(|verified| {
            if verified.len() >= VERIFIED_MAX {
                verified.clear();
            }
            let pair = Verified {
                source: source.identity,
                copy: copy.identity,
                belongs,
            };
            verified.insert(copy.path[..].into(), pair);
        });
    }
    belongs
}

/// Compares two files that are to be what they were; `None` if they are not. The second says whether a change of either
/// would show.
fn compare(
    [source, copy]: &[PathBuf; 2],
    identities: &[Identity; 2],
    coding: Coding,
) -> io::Result<Option<(bool, bool)>> {
    let files = [sys::file::open(source)?, sys::file::open(copy)?];
    let is_same = || -> io::Result<bool> {
        let [source, copy] = &files;
        let now = [sys::file::status(source)?, sys::file::status(copy)?];
        Ok(now.map(|status| status.identity) == *identities)
    };
    if !is_same()? {
        return Ok(None);
    }
    let [source, copy] = &files;
    let belongs = verify::is_copy_of(coding, copy, source)?;
    let lasting = identities.iter().all(file_cache::is_settled_now);
    Ok(is_same()?.then_some((belongs, lasting)))
}
