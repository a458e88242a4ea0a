//! `access_log … buffer=size [flush=time] [gzip]`: lines are collected in memory and written when the memory is full, when
//! `flush` has passed since the first of them, when logs are reopened and at the end. Each thread fills a buffer of its
//! own; its lock is free but for the rare moment in which another thread flushes all.

use super::files::{self, LogFile};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Buffers of one file. More threads than this share one here and there, which costs waiting but is right.
const STRIPES: usize = 64;

/// What `buffer=`, `flush=` and `gzip=` ask for; all who name a file must agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameters {
    /// Bytes.
    pub size: usize,
    pub flush_ms: Option<u64>,
    pub gzip_level: Option<u32>,
}

/// The buffers of one file.
#[derive(Debug)]
pub struct Buffered {
    pub parameters: Parameters,
    stripes: Vec<Stripe>,
}

/// One thread's lines; on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    bytes: Vec<u8>,
    /// When the first of them came. The clock is read anew: the turn's stands still where only a timer fires.
    since: Option<Instant>,
    /// A task waits for `flush` to pass.
    timed: bool,
}

impl Stripe {
    fn lock(&self) -> MutexGuard<'_, Lines> {
        // A panic while lines were appended leaves at worst half a line.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

thread_local! {
    static OWN_STRIPE: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES
    };
}

impl Buffered {
    #[must_use]
    pub fn new(parameters: Parameters) -> Buffered {
        Buffered {
            parameters,
            stripes: (0..STRIPES).map(|_| Stripe::default()).collect(),
        }
    }

    /// Adds a line to this thread's buffer of `file`. The error is a complaint to log.
    pub fn append(&self, file: &Arc<LogFile>, line: &[u8], now: u64) -> Result<(), String> {
        let own = OWN_STRIPE.with(|&own| own);
        let mut lines = self.stripes[own].lock();
        if lines.bytes.len() + line.len() <= self.parameters.size {
            if lines.bytes.is_empty() {
                self.start(&mut lines, file, own);
            }
            lines.bytes.extend_from_slice(line);
            return Ok(());
        }
        let full = std::mem::take(&mut lines.bytes);
        if line.len() > self.parameters.size {
            drop(lines);
            let earlier = self.write_out(file, &full, now);
            return self.write_out(file, line, now).and(earlier);
        }
        self.start(&mut lines, file, own);
        lines.bytes.extend_from_slice(line);
        drop(lines);
        self.write_out(file, &full, now)
    }

    /// Makes room, and starts the clock of `flush` for the line that comes.
    fn start(&self, lines: &mut Lines, file: &Arc<LogFile>, own: usize) {
        lines.bytes.reserve_exact(self.parameters.size);
        let Some(flush_ms) = self.parameters.flush_ms else {
            return;
        };
        lines.since = Some(Instant::now());
        // Only network threads log requests, and they have a runtime.
        if lines.timed || tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        lines.timed = true;
        tokio::spawn(flush_in_time(Arc::downgrade(file), own, flush_ms));
    }

    /// Flushes a stripe whose oldest line has waited for `flush_ms`; else tells how long it still has to wait.
    fn flush_if_due(&self, file: &LogFile, index: usize, flush_ms: u64) -> Option<Duration> {
        let mut lines = self.stripes[index].lock();
        let waited = lines.since.map_or(Duration::MAX, |since| since.elapsed());
        let left = Duration::from_millis(flush_ms).saturating_sub(waited);
        if !left.is_zero() && !lines.bytes.is_empty() {
            return Some(left);
        }
        lines.timed = false;
        let bytes = std::mem::take(&mut lines.bytes);
        drop(lines);
        // There is no request to complain in the name of; the next write that fails complains.
        let _ = self.write_out(file, &bytes, files::now());
        None
    }

    fn flush_stripe(&self, file: &LogFile, index: usize) {
        let bytes = std::mem::take(&mut self.stripes[index].lock().bytes);
        let _ = self.write_out(file, &bytes, files::now());
    }

    /// Writes out every thread's lines.
    pub fn flush_all(&self, file: &LogFile) {
        for index in 0..self.stripes.len() {
            self.flush_stripe(file, index);
        }
    }

    fn write_out(&self, file: &LogFile, lines: &[u8], now: u64) -> Result<(), String> {
        if lines.is_empty() {
            return Ok(());
        }
        match self.parameters.gzip_level {
            None => file.write(lines, now),
            Some(level) => file.write(&compress(lines, level), now),
        }
    }
}

