//! The process that encodes WebP with loss: the same program, started by the worker. It gets pixels through a socket and
//! gives files back; all it needs is memory, and a fence takes all else from it before it reads the first byte. So what a
//! fault in the encoder's C code could do is spoil one picture.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use sys::webp::Encoder;

/// The word by which the program is told to be one.
pub const WORD: &str = "picture-helper";
/// And that it goes without a fence.
pub const OPEN: &str = "open";

/// What goes before the frames: width, height, frames, quality, repeats, whether it is an animation.
pub const HEAD: usize = 20;
/// In place of a length: there is no file.
pub const FAILED: u64 = u64::MAX;

/// What is to be encoded, besides the frames. Each frame is its delay in milliseconds and its pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    pub width: u32,
    pub height: u32,
    pub frames: u32,
    pub quality: u8,
    pub repeats: u16,
}

impl Task {
    #[must_use]
    pub fn to_bytes(self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[..4].copy_from_slice(&self.width.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.height.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.frames.to_le_bytes());
        bytes[12] = self.quality;
        bytes[16..18].copy_from_slice(&self.repeats.to_le_bytes());
        bytes
    }

    fn of_bytes(bytes: &[u8; HEAD]) -> Task {
        let four = |at: usize| {
            let mut word = [0; 4];
            word.copy_from_slice(&bytes[at..at + 4]);
            u32::from_le_bytes(word)
        };
        Task {
            width: four(0),
            height: four(4),
            frames: four(8),
            quality: bytes[12],
            repeats: u16::from_le_bytes([bytes[16], bytes[17]]),
        }
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
        let task = Task::of_bytes(&head);
        match encoded(&mut socket, &task, &mut pixels)? {
            Ok(file) => {
                socket.write_all(&(file.len() as u64).to_le_bytes())?;
                socket.write_all(&file)?;
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

/// Reads all frames, whatever becomes of them.
fn encoded(
    socket: &mut File,
    task: &Task,
    pixels: &mut Vec<u8>,
) -> io::Result<io::Result<Vec<u8>>> {
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
            width: 70_000,
            height: 3,
            frames: 12,
            quality: 95,
            repeats: 700,
        };
        assert_eq!(Task::of_bytes(&task.to_bytes()), task);
    }
}
