//! Responses that nothing but a path and its file decide, kept with their head ready to be sent again. A thread keeps them
//! by server and path; the file is looked at for every request as `content::file_cache` demands, so that none is stale.

use crate::config::model::{LocationId, LocationSettings};
use crate::content::Content;
use crate::content::file_cache;
use crate::http::cached::Keepsake;
use crate::http::counters::{self, Compression};
use crate::http::file::{self as http_file, Copied, Entry};
use crate::http::request::Incoming;
use crate::http::response::Repeat;
use crate::http::sent::Compressed;
use crate::http::{Request, Response, thread};
use ::http::HeaderMap;
use bytes::Bytes;
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::{Rc, Weak};
use wire::http1::{Known, Method, Version};

/// Responses that one thread keeps.
const READY_MAX: usize = 4096;
/// Bytes of compressed bodies that one thread keeps here.
const MADE_MAX: usize = 16 * 1024 * 1024;
/// Values of Accept-Encoding for which one path's responses are kept; browsers have few.
const ACCEPTS_MAX: usize = 4;
/// The length of a Date field's value.
const DATE_LENGTH: usize = 29;

/// A response ready to be sent again.
pub struct Ready {
    /// The second since 1970 that it was made in, where it holds for no other.
    second: Option<u64>,
    pub location: LocationId,
    /// The value of Accept-Encoding that it holds for; `None`: any.
    accept: Option<Box<[u8]>>,
    source: Source,
    /// For a connection that is closed after it, and for one that is kept.
    heads: [OnceCell<Head>; 2],
    /// For HTTP/2.
    fields: OnceCell<HeaderMap>,
    is_http2: bool,
}