/// Waits until the lines of a stripe are due and flushes them; ends then.
async fn flush_in_time(file: Weak<LogFile>, index: usize, flush_ms: u64) {
    let mut wait = Duration::from_millis(flush_ms);
    loop {
        tokio::time::sleep(wait).await;
        let Some(file) = file.upgrade() else {
            return;
        };
        let left = file
            .buffered
            .get()
            .and_then(|buffered| buffered.flush_if_due(&file, index, flush_ms));
        match left {
            Some(left) => wait = left,
            None => return,
        }
    }
}

/// One gzip member; members one after the other are one stream to gunzip.
fn compress(lines: &[u8], level: u32) -> Vec<u8> {
    use std::io::Write;
    let out = Vec::with_capacity(lines.len() / 4 + 64);
    let mut encoder = flate2::write::GzEncoder::new(out, flate2::Compression::new(level));
    // Writing to memory does not fail; if it did, the lines would be lost and not the server.
    let _ = encoder.write_all(lines);
    encoder.finish().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::files::LogFiles;
    use super::*;
    use std::io::Read;
    use std::path::PathBuf;

    fn buffered(name: &str, parameters: Parameters) -> (PathBuf, LogFiles, Arc<LogFile>) {
        let path =
            std::env::temp_dir().join(format!("gannet-buffer-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let mut files = LogFiles::default();
        let file = files.file(path.clone());
        file.buffered.set(Buffered::new(parameters)).unwrap();
        files.open_all().unwrap();
        (path, files, file)
    }

    fn append(file: &Arc<LogFile>, line: &[u8]) {
        file.buffered.get().unwrap().append(file, line, 1).unwrap();
    }

    #[test]
    fn lines_are_written_when_the_buffer_is_full_and_when_asked() {
        let parameters = Parameters {
            size: 8,
            flush_ms: None,
            gzip_level: None,
        };
        let (path, files, file) = buffered("full", parameters);
        let read = || std::fs::read_to_string(&path).unwrap();
        append(&file, b"1234");
        append(&file, b"567\n");
        assert_eq!(read(), "");
        append(&file, b"a\n");
        assert_eq!(read(), "1234567\n");
        append(&file, b"longer than it\n");
        assert_eq!(read(), "1234567\na\nlonger than it\n");
        append(&file, b"z\n");
        files.flush();
        assert_eq!(read(), "1234567\na\nlonger than it\nz\n");
        append(&file, b"end\n");
        drop((files, file));
        assert!(read().ends_with("z\nend\n"));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn buffered_lines_of_all_threads_go_to_the_file_they_were_meant_for() {
        let parameters = Parameters {
            size: 1024,
            flush_ms: None,
            gzip_level: None,
        };
        let (path, files, file) = buffered("reopen", parameters);
        let moved = path.with_extension("1");
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| append(&file, b"old\n"));
            }
        });
        std::fs::rename(&path, &moved).unwrap();
        files.reopen().unwrap();
        append(&file, b"new\n");
        files.flush();
        assert_eq!(std::fs::read_to_string(&moved).unwrap(), "old\nold\nold\n");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new\n");
        std::fs::remove_file(path).unwrap();
        std::fs::remove_file(moved).unwrap();
    }

    #[test]
    fn gzip_members_read_as_one_stream() {
        let parameters = Parameters {
            size: 8,
            flush_ms: None,
            gzip_level: Some(1),
        };
        let (path, files, file) = buffered("gzip", parameters);
        append(&file, b"first\n");
        append(&file, b"second\n");
        files.flush();
        let bytes = std::fs::read(&path).unwrap();
        let mut text = String::new();
        flate2::read::MultiGzDecoder::new(&bytes[..])
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "first\nsecond\n");
        std::fs::remove_file(path).unwrap();
    }

    #[tokio::test(flavor = "current_thread")]
    async fn lines_are_written_when_flush_has_passed() {
        let parameters = Parameters {
            size: 1024,
            flush_ms: Some(50),
            gzip_level: None,
        };
        let (path, _files, file) = buffered("flush", parameters);
        append(&file, b"line\n");
        assert_eq!(std::fs::read(&path).unwrap(), b"");
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        while std::fs::read(&path).unwrap().is_empty() && std::time::Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"line\n");
        std::fs::remove_file(path).unwrap();
    }
}
