//! Copies of a whole folder, made beside the files, checked or removed: what `gannet precompress` does.

use super::beside::{self, Found, Refused, Writer};
use super::job::saves_enough;
use crate::encoding::best::{self, Effort};
use crate::encoding::negotiate::{CODINGS, Coding, Offers};
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use sys::file::{Identity, Status};

/// What is done with the copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Make those that are missing or stale; `force`: also in place of ones that were not made here.
    Make {
        force: bool,
    },
    /// Say which are stale.
    Check,
    Remove,
}

#[derive(Debug, Clone)]
pub struct Options {
    pub task: Task,
    pub effort: Effort,
    pub codings: Offers,
    /// Of the files that have copies, in lower case, without dots.
    pub extensions: HashSet<String>,
    pub min_length: u64,
    pub max_length: u64,
    /// Threads.
    pub jobs: usize,
}

/// What became of the copies in one coding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub made: u64,
    /// They were up to date.
    pub fresh: u64,
    /// Not smaller by enough.
    pub useless: u64,
    /// Of another state of their sources, or broken.
    pub stale: u64,
    /// There is none.
    pub missing: u64,
    pub removed: u64,
    /// Of the files that have a copy now, and of their copies.
    pub source_bytes: u64,
    pub copy_bytes: u64,
}

/// What became of a folder.
#[derive(Debug, Default)]
pub struct Report {
    pub codings: [Tally; CODINGS],
    pub files: u64,
    /// What is to be told of single files, one line each.
    pub lines: Vec<String>,
    pub failed: u64,
}

/// The extensions of files that shrink, with their types.
pub const EXTENSIONS: &[(&str, &str)] = &[
    ("html", "text/html"),
    ("htm", "text/html"),
    ("xhtml", "application/xhtml+xml"),
    ("css", "text/css"),
    ("js", "text/javascript"),
    ("mjs", "text/javascript"),
    ("json", "application/json"),
    ("map", "application/json"),
    ("webmanifest", "application/manifest+json"),
    ("xml", "text/xml"),
    ("rss", "application/rss+xml"),
    ("atom", "application/atom+xml"),
    ("svg", "image/svg+xml"),
    ("txt", "text/plain"),
    ("md", "text/markdown"),
    ("csv", "text/csv"),
    ("ics", "text/calendar"),
    ("vtt", "text/vtt"),
    ("wasm", "application/wasm"),
    ("ttf", "font/ttf"),
    ("otf", "font/otf"),
    ("eot", "application/vnd.ms-fontobject"),
    ("ico", "image/x-icon"),
    ("bmp", "image/bmp"),
];

/// The files below a folder that have copies, in the order of their names. What killed predecessors left half is removed.
/// Links to folders are not followed.
pub fn collect(top: &Path, options: &Options) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut waiting = vec![top.to_path_buf()];
    let mut first = true;
    while let Some(directory) = waiting.pop() {
        let entries = match fs::read_dir(&directory) {
            // One below may be closed to us, or gone.
            Err(_) if !first => continue,
            other => other?,
        };
        first = false;
        for entry in entries.flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            if name.to_str().is_some_and(beside::is_abandoned) {
                // It is no copy in any case; the next run may remove it.
                let _left = fs::remove_file(&path);
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                waiting.push(path);
            } else if is_wanted(&path, options) {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

fn is_wanted(path: &Path, options: &Options) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    let named = extension
        .is_some_and(|extension| options.extensions.contains(&extension.to_ascii_lowercase()));
    let status = sys::file::status_at(path);
    named
        && status.is_ok_and(|status| {
            status.is_file()
                && (options.min_length..=options.max_length).contains(&status.identity.size)
        })
}

/// Goes through the files with so many threads as asked for; `progress` is told of each that is done.
pub fn run(files: &[PathBuf], options: &Options, progress: &(dyn Fn() + Sync)) -> Report {
    let (next, report) = (AtomicUsize::new(0), Mutex::new(Report::default()));
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.clamp(1, files.len().max(1)) {
            scope.spawn(|| {
                while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let own = one(path, options);
                    let mut all = report.lock().unwrap_or_else(PoisonError::into_inner);
                    all.add(own);
                    drop(all);
                    progress();
                }
            });
        }
    });
    report.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn one(path: &Path, options: &Options) -> Report {
    let mut report = Report {
        files: 1,
        ..Report::default()
    };
    if let Err(error) = report.file(path, options) {
        report.failed += 1;
        let reason = sys::errno::Errno(&error);
        report.lines.push(format!("{}: {reason}", path.display()));
    }
    report
}

/// What there is of a copy.
enum Copy {
    /// With its length.
    Fresh(u64),
    /// Whose it is.
    Stale {
        ours: bool,
    },
    Missing,
}

