//! When a dead worker is replaced: at once, unless it dies at birth again and again.

use std::time::{Duration, Instant};

/// A worker that lived shorter than this died at birth.
const BIRTH: Duration = Duration::from_secs(1);
/// So many deaths at birth in a row are answered at once; each further one doubles the pause.
const FREE_ATTEMPTS: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

#[derive(Debug, PartialEq, Eq)]
pub struct Respawn {
    deaths_at_birth: u32,
    /// `None`: never, until somebody changes the configuration.
    due: Option<Instant>,
}

impl Respawn {
    /// A worker is wanted now.
    pub fn at_once(now: Instant) -> Respawn {
        Respawn {
            deaths_at_birth: 0,
            due: Some(now),
        }
    }

    pub fn died(&mut self, lived: Duration, now: Instant) {
        self.deaths_at_birth = if lived < BIRTH {
            self.deaths_at_birth + 1
        } else {
            0
        };
        self.due = Some(now + self.pause());
    }

    /// The worker cannot live with this configuration.
    pub fn never(&mut self) {
        self.due = None;
    }

    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    fn pause(&self) -> Duration {
        match self.deaths_at_birth.checked_sub(FREE_ATTEMPTS + 1) {
            None => Duration::ZERO,
            Some(doublings) => {
                let factor = 1u32.checked_shl(doublings).unwrap_or(u32::MAX);
                FIRST_PAUSE.saturating_mul(factor).min(LONGEST_PAUSE)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deaths_at_birth_are_answered_more_and_more_slowly() {
        let now = Instant::now();
        let mut respawn = Respawn::at_once(now);
        let mut pauses = Vec::new();
        for _ in 0..12 {
            respawn.died(Duration::from_millis(5), now);
            pauses.push((respawn.due().unwrap() - now).as_millis());
        }
        assert_eq!(
            pauses,
            [0, 0, 0, 100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000]
        );
        for _ in 0..100 {
            respawn.died(Duration::ZERO, now);
        }
        assert_eq!(respawn.due(), Some(now + LONGEST_PAUSE));
        respawn.died(Duration::from_secs(60), now);
        assert_eq!(respawn.due(), Some(now));
    }

    #[test]
    fn a_fatal_end_is_final() {
        let mut respawn = Respawn::at_once(Instant::now());
        respawn.never();
        assert_eq!(respawn.due(), None);
    }
}
