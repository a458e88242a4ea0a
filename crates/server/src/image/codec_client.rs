//! The worker's end of `codec_process.rs`: processes are started when they are needed, wait for the next picture when they are
//! done, and are killed when they take too long.

use super::codec_process::{FAILED, Kind, OPEN, Task, WORD};
use super::counts::{COUNTS, add};
use crate::log::error::{Level, write};
use ::image::{Decoded, Error, Foreign, Format, Frames, Profiles};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// This program, also when its file was replaced.
const PROGRAM: &str = "/proc/self/exe";
/// Processes that wait for work: more than that end when they are done.
const IDLE_MAX: usize = 8;
/// Bytes written at a time, between looks at the clock.
const PART: usize = 256 * 1024;

/// Those that wait for work.
static IDLE: Mutex<Vec<Helper>> = Mutex::new(Vec::new());
/// Whether it was told that the kernel has no fence.
static TOLD: AtomicBool = AtomicBool::new(false);

/// A process, killed when dropped.
struct Helper {
    child: Child,
    socket: UnixStream,
    fenced: bool,
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _status = self.ended();
    }
}

/// A file of frames: WebP with loss, or AVIF. `fenced`: `image_sandbox`.
pub fn encode(frames: &Frames, fenced: bool) -> Result<Vec<u8>, Error> {
    let parts = [
        &frames.profiles.icc,
        &frames.profiles.exif,
        &frames.profiles.xmp,
    ];
    let parts = parts.map(|part| part.as_deref().unwrap_or_default());
    let (kind, parts) = match frames.format {
        Format::Avif => (Kind::WriteAvif, parts),
        _ => (Kind::WriteWebp, [&[][..]; 3]),
    };
    let task = Task {
        kind,
        width: frames.width,
        height: frames.height,
        frames: u32::try_from(frames.frames.len()).unwrap_or(u32::MAX),
        quality: frames.quality,
        repeats: frames.repeats,
        lengths: parts.map(|part| u32::try_from(part.len()).unwrap_or(u32::MAX)),
    };
    let delays: Vec<[u8; 4]> = frames
        .frames
        .iter()
        .map(|(delay_ms, _)| delay_ms.to_le_bytes())
        .collect();
    let pictures = delays.iter().zip(&frames.frames);
    let pictures = pictures.flat_map(|(delay, (_, pixels))| [&delay[..], &pixels[..]]);
    let parts: Vec<&[u8]> = parts.into_iter().chain(pictures).collect();
    let most = parts.iter().map(|part| part.len()).sum::<usize>() + PART;
    add(&COUNTS.given, 1);
    let (helper, file) = work(&task, &parts, most as u64, frames.until, fenced)?;
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    if idle.len() < IDLE_MAX {
        idle.push(helper);
    }
    file.ok_or_else(|| Error::Corrupt("the encoder refused it".to_owned()))
}

/// The pixels of an AVIF file. The process that reads it ends afterwards.
pub fn decode(foreign: &Foreign<'_>, fenced: bool) -> Result<Decoded, Error> {
    let length = u32::try_from(foreign.source.len()).unwrap_or(u32::MAX);
    let task = Task {
        kind: Kind::ReadAvif,
        width: foreign.width,
        height: foreign.height,
        frames: 0,
        quality: 0,
        repeats: 0,
        lengths: [length, 0, 0],
    };
    add(&COUNTS.given, 1);
    let most = task.frame_bytes() + foreign.source.len() + PART;
    let parts = [foreign.source];
    let (_helper, found) = work(&task, &parts, most as u64, foreign.until, fenced)?;
    found
        .and_then(|found| decoded(found, task.frame_bytes()))
        .ok_or_else(|| Error::Corrupt("the decoder refused it".to_owned()))
}

/// Takes pixels and profiles apart; `None`: they are not what they must be.
fn decoded(mut rgba: Vec<u8>, bytes: usize) -> Option<Decoded> {
    let rest = rgba.get(bytes..)?;
    let (lengths, mut rest) = rest.split_at_checked(12)?;
    let mut parts = lengths.chunks_exact(4).map(|length| {
        let length = u32::from_le_bytes(length.try_into().ok()?) as usize;
        let (part, after) = rest.split_at_checked(length)?;
        rest = after;
        Some((length > 0).then(|| part.to_vec()))
    });
    let profiles = Profiles {
        icc: parts.next()??,
        exif: parts.next()??,
        xmp: parts.next()??,
    };
    rgba.truncate(bytes);
    Some(Decoded { rgba, profiles })
}

