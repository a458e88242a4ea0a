//! Copies beside their sources: `a.css.gz` next to `a.css`, with its times, so that gzip_static finds it. An attribute of
//! the copy says what it was made of; a file without it is the operator's, and is neither used nor touched.

use super::mark::{BESIDE_BYTES, BesideMark, identity_bytes};
use crate::encoding::best::Effort;
use crate::encoding::negotiate::Coding;
use crate::store::format;
use std::ffi::{CStr, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use sys::file::{Identity, Status};

const ATTRIBUTE: &CStr = c"user.gannet.source";
/// What stands in the names of copies that are being written, before the process's number.
const TEMPORARY: &str = ".gannet-tmp-";

/// Held while a copy gets its name, and while stale ones are removed: a source is looked at under it, so that what is
/// found to be stale cannot be replaced by a fresh one before it is removed.
static NAMES: Mutex<()> = Mutex::new(());

/// What stands where a copy would.
#[derive(Debug)]
pub enum Found {
    /// A copy that was made of this state of the source, with its length.
    Ours(File, BesideMark),
    /// A copy that was made of another one.
    Stale,
    /// Not made here.
    Foreign,
    Nothing,
}

/// The path of a source's copy.
#[must_use]
pub fn path_of(source: &Path, coding: Coding) -> PathBuf {
    let mut name = OsString::from(source);
    name.push(coding.suffix());
    PathBuf::from(name)
}

/// Looks for the copy of a source as it is now. Its bytes are not compared yet.
pub fn look(source: &Path, identity: &Identity, coding: Coding) -> io::Result<Found> {
    let file = match sys::file::open(&path_of(source, coding)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        other => other?,
    };
    let status = sys::file::status(&file)?;
    if !status.is_file() {
        return Ok(Found::Foreign);
    }
    let Some(mark) = mark(&file)? else {
        return Ok(Found::Foreign);
    };
    match mark.source == identity_bytes(identity) && mark.length == status.identity.size {
        true => Ok(Found::Ours(file, mark)),
        false => Ok(Found::Stale),
    }
}

/// What a file's attribute says, if it is one of ours.
pub fn mark(file: &File) -> io::Result<Option<BesideMark>> {
    let mut buffer = [0; BESIDE_BYTES];
    let value = match sys::attribute::read(file, ATTRIBUTE, &mut buffer) {
        // A longer one is of another form.
        Err(error) if error.kind() != io::ErrorKind::PermissionDenied => return Ok(None),
        other => other?,
    };
    Ok(value.and_then(BesideMark::decode))
}

/// Reads a copy whole, if its bytes are those that were written.
pub fn read(mut file: &File, mark: &BesideMark) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(usize::try_from(mark.length).map_err(io::Error::other)?);
    file.read_to_end(&mut bytes)?;
    match format::hash(&bytes) == mark.hash {
        true => Ok(bytes),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the copy is broken",
        )),
    }
}

/// A copy that is being written; dropped before its end, it leaves nothing.
pub struct Writer {
    file: File,
    source: PathBuf,
    coding: Coding,
    temporary: PathBuf,
    target: PathBuf,
    /// There is an older copy of ours to take the place of.
    replaces: bool,
    /// A copy that the server makes is nothing to it without its mark; what the operator asks for may be without.
    needs_mark: bool,
    done: bool,
}

/// Why there is no copy.
#[derive(Debug)]
pub enum Refused {
    /// A file that is not ours stands where the copy would.
    Foreign,
    /// The source went or changed while its copy was made.
    Changed,
    Failed(io::Error),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Refused {
        Refused::Failed(error)
    }
}

static NEXT: AtomicU64 = AtomicU64::new(0);

impl Writer {
    /// Begins a copy, so that what forbids it is known before the work is done.
    pub fn create(source: &Path, identity: &Identity, coding: Coding) -> Result<Writer, Refused> {
        let replaces = match look(source, identity, coding)? {
            Found::Foreign => return Err(Refused::Foreign),
            Found::Nothing => false,
            Found::Ours(..) | Found::Stale => true,
        };
        let mut writer = Writer::create_at(source, coding, replaces)?;
        writer.needs_mark = true;
        // Without attributes nobody could tell the copy from one of the operator's.
        sys::attribute::set(&writer.file, ATTRIBUTE, b"")?;
        Ok(writer)
    }

