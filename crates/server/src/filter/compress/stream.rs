//! A body that is compressed while it is sent. What comes is held back for a moment, so that a body that ends soon is
//! compressed whole; after that it goes out in pieces, flushed where the source flushes or pauses.

use super::pieces::{Pieces, Stand};
use super::{Plan, finished, is_quick, kept_body, look_up, padding, remember};
use crate::cache::forms::{Form, Making};
use crate::cache::zone::Kept;
use crate::encoding::auto;
use crate::encoding::seen::Seen;
use crate::http::body::{BodyError, BodyStream, Chunk};
use crate::http::{Body, body_reader};
use bytes::{Bytes, BytesMut};
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Sleep;

/// What is read at once from the file of a body that is compressed in pieces.
pub const STEP: usize = 64 * 1024;
/// How long the beginning of a body is held back when its source pauses.
const HOLD: Duration = Duration::from_millis(50);
/// A source that pauses so long has what it gave flushed.
const PAUSE: Duration = Duration::from_millis(20);

/// The whole body compressed on another thread, with the processor time it took.
type Job = JoinHandle<io::Result<(Bytes, u64)>>;

type Looking = Pin<Box<dyn Future<Output = Option<Kept>>>>;

enum Stage {
    /// Nothing was sent yet.
    Collecting {
        pieces: Vec<Bytes>,
        length: u64,
    },
    Whole {
        job: Job,
        body: Bytes,
        seen: Seen,
    },
    Pieces(Box<Pieces>),
    /// It may be on the disk, compressed.
    Looking(Looking),
    /// It is.
    Kept(Box<dyn BodyStream>),
    Done,
}

/// See above.
pub struct Compressing {
    source: Box<dyn BodyStream>,
    plan: Plan,
    /// The body's length, where it is known.
    length: Option<u64>,
    stage: Stage,
    /// Runs while the source pauses.
    pause: Option<Pin<Box<Sleep>>>,
    source_ended: bool,
    /// The first bytes have been padded.
    padded: bool,
    /// Others get their turn before the next step.
    worked: bool,
    /// What goes out in pieces is kept with the response that it is made of.
    making: Option<Making>,
}

impl Compressing {
    #[must_use]
    pub fn new(source: Box<dyn BodyStream>, plan: Plan, length: Option<u64>) -> Compressing {
        Compressing {
            source,
            plan,
            length,
            stage: Stage::Collecting {
                pieces: Vec::new(),
                length: 0,
            },
            pause: None,
            source_ended: false,
            padded: false,
            worked: false,
            making: None,
        }
    }

    /// A body that may have been compressed before.
    #[must_use]
    pub fn looking(source: Box<dyn BodyStream>, plan: Plan, length: Option<u64>) -> Compressing {
        let stage = match &plan.form {
            Some(form) => Stage::Looking(Box::pin(form.clone().load())),
            None => Stage::Done,
        };
        Compressing {
            stage,
            ..Compressing::new(source, plan, length)
        }
    }

    /// A body that is whole, and takes too long for the network thread.
    #[must_use]
    pub fn whole(body: Bytes, seen: Seen, plan: Plan) -> Compressing {
        let job = compress_elsewhere(&plan, &body);
        Compressing {
            stage: Stage::Whole { job, body, seen },
            ..Compressing::new(body_reader::stream(Body::Empty, STEP), plan, None)
        }
    }
}

/// Compresses a whole body on the blocking pool.
fn compress_elsewhere(plan: &Plan, body: &Bytes) -> Job {
    let (encode, body) = (plan.encode(), body.clone());
    tokio::task::spawn_blocking(move || {
        let before = sys::machine::thread_cpu_ns();
        let coded = encode(&body)?;
        Ok((coded, sys::machine::thread_cpu_ns() - before))
    })
}

type Polled = Poll<Option<Result<Chunk, BodyError>>>;

impl BodyStream for Compressing {
    fn poll_fill(&mut self, context: &mut Context<'_>) {
        self.source.poll_fill(context);
    }

    fn trailers(&mut self) -> Vec<(Bytes, Bytes)> {
        self.source.trailers()
    }

    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Polled {
        loop {
            let polled = match &mut self.stage {
                Stage::Collecting { .. } => self.collect(context),
                Stage::Whole { .. } => self.await_whole(context),
                Stage::Pieces(_) => self.go_on(context),
                Stage::Looking(_) => self.await_kept(context),
                Stage::Kept(kept) => return kept.poll_chunk(context),
                Stage::Done => return Poll::Ready(None),
            };
            match polled {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => {}
                Poll::Ready(Some(result)) => {
                    if result.is_err() {
                        self.stage = Stage::Done;
                    }
                    return Poll::Ready(Some(result));
                }
            }
        }
    }
}