/// Has a process do a task: the process, which is of further use, and what it made, unless it refused.
fn work(
    task: &Task,
    parts: &[&[u8]],
    most: u64,
    until: Option<Instant>,
    fenced: bool,
) -> Result<(Helper, Option<Vec<u8>>), Error> {
    let mut helper = match idle(fenced) {
        Some(helper) => helper,
        None => Helper::start(fenced, until)
            .map_err(|error| Error::Elsewhere(format!("cannot start the codec: {error}")))?,
    };
    match helper.work(task, parts, most, until) {
        Ok(file) => Ok((helper, file)),
        Err(error) if is_late(&error) => Err(Error::Timeout),
        Err(error) => {
            let end = match helper.ended() {
                Ok(status) => format!("ended with {status}"),
                Err(_buried) => "is gone".to_owned(),
            };
            Err(Error::Elsewhere(format!("the codec {end}: {error}")))
        }
    }
}

/// One that waits and still lives.
fn idle(fenced: bool) -> Option<Helper> {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    while let Some(mut helper) = idle.pop() {
        if helper.fenced == fenced && matches!(helper.child.try_wait(), Ok(None)) {
            return Some(helper);
        }
    }
    None
}

fn is_late(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

impl Helper {
    fn start(fenced: bool, until: Option<Instant>) -> io::Result<Helper> {
        let (socket, theirs) = UnixStream::pair()?;
        let child = Command::new(PROGRAM)
            .arg0("gannet")
            .arg(WORD)
            .args((!fenced).then_some(OPEN))
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut helper = Helper {
            child,
            socket,
            fenced,
        };
        let mut greeting = [0];
        helper.read(&mut greeting, until)?;
        if fenced && greeting[0] & 1 == 0 && !TOLD.swap(true, Ordering::Relaxed) {
            let text = format_args!("image_sandbox: the kernel has no seccomp, going on without");
            write(Level::Warning, text);
        }
        Ok(helper)
    }

    /// What the codec makes, if it does; an error when the process is of no more use.
    fn work(
        &mut self,
        task: &Task,
        parts: &[&[u8]],
        most: u64,
        until: Option<Instant>,
    ) -> io::Result<Option<Vec<u8>>> {
        self.write(&task.to_bytes(), until)?;
        for part in parts {
            self.write(part, until)?;
        }
        let mut length = [0; 8];
        self.read(&mut length, until)?;
        let length = match u64::from_le_bytes(length) {
            FAILED => return Ok(None),
            length if length > most => return Err(io::Error::other("answered nonsense")),
            length => length,
        };
        let mut file = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        self.read(&mut file, until)?;
        Ok(Some(file))
    }

    fn write(&mut self, bytes: &[u8], until: Option<Instant>) -> io::Result<()> {
        for mut part in bytes.chunks(PART) {
            while !part.is_empty() {
                self.socket.set_write_timeout(left(until)?)?;
                match self.socket.write(part) {
                    Ok(written) => part = part.get(written..).unwrap_or_default(),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    fn read(&mut self, mut bytes: &mut [u8], until: Option<Instant>) -> io::Result<()> {
        while !bytes.is_empty() {
            self.socket.set_read_timeout(left(until)?)?;
            match self.socket.read(bytes) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => bytes = bytes.get_mut(read..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Kills it unless it has ended. Where somebody else has buried it (`master_process off`), its number may be another
    /// process's by now.
    fn ended(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(status);
        }
        self.child.kill()?;
        self.child.wait()
    }
}

/// The time that is left.
fn left(until: Option<Instant>) -> io::Result<Option<std::time::Duration>> {
    let Some(until) = until else { return Ok(None) };
    match until.checked_duration_since(Instant::now()) {
        Some(left) if !left.is_zero() => Ok(Some(left)),
        _ => Err(io::ErrorKind::TimedOut.into()),
    }
}
