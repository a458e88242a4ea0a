//! Variables of the moment and the process: clocks, ids, names.

use super::{Fixed, append, append_number, append_seconds};
use crate::http::{Request, thread};
use crate::version;
use std::cell::RefCell;
use std::sync::LazyLock;

pub const FIXED: &[Fixed] = &[
    ("msec", |_, out| append_seconds(thread::unix_ms(), out)),
    ("time_local", |_, out| {
        thread::append_time_local(out);
        true
    }),
    ("time_iso8601", |_, out| {
        thread::append_time_iso8601(out);
        true
    }),
    ("date_local", |request, out| {
        append_formatted(request, true, out)
    }),
    ("date_gmt", |request, out| {
        append_formatted(request, false, out)
    }),
    ("request_time", |request, out| {
        let now = thread::monotonic_ms();
        append_seconds(now.saturating_sub(request.started_ms), out)
    }),
    ("request_id", request_id),
    ("pid", |_, out| {
        append_number(u64::from(std::process::id()), out)
    }),
    ("hostname", |_, out| append(Some(HOSTNAME.as_bytes()), out)),
    ("nginx_version", |_, out| {
        append(Some(version::NGINX_VERSION.as_bytes()), out)
    }),
];

static HOSTNAME: LazyLock<String> = LazyLock::new(|| {
    let name = sys::machine::hostname().unwrap_or_default();
    name.to_ascii_lowercase()
});

/// The form of dates in pages that choose none.
const TIME_FORMAT: &[u8] = b"%A, %d-%b-%Y %H:%M:%S %Z";

/// `$date_local` and `$date_gmt`; the form `%s` needs no calendar.
fn append_formatted(request: &Request, local: bool, out: &mut Vec<u8>) -> bool {
    let seconds = thread::unix_ms() / 1000;
    let format = request.time_format.borrow();
    match format.as_deref().unwrap_or(TIME_FORMAT) {
        b"%s" => append_number(seconds, out),
        format => {
            let seconds = i64::try_from(seconds).unwrap_or_default();
            append(
                sys::machine::formatted_time(format, seconds, local).as_deref(),
                out,
            )
        }
    }
}

/// Random bytes that a thread takes from the kernel at once.
const RANDOM_BYTES: usize = 2048;
/// Random bytes of one id.
const ID_BYTES: usize = 16;

thread_local! {
    /// Random bytes, and how many of them are used.
    static RANDOM: RefCell<([u8; RANDOM_BYTES], usize)> = const { RefCell::new(([0; RANDOM_BYTES], RANDOM_BYTES)) };
}

/// 32 hexadecimal digits, the same for the whole request.
fn request_id(request: &Request, out: &mut Vec<u8>) -> bool {
    let mut kept = request.id.borrow_mut();
    if kept.is_none() {
        *kept = new_id();
    }
    append(kept.as_ref().map(<[u8; 32]>::as_slice), out)
}

/// A fresh id; `None` if the kernel has no randomness to give.
fn new_id() -> Option<[u8; 2 * ID_BYTES]> {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    RANDOM.with_borrow_mut(|(bytes, used)| {
        if *used + ID_BYTES > RANDOM_BYTES {
            sys::machine::random(bytes).ok()?;
            *used = 0;
        }
        let mut id = [0; 2 * ID_BYTES];
        for (pair, byte) in id.chunks_exact_mut(2).zip(&bytes[*used..]) {
            pair.copy_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
        *used += ID_BYTES;
        Some(id)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_also_after_the_bytes_are_used_up() {
        let ids: std::collections::HashSet<_> =
            (0..3 * RANDOM_BYTES / ID_BYTES).map(|_| new_id()).collect();
        assert_eq!(ids.len(), 3 * RANDOM_BYTES / ID_BYTES);
        assert!(!ids.contains(&None));
    }
}