/// Each step is `Ready(None)` where it led to another stage, with nothing to send yet.
impl Compressing {
    fn collect(&mut self, context: &mut Context<'_>) -> Polled {
        let Stage::Collecting { pieces, length } = &mut self.stage else {
            return Poll::Ready(None);
        };
        match self.source.poll_chunk(context) {
            Poll::Ready(Some(Ok(chunk))) => {
                *length += chunk.bytes.len() as u64;
                let most = self.plan.whole_max();
                let too_long = *length > most || self.length.is_some_and(|all| all > most);
                if !chunk.bytes.is_empty() {
                    pieces.push(chunk.bytes);
                }
                match chunk.flush || too_long {
                    true => self.begin_pieces(chunk.flush),
                    false => Poll::Ready(None),
                }
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error))),
            Poll::Ready(None) => self.compress_whole(),
            Poll::Pending if *length > 0 && self.has_paused(HOLD, context) => {
                self.begin_pieces(true)
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn await_kept(&mut self, context: &mut Context<'_>) -> Polled {
        let Stage::Looking(looking) = &mut self.stage else {
            return Poll::Ready(None);
        };
        let Poll::Ready(found) = looking.as_mut().poll(context) else {
            return Poll::Pending;
        };
        let body = found.and_then(|kept| kept_body(&self.plan, &kept).ok());
        self.stage = match body {
            Some(body) => Stage::Kept(body_reader::stream(body, STEP)),
            None => Stage::Collecting {
                pieces: Vec::new(),
                length: 0,
            },
        };
        Poll::Ready(None)
    }

    /// Whether the source has paused for so long; if not, the task is woken when it has.
    fn has_paused(&mut self, time: Duration, context: &mut Context<'_>) -> bool {
        let pause = self
            .pause
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(time)));
        pause.as_mut().poll(context).is_ready()
    }

    /// The body is whole: it was seen before, or is compressed here or on another thread.
    fn compress_whole(&mut self) -> Polled {
        let Stage::Collecting { pieces, .. } = std::mem::replace(&mut self.stage, Stage::Done)
        else {
            return Poll::Ready(None);
        };
        let body = joined(pieces);
        let seen = look_up(&self.plan, &body);
        if let Seen::Before(coded) = seen {
            return send(finished(&self.plan, &body, coded));
        }
        if is_quick(&self.plan, body.len() as u64) {
            return match self.plan.encode()(&body) {
                Ok(coded) => {
                    remember(&self.plan, seen, &body, &coded);
                    send(finished(&self.plan, &body, coded))
                }
                Err(error) => Poll::Ready(Some(Err(failed(&error)))),
            };
        }
        let job = compress_elsewhere(&self.plan, &body);
        self.stage = Stage::Whole { job, body, seen };
        Poll::Ready(None)
    }

    fn await_whole(&mut self, context: &mut Context<'_>) -> Polled {
        let Stage::Whole { job, .. } = &mut self.stage else {
            return Poll::Ready(None);
        };
        let Poll::Ready(done) = Pin::new(job).poll(context) else {
            return Poll::Pending;
        };
        let Stage::Whole { body, seen, .. } = std::mem::replace(&mut self.stage, Stage::Done)
        else {
            return Poll::Ready(None);
        };
        match done.map_err(io::Error::other).and_then(|done| done) {
            Ok((coded, used_ns)) => {
                auto::note_elsewhere(used_ns);
                remember(&self.plan, seen, &body, &coded);
                send(finished(&self.plan, &body, coded))
            }
            Err(error) => Poll::Ready(Some(Err(failed(&error)))),
        }
    }

    fn begin_pieces(&mut self, flush: bool) -> Polled {
        let Stage::Collecting { pieces, .. } = &mut self.stage else {
            return Poll::Ready(None);
        };
        let body = joined(std::mem::take(pieces));
        match Pieces::new(&self.plan, self.length) {
            Ok(mut pieces) => {
                self.plan.compressed.count(body.len(), 0);
                pieces.feed(body, flush);
                self.pause = None;
                self.making = self.plan.form.as_ref().and_then(Form::begin);
                self.stage = Stage::Pieces(Box::new(pieces));
                Poll::Ready(None)
            }
            Err(error) => Poll::Ready(Some(Err(failed(&error)))),
        }
    }

    fn go_on(&mut self, context: &mut Context<'_>) -> Polled {
        if self.worked {
            self.worked = false;
            // Not before the thread has looked at its sockets; the waker is kept until then.
            if pin!(tokio::task::yield_now()).poll(context).is_pending() {
                return Poll::Pending;
            }
        }
        let Stage::Pieces(pieces) = &mut self.stage else {
            return Poll::Ready(None);
        };
        let stand = match pieces.poll(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(error))),
            Poll::Ready(Ok(stand)) => stand,
        };
        match stand {
            Stand::Worked => {
                self.worked = true;
                Poll::Ready(None)
            }
            Stand::Output(out) => {
                self.worked = true;
                self.send_piece(Bytes::from(out))
            }
            Stand::Ended => {
                if let Some(making) = self.making.take() {
                    making.finish(self.plan.compressed.taken.get());
                }
                self.stage = Stage::Done;
                Poll::Ready(None)
            }
            Stand::Hungry => self.feed(context),
        }
    }

    /// Gives the encoder what the source has.
    fn feed(&mut self, context: &mut Context<'_>) -> Polled {
        let Stage::Pieces(pieces) = &mut self.stage else {
            return Poll::Ready(None);
        };
        let polled = match self.source_ended {
            true => Poll::Ready(None),
            false => self.source.poll_chunk(context),
        };
        match polled {
            Poll::Ready(Some(Ok(chunk))) => {
                self.pause = None;
                self.plan.compressed.count(chunk.bytes.len(), 0);
                pieces.feed(chunk.bytes, chunk.flush);
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error))),
            Poll::Ready(None) => {
                self.source_ended = true;
                pieces.finish();
                Poll::Ready(None)
            }
            Poll::Pending if !pieces.is_unflushed() => Poll::Pending,
            Poll::Pending => match self.has_paused(PAUSE, context) {
                true => {
                    self.pause = None;
                    if let Stage::Pieces(pieces) = &mut self.stage {
                        pieces.flush();
                    }
                    Poll::Ready(None)
                }
                false => Poll::Pending,
            },
        }
    }

    fn send_piece(&mut self, out: Bytes) -> Polled {
        let out = match self.plan.padding {
            most if most > 0 && !self.padded => padding::pad(out, most),
            _ => out,
        };
        self.padded = true;
        self.plan.compressed.count(0, out.len());
        if let Some(making) = &mut self.making {
            making.write(&out);
        }
        send(out)
    }
}

