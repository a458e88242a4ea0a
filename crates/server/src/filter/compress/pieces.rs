//! The part of a compressed stream that works: input in, steps of bounded time, output collected until it is worth sending.
//! What is quick happens here; what is not, on the blocking pool.

use super::{INLINE_NS, Plan};
use crate::encoding::negotiate::Coding;
use crate::encoding::stream::{Encoder, Heavy};
use crate::encoding::{auto, levels};
use crate::http::body::BodyError;
use bytes::Bytes;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::task::JoinHandle;

/// Output that is worth sending by itself.
const OUTPUT: usize = 16 * 1024;
/// Input of a step on the network thread: the most, and the least; between them the time decides that steps take.
const STEP_MAX: usize = 64 * 1024;
const STEP_MIN: usize = 2 * 1024;
/// Nanoseconds that a step on the network thread should take.
const STEP_NS: u64 = 500_000;
/// A step that cannot be shorter and takes longer than this, in nanoseconds, is the last on the network thread.
const STEP_MAX_NS: u64 = 2 * INLINE_NS;
/// Input of a step elsewhere.
const STEP_ELSEWHERE: usize = 128 * 1024;

/// What a step made: the encoder, unless it is finished, what came out, and the processor time of another thread.
type Done = (Option<Encoder>, Vec<u8>, u64);
type Step = JoinHandle<io::Result<Done>>;

/// What happens after the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Then {
    Continue,
    Flush,
    Finish,
}

/// A stream in the making.
pub struct Pieces {
    encoder: Option<Encoder>,
    input: Bytes,
    then: Then,
    /// Something was taken since the last flush.
    unflushed: bool,
    out: Vec<u8>,
    elsewhere: Option<(Step, Then)>,
    step: usize,
    /// What the encoder takes before it works.
    block: usize,
    is_quick: bool,
    finished: bool,
    _heavy: Option<Heavy>,
}

/// How a stream stands.
pub enum Stand {
    /// So much is to be sent.
    Output(Vec<u8>),
    /// A step was done; others should have their turn.
    Worked,
    /// It wants more input.
    Hungry,
    Ended,
}

impl Pieces {
    pub fn new(plan: &Plan, length: Option<u64>) -> io::Result<Pieces> {
        let cost = levels::nanoseconds_per_kilobyte(plan.coding, plan.level).max(1);
        // gzip works as it goes, the others when a block is full.
        let block = match plan.coding {
            Coding::Gzip => STEP_MIN,
            Coding::Brotli => 64 * 1024,
            Coding::Zstd => 128 * 1024,
        };
        let is_quick = plan.dictionary.is_none() && block as u64 / 1024 * cost <= INLINE_NS;
        let step = usize::try_from(STEP_NS * 1024 / cost).unwrap_or(STEP_MAX);
        let heavy = (plan.coding != Coding::Gzip).then(Heavy::begin);
        let encoder = match &plan.dictionary {
            None => Encoder::new(plan.coding, plan.level, length)?,
            Some(dictionary) => {
                Encoder::with_dictionary(plan.coding, plan.level, length, dictionary)?
            }
        };
        Ok(Pieces {
            encoder: Some(encoder),
            input: Bytes::new(),
            then: Then::Continue,
            unflushed: false,
            out: Vec::new(),
            elsewhere: None,
            step: match is_quick {
                true => step.clamp(STEP_MIN, STEP_MAX),
                false => STEP_ELSEWHERE,
            },
            block,
            is_quick,
            finished: false,
            _heavy: heavy.flatten(),
        })
    }

    /// More input, when the last was taken.
    pub fn feed(&mut self, input: Bytes, flush: bool) {
        self.input = input;
        if flush {
            self.flush();
        }
    }

    /// Everything that was given is to come out, at once.
    pub fn flush(&mut self) {
        self.then = self.then.max(Then::Flush);
    }

    pub fn finish(&mut self) {
        self.then = Then::Finish;
    }

    /// Whether a client waits for something that is in the encoder still.
    pub fn is_unflushed(&self) -> bool {
        self.unflushed || !self.out.is_empty()
    }