    /// The same where the operator asks for it: what stands there is replaced if `replaces` says so.
    pub fn create_at(source: &Path, coding: Coding, replaces: bool) -> io::Result<Writer> {
        // A link on the way may be switched until the copy is whole.
        let source = resolved(source)?;
        let target = path_of(&source, coding);
        let mut name = OsString::from(".");
        name.push(target.file_name().unwrap_or_default());
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        name.push(format!("{TEMPORARY}{}-{number}", sys::process::own_pid()));
        let temporary = target.with_file_name(name);
        let mut options = File::options();
        let file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)?;
        Ok(Writer {
            file,
            source,
            coding,
            temporary,
            target,
            replaces,
            needs_mark: false,
            done: false,
        })
    }

    /// Writes the copy and gives it its name, with the times and permissions of its source. The source is looked at
    /// again afterwards: if it went or changed before, the copy is taken back here, if later, whoever watches it finds the
    /// copy where it is.
    pub fn finish(
        mut self,
        identity: &Identity,
        mode: u32,
        effort: Effort,
        body: &[u8],
    ) -> Result<(), Refused> {
        self.file.write_all(body)?;
        let mark = BesideMark {
            effort,
            source: identity_bytes(identity),
            length: body.len() as u64,
            hash: format::hash(body),
        };
        let marked = sys::attribute::set(&self.file, ATTRIBUTE, &mark.encode());
        if self.needs_mark {
            marked?;
        }
        self.file
            .set_permissions(PermissionsExt::from_mode(mode & 0o777))?;
        self.file.set_modified(time(identity.modified_ns))?;
        let _names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        self.place(identity)?;
        self.done = true;
        match is_as(&self.source, identity) {
            true => Ok(()),
            false => {
                std::fs::remove_file(&self.target)?;
                Err(Refused::Changed)
            }
        }
    }

    fn place(&self, identity: &Identity) -> Result<(), Refused> {
        if !self.replaces {
            return match sys::file::rename_new(&self.temporary, &self.target) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(Refused::Foreign),
                other => Ok(other?),
            };
        }
        // What was to be replaced may be the operator's by now.
        if self.needs_mark && matches!(look(&self.source, identity, self.coding)?, Found::Foreign) {
            return Err(Refused::Foreign);
        }
        Ok(std::fs::rename(&self.temporary, &self.target)?)
    }
}

/// The path with its directory as it is now, links resolved. A link at the end stays: copies lie beside it.
fn resolved(source: &Path) -> io::Result<PathBuf> {
    let directory = match source.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let name = source.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    Ok(directory.canonicalize()?.join(name))
}

/// Whether a path still leads to a file in this state.
pub fn is_as(source: &Path, identity: &Identity) -> bool {
    sys::file::status_at(source).is_ok_and(|status| status.identity == *identity)
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.done {
            // The next scan removes what could not be removed now.
            let _left = std::fs::remove_file(&self.temporary);
        }
    }
}

fn time(ns: i64) -> SystemTime {
    let distance = Duration::from_nanos(ns.unsigned_abs());
    match ns < 0 {
        true => UNIX_EPOCH - distance,
        false => UNIX_EPOCH + distance,
    }
}

/// Removes the copies of ours that are of another state than the source has now, or of one that is gone; how many there
/// were.
pub fn remove_stale(source: &Path) -> usize {
    let _names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let status = sys::file::status_at(source);
    let identity = status.ok().filter(Status::is_file);
    let identity = identity.map(|status| identity_bytes(&status.identity));
    let is_stale = |path: &Path| {
        let mark = sys::file::open(path).and_then(|file| mark(&file));
        matches!(mark, Ok(Some(mark)) if Some(mark.source) != identity)
    };
    let copies = Coding::ALL.map(|coding| path_of(source, coding));
    let stale = copies.iter().filter(|path| is_stale(path));
    stale
        .filter(|path| std::fs::remove_file(path).is_ok())
        .count()
}

/// The source that a file would be a copy of, by its name.
#[must_use]
pub fn source_of(copy: &Path) -> Option<PathBuf> {
    let name = copy.file_name()?.as_bytes();
    let mut suffixes = Coding::ALL.iter().map(|coding| coding.suffix().as_bytes());
    let stem = suffixes.find_map(|suffix| name.strip_suffix(suffix))?;
    (!stem.is_empty()).then(|| copy.with_file_name(OsStr::from_bytes(stem)))
}

/// Whether a file name is that of a copy that is being written, or was.
#[must_use]
pub fn is_temporary(name: &[u8]) -> bool {
    name.first() == Some(&b'.') && memchr::memmem::find(name, TEMPORARY.as_bytes()).is_some()
}