impl Report {
    fn add(&mut self, other: Report) {
        for (sum, own) in self.codings.iter_mut().zip(other.codings) {
            sum.made += own.made;
            sum.fresh += own.fresh;
            sum.useless += own.useless;
            sum.stale += own.stale;
            sum.missing += own.missing;
            sum.removed += own.removed;
            sum.source_bytes += own.source_bytes;
            sum.copy_bytes += own.copy_bytes;
        }
        self.files += other.files;
        self.failed += other.failed;
        self.lines.extend(other.lines);
    }

    fn file(&mut self, path: &Path, options: &Options) -> io::Result<()> {
        let mut file = sys::file::open(path)?;
        let status = sys::file::status(&file)?;
        let mut body = Vec::new();
        file.read_to_end(&mut body)?;
        if sys::file::status(&file)?.identity != status.identity {
            return Err(io::Error::other("it changed while it was read"));
        }
        // Whether a copy is stale is not a matter of the effort that it was made with.
        let least = match options.task {
            Task::Make { .. } => options.effort,
            Task::Check | Task::Remove => Effort::Fast,
        };
        for coding in Coding::ALL
            .into_iter()
            .filter(|coding| options.codings.contains(*coding))
        {
            let copy = examine(path, &status.identity, coding, least, &body)?;
            self.coding(path, &status, coding, copy, options, &body)?;
        }
        Ok(())
    }

    fn coding(
        &mut self,
        path: &Path,
        status: &Status,
        coding: Coding,
        copy: Copy,
        options: &Options,
        body: &[u8],
    ) -> io::Result<()> {
        let tally = &mut self.codings[coding as usize];
        let name = beside::path_of(path, coding);
        match (options.task, copy) {
            (Task::Remove, Copy::Fresh(_) | Copy::Stale { ours: true }) => {
                fs::remove_file(&name)?;
                tally.removed += 1;
            }
            (Task::Make { .. } | Task::Check, Copy::Fresh(length)) => {
                tally.fresh += 1;
                tally.source_bytes += status.identity.size;
                tally.copy_bytes += length;
            }
            (Task::Make { force }, Copy::Stale { ours }) if ours || force => {
                return self.make(path, status, (coding, options.effort), true, body);
            }
            (Task::Make { .. }, Copy::Missing) => {
                return self.make(path, status, (coding, options.effort), false, body);
            }
            (Task::Make { .. }, Copy::Stale { .. }) => {
                tally.stale += 1;
                let line = "is stale, and was not made by gannet: --force replaces it";
                self.lines.push(format!("{} {line}", name.display()));
            }
            (Task::Check, Copy::Stale { .. }) => {
                tally.stale += 1;
                self.lines.push(format!("{} is stale", name.display()));
            }
            (Task::Check, Copy::Missing) => tally.missing += 1,
            (Task::Remove, Copy::Stale { .. } | Copy::Missing) => {}
        }
        Ok(())
    }

    fn make(
        &mut self,
        path: &Path,
        status: &Status,
        (coding, effort): (Coding, Effort),
        replaces: bool,
        body: &[u8],
    ) -> io::Result<()> {
        let tally = &mut self.codings[coding as usize];
        let writer = Writer::create_at(path, coding, replaces)?;
        let made = best::compress(coding, effort, body).ok_or(io::ErrorKind::OutOfMemory)?;
        if !saves_enough(made.len() as u64, status.identity.size) {
            tally.useless += 1;
            if replaces {
                fs::remove_file(beside::path_of(path, coding))?;
            }
            return Ok(());
        }
        match writer.finish(&status.identity, status.mode, effort, &made) {
            Ok(()) => {
                tally.made += 1;
                tally.source_bytes += status.identity.size;
                tally.copy_bytes += made.len() as u64;
                Ok(())
            }
            // Somebody else has made one meanwhile.
            Err(Refused::Foreign) => Ok(()),
            Err(Refused::Changed) => Err(io::Error::other("it changed while its copy was made")),
            Err(Refused::Failed(error)) => Err(error),
        }
    }
}

/// Looks at a copy and undoes it: only what gives the source's bytes is fresh, and has its time, by which gzip_static and
/// its kin are judged.
fn examine(
    source: &Path,
    identity: &Identity,
    coding: Coding,
    effort: Effort,
    body: &[u8],
) -> io::Result<Copy> {
    let name = beside::path_of(source, coding);
    let mut file = match File::open(&name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Copy::Missing),
        other => other?,
    };
    let status = sys::file::status(&file)?;
    let mark = beside::mark(&file).ok().flatten();
    let ours = mark.is_some();
    let mut compressed = Vec::new();
    file.read_to_end(&mut compressed)?;
    let same_time = status.identity.modified_seconds() == identity.modified_seconds();
    if !same_time || !best::is_of(coding, &compressed, body) {
        return Ok(Copy::Stale { ours });
    }
    let current = matches!(beside::look(source, identity, coding)?, Found::Ours(..));
    // The server takes only what carries the source's identity: one that lost it, or was made with less effort, is made anew.
    match mark {
        Some(mark) if !current || mark.effort < effort => Ok(Copy::Stale { ours }),
        _ => Ok(Copy::Fresh(compressed.len() as u64)),
    }
}