fn send(bytes: Bytes) -> Polled {
    Poll::Ready(Some(Ok(Chunk { bytes, flush: true })))
}

fn joined(mut pieces: Vec<Bytes>) -> Bytes {
    match pieces.as_mut_slice() {
        [] => Bytes::new(),
        [only] => std::mem::take(only),
        several => {
            let length = several.iter().map(Bytes::len).sum();
            let mut body = BytesMut::with_capacity(length);
            for piece in several {
                body.extend_from_slice(piece);
            }
            body.freeze()
        }
    }
}

fn failed(error: &io::Error) -> BodyError {
    BodyError {
        reason: format!("compression failed: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::negotiate::Coding;
    use crate::encoding::tests::{decode, decode_so_far, sample};
    use crate::filter::compress::Level;
    use crate::http::sent::Compressed;
    use std::collections::VecDeque;
    use std::rc::Rc;

    /// What a source does when it is asked.
    enum Does {
        Gives(usize),
        Flushes(usize),
        Pauses(u64),
        Fails,
    }

    struct Source {
        body: Bytes,
        script: VecDeque<Does>,
        sleep: Option<Pin<Box<Sleep>>>,
    }

    impl BodyStream for Source {
        fn poll_chunk(&mut self, context: &mut Context<'_>) -> Polled {
            if let Some(sleep) = &mut self.sleep {
                if sleep.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                self.sleep = None;
            }
            let (count, flush) = match self.script.pop_front() {
                None => return Poll::Ready(None),
                Some(Does::Gives(count)) => (count, false),
                Some(Does::Flushes(count)) => (count, true),
                Some(Does::Fails) => {
                    let reason = "the source failed".to_owned();
                    return Poll::Ready(Some(Err(BodyError { reason })));
                }
                Some(Does::Pauses(ms)) => {
                    self.sleep = Some(Box::pin(tokio::time::sleep(Duration::from_millis(ms))));
                    return self.poll_chunk(context);
                }
            };
            let bytes = self.body.split_to(count);
            Poll::Ready(Some(Ok(Chunk { bytes, flush })))
        }
    }

    fn plan(coding: Coding, level: u8) -> Plan {
        Plan {
            coding,
            level,
            wanted: Level::Fixed(level),
            form: None,
            seen_max: 0,
            padding: 0,
            dictionary: None,
            compressed: Rc::new(Compressed::new(coding.as_str(), level)),
        }
    }

    /// The chunks that come out, and what they decode to after each.
    fn run(plan: &Plan, script: Vec<Does>) -> Result<Vec<(usize, usize)>, String> {
        let total = script.iter().map(|does| match does {
            Does::Gives(count) | Does::Flushes(count) => *count,
            Does::Pauses(_) | Does::Fails => 0,
        });
        let body = sample(total.sum());
        let source = Source {
            body: Bytes::from(body.clone()),
            script: script.into(),
            sleep: None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        let coding = plan.coding;
        runtime.block_on(async {
            let mut stream = Compressing::new(Box::new(source), plan.clone(), None);
            let (mut out, mut chunks) = (Vec::new(), Vec::new());
            while let Some(chunk) = std::future::poll_fn(|context| stream.poll_chunk(context)).await
            {
                let chunk = chunk.map_err(|error| error.reason)?;
                out.extend_from_slice(&chunk.bytes);
                let seen = match body.len() {
                    0..1000 => decode_so_far(coding, &out),
                    _ => Vec::new(),
                };
                assert!(body.starts_with(&seen));
                chunks.push((chunk.bytes.len(), seen.len()));
            }
            assert!(decode(coding, &out) == body);
            assert_eq!(plan.compressed.taken.get(), body.len() as u64);
            assert_eq!(plan.compressed.given.get(), out.len() as u64);
            Ok(chunks)
        })
    }

    #[test]
    fn a_body_that_ends_soon_is_one_chunk() {
        for coding in Coding::ALL {
            let plan = plan(coding, 1);
            let script = vec![Does::Gives(1000), Does::Pauses(1), Does::Gives(9000)];
            let chunks = run(&plan, script).expect("it ends well");
            assert_eq!(chunks.len(), 1, "{coding:?}");
            let empty = run(&self::plan(coding, 1), vec![]);
            assert_eq!(empty.expect("it ends well").len(), 1);
        }
    }

    #[test]
    fn what_takes_long_is_done_elsewhere_and_comes_out_the_same() {
        for (coding, level) in [(Coding::Gzip, 9), (Coding::Brotli, 9), (Coding::Zstd, 12)] {
            let chunks = run(&plan(coding, level), vec![Does::Gives(300_000)]);
            assert_eq!(chunks.expect("it ends well").len(), 1);
            let script = vec![
                Does::Flushes(10),
                Does::Gives(200_000),
                Does::Flushes(50_000),
            ];
            run(&plan(coding, level), script).expect("it ends well");
        }
    }

    #[test]
    fn flushes_and_pauses_bring_out_what_was_given() {
        for (coding, level) in [(Coding::Gzip, 6), (Coding::Brotli, 6), (Coding::Zstd, 3)] {
            let script = vec![
                Does::Flushes(100),
                Does::Pauses(1),
                Does::Gives(50),
                Does::Pauses(200),
                Does::Gives(7),
            ];
            let chunks = run(&plan(coding, level), script).expect("it ends well");
            let seen: Vec<usize> = chunks.iter().map(|(_, seen)| *seen).collect();
            assert_eq!(seen, [100, 150, 157], "{coding:?}");
            let script = vec![Does::Gives(60), Does::Pauses(400), Does::Gives(7)];
            let chunks = run(&plan(coding, level), script).expect("it ends well");
            assert_eq!(chunks[0].1, 60, "{coding:?}: not held back for ever");
        }
    }

    #[test]
    fn long_streams_come_in_pieces_worth_sending() {
        for (coding, level) in [(Coding::Gzip, 6), (Coding::Brotli, 4), (Coding::Zstd, 3)] {
            let script = (0..120).map(|_| Does::Gives(10_000)).collect();
            let chunks = run(&plan(coding, level), script).expect("it ends well");
            assert!(
                chunks.len() > 3 && chunks.len() < 30,
                "{coding:?} {}",
                chunks.len()
            );
        }
    }

    #[test]
    fn a_source_that_fails_fails_the_stream() {
        for script in [
            vec![Does::Gives(10), Does::Fails],
            vec![Does::Flushes(10), Does::Fails],
        ] {
            let failed = run(&plan(Coding::Gzip, 6), script);
            assert_eq!(failed, Err("the source failed".to_owned()));
        }
    }
}
