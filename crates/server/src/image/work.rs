//! Making pictures away from the network threads: a pool behind a short queue, and each picture made once however many ask
//! for it at the same time.

use super::counts::{COUNTS, add};
use super::kept;
use super::recipe::{Made, Reason, Recipe};
use crate::background::{self, Urgency};
use crate::store::{Key, Store};
use bytes::Bytes;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use sys::file::Identity;
use tokio::sync::oneshot;

/// A file that changed less than this ago may change again without its times telling (the clock of file times ticks every
/// 10 ms or faster): nothing of it is kept.
const SETTLED: Duration = Duration::from_millis(50);
/// How often a file is read that changes while it is read.
const READS_MAX: u32 = 3;

/// What a picture is made of.
pub enum Source {
    Memory(Bytes),
    /// A file as it was when it was looked at.
    File(File, Identity),
    /// Some bytes of a file that does not change, from an offset on.
    Part(File, u64, u64),
}

/// A picture to be made.
pub struct Job {
    /// What tells it from all others.
    pub text: Vec<u8>,
    pub source: Source,
    pub recipe: Recipe,
    /// Where it is kept.
    pub store: Option<Arc<Store>>,
    /// Pictures of one source belong together.
    pub group: u64,
    /// What tells the source's master from all others, where masters are kept.
    pub master: Option<Vec<u8>>,
}

/// Too much waits already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Busy;

/// Those who wait for pictures that are being made.
type Flights = HashMap<Key, Vec<oneshot::Sender<Made>>>;

static FLIGHTS: Mutex<Option<Flights>> = Mutex::new(None);
/// Pictures that wait or are worked on.
static UNDER_WAY: AtomicU64 = AtomicU64::new(0);
/// Numbers for what must not be shared.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// How many pictures wait or are worked on.
#[must_use]
pub fn under_way() -> u64 {
    UNDER_WAY.load(Ordering::Relaxed)
}

/// Has a picture made, or waits for the one who has it made already. `None`: its making went wrong in a way that nobody
/// thought of; the error log says how.
pub async fn make(mut job: Job, queue_max: u64) -> Result<Option<Made>, Busy> {
    if !job.source.is_settled() {
        job.store = None;
        job.master = None;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        job.text.extend_from_slice(b" unsettled ");
        job.text.extend_from_slice(&number.to_le_bytes());
    }
    let receiver = begin(job, queue_max)?;
    Ok(receiver.await.ok())
}

fn begin(job: Job, queue_max: u64) -> Result<oneshot::Receiver<Made>, Busy> {
    let key = Key::of(&job.text);
    let (sender, receiver) = oneshot::channel();
    {
        let mut flights = FLIGHTS.lock().unwrap_or_else(PoisonError::into_inner);
        let flights = flights.get_or_insert_default();
        if let Some(waiting) = flights.get_mut(&key) {
            waiting.push(sender);
            add(&COUNTS.joined, 1);
            return Ok(receiver);
        }
        if under_way() >= queue_max {
            return Err(Busy);
        }
        flights.insert(key, vec![sender]);
        UNDER_WAY.fetch_add(1, Ordering::Relaxed);
    }
    let flight = Flight { key, made: None };
    // Refused jobs are dropped, and their flight with them.
    let submitted = background::pictures().submit(Urgency::Asked, move || {
        let mut flight = flight;
        flight.made = Some(job.run());
    });
    submitted.map(|()| receiver).map_err(|_| Busy)
}

/// A picture under way: when this ends, also by a panic, those who wait are told.
struct Flight {
    key: Key,
    made: Option<Made>,
}

impl Drop for Flight {
    fn drop(&mut self) {
        UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
        let waiting = {
            let mut flights = FLIGHTS.lock().unwrap_or_else(PoisonError::into_inner);
            flights
                .as_mut()
                .and_then(|flights| flights.remove(&self.key))
        };
        let Some(made) = self.made.take() else { return };
        for sender in waiting.into_iter().flatten() {
            // Who went away needs nothing.
            let _gone = sender.send(made.clone());
        }
    }
}