/// Whether a file name is that of a copy whose writer is gone.
#[must_use]
pub fn is_abandoned(name: &str) -> bool {
    let Some((_, rest)) = name
        .rsplit_once(TEMPORARY)
        .filter(|_| name.starts_with('.'))
    else {
        return false;
    };
    let number = rest
        .split('-')
        .next()
        .and_then(|digits| digits.parse().ok());
    number.is_some_and(|number| !sys::process::exists(sys::process::Pid(number)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let name = format!("gannet-beside-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn source(&self, text: &str) -> (PathBuf, Identity) {
            let path = self.0.join("a.css");
            std::fs::write(&path, text).unwrap();
            let identity = sys::file::status_at(&path).unwrap().identity;
            (path, identity)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _left = std::fs::remove_dir_all(&self.0);
        }
    }

    fn put(source: &Path, identity: &Identity, body: &[u8]) -> Result<(), Refused> {
        let writer = Writer::create(source, identity, Coding::Gzip)?;
        writer.finish(identity, 0o644, Effort::Best, body)
    }

    #[test]
    fn a_copy_is_of_one_state_of_its_source() {
        let folder = Folder::new("state");
        let (source, identity) = folder.source("one");
        if put(&source, &identity, b"copy").is_err() {
            println!("no extended attributes here");
            return;
        }
        let Found::Ours(file, mark) = look(&source, &identity, Coding::Gzip).unwrap() else {
            panic!("it was just made");
        };
        assert_eq!(read(&file, &mark).unwrap(), b"copy");
        let of_copy = std::fs::metadata(path_of(&source, Coding::Gzip)).unwrap();
        let of_source = std::fs::metadata(&source).unwrap();
        assert_eq!(
            (of_copy.mtime(), of_copy.mtime_nsec()),
            (of_source.mtime(), of_source.mtime_nsec())
        );
        assert_eq!(of_copy.mode() & 0o777, 0o644);
        std::thread::sleep(Duration::from_millis(20));
        let (_, next) = folder.source("two");
        assert!(matches!(
            look(&source, &next, Coding::Gzip).unwrap(),
            Found::Stale
        ));
        put(&source, &next, b"copy two").unwrap();
        assert!(matches!(
            look(&source, &next, Coding::Gzip).unwrap(),
            Found::Ours(..)
        ));
        assert_eq!(remove_stale(&source), 0);
        std::fs::remove_file(&source).unwrap();
        assert_eq!(remove_stale(&source), 1);
        assert!(matches!(
            look(&source, &next, Coding::Gzip).unwrap(),
            Found::Nothing
        ));
        assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0);
    }

    #[test]
    fn a_source_that_goes_or_changes_while_its_copy_is_made_has_none() {
        let folder = Folder::new("late");
        for goes in [true, false] {
            let (source, identity) = folder.source("one");
            let Ok(writer) = Writer::create(&source, &identity, Coding::Gzip) else {
                println!("no extended attributes here");
                return;
            };
            match goes {
                true => std::fs::remove_file(&source).unwrap(),
                false => std::fs::write(&source, "another").unwrap(),
            }
            let refused = writer.finish(&identity, 0o644, Effort::Best, b"copy");
            assert!(matches!(refused, Err(Refused::Changed)), "{refused:?}");
            assert!(!path_of(&source, Coding::Gzip).exists());
        }
    }

    #[test]
    fn a_copy_stays_in_the_folder_it_was_begun_in() {
        let folder = Folder::new("switched");
        for name in ["old", "new"] {
            std::fs::create_dir(folder.0.join(name)).unwrap();
            std::fs::write(folder.0.join(name).join("a.css"), name).unwrap();
        }
        let link = folder.0.join("link");
        std::os::unix::fs::symlink("old", &link).unwrap();
        let source = link.join("a.css");
        let identity = sys::file::status_at(&source).unwrap().identity;
        let Ok(writer) = Writer::create(&source, &identity, Coding::Gzip) else {
            println!("no extended attributes here");
            return;
        };
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink("new", &link).unwrap();
        writer
            .finish(&identity, 0o644, Effort::Best, b"copy")
            .unwrap();
        assert!(folder.0.join("old/a.css.gz").exists());
        assert!(!folder.0.join("new/a.css.gz").exists());
    }

    #[test]
    fn sources_by_the_names_of_their_copies() {
        for (copy, source) in [
            ("/a/b.css.gz", Some("/a/b.css")),
            ("/a/b.css.br", Some("/a/b.css")),
            ("/a/b.gz.zst", Some("/a/b.gz")),
            ("/a/.gz", None),
            ("/a/b.css", None),
        ] {
            assert_eq!(
                source_of(Path::new(copy)),
                source.map(PathBuf::from),
                "{copy}"
            );
        }
    }

    #[test]
    fn the_operator_s_copy_is_left_alone() {
        let folder = Folder::new("foreign");
        let (source, identity) = folder.source("one");
        let own = path_of(&source, Coding::Gzip);
        std::fs::write(&own, b"mine").unwrap();
        assert!(matches!(
            put(&source, &identity, b"copy"),
            Err(Refused::Foreign)
        ));
        assert_eq!(remove_stale(&source), 0);
        assert_eq!(std::fs::read(&own).unwrap(), b"mine");
        assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 2);
    }

    #[test]
    fn names_of_abandoned_copies() {
        assert!(is_abandoned(".a.css.gz.gannet-tmp-2147483646-0"));
        let live = format!(".a.css.gz.gannet-tmp-{}-0", std::process::id());
        for name in [
            &live,
            "a.css.gz",
            ".gannet-tmp-",
            "a.gannet-tmp-2147483646-0",
        ] {
            assert!(!is_abandoned(name), "{name}");
        }
    }
}
