//! `precompress_rate`: how fast files are taken in, over all threads of the pool.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// When the bytes taken so far will have been paid for.
static PAID: Mutex<Option<Instant>> = Mutex::new(None);

/// Waits until so many bytes may be taken at `rate` bytes a second; 0 is no limit.
pub fn take(bytes: u64, rate: u64) {
    if rate == 0 {
        return;
    }
    let wait = {
        let mut paid = PAID.lock().unwrap_or_else(PoisonError::into_inner);
        let (wait, until) = schedule(*paid, Instant::now(), bytes, rate);
        *paid = Some(until);
        wait
    };
    std::thread::sleep(wait);
}

/// How long to wait before taking `bytes`, and until when they are being paid for: what was taken before comes first.
fn schedule(paid: Option<Instant>, now: Instant, bytes: u64, rate: u64) -> (Duration, Instant) {
    let begin = paid.map_or(now, |paid| paid.max(now));
    let cost = Duration::from_secs_f64(bytes as f64 / rate as f64);
    (begin - now, begin + cost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_paid_for_one_after_the_other() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        let (wait, paid) = schedule(None, now, 2000, 1000);
        assert_eq!((wait, paid), (Duration::ZERO, now + 2 * second));
        let (wait, paid) = schedule(Some(paid), now + second, 500, 1000);
        assert_eq!((wait, paid), (second, now + second * 5 / 2));
        let (wait, _) = schedule(Some(paid), now + 10 * second, 500, 1000);
        assert_eq!(wait, Duration::ZERO);
    }
}
