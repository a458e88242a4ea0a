//! `catch_workers_output`: what children write to standard output and error, line by line into the error log.

use crate::log::error::{self, Level};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A line is told when it ends or has so many bytes.
const LINE_MAX: usize = 1024;
/// Reads in one turn; a child that never stops talking waits for its next turn.
const READS_MAX: usize = 16;

#[derive(Debug)]
pub struct Output {
    pipe: OwnedFd,
    /// Before each line, if lines are decorated.
    prefix: Option<String>,
    line: Vec<u8>,
}

impl Output {
    pub fn new(pipe: OwnedFd, pool: &str, pid: i32, decorate: bool) -> Output {
        Output {
            pipe,
            prefix: decorate.then(|| format!("[pool {pool}] child {pid} said: ")),
            line: Vec::new(),
        }
    }

    /// Reads what is there; false at the end.
    pub fn read(&mut self) -> bool {
        let mut buffer = [0; 4096];
        for _ in 0..READS_MAX {
            match sys::io::readv(&self.pipe, &mut [io::IoSliceMut::new(&mut buffer)]) {
                Ok(0) => {
                    self.end_line();
                    return false;
                }
                Ok(count) => self.take(buffer.get(..count).unwrap_or_default()),
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        true
    }

    fn take(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match byte {
                b'\n' => self.end_line(),
                byte => self.line.push(byte),
            }
            if self.line.len() >= LINE_MAX {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return;
        }
        let text = String::from_utf8_lossy(&line);
        match &self.prefix {
            Some(prefix) => error::write(Level::Warning, format_args!("{prefix}\"{text}\"")),
            None => error::write(Level::Warning, format_args!("{text}")),
        }
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}
