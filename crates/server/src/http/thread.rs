//! What a network thread keeps for itself: the clock of the current turn of its event loop. A turn is one pass over the
//! connections that were ready; between the start of a turn and its end no new readiness is collected, so that whatever
//! was checked within a turn holds for every request that made a connection ready before it.

use std::cell::{Cell, RefCell};
use std::io::Write;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use wire::fields::date;

/// Bytes of an IMF-fixdate.
const DATE_LENGTH: usize = 29;

/// The clock of one thread.
pub struct Thread {
    turn: Cell<u64>,
    started: Instant,
    monotonic_ms: Cell<u64>,
    unix_ms: Cell<u64>,
    date: RefCell<(u64, [u8; DATE_LENGTH])>,
    local: RefCell<LocalTexts>,
}

/// The local time of one second in the forms that logs use.
struct LocalTexts {
    second: u64,
    common: Vec<u8>,
    iso8601: Vec<u8>,
    error_log: Vec<u8>,
    syslog: Vec<u8>,
}

thread_local! {
    static THREAD: Thread = Thread {
        turn: Cell::new(0),
        started: Instant::now(),
        monotonic_ms: Cell::new(0),
        unix_ms: Cell::new(0),
        date: RefCell::new((u64::MAX, [0; DATE_LENGTH])),
        local: RefCell::new(LocalTexts {
            second: u64::MAX,
            common: Vec::new(),
            iso8601: Vec::new(),
            error_log: Vec::new(),
            syslog: Vec::new(),
        }),
    };
}

/// Begins a turn: reads the clocks once for all that happens in it.
pub fn begin_turn() {
    THREAD.with(|thread| {
        thread.turn.set(thread.turn.get() + 1);
        thread
            .monotonic_ms
            .set(thread.started.elapsed().as_millis() as u64);
        thread.read_wall_clock();
    });
}

/// The number of the current turn.
#[must_use]
pub fn turn() -> u64 {
    THREAD.with(|thread| thread.turn.get())
}

/// Milliseconds since the thread started, as of this turn.
#[must_use]
pub fn monotonic_ms() -> u64 {
    THREAD.with(|thread| thread.monotonic_ms.get())
}

/// Milliseconds since 1970, as of this turn.
#[must_use]
pub fn unix_ms() -> u64 {
    THREAD.with(|thread| thread.unix_ms.get())
}

/// Appends the value of a Date field; formatted once a second.
pub fn append_date(out: &mut Vec<u8>) {
    THREAD.with(|thread| {
        let seconds = thread.unix_ms.get() / 1000;
        let mut cached = thread.date.borrow_mut();
        if cached.0 != seconds {
            *cached = (seconds, date::format(seconds as i64));
        }
        out.extend_from_slice(&cached.1);
    });
}

/// Writes the value of a Date field over `out`, which has its length.
pub fn write_date(out: &mut [u8]) {
    THREAD.with(|thread| {
        let seconds = thread.unix_ms.get() / 1000;
        let mut cached = thread.date.borrow_mut();
        if cached.0 != seconds {
            *cached = (seconds, date::format(seconds as i64));
        }
        out.copy_from_slice(&cached.1);
    });
}

/// Appends `$time_local`: `28/Sep/2026:12:00:00 +0200`.
pub fn append_time_local(out: &mut Vec<u8>) {
    with_local(|texts| out.extend_from_slice(&texts.common));
}

/// Appends `$time_iso8601`: `2026-09-28T12:00:00+02:00`.
pub fn append_time_iso8601(out: &mut Vec<u8>) {
    with_local(|texts| out.extend_from_slice(&texts.iso8601));
}

/// Appends the time as the error log has it: `2026/09/28 12:00:00`. A thread without turns reads the clock.
pub fn append_time_error_log(out: &mut Vec<u8>) {
    with_local(|texts| out.extend_from_slice(&texts.error_log));
}

/// Appends the time of a syslog message: `Sep 28 12:00:00`, the day padded with a space.
pub fn append_time_syslog(out: &mut Vec<u8>) {
    with_local(|texts| out.extend_from_slice(&texts.syslog));
}

/// The texts of the current second; formatted once a second.
fn with_local(use_texts: impl FnOnce(&LocalTexts)) {
    THREAD.with(|thread| {
        if thread.turn.get() == 0 {
            thread.read_wall_clock();
        }
        let second = thread.unix_ms.get() / 1000;
        let mut texts = thread.local.borrow_mut();
        if texts.second != second {
            texts.format(second);
        }
        use_texts(&texts);
    });
}

impl Thread {
    fn read_wall_clock(&self) {
        let unix = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        self.unix_ms.set(unix.as_millis() as u64);
    }
}

impl LocalTexts {
    fn format(&mut self, second: u64) {
        const MONTHS: [&str; 12] = [
            "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
        ];
        // A time zone that cannot tell this second leaves the texts of the last one.
        let Ok(now) = sys::machine::local_time(second as i64) else {
            return;
        };
        let (year, month, day) = (now.year, now.month, now.day);
        let (hour, minute, seconds) = (now.hour, now.minute, now.second);
        let name = MONTHS.get(month as usize - 1).unwrap_or(&"");
        let sign = if now.offset < 0 { '-' } else { '+' };
        let (east_hours, east_minutes) = (now.offset.abs() / 3600, now.offset.abs() / 60 % 60);
        self.second = second;
        self.common.clear();
        self.iso8601.clear();
        self.error_log.clear();
        self.syslog.clear();
        // Writing to memory does not fail.
        let _ = write!(
            self.common,
            "{day:02}/{name}/{year}:{hour:02}:{minute:02}:{seconds:02} {sign}{east_hours:02}{east_minutes:02}"
        );
        let _ = write!(
            self.iso8601,
            "{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{seconds:02}{sign}{east_hours:02}:{east_minutes:02}"
        );
        let _ = write!(
            self.error_log,
            "{year:04}/{month:02}/{day:02} {hour:02}:{minute:02}:{seconds:02}"
        );
        let _ = write!(
            self.syslog,
            "{name} {day:2} {hour:02}:{minute:02}:{seconds:02}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_times_have_the_forms_of_the_logs() {
        let mut texts = LocalTexts {
            second: u64::MAX,
            common: Vec::new(),
            iso8601: Vec::new(),
            error_log: Vec::new(),
            syslog: Vec::new(),
        };
        texts.format(1_700_000_000);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (common, iso, error) = (
            text(&texts.common),
            text(&texts.iso8601),
            text(&texts.error_log),
        );
        assert_eq!(common.len(), "14/Nov/2023:22:13:20 +0000".len());
        assert!(common.contains("/Nov/2023:"));
        assert_eq!(&iso[..8], "2023-11-");
        assert_eq!(&iso[13..19], &common[14..20]);
        assert_eq!(
            error.replace(['/', ' '], ""),
            iso[..19].replace(['-', 'T'], "")
        );
    }
}
