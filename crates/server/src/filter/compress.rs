//! Compresses responses on the fly: gzip as nginx has it, brotli and zstd as their modules for nginx have them.

mod directive;
mod padding;
mod pieces;
mod stream;

pub use directive::{DIRECTIVES, Level, Raw, Settings};

use crate::cache::forms::{Form, Forms};
use crate::cache::zone::{AtOnce, Kept};
use crate::encoding::dictionary::{self, Dictionary};
use crate::encoding::negotiate::{Coding, Offers};
use crate::encoding::seen::{self, Seen};
use crate::encoding::stream::Heavy;
use crate::encoding::{auto, levels, permission, whole};
use crate::http::counters::{self, Compression};
use crate::http::sent::Compressed;
use crate::http::{Body, Request, Response, body_reader};
use bytes::Bytes;
use std::fmt::Write;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

/// Bodies up to this size are compressed in one piece.
pub const WHOLE_MAX: u64 = 1024 * 1024;
/// What takes longer than this, in nanoseconds, is compressed away from the network thread.
pub const INLINE_NS: u64 = 1_000_000;
/// What an upstream may say of the compression of its response: `off`, or a level.
const HINT: &str = "X-Accel-Compression";

/// How one response is compressed.
#[derive(Debug, Clone)]
pub struct Plan {
    pub coding: Coding,
    pub level: u8,
    /// The level as it is written, for the name of what is kept.
    pub wanted: Level,
    /// Bytes that the table of bodies seen before may take; 0: it is not asked.
    pub seen_max: u64,
    /// The most bytes of random padding.
    pub padding: u64,
    /// Where it is kept with the response it is made of.
    pub form: Option<Form>,
    /// What the client has already.
    pub dictionary: Option<Arc<Dictionary>>,
    pub compressed: Rc<Compressed>,
}

impl Plan {
    /// Bodies up to this size are compressed in one piece.
    fn whole_max(&self) -> u64 {
        match self.dictionary {
            None => WHOLE_MAX,
            Some(_) => dictionary::BODY_MAX,
        }
    }

    /// Compresses a whole body; blocks for as long as that takes.
    fn encode(&self) -> impl FnOnce(&[u8]) -> io::Result<Bytes> + Send + 'static {
        let (coding, level, dictionary) = (self.coding, self.level, self.dictionary.clone());
        move |body| match dictionary {
            None => whole::encode(coding, level, body),
            Some(dictionary) => whole::encode_with(&dictionary, coding, level, body),
        }
    }
}

/// What an upstream asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hint {
    None,
    Off,
    Level(u8),
}

/// Compresses the response where the settings and the client allow it.
pub fn apply(request: &Request, response: &mut Response) {
    let hint = take_hint(response);
    let settings = &request.location().settings.compress;
    if (settings.is_off() && !response.copy_is_wanted)
        || hint == Hint::Off
        || !matches!(response.status, 200 | 403 | 404)
        || response.headers.contains("Content-Encoding")
    {
        return;
    }
    let mut offers = settings.offers(response);
    if response.copy_is_wanted {
        offers = offers.or(request.location().settings.precompress.codings);
    }
    if offers.is_empty() {
        return;
    }
    request.vary_accept_encoding.set(true);
    response.depends_on_accept = true;
    let Some((coding, dictionary)) = choose(request, response, offers) else {
        return;
    };
    let plan = plan(request, response, (coding, dictionary), hint);
    response
        .headers
        .push("Content-Encoding", plan.compressed.coding);
    // Where a copy may come, the response is not sent again.
    let is_last = !request.location().settings.precompress.on && response.copied.is_none();
    let file = response.file.take().filter(|_| is_last);
    let plan = with_form(plan, response.forms.take());
    forget_identity(response);
    if request.is_head() {
        return;
    }
    count(&plan);
    let compressed = Rc::clone(&plan.compressed);
    response.body = compress(std::mem::take(&mut response.body), plan);
    if matches!(response.body, Body::Memory(_)) {
        response.file = file;
        response.made = Some(compressed);
    }
}

/// The coding, and the dictionary where one is used.
fn choose(
    request: &Request,
    response: &Response,
    offers: Offers,
) -> Option<(Coding, Option<Arc<Dictionary>>)> {
    let is_stream = !is_whole(&response.body);
    let possible = |coding: &Coding| *coding == Coding::Gzip || !is_stream || Heavy::has_room();
    if let Some((coding, dictionary)) = dictionary::choose(request, response, offers)
        && possible(&coding)
    {
        return Some((coding, Some(dictionary)));
    }
    let coding = permission::codings(request, Some(response), offers).find(possible)?;
    Some((coding, None))
}

