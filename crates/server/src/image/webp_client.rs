//! The worker's end of `webp_process.rs`: processes are started when they are needed, wait for the next picture when they are
//! done, and are killed when they take too long.

use super::counts::{COUNTS, add};
use super::webp_process::{FAILED, OPEN, Task, WORD};
use crate::log::error::{Level, write};
use ::image::{Error, Frames};
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

/// A WebP file of frames, with loss. `fenced`: `image_sandbox`.
pub fn encode(frames: &Frames, fenced: bool) -> Result<Vec<u8>, Error> {
    let task = Task {
        width: frames.width,
        height: frames.height,
        frames: u32::try_from(frames.frames.len()).unwrap_or(u32::MAX),
        quality: frames.quality,
        repeats: frames.repeats,
    };
    let mut helper = match idle(fenced) {
        Some(helper) => helper,
        None => Helper::start(fenced, frames.until)
            .map_err(|error| Error::Elsewhere(format!("cannot start the encoder: {error}")))?,
    };
    let most = task.frame_bytes().saturating_mul(frames.frames.len()) + PART;
    add(&COUNTS.given, 1);
    match helper.work(&task, frames, most as u64) {
        Ok(file) => {
            let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < IDLE_MAX {
                idle.push(helper);
            }
            file.ok_or_else(|| Error::Corrupt("the encoder refused it".to_owned()))
        }
        Err(error) if is_late(&error) => Err(Error::Timeout),
        Err(error) => {
            let end = match helper.ended() {
                Ok(status) => format!("ended with {status}"),
                Err(_buried) => "is gone".to_owned(),
            };
            Err(Error::Elsewhere(format!("the encoder {end}: {error}")))
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

    /// A file, if the encoder makes one; an error when the process is of no more use.
    fn work(&mut self, task: &Task, frames: &Frames, most: u64) -> io::Result<Option<Vec<u8>>> {
        self.write(&task.to_bytes(), frames.until)?;
        for (delay_ms, pixels) in &frames.frames {
            self.write(&delay_ms.to_le_bytes(), frames.until)?;
            self.write(pixels, frames.until)?;
        }
        let mut length = [0; 8];
        self.read(&mut length, frames.until)?;
        let length = match u64::from_le_bytes(length) {
            FAILED => return Ok(None),
            length if length > most => return Err(io::Error::other("answered nonsense")),
            length => length,
        };
        let mut file = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        self.read(&mut file, frames.until)?;
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