    /// Does the next step.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Stand, BodyError>> {
        loop {
            if let Some((step, then)) = &mut self.elsewhere {
                let Poll::Ready(done) = Pin::new(step).poll(context) else {
                    return Poll::Pending;
                };
                let then = *then;
                self.elsewhere = None;
                let done = done.map_err(io::Error::other).and_then(|done| done);
                return Poll::Ready(self.take(done, then));
            }
            if self.finished {
                return Poll::Ready(Ok(Stand::Ended));
            }
            if self.input.is_empty() && self.then == Then::Continue {
                return Poll::Ready(Ok(Stand::Hungry));
            }
            if let Some(done) = self.work() {
                return Poll::Ready(done);
            }
        }
    }

    /// Takes a step's worth of input; `None` where another thread works on it.
    fn work(&mut self) -> Option<Result<Stand, BodyError>> {
        let piece = self.input.split_to(self.step.min(self.input.len()));
        let then = match self.input.is_empty() {
            true => std::mem::replace(&mut self.then, Then::Continue),
            false => Then::Continue,
        };
        self.unflushed = then == Then::Continue;
        self.finished = then == Then::Finish;
        let Some(encoder) = self.encoder.take() else {
            return Some(Err(failed(&io::ErrorKind::BrokenPipe.into())));
        };
        if self.is_quick {
            let before = sys::machine::thread_cpu_ns();
            let encoder = match run(encoder, &piece, then, &mut self.out) {
                Ok(encoder) => encoder,
                Err(error) => return Some(Err(failed(&error))),
            };
            self.pace(piece.len(), sys::machine::thread_cpu_ns() - before);
            return Some(self.take(Ok((encoder, Vec::new(), 0)), then));
        }
        let step = tokio::task::spawn_blocking(move || {
            let before = sys::machine::thread_cpu_ns();
            let mut out = Vec::new();
            let encoder = run(encoder, &piece, then, &mut out)?;
            Ok((encoder, out, sys::machine::thread_cpu_ns() - before))
        });
        self.elsewhere = Some((step, then));
        None
    }

    /// Has the next step take as long as it should, as far as one of `length` bytes that took `took_ns` tells.
    fn pace(&mut self, length: usize, took_ns: u64) {
        if took_ns > STEP_MAX_NS && self.step <= self.block {
            self.is_quick = false;
            self.step = STEP_ELSEWHERE;
        } else if length >= STEP_MIN {
            self.step = next_step(self.step, length, took_ns);
        }
    }

    /// Takes what a step made.
    fn take(&mut self, done: io::Result<Done>, then: Then) -> Result<Stand, BodyError> {
        let (encoder, mut out, used_ns) = done.map_err(|error| failed(&error))?;
        auto::note_elsewhere(used_ns);
        self.encoder = encoder;
        self.out.append(&mut out);
        Ok(self.stand_after(then))
    }

    fn stand_after(&mut self, then: Then) -> Stand {
        let due = then != Then::Continue || self.out.len() >= OUTPUT;
        match due && !self.out.is_empty() {
            true => Stand::Output(std::mem::take(&mut self.out)),
            false => Stand::Worked,
        }
    }
}

/// The input of a step that follows one of `length` bytes that took `took_ns`.
fn next_step(step: usize, length: usize, took_ns: u64) -> usize {
    let fitting = length as u64 * STEP_NS / took_ns.max(1);
    // Not more than twice as much at once: some input costs next to nothing, and what follows does not.
    let most = (step * 2).min(STEP_MAX);
    usize::try_from(fitting)
        .unwrap_or(most)
        .clamp(STEP_MIN, most.max(STEP_MIN))
}

/// One step; the encoder is gone when the stream is finished.
fn run(
    mut encoder: Encoder,
    piece: &[u8],
    then: Then,
    out: &mut Vec<u8>,
) -> io::Result<Option<Encoder>> {
    encoder.write(piece, out)?;
    match then {
        Then::Continue => {}
        Then::Flush => encoder.flush(out)?,
        Then::Finish => {
            encoder.finish(out)?;
            return Ok(None);
        }
    }
    Ok(Some(encoder))
}

fn failed(error: &io::Error) -> BodyError {
    BodyError {
        reason: format!("compression failed: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_take_as_long_as_they_should() {
        for (step, length, took_ns, next) in [
            (16 << 10, 16 << 10, STEP_NS, 16 << 10),
            (16 << 10, 16 << 10, STEP_NS * 2, 8 << 10),
            (16 << 10, 16 << 10, STEP_NS * 100, STEP_MIN),
            (16 << 10, 16 << 10, STEP_NS / 4, 32 << 10),
            (16 << 10, 16 << 10, 0, 32 << 10),
            (STEP_MAX, STEP_MAX, 1, STEP_MAX),
            (STEP_MIN, STEP_MIN, u64::MAX, STEP_MIN),
            // The last of a body is short, and says as much for its length.
            (16 << 10, 4 << 10, STEP_NS / 4, 16 << 10),
        ] {
            assert_eq!(
                next_step(step, length, took_ns),
                next,
                "{step} {length} {took_ns}"
            );
        }
    }

    /// What a machine so slow makes of steps, in bytes.
    fn settles(coding: Coding, level: u8, ns_per_kilobyte: u64) -> (usize, bool) {
        let plan = Plan {
            coding,
            level,
            wanted: crate::filter::compress::Level::Fixed(level),
            form: None,
            seen_max: 0,
            padding: 0,
            dictionary: None,
            compressed: std::rc::Rc::new(crate::http::sent::Compressed::new("x", level)),
        };
        let mut pieces = Pieces::new(&plan, None).expect("an encoder");
        for _ in 0..10 {
            if pieces.is_quick {
                let length = pieces.step;
                pieces.pace(length, length as u64 * ns_per_kilobyte / 1024);
            }
        }
        (pieces.step, pieces.is_quick)
    }

    #[test]
    fn a_slow_machine_takes_shorter_steps_or_other_threads() {
        assert_eq!(settles(Coding::Gzip, 9, 1_000), (STEP_MAX, true));
        let (step, is_quick) = settles(Coding::Gzip, 9, 100_000);
        assert!(is_quick && (4_000..6_000).contains(&step), "{step}");
        // Two milliseconds for the shortest step.
        assert_eq!(settles(Coding::Gzip, 9, 1_100_000), (STEP_ELSEWHERE, false));
        // Blocks cannot be cut, whatever a step is.
        assert_eq!(settles(Coding::Brotli, 3, 50_000), (STEP_ELSEWHERE, false));
        assert_eq!(settles(Coding::Brotli, 11, 1), (STEP_ELSEWHERE, false));
        assert_eq!(settles(Coding::Zstd, 19, 1), (STEP_ELSEWHERE, false));
    }
}