/// The directive's level, or what the upstream asked for.
fn plan(
    request: &Request,
    response: &Response,
    (coding, dictionary): (Coding, Option<Arc<Dictionary>>),
    hint: Hint,
) -> Plan {
    let settings = &request.location().settings.compress;
    let kind = response.content_type.as_deref().unwrap_or_default();
    let configured = match settings.coder(coding) {
        coder if coder.on => coder.level,
        // Only until there is a copy.
        _ => Level::Fixed(1),
    };
    let wanted = match hint {
        Hint::Level(level) => Level::Fixed(level.min(directive::most(coding))),
        Hint::None | Hint::Off => configured,
    };
    let level = match wanted {
        Level::Fixed(level) => level,
        Level::Auto { least, most } => {
            auto::level(least, most, response.content_length, auto::is_text(kind))
        }
    };
    let name = dictionary.as_ref().and_then(|_| coding.with_dictionary());
    let compressed = Rc::new(Compressed::new(name.unwrap_or(coding.as_str()), level));
    *request.sent.compressed.borrow_mut() = Some(Rc::clone(&compressed));
    Plan {
        coding,
        level,
        wanted,
        seen_max: settings.cache,
        padding: settings.padding,
        form: None,
        dictionary,
        compressed,
    }
}

/// The same; what is made of a response of the cache is kept there, in place of the table.
fn with_form(mut plan: Plan, forms: Option<Rc<Forms>>) -> Plan {
    let Some(forms) = forms.filter(|_| plan.seen_max > 0 && plan.padding == 0) else {
        return plan;
    };
    let mut name = format!("{} {}", plan.compressed.coding, plan.wanted);
    for byte in plan
        .dictionary
        .iter()
        .flat_map(|dictionary| dictionary.hash)
    {
        // Writing to memory does not fail.
        let _ = write!(name, "{byte:02x}");
    }
    plan.form = Some(forms.named(&name));
    plan.seen_max = 0;
    plan
}

/// Counts a response for the status.
fn count(plan: &Plan) {
    let what = match (plan.coding, &plan.dictionary) {
        (Coding::Gzip, _) => Compression::Gzip,
        (Coding::Brotli, None) => Compression::Brotli,
        (Coding::Zstd, None) => Compression::Zstd,
        (Coding::Brotli, Some(_)) => Compression::BrotliDictionary,
        (Coding::Zstd, Some(_)) => Compression::ZstdDictionary,
    };
    counters::count_compression(what, 1);
}

/// Takes the upstream's wish out of the response, which the client is not to see.
fn take_hint(response: &mut Response) -> Hint {
    if response.headers.is_empty() {
        return Hint::None;
    }
    let hint = match response.headers.find(HINT) {
        None => return Hint::None,
        Some(value) if value.eq_ignore_ascii_case(b"off") => Hint::Off,
        Some(value) => std::str::from_utf8(value)
            .ok()
            .and_then(|text| text.parse().ok())
            .filter(|level| *level > 0)
            .map_or(Hint::None, Hint::Level),
    };
    response.take_out(HINT);
    hint
}

fn is_whole(body: &Body) -> bool {
    body.length().is_some_and(|length| length <= WHOLE_MAX)
}

/// The response is no longer the bytes it was: no length, no ranges, and a tag that is weak.
pub fn forget_identity(response: &mut Response) {
    forget_length(response);
    response.take_out("Accept-Ranges");
}

/// The same, but that an upstream's Accept-Ranges stays.
pub fn forget_length(response: &mut Response) {
    response.content_length = None;
    response.file = None;
    response.copied = None;
    response.forms = None;
    response.allow_ranges = false;
    response.accept_ranges = false;
    response.etag = response.etag.take().and_then(weak);
}

/// The tag as a weak one; nginx drops what is no tag.
fn weak(etag: Bytes) -> Option<Bytes> {
    match &etag[..] {
        [b'W', b'/', ..] => Some(etag),
        [b'"', _, ..] => Some(Bytes::from([b"W/", &etag[..]].concat())),
        _ => None,
    }
}

/// Whether a body of this size is compressed on the network thread.
fn is_quick(plan: &Plan, length: u64) -> bool {
    // Only to read a dictionary takes too long.
    plan.dictionary.is_none()
        && length / 1024 * levels::nanoseconds_per_kilobyte(plan.coding, plan.level) <= INLINE_NS
}