/// A head as it was just written.
#[derive(Clone, Copy)]
pub enum Written<'w> {
    Lines(&'w [u8]),
    Fields(&'w HeaderMap),
}

/// Where the bytes come from.
enum Source {
    /// From the file.
    File(Weak<Entry>),
    /// From a copy, as long as the file is what it was made of.
    Copy(Entry, Weak<Copied>),
    /// From the cache, as long as the response is kept there; or what compression made of it.
    Kept(Rc<dyn Keepsake>, Option<(Bytes, Rc<Compressed>)>),
    /// Compressed on the fly, as long as the file is what it was made of; with the framing.
    Made(Entry, Bytes, Rc<Compressed>),
}

/// A whole head as it was written.
pub struct Head {
    pub bytes: Box<[u8]>,
    /// Where the Date field's value stands in it.
    pub date: std::ops::Range<usize>,
}

impl Head {
    fn of(lines: &[u8]) -> Option<Head> {
        let date = memchr::memmem::find(lines, b"\r\nDate: ")? + b"\r\nDate: ".len();
        Some(Head {
            bytes: lines.into(),
            date: date..date + DATE_LENGTH,
        })
    }
}

impl Ready {
    /// Whether it answers requests with these fields.
    fn is_for(&self, request: &Request) -> bool {
        // Its body has the framing of the protocol.
        let is_http2 = request.version == Version::Http2;
        let is_made = matches!(self.source, Source::Made(..) | Source::Kept(_, Some(_)));
        if self.is_http2 != is_http2 && is_made {
            return false;
        }
        if let Source::Kept(kept, _) = &self.source
            && !kept.is_for(request)
        {
            return false;
        }
        match &self.accept {
            None => true,
            // What came through a proxy, or by an old version, may have to do without gzip.
            Some(accept) => {
                **accept == *request.field(Known::AcceptEncoding).unwrap_or_default()
                    && request.version >= Version::Http11
                    && request.field(Known::Via).is_none()
            }
        }
    }

    /// The bytes, if the response still holds.
    fn bytes(&self, request: &Request) -> Option<Bytes> {
        if self
            .second
            .is_some_and(|second| second != thread::unix_ms() / 1000)
        {
            return None;
        }
        let location = request.generation.config.location(self.location);
        let is_fresh =
            |entry: &Entry| file_cache::is_fresh(entry, request, &location.settings.file_cache);
        match &self.source {
            Source::File(file) => file.upgrade().filter(|file| is_fresh(file))?.memory(),
            Source::Copy(source, copied) => {
                let copied = copied.upgrade().filter(|_| is_fresh(source))?;
                let bytes = copied.memory()?;
                copied.note_use();
                Some(bytes)
            }
            Source::Kept(kept, None) => kept.bytes(),
            Source::Kept(kept, Some((bytes, _))) => kept.bytes().map(|_| {
                counters::count_compression(Compression::Repeated, 1);
                bytes.clone()
            }),
            Source::Made(source, bytes, _) => is_fresh(source).then(|| {
                counters::count_compression(Compression::Repeated, 1);
                bytes.clone()
            }),
        }
    }

    /// Whether it is of the file, or the copy, that this response is.
    fn is_of(&self, response: &Response) -> bool {
        if let Source::Kept(kept, made) = &self.source {
            // It was found by what it is for; what no longer holds is not of the response that came in its place.
            return made.is_some() == response.made.is_some() && kept.bytes().is_some();
        }
        let Some(file) = &response.file else {
            return false;
        };
        match (&self.source, &response.copied) {
            (Source::Made(source, ..), None) => {
                source.identity == file.identity && response.made.is_some()
            }
            (Source::File(kept), None) if response.made.is_none() => {
                std::ptr::eq(kept.as_ptr(), Rc::as_ptr(file))
            }
            (Source::Copy(source, kept), Some(copied)) => {
                source.identity == file.identity && std::ptr::eq(kept.as_ptr(), Rc::as_ptr(copied))
            }
            _ => false,
        }
    }

    /// What compression made of it, for the log.
    #[must_use]
    pub fn compressed(&self) -> Option<Rc<Compressed>> {
        match &self.source {
            Source::Made(_, _, compressed) | Source::Kept(_, Some((_, compressed))) => {
                Some(Rc::clone(compressed))
            }
            Source::File(_) | Source::Copy(..) | Source::Kept(_, None) => None,
        }
    }

    /// Tells a request what is known of the response it gets.
    pub fn note(&self, request: &mut Request) {
        request.location = self.location;
        if let Some(compressed) = self.compressed() {
            *request.sent.compressed.borrow_mut() = Some(compressed);
        }
        if let Source::Kept(kept, _) = &self.source {
            kept.note(request);
        }
    }

    /// Bytes that the table alone keeps.
    fn size(&self) -> usize {
        match &self.source {
            Source::Made(_, bytes, _) | Source::Kept(_, Some((bytes, _))) => bytes.len(),
            Source::File(_) | Source::Copy(..) | Source::Kept(_, None) => 0,
        }
    }

    /// The head for a request, if one like it was answered before.
    #[must_use]
    pub fn head(&self, request: &Request) -> Option<&Head> {
        self.heads[usize::from(request.keep_alive)].get()
    }

    /// The same for HTTP/2.
    #[must_use]
    pub fn fields(&self) -> Option<&HeaderMap> {
        self.fields.get()
    }

    fn keep(&self, kind: usize, written: Written<'_>) {
        // The first one stays.
        match written {
            Written::Fields(fields) => {
                let _ = self.fields.set(fields.clone());
            }
            Written::Lines(lines) => {
                if let Some(head) = Head::of(lines) {
                    let _ = self.heads[kind].set(head);
                }
            }
        }
    }
}

/// The responses of a server's paths; a path may have some, for different values of Accept-Encoding.
type Paths = HashMap<Box<[u8]>, Vec<Rc<Ready>>, foldhash::fast::RandomState>;

/// What is ready on one thread, for one generation of the configuration.
#[derive(Default)]
struct Table {
    generation: u64,
    servers: Vec<Paths>,
    /// Responses of the cache, by the target that clients send.
    kept: Vec<Paths>,
    count: usize,
    /// Bytes of bodies that were compressed.
    made: usize,
}

thread_local! {
    static TABLE: RefCell<Table> = RefCell::default();
}

/// Whether a location's responses for files are decided by path and file alone, as long as the request carries no
/// conditions. Every phase and filter that looks at more has its line here; those that change only bodies of some types
/// (`sub_filter`, `ssi`, additions) say so at the responses that they change (`Response::note_rewritten`).
#[must_use]
pub fn repeat(settings: &LocationSettings, content: &Content) -> Repeat {
    let is_plain = match content {
        Content::Files => settings.static_files.root.path.constant().is_some(),
        Content::Proxy(_) => settings.proxy_cache.is_repeatable(),
        Content::FastCgi(_) => settings.fastcgi_cache.is_repeatable(),
        _ => false,
    };
    let plain = is_plain
        && !settings.static_files.internal
        && settings.access.is_open()
        && settings.auth_basic.is_off()
        && settings.auth_request.uri.is_none()
        && !settings.small_light.on
        && settings.image_filter.is_off()
        && !settings.flv.on
        && !settings.mp4.on
        && settings.userid.is_off()
        && settings.mirror.is_off()
        && settings.charset.is_constant()
        && settings.real_ip.is_off()
        && settings.try_files.is_off()
        && settings.symlinks.guard.is_none()
        && ((!settings.precompress.on && settings.compress.is_off())
            || settings.compression.disable.is_none())
        && settings.limit_rate.is_off()
        && settings.limit_requests.is_off()
        && settings.limit_connections.is_off()
        && settings.static_variants.is_off()
        && settings.dictionary.is_off()
        && (settings.compress.is_repeatable() || settings.precompress.on);
    match plain {
        true => settings.headers.repeat(),
        false => Repeat::Never,
    }
}

/// Whether a request asks for nothing special: a GET without body or conditions.
fn is_plain_request(request: &Request) -> bool {
    request.method == Method::Get
        && request.version >= Version::Http10
        && matches!(request.incoming, Incoming::Done)
        && !request.head.fields.iter().any(|field| {
            matches!(
                field.known,
                Known::Range
                    | Known::IfRange
                    | Known::IfModifiedSince
                    | Known::IfUnmodifiedSince
                    | Known::IfMatch
                    | Known::IfNoneMatch
                    | Known::Upgrade
            )
        })
}

/// The response that is ready for a request, with the file's bytes.
#[must_use]
pub fn find(request: &Request) -> Option<(Rc<Ready>, Bytes)> {
    if !is_plain_request(request) || request.generation.config.http.variables.uses_sent {
        return None;
    }
    TABLE.with(|table| {
        let mut table = table.borrow_mut();
        if table.generation != request.generation.number {
            *table = Table {
                generation: request.generation.number,
                ..Table::default()
            };
            return None;
        }
        let table = &mut *table;
        let server = request.server as usize;
        let target = request.text(request.head.request_uri);
        for (servers, path) in [
            (&mut table.servers, &request.uri[..]),
            (&mut table.kept, target),
        ] {
            let Some(paths) = servers.get_mut(server).filter(|paths| !paths.is_empty()) else {
                continue;
            };
            match look(paths, path, request) {
                Look::Found(ready, bytes) => return Some((ready, bytes)),
                Look::Over(size) => {
                    table.made -= size;
                    table.count -= 1;
                }
                Look::Nothing => {}
            }
        }
        None
    })
}

enum Look {
    Found(Rc<Ready>, Bytes),
    /// It no longer holds: so many bytes are free.
    Over(usize),
    Nothing,
}

fn look(paths: &mut Paths, path: &[u8], request: &Request) -> Look {
    let Some(kept) = paths.get_mut(path) else {
        return Look::Nothing;
    };
    let Some(place) = kept.iter().position(|ready| ready.is_for(request)) else {
        return Look::Nothing;
    };
    if let Some(bytes) = kept[place].bytes(request) {
        return Look::Found(Rc::clone(&kept[place]), bytes);
    }
    let size = kept.swap_remove(place).size();
    if kept.is_empty() {
        paths.remove(path);
    }
    Look::Over(size)
}

/// Keeps a response whose head was just written as `head`, if it may be sent again.
/// `body` is the body with its framing, where it is in memory.
pub fn keep(request: &Request, response: &Response, head: Written<'_>, body: Option<&Bytes>) {
    let Some(source) = source(response, body) else {
        return;
    };
    let (is_kept, path) = match &response.kept {
        Some(kept) => (true, kept.target()),
        None => (false, &request.uri[..]),
    };
    let location = request.location();
    // What depends on Accept-Encoding may depend on more for such requests.
    let is_special = response.depends_on_accept
        && (request.version < Version::Http11 || request.field(Known::Via).is_some());
    if response.status != 200
        || is_special
        || (response.copied.is_none()
            && location.settings.precompress.on
            && !location.settings.compress.is_off())
        || request.uri_changed
        || request.internal
        || location.repeat == Repeat::Never
        || !is_plain_request(request)
        || response.has_date
    {
        return;
    }
    let second = (location.repeat == Repeat::WithinSecond).then(|| thread::unix_ms() / 1000);
    TABLE.with(|table| {
        let mut table = table.borrow_mut();
        if table.generation != request.generation.number
            || table.count >= READY_MAX
            || table.made >= MADE_MAX
        {
            *table = Table {
                generation: request.generation.number,
                ..Table::default()
            };
        }
        let server = request.server as usize;
        let table = &mut *table;
        let servers = match is_kept {
            true => &mut table.kept,
            false => &mut table.servers,
        };
        if servers.len() <= server {
            servers.resize_with(server + 1, HashMap::default);
        }
        let kind = usize::from(request.keep_alive);
        let kept = servers[server].entry(path.into()).or_default();
        let place = kept.iter().position(|ready| ready.is_for(request));
        if let Some(ready) = place.and_then(|place| kept.get(place))
            && ready.second == second
            && ready.is_of(response)
        {
            ready.keep(kind, head);
            return;
        }
        let ready = Rc::new(Ready {
            second,
            location: request.location,
            accept: accept(request, response),
            source,
            heads: Default::default(),
            fields: OnceCell::new(),
            is_http2: request.version == Version::Http2,
        });
        ready.keep(kind, head);
        let size = ready.size();
        let gone = match place {
            Some(place) => std::mem::replace(&mut kept[place], ready).size(),
            None if kept.len() >= ACCEPTS_MAX => std::mem::replace(&mut kept[0], ready).size(),
            None => {
                kept.push(ready);
                table.count += 1;
                0
            }
        };
        table.made = table.made + size - gone;
    });
}

/// Where the bytes of a response like this one will come from; `None` where they cannot be kept.
fn source(response: &Response, body: Option<&Bytes>) -> Option<Source> {
    if let Some(kept) = &response.kept {
        let made = match &response.made {
            None => None,
            Some(compressed) => {
                let body = body.filter(|body| body.len() <= MADE_MAX / 8)?;
                Some((body.clone(), Rc::clone(compressed)))
            }
        };
        return Some(Source::Kept(Rc::clone(kept), made));
    }
    let file = response.file.as_ref()?;
    Some(match (&response.copied, &response.made) {
        (Some(copied), _) => Source::Copy(file.without_content(), Rc::downgrade(copied)),
        (None, None) => Source::File(Rc::downgrade(file)),
        (None, Some(compressed)) => {
            let small = |body: &&Bytes| body.len() <= MADE_MAX / 8 && is_what_was_read(file);
            let body = body.filter(small)?;
            Source::Made(file.without_content(), body.clone(), Rc::clone(compressed))
        }
    })
}

/// Whether a body that was just made of an open file is of the state that its identity tells: what the cache has in
/// memory is; of another file its times must tell the next change, and it must stand there unchanged.
fn is_what_was_read(file: &Entry) -> bool {
    match &file.content {
        http_file::Content::Memory(_) => true,
        http_file::Content::File(_) => {
            let now = sys::file::status_at(Path::new(OsStr::from_bytes(&file.path)));
            file_cache::is_settled_now(&file.identity)
                && now.is_ok_and(|status| status.identity == file.identity)
        }
    }
}

/// The value of Accept-Encoding that a response holds for, where it depends on it.
fn accept(request: &Request, response: &Response) -> Option<Box<[u8]>> {
    let value = request.field(Known::AcceptEncoding).unwrap_or_default();
    response.depends_on_accept.then(|| value.into())
}