impl Job {
    fn run(self) -> Made {
        let key = Key::of(&self.text);
        // Another one may have made it since the request looked.
        if let Some(made) = self
            .store
            .as_ref()
            .and_then(|store| kept::find_on_disk(store, key))
        {
            return made;
        }
        let (bytes, may_keep) = match self.source.read(self.recipe.limits.source_bytes) {
            Ok(read) => read,
            Err(Unread::TooLarge(size)) => {
                return Made::refused(Reason::TooLarge, format!("the file has {size} bytes"));
            }
            Err(Unread::Failed(error)) => {
                return Made::refused(Reason::Passing, format!("reading failed: {error}"));
            }
        };
        let masters = self.store.as_ref().zip(self.master.as_ref());
        let masters = masters.filter(|_| may_keep);
        let master = masters.and_then(|(store, text)| kept::find_master(store, text));
        let (made, better) = self.recipe.make(&bytes, master.as_ref(), masters.is_some());
        match &made {
            Made::Refused(_) => add(&COUNTS.refused, 1),
            Made::Picture(picture, _) => {
                add(&COUNTS.made, 1);
                add(&COUNTS.bytes_in, bytes.len() as u64);
                add(&COUNTS.bytes_out, picture.len() as u64);
            }
            Made::Passed(_) | Made::Told(_) => {}
        }
        if let Some(store) = self.store.as_ref().filter(|_| may_keep) {
            kept::keep(store, &self.text, self.group, &made);
        }
        if let (Some((store, text)), Some(better)) = (masters, better) {
            kept::keep_master(store, text, self.group, &better);
        }
        made
    }
}

/// Why a source could not be read.
enum Unread {
    TooLarge(u64),
    Failed(io::Error),
}

impl Source {
    /// Whether the next change of the source will show.
    fn is_settled(&self) -> bool {
        let Source::File(_, identity) = self else {
            return true;
        };
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let changed =
            u64::try_from(identity.changed_ns).map_or(Duration::ZERO, Duration::from_nanos);
        changed + SETTLED < now
    }

    /// The bytes, and whether they are those that the job's text speaks of.
    fn read(&self, bytes_max: u64) -> Result<(Bytes, bool), Unread> {
        let (file, looked_at) = match self {
            Source::Memory(bytes) if bytes.len() as u64 > bytes_max => {
                return Err(Unread::TooLarge(bytes.len() as u64));
            }
            Source::Memory(bytes) => return Ok((bytes.clone(), true)),
            Source::Part(_, _, length) if *length > bytes_max => {
                return Err(Unread::TooLarge(*length));
            }
            Source::Part(file, offset, length) => {
                let bytes = read_all(file, *offset, *length).map_err(Unread::Failed)?;
                return match bytes.len() as u64 == *length {
                    true => Ok((bytes, true)),
                    false => Err(Unread::Failed(io::ErrorKind::UnexpectedEof.into())),
                };
            }
            Source::File(file, identity) => (file, identity),
        };
        for _ in 0..READS_MAX {
            let before = sys::file::status(file).map_err(Unread::Failed)?.identity;
            if before.size > bytes_max {
                return Err(Unread::TooLarge(before.size));
            }
            // One byte more, so that a file that grew is seen.
            let bytes = read_all(file, 0, before.size + 1).map_err(Unread::Failed)?;
            let after = sys::file::status(file).map_err(Unread::Failed)?.identity;
            // A new name or a removal changes the time of change alone; the bytes are the same.
            let same = |one: &Identity, other: &Identity| {
                one.size == other.size && one.modified_ns == other.modified_ns
            };
            if same(&before, &after) && bytes.len() as u64 == after.size {
                return Ok((bytes, same(looked_at, &after)));
            }
        }
        let error = io::Error::other("the file changes again and again");
        Err(Unread::Failed(error))
    }
}

/// As many bytes as there are, and no more than `count`.
fn read_all(file: &File, offset: u64, count: u64) -> io::Result<Bytes> {
    let mut bytes = Vec::with_capacity(usize::try_from(count).map_err(io::Error::other)?);
    let mut at = At { file, offset };
    (&mut at).take(count).read_to_end(&mut bytes)?;
    Ok(Bytes::from(bytes))
}

/// A reader with an offset of its own: the descriptor is shared.
struct At<'f> {
    file: &'f File,
    offset: u64,
}

impl Read for At<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = sys::io::pread(self.file, buffer, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}