/// The compressed body: at once where that is quick, else made while it is sent.
fn compress(body: Body, plan: Plan) -> Body {
    match plan.form.as_ref().map(Form::find) {
        Some(AtOnce::Kept(kept)) => {
            if let Ok(body) = kept_body(&plan, &kept) {
                return body;
            }
        }
        Some(AtOnce::Cold) => {
            let length = body.length();
            let source = body_reader::stream(body, stream::STEP);
            return Body::Stream(Box::new(stream::Compressing::looking(source, plan, length)));
        }
        Some(AtOnce::Nothing) | None => {}
    }
    let at_once = match &body {
        Body::Empty => Some(Bytes::new()),
        Body::Memory(bytes) => Some(bytes.clone()),
        Body::File(range)
            if range.length <= WHOLE_MAX
                && (plan.seen_max > 0 || is_quick(&plan, range.length)) =>
        {
            body_reader::read_at_once(range)
        }
        _ => None,
    };
    if let Some(bytes) = at_once.filter(|bytes| bytes.len() as u64 <= WHOLE_MAX) {
        return compress_whole(bytes, plan);
    }
    let step = match body.length() {
        Some(length) if length <= plan.whole_max() => plan.whole_max() as usize,
        _ => stream::STEP,
    };
    let length = body.length();
    let source = body_reader::stream(body, step);
    Body::Stream(Box::new(stream::Compressing::new(source, plan, length)))
}

/// What the cache keeps of a response, compressed.
fn kept_body(plan: &Plan, kept: &Kept) -> io::Result<Body> {
    let body = kept.body()?;
    counters::count_compression(Compression::Kept, 1);
    let given = body.length().unwrap_or_default();
    plan.compressed.recall(kept.entry.facts.variant, given);
    Ok(match body {
        // Without a length it goes out in chunks.
        Body::File(_) => Body::Stream(body_reader::stream(body, stream::STEP)),
        other => other,
    })
}

fn compress_whole(bytes: Bytes, plan: Plan) -> Body {
    let seen = look_up(&plan, &bytes);
    if let Seen::Before(coded) = seen {
        return Body::Memory(finished(&plan, &bytes, coded));
    }
    if is_quick(&plan, bytes.len() as u64)
        && let Ok(coded) = plan.encode()(&bytes)
    {
        remember(&plan, seen, &bytes, &coded);
        return Body::Memory(finished(&plan, &bytes, coded));
    }
    Body::Stream(Box::new(stream::Compressing::whole(bytes, seen, plan)))
}

/// Whether the body was compressed before.
fn look_up(plan: &Plan, body: &[u8]) -> Seen {
    match plan.seen_max {
        0 => Seen::Unseen,
        _ => {
            let dictionary = plan.dictionary.as_ref().map(|dictionary| &dictionary.hash);
            seen::find(plan.coding, plan.level, dictionary, body)
        }
    }
}

fn remember(plan: &Plan, seen: Seen, body: &[u8], coded: &Bytes) {
    if let Some(form) = &plan.form {
        form.keep(coded, body.len() as u64);
    }
    if let Seen::New(key) = seen {
        seen::keep(key, coded, plan.seen_max);
    }
}

/// Counts a whole body, and pads it.
fn finished(plan: &Plan, body: &[u8], coded: Bytes) -> Bytes {
    let coded = match plan.padding {
        0 => coded,
        most => padding::pad(coded, most),
    };
    plan.compressed.count(body.len(), coded.len());
    coded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_become_weak() {
        for (tag, expected) in [
            ("\"a\"", Some("W/\"a\"")),
            ("W/\"a\"", Some("W/\"a\"")),
            ("\"\"", Some("W/\"\"")),
            ("a", None),
            ("\"", None),
            ("", None),
        ] {
            let found = weak(Bytes::from_static(tag.as_bytes()));
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{tag}");
        }
    }

    #[test]
    fn an_upstream_s_wish_is_read_and_taken_out() {
        for (value, hint) in [
            ("off", Hint::Off),
            ("OFF", Hint::Off),
            ("6", Hint::Level(6)),
            ("0", Hint::None),
            ("fast", Hint::None),
            ("999", Hint::None),
        ] {
            let mut response = Response::status(200);
            response.headers.push("x-accel-compression", value);
            assert_eq!(take_hint(&mut response), hint, "{value}");
            assert!(response.headers.is_empty());
        }
        assert_eq!(take_hint(&mut Response::status(200)), Hint::None);
    }
}
