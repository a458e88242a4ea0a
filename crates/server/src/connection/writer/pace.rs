//! `limit_rate` and `limit_rate_after`: how fast a response may be sent.

use crate::http::{Request, thread};

/// `limit_rate` of one response: nginx lets a response have sent `rate` bytes for every second since it began, and one
/// second in advance, beyond the first `after` bytes.
pub struct Pace {
    rate: u64,
    after: u64,
    pub sent: u64,
    started_ms: u64,
}

impl Pace {
    pub fn new(request: &Request) -> Pace {
        let (rate, after) = request.location().settings.limit_rate.evaluate(request);
        Pace {
            rate,
            after,
            sent: 0,
            started_ms: thread::monotonic_ms(),
        }
    }

    pub fn unlimited() -> Pace {
        Pace {
            rate: 0,
            after: 0,
            sent: 0,
            started_ms: 0,
        }
    }

    pub fn is_unlimited(&self) -> bool {
        self.rate == 0
    }

    /// Bytes that may be sent now, or the milliseconds to wait.
    fn allowance(&self) -> Result<u64, u64> {
        if self.rate == 0 {
            return Ok(u64::MAX);
        }
        let seconds = (thread::monotonic_ms() - self.started_ms) / 1000 + 1;
        let allowed = self.rate.saturating_mul(seconds).saturating_add(self.after);
        match allowed.checked_sub(self.sent) {
            Some(bytes) if bytes > 0 => Ok(bytes),
            _ => Err(((self.sent - allowed) * 1000 / self.rate + 1).max(1)),
        }
    }

    /// Waits until something may be sent, and says how much of `wanted`.
    pub async fn admit(&self, wanted: u64) -> u64 {
        loop {
            match self.allowance() {
                Ok(bytes) => return bytes.min(wanted),
                Err(wait_ms) => tokio::time::sleep(std::time::Duration::from_millis(wait_ms)).await,
            }
        }
    }
}
