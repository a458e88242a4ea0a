//! Making the copies of one file: on the background pool, from a file that stands still, for what it is when it is read.

use super::beside::{Refused, is_as};
use super::counts::{COUNTS, add};
use super::place::Home;
use super::{rate, trouble};
use crate::background::{self, Full, Urgency};
use crate::encoding::best::{self, Effort};
use crate::encoding::negotiate::{Coding, Offers};
use crate::store::Key;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use sys::file::{Identity, Status};

/// A file that changed less than this ago may change again without its times telling (the clock of file times ticks every
/// 10 ms or faster): its copies wait.
const SETTLED: Duration = Duration::from_millis(50);
/// How often a file that does not come to rest is looked at again, before it has to be asked for anew.
const ATTEMPTS: u32 = 20;
/// A copy must be smaller than its source by this part of it.
const SAVING: u64 = 20;
/// The order in which copies are made: what takes longest comes last.
const ORDER: [Coding; 3] = [Coding::Gzip, Coding::Zstd, Coding::Brotli];

/// What is to be made.
#[derive(Clone)]
pub struct Job {
    pub path: PathBuf,
    pub home: Home,
    pub codings: Offers,
    pub effort: Effort,
    pub min_length: u64,
    pub max_length: u64,
    /// Bytes a second, for all jobs together; 0: no limit.
    pub rate: u64,
}

/// The files that wait for their copies or are being compressed, by path and place; each waits once.
static PENDING: Mutex<Option<HashSet<Key>>> = Mutex::new(None);

/// Whether the configuration in force makes copies anywhere; what still waits when it does not is let go.
static WANTED: AtomicBool = AtomicBool::new(true);

pub fn set_wanted(wanted: bool) {
    WANTED.store(wanted, Ordering::Relaxed);
}

fn is_wanted() -> bool {
    WANTED.load(Ordering::Relaxed)
}

/// Queues a job. It is done if the same file waits already.
pub fn submit(urgency: Urgency, job: Job) -> Result<(), Full> {
    if trouble::is_paused(&job.home, &job.path) || !note_pending(&job) {
        return Ok(());
    }
    let key = job.key();
    let submitted = background::pool().submit(urgency, move || job.run(urgency, 0));
    if submitted.is_err() {
        forget_pending(key);
    }
    submitted
}

fn note_pending(job: &Job) -> bool {
    let mut pending = PENDING.lock().unwrap_or_else(PoisonError::into_inner);
    pending.get_or_insert_default().insert(job.key())
}

fn forget_pending(key: Key) {
    let mut pending = PENDING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(pending) = pending.as_mut() {
        pending.remove(&key);
    }
}

/// Forgets that a file waits, also if its compression panics.
struct Pending(Key);

impl Drop for Pending {
    fn drop(&mut self) {
        forget_pending(self.0);
    }
}

/// What became of a file.
enum Outcome {
    Done,
    /// It changed too lately, or while it was read.
    Unsettled,
}

impl Job {
    fn key(&self) -> Key {
        let mut text = self.path.as_os_str().as_bytes().to_vec();
        text.push(0);
        if let Home::Store(store) = &self.home {
            text.extend_from_slice(store.directory().as_os_str().as_bytes());
        }
        Key::of(&text)
    }

    fn run(self, urgency: Urgency, attempt: u32) {
        let pending = Pending(self.key());
        if !is_wanted() {
            return;
        }
        match self.make() {
            Ok(Outcome::Done) => {}
            Ok(Outcome::Unsettled) if attempt < ATTEMPTS => {
                let again = move || {
                    self.run(urgency, attempt + 1);
                };
                // It stays pending. If nobody takes it, the next request asks anew.
                if background::pool()
                    .later(SETTLED * 2, urgency, again)
                    .is_ok()
                {
                    std::mem::forget(pending);
                }
            }
            Ok(Outcome::Unsettled) => {}
            Err(error) => {
                add(&COUNTS.failed, 1);
                trouble::note(&self.home, &self.path, &error);
            }
        }
    }

