//! Responses that nothing but a path and its file decide, kept with their head ready to be sent again. A thread keeps them
//! by server and path; the file is looked at for every request as `content::file_cache` demands, so that none is stale.

use crate::config::model::{LocationId, LocationSettings};
use crate::content::Content;
use crate::content::file_cache;
use crate::http::file::{Copied, Entry};
use crate::http::request::Incoming;
use crate::http::response::Repeat;
use crate::http::{Request, Response, thread};
use bytes::Bytes;
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use wire::http1::{Known, Method, Version};

/// Responses that one thread keeps.
const READY_MAX: usize = 4096;
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
}

/// Where the bytes come from.
enum Source {
    /// From the file.
    File(Weak<Entry>),
    /// From a copy, as long as the file is what it was made of.
    Copy(Entry, Weak<Copied>),
}

/// A whole head as it was written.
pub struct Head {
    pub bytes: Box<[u8]>,
    /// Where the Date field's value stands in it.
    pub date: std::ops::Range<usize>,
}

impl Ready {
    /// Whether it answers requests with these fields.
    fn is_for(&self, request: &Request) -> bool {
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
        }
    }

    /// Whether it is of the file, or the copy, that this response is.
    fn is_of(&self, response: &Response, file: &Rc<Entry>) -> bool {
        match (&self.source, &response.copied) {
            (Source::File(kept), None) => std::ptr::eq(kept.as_ptr(), Rc::as_ptr(file)),
            (Source::Copy(source, kept), Some(copied)) => {
                source.identity == file.identity && std::ptr::eq(kept.as_ptr(), Rc::as_ptr(copied))
            }
            _ => false,
        }
    }

    /// The head for a request, if one like it was answered before.
    #[must_use]
    pub fn head(&self, request: &Request) -> Option<&Head> {
        self.heads[usize::from(request.keep_alive)].get()
    }
}

/// The responses of a server's paths; a path may have some, for different values of Accept-Encoding.
type Paths = HashMap<Box<[u8]>, Vec<Rc<Ready>>, foldhash::fast::RandomState>;

/// What is ready on one thread, for one generation of the configuration.
#[derive(Default)]
struct Table {
    generation: u64,
    servers: Vec<Paths>,
    count: usize,
}

thread_local! {
    static TABLE: RefCell<Table> = RefCell::default();
}

/// Whether a location's responses for files are decided by path and file alone, as long as the request carries no
/// conditions. Every phase and filter that looks at more has its line here.
#[must_use]
pub fn repeat(settings: &LocationSettings, content: &Content) -> Repeat {
    let plain = matches!(content, Content::Files)
        && settings.static_files.root.path.constant().is_some()
        && !settings.static_files.internal
        && settings.access.is_open()
        && settings.auth_basic.is_off()
        && settings.real_ip.is_off()
        && settings.try_files.is_off()
        && settings.symlinks.guard.is_none()
        && (!settings.precompress.on || settings.compression.disable.is_none())
        && settings.limit_rate.is_off()
        && settings.limit_requests.is_off()
        && settings.limit_connections.is_off()
        && settings.static_variants.is_off()
        && (settings.compress.is_off() || settings.precompress.on);
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
        let paths = table.servers.get_mut(request.server as usize)?;
        let kept = paths.get_mut(&request.uri[..])?;
        let place = kept.iter().position(|ready| ready.is_for(request))?;
        if let Some(bytes) = kept[place].bytes(request) {
            return Some((Rc::clone(&kept[place]), bytes));
        }
        kept.swap_remove(place);
        if kept.is_empty() {
            paths.remove(&request.uri[..]);
        }
        table.count -= 1;
        None
    })
}

/// Keeps a response whose head was just written as `head`, if it may be sent again.
pub fn keep(request: &Request, response: &Response, head: &[u8]) {
    let Some(file) = &response.file else { return };
    let location = request.location();
    // What depends on Accept-Encoding may depend on more for such requests.
    let is_special = response.depends_on_accept
        && (request.version < Version::Http11 || request.field(Known::Via).is_some());
    if response.status != 200
        || is_special
        || (response.copied.is_none() && !location.settings.compress.is_off())
        || request.uri_changed
        || request.internal
        || location.repeat == Repeat::Never
        || !is_plain_request(request)
    {
        return;
    }
    let Some(date) = memchr::memmem::find(head, b"\r\nDate: ") else {
        return;
    };
    let date = date + b"\r\nDate: ".len();
    let second = (location.repeat == Repeat::WithinSecond).then(|| thread::unix_ms() / 1000);
    let head = Head {
        bytes: head.into(),
        date: date..date + DATE_LENGTH,
    };
    TABLE.with(|table| {
        let mut table = table.borrow_mut();
        if table.generation != request.generation.number || table.count >= READY_MAX {
            *table = Table {
                generation: request.generation.number,
                ..Table::default()
            };
        }
        let server = request.server as usize;
        if table.servers.len() <= server {
            table.servers.resize_with(server + 1, HashMap::default);
        }
        let kind = usize::from(request.keep_alive);
        let kept = table.servers[server]
            .entry(request.uri[..].into())
            .or_default();
        let place = kept.iter().position(|ready| ready.is_for(request));
        if let Some(ready) = place.and_then(|place| kept.get(place))
            && ready.second == second
            && ready.is_of(response, file)
        {
            let _first_stays = ready.heads[kind].set(head);
            return;
        }
        let ready = Rc::new(Ready {
            second,
            location: request.location,
            accept: accept(request, response),
            source: match &response.copied {
                Some(copied) => Source::Copy(file.without_content(), Rc::downgrade(copied)),
                None => Source::File(Rc::downgrade(file)),
            },
            heads: Default::default(),
        });
        let _empty = ready.heads[kind].set(head);
        match place {
            Some(place) => kept[place] = ready,
            None if kept.len() >= ACCEPTS_MAX => kept[0] = ready,
            None => {
                kept.push(ready);
                table.count += 1;
            }
        }
    });
}

/// The value of Accept-Encoding that a response holds for, where it depends on it.
fn accept(request: &Request, response: &Response) -> Option<Box<[u8]>> {
    let value = request.field(Known::AcceptEncoding).unwrap_or_default();
    response.depends_on_accept.then(|| value.into())
}
