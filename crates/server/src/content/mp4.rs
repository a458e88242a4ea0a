//! `mp4`: the part of a film between two times (pseudo-streaming). What the film says of itself is written anew for it;
//! the samples are sent from the file as they are.

use super::flv::argument;
use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, LOCATION, Outcome, Set, flag, row, size};
use crate::config::setting::Setting;
use crate::http::body::Part;
use crate::http::{Body, Interrupt, Phase, Request, Response};
use crate::log::error::{Level, write_request};
use bytes::Bytes;
use conf::Directive;
use conf::table::Row;
use film::{Buffers, Failure, Source};
use wire::mp4::{Cut, Section};

mod film;

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "mp4",
        LOCATION,
        Arity::Exactly(0),
        mp4,
        "Answer with films from the time that the argument `start` names to the one that `end` names.",
    ),
    row(
        "mp4_buffer_size",
        HSL,
        Arity::Exactly(1),
        |b, d| size(&mut b.location().mp4.buffer_size, d),
        "What a film says of itself may be so long before the next directive counts.",
    ),
    row(
        "mp4_max_buffer_size",
        HSL,
        Arity::Exactly(1),
        |b, d| size(&mut b.location().mp4.max_buffer_size, d),
        "The most that a film may say of itself.",
    ),
    row(
        "mp4_start_key_frame",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().mp4.start_key_frame, d),
        "Whether a part begins with the key frame before its time.",
    ),
];

/// What was written in one block.
#[derive(Default, Debug, Clone)]
pub struct Raw {
    on: bool,
    buffer_size: Setting<u64>,
    max_buffer_size: Setting<u64>,
    start_key_frame: Setting<bool>,
}

/// What holds in one block.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Not inherited.
    pub on: bool,
    buffer_size: u64,
    max_buffer_size: u64,
    start_key_frame: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            on: false,
            buffer_size: 512 * 1024,
            max_buffer_size: 10 * 1024 * 1024,
            start_key_frame: false,
        }
    }
}

impl Raw {
    #[must_use]
    pub fn resolve(&self, parent: &Settings) -> Settings {
        Settings {
            on: self.on,
            buffer_size: self.buffer_size.or(&parent.buffer_size),
            max_buffer_size: self.max_buffer_size.or(&parent.max_buffer_size),
            start_key_frame: self.start_key_frame.or(&parent.start_key_frame),
        }
    }
}

fn mp4(build: &mut Build<'_>, _: &Directive) -> Outcome {
    build.location().mp4.on = true;
    Ok(())
}

/// Lets the response be the part that the request asks for, if it asks for one.
pub async fn cut(request: &Request, path: &[u8], response: &mut Response) -> Phase {
    let settings = &request.location().settings.mp4;
    if !settings.on {
        return Ok(());
    }
    let Some(mut section) = section(&request.args) else {
        return Ok(());
    };
    section.from_key_frame = settings.start_key_frame;
    response.single_range = true;
    let whole = match &response.body {
        Body::Empty => Part::Memory(Bytes::new()),
        body => match body.as_part() {
            Some(part) => part,
            None => return Ok(()),
        },
    };
    let buffers = Buffers {
        size: settings.buffer_size,
        most: settings.max_buffer_size,
    };
    match read(&whole, buffers, section).await {
        Ok(None) => Ok(()),
        Ok(Some(cut)) => {
            send(response, &whole, cut);
            Ok(())
        }
        Err(failure) => {
            let path = String::from_utf8_lossy(path);
            let line = failure.line(&path);
            write_request(request, Level::Error, format_args!("{line}"));
            Err(Interrupt::Status(500))
        }
    }
}

/// The part that arguments ask for.
fn section(args: &[u8]) -> Option<Section> {
    let mut start = argument(args, b"start").and_then(milliseconds);
    let end = argument(args, b"end").and_then(milliseconds);
    let mut length = 0;
    if let Some(end) = end.filter(|&end| end > 0) {
        length = end.saturating_sub(*start.get_or_insert(0));
    }
    Some(Section {
        start: start?,
        length,
        from_key_frame: false,
    })
}

/// Seconds with any number of decimals, of which three count.
fn milliseconds(text: &[u8]) -> Option<u64> {
    let mut parts = text.splitn(2, |&byte| byte == b'.');
    let (whole, decimals) = (parts.next()?, parts.next().unwrap_or_default());
    let digits = |text: &[u8]| text.iter().all(u8::is_ascii_digit);
    if text.is_empty() || !digits(whole) || !digits(decimals) {
        return None;
    }
    let decimals = decimals.iter().chain(b"000").take(3);
    let mut value: u64 = 0;
    for digit in whole.iter().chain(decimals) {
        let digit = u64::from(digit - b'0');
        value = value.checked_mul(10)?.checked_add(digit)?;
    }
    (value <= i64::MAX as u64).then_some(value)
}

/// Reads what the film says of itself, a file's on the blocking pool.
async fn read(whole: &Part, buffers: Buffers, section: Section) -> Result<Option<Cut>, Failure> {
    match whole {
        Part::Memory(bytes) => film::cut(&Source::Memory(bytes), buffers, section),
        Part::File(range) => {
            let file = range.file.fd.try_clone()?;
            let (offset, length) = (range.offset, range.length);
            let task = tokio::task::spawn_blocking(move || {
                let source = Source::File {
                    file,
                    offset,
                    length,
                };
                film::cut(&source, buffers, section)
            });
            task.await.map_err(std::io::Error::other)?
        }
    }
}

/// The head that was made, and the samples.
fn send(response: &mut Response, whole: &Part, cut: Cut) {
    let mut parts = vec![Part::Memory(Bytes::from(cut.head))];
    if cut.end > cut.start {
        parts.push(whole.slice(cut.start, cut.end - cut.start));
    }
    response.set_body(Body::Parts(parts));
    response.file = None;
    super::flv::set_etag(response);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_decimals() {
        for (text, value) in [
            ("0", Some(0)),
            ("1", Some(1000)),
            ("1.5", Some(1500)),
            ("1.23456789", Some(1234)),
            (".5", Some(500)),
            ("1.", Some(1000)),
            (".", Some(0)),
            ("", None),
            ("-1", None),
            ("1.2.3", None),
            ("x", None),
            ("9223372036854775.807", Some(i64::MAX as u64)),
            ("9223372036854775.808", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(milliseconds(text.as_bytes()), value, "{text}");
        }
    }

    #[test]
    fn arguments_ask_for_parts() {
        for (args, wanted) in [
            ("", None),
            ("start=x", None),
            ("start=1", Some((1000, 0))),
            ("end=2", Some((0, 2000))),
            ("start=1&end=3", Some((1000, 2000))),
            ("start=3&end=1", Some((3000, 0))),
            ("start=x&end=1", Some((0, 1000))),
            ("end=0", None),
            ("START=0", Some((0, 0))),
        ] {
            let found = section(args.as_bytes()).map(|part| (part.start, part.length));
            assert_eq!(found, wanted, "{args}");
        }
    }
}
