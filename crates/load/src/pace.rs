//! When users work and when requests are due: the arithmetic of stages, without a clock.

use crate::plan::Stage;
use std::time::Duration;

/// The value at a moment: users or requests a second. After the last stage its value stays.
pub fn value_at(stages: &[Stage], at: Duration) -> f64 {
    let mut left = at.as_secs_f64();
    let mut value = 0.0;
    for stage in stages {
        let length = stage.duration.as_secs_f64();
        if left < length {
            return stage.from + (stage.to - stage.from) * left / length;
        }
        left -= length;
        value = stage.to;
    }
    value
}

/// How many users are at work at a moment; the first is there from the beginning of a rise.
pub fn users_at(stages: &[Stage], at: Duration) -> usize {
    // Rounded up, so that a rise from 0 begins with one user; the small number keeps a whole value whole.
    (value_at(stages, at) - 1e-9).ceil().max(0.0) as usize
}

/// The first moment, from `now` on, at which the user with this number (from 0) is at work; `None` if none comes.
pub fn next_turn(stages: &[Stage], user: usize, now: Duration) -> Option<Duration> {
    if users_at(stages, now) > user {
        return Some(now);
    }
    let wanted = user as f64;
    let mut begin = 0.0;
    for stage in stages {
        let length = stage.duration.as_secs_f64();
        let end = begin + length;
        if end > now.as_secs_f64() && stage.to > wanted {
            // The value rises through `wanted` in this stage, or stands above it from its beginning.
            let rise = stage.to - stage.from;
            let inside = if stage.from > wanted || rise <= 0.0 {
                0.0
            } else {
                length * (wanted - stage.from) / rise
            };
            // Just after the moment itself, where the count is already one more.
            let moment = begin + inside + 1e-6;
            return Some(Duration::from_secs_f64(moment.max(now.as_secs_f64())));
        }
        if end > now.as_secs_f64() && stage.from > wanted && begin >= now.as_secs_f64() {
            return Some(Duration::from_secs_f64(begin));
        }
        begin = end;
    }
    None
}

/// When the request with this number (from 0) is due under a rate that follows the stages: where the area under the rate
/// reaches the number. `None`: after the last stage.
pub fn due(stages: &[Stage], number: u64) -> Option<Duration> {
    let mut left = number as f64;
    let mut begin = 0.0;
    for stage in stages {
        let length = stage.duration.as_secs_f64();
        let area = (stage.from + stage.to) / 2.0 * length;
        if left < area {
            return Some(Duration::from_secs_f64(begin + inside(stage, left)));
        }
        left -= area;
        begin += length;
    }
    None
}

/// The time within a stage at which the area reaches `wanted`: `from t + slope t²/2 = wanted`, solved so that nothing
/// cancels when the slope is small.
fn inside(stage: &Stage, wanted: f64) -> f64 {
    let length = stage.duration.as_secs_f64();
    let slope = (stage.to - stage.from) / length;
    let root = (stage.from * stage.from + 2.0 * slope * wanted)
        .max(0.0)
        .sqrt();
    let divisor = stage.from + root;
    if divisor <= 0.0 {
        return 0.0;
    }
    (2.0 * wanted / divisor).min(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(seconds: f64, from: f64, to: f64) -> Stage {
        Stage {
            duration: Duration::from_secs_f64(seconds),
            from,
            to,
        }
    }

    fn s(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn users_follow_the_stages() {
        let stages = [
            stage(10.0, 0.0, 10.0),
            stage(5.0, 10.0, 10.0),
            stage(10.0, 10.0, 0.0),
        ];
        for (at, users) in [
            (0.0, 0),
            (0.001, 1),
            (1.0, 1),
            (1.5, 2),
            (9.99, 10),
            (12.0, 10),
            (15.5, 10),
            (16.5, 9),
            (24.5, 1),
            (25.0, 0),
            (99.0, 0),
        ] {
            assert_eq!(users_at(&stages, s(at)), users, "{at}");
        }
    }

    #[test]
    fn users_know_their_next_turn() {
        let stages = [
            stage(10.0, 0.0, 10.0),
            stage(10.0, 10.0, 0.0),
            stage(10.0, 5.0, 5.0),
        ];
        for (user, now, turn) in [
            (0, 0.0, Some(0.0)),
            (3, 0.0, Some(3.0)),
            (3, 4.0, Some(4.0)),
            (3, 18.0, Some(20.0)),
            (9, 18.0, None),
            (4, 25.0, Some(25.0)),
            (4, 30.0, Some(30.0)),
        ] {
            let found = next_turn(&stages, user, s(now));
            match (found, turn) {
                (Some(found), Some(turn)) => {
                    assert!(
                        (found.as_secs_f64() - turn).abs() < 1e-3,
                        "{user} {now}: {found:?}"
                    );
                    assert!(users_at(&stages, found) > user, "{user} {now}");
                }
                (found, turn) => {
                    assert_eq!(found.is_some(), turn.is_some(), "{user} {now}: {found:?}")
                }
            }
        }
    }

    #[test]
    fn requests_are_due_where_the_area_under_the_rate_says() {
        let steady = [stage(10.0, 50.0, 50.0)];
        for number in 0..500 {
            let at = due(&steady, number).unwrap().as_secs_f64();
            assert!((at - number as f64 / 50.0).abs() < 1e-9, "{number}");
        }
        assert_eq!(due(&steady, 500), None);
        // 0 to 100/s over 10 s, 500 requests: the number n is due at sqrt(n / 5); then 100/s for a second.
        let rising = [stage(10.0, 0.0, 100.0), stage(1.0, 100.0, 100.0)];
        for number in [0, 5, 20, 125, 499] {
            let at = due(&rising, number).unwrap().as_secs_f64();
            assert!((at - (number as f64 / 5.0).sqrt()).abs() < 1e-9, "{number}");
        }
        assert_eq!(due(&rising, 550), Some(s(10.5)));
        assert_eq!(due(&rising, 600), None);
        let falling = [stage(10.0, 100.0, 0.0)];
        let mut last = Duration::ZERO;
        for number in 0..500 {
            let at = due(&falling, number).unwrap();
            assert!(at >= last && at <= s(10.0), "{number}");
            last = at;
        }
        assert_eq!(due(&[stage(0.0, 1.0, 5.0)], 0), None);
    }
}
