//! The process that runs codecs in C: the same program, started by the worker. It gets pixels or a file through a socket
//! and gives a file or pixels back; all it needs is memory, and a fence takes all else from it before it reads the first
//! byte. So what a fault in a codec could do is spoil one picture: a process that read somebody's file gets no other.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use sys::avif::{self, Profiles};
use sys::webp::Encoder;

/// The word by which the program is told to be one.
pub const WORD: &str = "picture-helper";
/// And that it goes without a fence.
pub const OPEN: &str = "open";

/// The numbers of a task.
pub const HEAD: usize = 32;
/// In place of a length: there is no result.
pub const FAILED: u64 = u64::MAX;
/// The most bytes of a file or of profiles that are read: far more than the worker's limits let through.
const FILE_MAX: u32 = 1 << 30;

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Frames, each its delay in milliseconds and its pixels, to a file.
    WriteWebp,
    /// Profiles and one such frame to a file.
    WriteAvif,
    /// A file to profiles and pixels.
    ReadAvif,
}

const KINDS: [Kind; 3] = [Kind::WriteWebp, Kind::WriteAvif, Kind::ReadAvif];

/// What goes before the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    pub kind: Kind,
    pub width: u32,
    pub height: u32,
    pub frames: u32,
    pub quality: u8,
    pub repeats: u16,
    /// Bytes of ICC, EXIF and XMP of `WriteAvif`; of `ReadAvif`, of the file.
    pub lengths: [u32; 3],
}

impl Task {
    #[must_use]
    pub fn to_bytes(self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[..4].copy_from_slice(&self.width.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.height.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.frames.to_le_bytes());
        bytes[12] = self.quality;
        bytes[13] = self.kind as u8;
        bytes[16..18].copy_from_slice(&self.repeats.to_le_bytes());
        for (place, length) in bytes[20..].chunks_exact_mut(4).zip(self.lengths) {
            place.copy_from_slice(&length.to_le_bytes());
        }
        bytes
    }

    fn of_bytes(bytes: &[u8; HEAD]) -> Option<Task> {
        let four = |at: usize| {
            let mut word = [0; 4];
            word.copy_from_slice(&bytes[at..at + 4]);
            u32::from_le_bytes(word)
        };
        Some(Task {
            width: four(0),
            height: four(4),
            frames: four(8),
            quality: bytes[12],
            kind: *KINDS.get(usize::from(bytes[13]))?,
            repeats: u16::from_le_bytes([bytes[16], bytes[17]]),
            lengths: [four(20), four(24), four(28)],
        })
    }

    /// Bytes of one frame's pixels.
    #[must_use]
    pub fn frame_bytes(&self) -> usize {
        self.width as usize * self.height as usize * 4
    }
}

/// Serves until the other end of standard input, which is a socket, is closed.
#[must_use]
pub fn run(arguments: &[std::ffi::OsString]) -> ExitCode {
    let Ok(socket) = io::stdin().as_fd().try_clone_to_owned().map(File::from) else {
        return ExitCode::FAILURE;
    };
    let fence = match arguments.first() {
        Some(word) if word == OPEN => sys::fence::Fence::default(),
        _ => sys::fence::put_up(),
    };
    let greeting = u8::from(fence.calls) | u8::from(fence.files) << 1;
    match serve(socket, greeting) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_gone) => ExitCode::FAILURE,
    }
}

fn serve(mut socket: File, greeting: u8) -> io::Result<()> {
    socket.write_all(&[greeting])?;
    let mut head = [0; HEAD];
    let mut pixels = Vec::new();
    while first_or_end(&mut socket, &mut head)? {
        let task = Task::of_bytes(&head).ok_or(io::ErrorKind::InvalidData)?;
        let done = match task.kind {
            Kind::WriteWebp => webp(&mut socket, &task, &mut pixels)?,
            Kind::WriteAvif => write_avif(&mut socket, &task)?,
            Kind::ReadAvif => read_avif(&mut socket, &task)?,
        };
        match done {
            Ok(result) => {
                socket.write_all(&(result.len() as u64).to_le_bytes())?;
                socket.write_all(&result)?;
            }
            Err(_refused) => socket.write_all(&FAILED.to_le_bytes())?,
        }
    }
    Ok(())
}

/// Whether there is another task.
fn first_or_end(socket: &mut File, head: &mut [u8; HEAD]) -> io::Result<bool> {
    if socket.read(&mut head[..1])? == 0 {
        return Ok(false);
    }
    socket.read_exact(&mut head[1..])?;
    Ok(true)
}

/// Reads so many bytes.
fn bytes(socket: &mut File, length: u32) -> io::Result<Vec<u8>> {
    if length > FILE_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length as usize];
    socket.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn write_avif(socket: &mut File, task: &Task) -> io::Result<io::Result<Vec<u8>>> {
    let [icc, exif, xmp] = task.lengths;
    let profiles = Profiles {
        icc: bytes(socket, icc)?,
        exif: bytes(socket, exif)?,
        xmp: bytes(socket, xmp)?,
    };
    let _delay = bytes(socket, 4)?;
    let mut pixels = vec![0; task.frame_bytes()];
    socket.read_exact(&mut pixels)?;
    let size = (task.width, task.height);
    Ok(avif::encode(&pixels, size, task.quality, &profiles))
}

/// Pixels come first, then three lengths and the profiles.
fn read_avif(socket: &mut File, task: &Task) -> io::Result<io::Result<Vec<u8>>> {
    let file = bytes(socket, task.lengths[0])?;
    let decoded = avif::decode(&file, (task.width, task.height));
    Ok(decoded.map(|(mut pixels, profiles)| {
        let parts = [profiles.icc, profiles.exif, profiles.xmp];
        for part in &parts {
            pixels.extend((part.len() as u32).to_le_bytes());
        }
        pixels.extend(parts.concat());
        pixels
    }))
}

/// Reads all frames, whatever becomes of them.
fn webp(socket: &mut File, task: &Task, pixels: &mut Vec<u8>) -> io::Result<io::Result<Vec<u8>>> {
    let animation = (task.frames > 1).then_some(task.repeats);
    let mut encoder = Encoder::new((task.width, task.height), task.quality, animation);
    pixels.resize(task.frame_bytes(), 0);
    for _ in 0..task.frames {
        let mut delay = [0; 4];
        socket.read_exact(&mut delay)?;
        socket.read_exact(pixels)?;
        encoder = encoder.and_then(|mut encoder| {
            encoder.add(pixels, u32::from_le_bytes(delay))?;
            Ok(encoder)
        });
    }
    Ok(encoder.and_then(Encoder::finish))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_comes_over_as_it_was() {
        let task = Task {
            kind: Kind::ReadAvif,
            lengths: [1, 70_000, 3],
            width: 70_000,
            height: 3,
            frames: 12,
            quality: 95,
            repeats: 700,
        };
        let mut bytes = task.to_bytes();
        assert_eq!(Task::of_bytes(&bytes), Some(task));
        bytes[13] = 9;
        assert_eq!(Task::of_bytes(&bytes), None);
    }
}
