//! Responses that nothing but a path and its file decide, kept with their head ready to be sent again. A thread keeps them
//! by server and path; the file is looked at for every request as `content::file_cache` demands, so that none is stale.

use crate::config::model::{LocationId, LocationSettings};
use crate::content::Content;
use crate::content::file_cache;
use crate::http::file::Entry;
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
/// The length of a Date field's value.
const DATE_LENGTH: usize = 29;

/// A response ready to be sent again.
pub struct Ready {
    /// The second since 1970 that it was made in, where it holds for no other.
    second: Option<u64>,
    pub location: LocationId,
    file: Weak<Entry>,
    /// For a connection that is closed after it, and for one that is kept.
    heads: [OnceCell<Head>; 2],
}

/// A whole head as it was written.
pub struct Head {
    pub bytes: Box<[u8]>,
    /// Where the Date field's value stands in it.
    pub date: std::ops::Range<usize>,
}

impl Ready {
    /// The head for a request, if one like it was answered before.
    #[must_use]
    pub fn head(&self, request: &Request) -> Option<&Head> {
        self.heads[usize::from(request.keep_alive)].get()
    }
}

/// What is ready on one thread, for one generation of the configuration.
#[derive(Default)]
struct Table {
    generation: u64,
    servers: Vec<HashMap<Box<[u8]>, Rc<Ready>, foldhash::fast::RandomState>>,
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
        && !settings.precompress.on
        && settings.limit_rate.is_off()
        && settings.limit_requests.is_off()
        && settings.limit_connections.is_off();
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
        let ready = table
            .servers
            .get(request.server as usize)?
            .get(&request.uri[..])?;
        let in_time = ready
            .second
            .is_none_or(|second| second == thread::unix_ms() / 1000);
        let file = ready.file.upgrade().filter(|_| in_time);
        let location = request.generation.config.location(ready.location);
        let settings = &location.settings.file_cache;
        let fresh = file.filter(|file| file_cache::is_fresh(file, request, settings));
        match fresh.as_deref().and_then(Entry::memory) {
            Some(bytes) => Some((Rc::clone(ready), bytes)),
            None => {
                table.servers[request.server as usize].remove(&request.uri[..]);
                table.count -= 1;
                None
            }
        }
    })
}

/// Keeps a response whose head was just written as `head`, if it may be sent again.
pub fn keep(request: &Request, response: &Response, head: &[u8]) {
    let Some(file) = &response.file else { return };
    let location = request.location();
    if response.status != 200
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
        if let Some(ready) = table.servers[server].get(&request.uri[..])
            && ready.second == second
            && ready
                .file
                .upgrade()
                .is_some_and(|kept| Rc::ptr_eq(&kept, file))
        {
            let _first_stays = ready.heads[kind].set(head);
            return;
        }
        let ready = Ready {
            second,
            location: request.location,
            file: Rc::downgrade(file),
            heads: Default::default(),
        };
        let _empty = ready.heads[kind].set(head);
        let before = table.servers[server].insert(request.uri[..].into(), Rc::new(ready));
        table.count += usize::from(before.is_none());
    });
}