    fn make(&self) -> io::Result<Outcome> {
        let Some((mut file, status)) = self.open() else {
            return Ok(Outcome::Done);
        };
        let identity = status.identity;
        if !(self.min_length..=self.max_length).contains(&identity.size) {
            return Ok(Outcome::Done);
        }
        if !is_settled(&identity) {
            return Ok(Outcome::Unsettled);
        }
        let lacks = |coding: &Coding| {
            let made = self.home.effort(&self.path, &identity, *coding);
            self.codings.contains(*coding) && made.is_none_or(|effort| effort < self.effort)
        };
        let lacking: Vec<Coding> = ORDER.into_iter().filter(lacks).collect();
        if lacking.is_empty() {
            return Ok(Outcome::Done);
        }
        rate::take(identity.size, self.rate);
        let mut body =
            Vec::with_capacity(usize::try_from(identity.size).map_err(io::Error::other)?);
        // One byte more, so that a file that grew is seen.
        (&mut file).take(identity.size + 1).read_to_end(&mut body)?;
        if sys::file::status(&file)?.identity != identity || body.len() as u64 != identity.size {
            return Ok(Outcome::Unsettled);
        }
        for coding in lacking.into_iter().take_while(|_| is_wanted()) {
            match self.make_one(coding, &status, &body) {
                Err(Refused::Changed) => return Ok(Outcome::Unsettled),
                // A folder that went, say: nothing is wrong with the place.
                Err(Refused::Failed(_)) if !is_as(&self.path, &identity) => {
                    return Ok(Outcome::Unsettled);
                }
                Err(Refused::Failed(error)) => return Err(error),
                Ok(()) | Err(Refused::Foreign) => {}
            }
        }
        trouble::clear(&self.home);
        Ok(Outcome::Done)
    }

    /// A file that is gone, or may not be read, has no copies; whoever asks for it is told why.
    fn open(&self) -> Option<(File, Status)> {
        let file = sys::file::open(&self.path).ok()?;
        let status = sys::file::status(&file).ok()?;
        status.is_file().then_some((file, status))
    }

    fn make_one(&self, coding: Coding, status: &Status, body: &[u8]) -> Result<(), Refused> {
        let identity = &status.identity;
        let writer = self.home.writer(&self.path, identity, coding)?;
        let made = best::compress(coding, self.effort, body).ok_or(io::ErrorKind::OutOfMemory);
        let made = made.map_err(io::Error::from)?;
        let kind = coding as usize;
        if !saves_enough(made.len() as u64, identity.size) {
            drop(writer);
            self.home
                .put_useless(&self.path, identity, coding, self.effort)?;
            add(&COUNTS.useless, 1);
            return Ok(());
        }
        writer.finish(
            &self.path,
            identity,
            status.mode,
            (coding, self.effort, &made),
        )?;
        add(&COUNTS.made[kind], 1);
        add(&COUNTS.bytes_in, identity.size);
        add(&COUNTS.bytes_out, made.len() as u64);
        Ok(())
    }
}

/// Whether a copy is worth it.
#[must_use]
pub fn saves_enough(copy: u64, source: u64) -> bool {
    copy <= source - source / SAVING && copy < source
}

/// Whether the next change of a file will show in its times.
fn is_settled(identity: &Identity) -> bool {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let changed = u64::try_from(identity.changed_ns).map_or(Duration::ZERO, Duration::from_nanos);
    changed + SETTLED < now
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_must_save_a_twentieth() {
        for (copy, source, worth) in [
            (95, 100, true),
            (96, 100, false),
            (0, 1, true),
            (1, 1, false),
            (0, 0, false),
            (950, 1000, true),
            (951, 1000, false),
        ] {
            assert_eq!(saves_enough(copy, source), worth, "{copy} of {source}");
        }
    }
}
