//! A request on its way through the phases: what was received, where it stands now, and what was sent.

use super::cached::Cached;
use super::client_stream::ClientStream;
use super::temp_file::TempFile;
use super::trace::Trace;
use crate::config::Generation;
use crate::config::model::{Location, LocationId, Server, ServerId};
use crate::net::Stream;
use crate::variables::registry::{Kind, VariableId};
use bytes::Bytes;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll};
use sys::address::SocketAddress;
use wire::headers::HeaderList;
use wire::http1::chunked::Decoder;
pub use wire::http1::request::Head;
use wire::http1::{Known, Method, Span, Version};

/// What a request knows of the connection it came by.
pub struct Connection {
    /// `$connection`: the serial number.
    pub number: u64,
    pub remote: SocketAddress,
    /// The address that the server listens on; `local_address` is the one that the client connected to.
    pub local: SocketAddress,
    /// What the system said of a connection to an unspecified address, once asked.
    pub exact_local: OnceCell<SocketAddress>,
    pub stream: Stream,
    /// Received and not yet used: the start of a head, a body, or pipelined requests.
    pub pending: RefCell<Vec<u8>>,
    /// Requests so far, this one included.
    pub requests: Cell<u64>,
    /// When the connection was accepted, in the thread's monotonic milliseconds.
    pub started_ms: u64,
    /// What a proxy said of its client by the PROXY protocol.
    pub proxied: OnceCell<Box<wire::proxy_protocol::Header>>,
    /// The name that a hello of TLS asks for.
    pub asked_name: OnceCell<Box<str>>,
    /// What the handshake of TLS has settled.
    pub settled: OnceCell<Box<crate::tls::settled::Settled>>,
}

impl Connection {
    /// Whether TLS is spoken on it.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.stream.tls().is_some()
    }

    /// The address that the client connected to. Behind a listening socket without an address of its own the system
    /// is asked, once.
    #[must_use]
    pub fn local_address(&self) -> &SocketAddress {
        match self.local.ip() {
            Some(ip) if ip.is_unspecified() => self.exact_local.get_or_init(|| {
                sys::socket::local_address(&self.stream).unwrap_or_else(|_| self.local.clone())
            }),
            _ => &self.local,
        }
    }
}

/// Whether a client still waits for the answer to its request.
#[derive(Clone)]
pub struct Client {
    connection: Rc<Connection>,
    stream: Option<Rc<dyn ClientStream>>,
}

impl Client {
    /// Ready when the client has ended its side, or has given up this request.
    pub fn poll_ended(&self, context: &mut Context<'_>) -> Poll<()> {
        match &self.stream {
            Some(stream) => stream.poll_reset(context),
            None => self.connection.stream.poll_ended(context),
        }
    }
}

/// A request body as far as it was read.
#[derive(Debug, Default)]
pub enum RequestBody {
    /// Not read yet, or there is none.
    #[default]
    Unread,
    Memory(Bytes),
    File(Rc<TempFile>),
}

/// What is still to come of a request's body on its connection.
#[derive(Debug)]
pub enum Incoming {
    /// Nothing: there is no body, or it was read to its end.
    Done,
    /// So many bytes.
    Length(u64),
    Chunked(Box<Decoder>),
    /// What the request's stream brings.
    Stream,
}

/// What the log and `$sent_http_…` need of the response; filled when its head is written.
#[derive(Debug, Default)]
pub struct Sent {
    pub status: Cell<u16>,
    /// The fields as lines, for `$sent_http_…`; kept only if the configuration uses such a variable.
    pub fields: RefCell<Vec<u8>>,
    /// The trailer fields, for `$sent_trailer_…`; kept as `fields` are.
    pub trailers: RefCell<Vec<(Bytes, Bytes)>>,
    pub header_bytes: Cell<u64>,
    /// All bytes sent for this request, head included.
    pub bytes: Cell<u64>,
    /// `$request_completion` is `OK`.
    pub complete: Cell<bool>,
    /// What compression made of the response, where it was compressed on the fly.
    pub compressed: RefCell<Option<Rc<super::sent::Compressed>>>,
    /// The client went away before or while the response was sent (499 in the log).
    pub client_closed: Cell<bool>,
}

/// Captures of the last pattern that matched: the subject and the positions of its groups.
#[derive(Debug, Default)]
pub struct Captures {
    pub subject: Vec<u8>,
    /// Start and end of group 0, 1, …; `u32::MAX` for a group that took no part.
    pub positions: Vec<u32>,
}

/// The value of an assigned or cached variable.
#[derive(Debug, Clone, Default)]
pub enum Slot {
    #[default]
    Unset,
    NotFound,
    Value(Bytes),
}

/// Values of variables by number. As in nginx a request and those inside it have them in common.
pub type Slots = Rc<RefCell<Vec<Slot>>>;

/// The memory of a request, handed on to the next one.
#[derive(Debug, Default)]
pub struct Buffers {
    pub buffer: Vec<u8>,
    pub head: Head,
    pub uri: Vec<u8>,
    pub args: Vec<u8>,
    pub host: Vec<u8>,
    pub captures: Captures,
    pub slots: Slots,
}

/// A larger head's memory is not kept.
const BUFFER_KEEP_MAX: usize = 16 * 1024;

/// Something that a request holds and that is given back when it has ended, after its log line: by being dropped. What that
/// is, each feature decides, hence `dyn`.
pub trait AtEnd {}

/// What `$proxy_host` and its kin say of a request that is passed on by HTTP.
#[derive(Debug, Clone)]
pub struct Proxied {
    /// The host, and the port where it is not the scheme's own.
    pub host: Bytes,
    /// Empty for a UNIX socket.
    pub port: Bytes,
    /// TLS is spoken to the upstream.
    pub https: bool,
    /// Of the body that is passed on, where the upstream is told.
    pub body_length: Option<u64>,
    /// The body is passed on in chunks.
    pub chunked: bool,
}

/// A request.
pub struct Request {
    pub generation: Rc<Generation>,
    pub connection: Rc<Connection>,
    /// Where the connection carries several requests at a time.
    pub stream: Option<Rc<dyn ClientStream>>,
    /// The client's address where a trusted proxy told it; `remote` says which one counts.
    pub real_remote: Option<SocketAddress>,
    /// The bytes of the head; `head` points into them.
    pub buffer: Vec<u8>,
    pub head: Head,
    pub method: Method,
    pub version: Version,
    /// The current path, normalised and decoded; rewrites change it.
    pub uri: Vec<u8>,
    /// The current arguments, without `?`.
    pub args: Vec<u8>,
    /// Host from the request line or the Host field: lower case, no port, no trailing dot. Empty if there was none.
    pub host: Vec<u8>,
    /// The port the client named in Host, if any.
    pub host_port: Option<u16>,
    pub server: ServerId,
    pub location: LocationId,
    /// The request was redirected inside the server, so that `internal` locations take it.
    pub internal: bool,
    /// How many requests this one stands in.
    pub depth: u8,
    /// Rewrites and redirects inside the server that looked for a location anew.
    pub uri_changes: u32,
    /// The path or the arguments were changed by a rewrite or redirect: the target that the client sent no longer says
    /// where the request stands.
    pub uri_changed: bool,
    /// `try_files` found the path below a regex location's alias, so that the two together name the file.
    pub uri_follows_alias: bool,
    /// A rewrite changed the path and `break` kept the location: the path need not be one of the location's.
    pub rewritten_in_place: bool,
    pub captures: RefCell<Captures>,
    pub slots: Slots,
    pub body: RequestBody,
    /// How much of the body is still to be taken off the connection.
    pub incoming: Incoming,
    pub content_length: Option<u64>,
    pub chunked: bool,
    pub keep_alive: bool,
    /// Its first bytes came together with the request before it.
    pub pipelined: bool,
    /// The bytes of the head were there before this turn of the event loop began, so that whatever was checked in this
    /// turn was checked after the client sent the request.
    pub read_with_turn: bool,
    /// `$limit_rate` as set by `set` or X-Accel-Limit-Rate, in bytes per second.
    pub limit_rate: Cell<Option<u64>>,
    /// Where it is passed on by HTTP.
    pub proxied: Option<Proxied>,
    /// `$limit_req_status` and `$limit_conn_status`, once the limits were asked.
    pub limit_req_status: Cell<Option<&'static str>>,
    pub limit_conn_status: Cell<Option<&'static str>>,
    /// Fields that phases give the response, whichever it will be: they stay over redirects inside the server.
    pub fields: RefCell<HeaderList>,
    /// Given back when the request has ended.
    pub at_end: Vec<Box<dyn AtEnd>>,
    /// The status that stands above the response's own: that of the error whose page is being made.
    pub error_status: Option<u16>,
    /// Where a redirect leads whose page is being made.
    pub error_location: Option<Bytes>,
    /// Its body went to an upstream as it came: what is left of it is of use to nobody else.
    pub body_streamed: bool,
    /// The client was told to send the body it announced (`100 Continue`).
    pub continued: bool,
    /// The body was found too large once: the page that says so is not refused for it again.
    pub body_refused: bool,
    /// The response depends on Accept-Encoding: with `gzip_vary`, Vary says so.
    pub vary_accept_encoding: Cell<bool>,
    /// Whether the response may be gzip for this client, once that was asked (`encoding::permission`).
    pub gzip_permitted: Cell<Option<bool>>,
    /// An `error_page` was applied.
    pub error_page_used: bool,
    /// Bytes of the request: head and body, `$request_length`.
    pub received: Cell<u64>,
    /// When the first byte came: monotonic milliseconds of the thread.
    pub started_ms: u64,
    /// `$request_id`, once asked for.
    pub id: RefCell<Option<[u8; 32]>>,
    pub sent: Sent,
    /// The Content-Type of the response that sent the request here; content has none of its own then.
    pub content_type: Option<Bytes>,
    /// Its `post_action` was begun.
    pub post_action: bool,
    /// What `userid` gave out for it.
    pub user_id: RefCell<Option<[u8; 16]>>,
    /// What it shares with the requests inside it, where its page includes others.
    pub includes: OnceCell<Rc<super::includes::Includes>>,
    /// The form of `$date_local` and `$date_gmt`, where the page has one of its own.
    pub time_format: RefCell<Option<Bytes>>,
    /// What other servers made of it, if any was asked.
    pub upstream: Option<Box<Trace>>,
    /// Which piece of its response is asked for, where it comes in pieces.
    pub sliced: Cell<super::sliced::Sliced>,
    /// What the cache did with it, if it was asked.
    pub cached: Option<Box<Cached>>,
}

impl Request {
    /// A request whose head is `head` in `buffer`; the URI parts are filled by `connection::request_head`.
    #[must_use]
    pub fn new(
        generation: Rc<Generation>,
        connection: Rc<Connection>,
        started_ms: u64,
        buffers: Buffers,
    ) -> Request {
        Request {
            generation,
            connection,
            stream: None,
            real_remote: None,
            buffer: buffers.buffer,
            head: buffers.head,
            method: Method::default(),
            version: Version::default(),
            uri: buffers.uri,
            args: buffers.args,
            host: buffers.host,
            host_port: None,
            server: 0,
            location: 0,
            internal: false,
            depth: 0,
            uri_changes: 0,
            uri_changed: false,
            uri_follows_alias: false,
            rewritten_in_place: false,
            captures: RefCell::new(buffers.captures),
            slots: buffers.slots,
            body: RequestBody::Unread,
            incoming: Incoming::Done,
            content_length: None,
            chunked: false,
            keep_alive: false,
            pipelined: false,
            read_with_turn: false,
            limit_rate: Cell::new(None),
            proxied: None,
            limit_req_status: Cell::new(None),
            limit_conn_status: Cell::new(None),
            fields: RefCell::default(),
            at_end: Vec::new(),
            error_status: None,
            error_location: None,
            body_streamed: false,
            continued: false,
            body_refused: false,
            vary_accept_encoding: Cell::new(false),
            gzip_permitted: Cell::new(None),
            error_page_used: false,
            received: Cell::new(0),
            started_ms,
            id: RefCell::new(None),
            sent: Sent::default(),
            content_type: None,
            post_action: false,
            user_id: RefCell::default(),
            includes: OnceCell::new(),
            time_format: RefCell::default(),
            upstream: None,
            sliced: Cell::default(),
            cached: None,
        }
    }

    /// The request's memory, emptied, for another request.
    #[must_use]
    pub fn into_buffers(self) -> Buffers {
        let Request {
            mut buffer,
            head: Head { mut fields, .. },
            mut uri,
            mut args,
            mut host,
            captures,
            mut slots,
            ..
        } = self;
        if buffer.capacity() > BUFFER_KEEP_MAX {
            buffer = Vec::new();
        }
        buffer.clear();
        fields.clear();
        uri.clear();
        args.clear();
        host.clear();
        let mut captures = captures.into_inner();
        captures.subject.clear();
        captures.positions.clear();
        // Another request may still look at them.
        match Rc::get_mut(&mut slots) {
            Some(slots) => slots.get_mut().clear(),
            None => slots = Slots::default(),
        }
        Buffers {
            buffer,
            head: Head {
                fields,
                ..Head::default()
            },
            uri,
            args,
            host,
            captures,
            slots,
        }
    }

    /// The client, for whoever goes on to answer it without the request.
    #[must_use]
    pub fn client(&self) -> Client {
        Client {
            connection: Rc::clone(&self.connection),
            stream: self.stream.clone(),
        }
    }

    /// Ready when the client has ended its side, or has given up this request.
    pub fn poll_client_ended(&self, context: &mut Context<'_>) -> Poll<()> {
        match &self.stream {
            Some(stream) => stream.poll_reset(context),
            None => self.connection.stream.poll_ended(context),
        }
    }

    /// The client's address, as the connection or a trusted proxy has it.
    #[must_use]
    pub fn remote(&self) -> &SocketAddress {
        self.real_remote.as_ref().unwrap_or(&self.connection.remote)
    }

    /// The location that serves the request now.
    #[must_use]
    pub fn location(&self) -> &Location {
        self.generation.config.location(self.location)
    }

    #[must_use]
    pub fn server(&self) -> &Server {
        self.generation.config.server(self.server)
    }

    /// The method as sent, or the GET that an error page made of it.
    #[must_use]
    pub fn method_name(&self) -> &[u8] {
        match self.internal && self.method != self.head.method {
            true => self.method.as_str().as_bytes(),
            false => self.text(self.head.method_span),
        }
    }

    /// Bytes of the head.
    #[must_use]
    pub fn text(&self, span: Span) -> &[u8] {
        &self.buffer[span.start as usize..span.end as usize]
    }

    /// The first field of a known name.
    #[must_use]
    pub fn field(&self, known: Known) -> Option<&[u8]> {
        self.head
            .fields
            .iter()
            .find(|field| field.known == known)
            .map(|field| self.text(field.value))
    }

    /// The values of all fields of a known name, in order.
    pub fn fields_known(&self, known: Known) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.head
            .fields
            .iter()
            .filter(move |field| field.known == known)
            .map(|field| self.text(field.value))
    }

    /// The fields of a name, compared without case, in order.
    pub fn fields_named<'r>(&'r self, name: &'r [u8]) -> impl Iterator<Item = &'r [u8]> {
        self.head
            .fields
            .iter()
            .filter(move |field| self.text(field.name).eq_ignore_ascii_case(name))
            .map(|field| self.text(field.value))
    }

    /// The request line as received, without its end. Of a head that could not be read it is the first line of what came,
    /// as far as it fits a buffer.
    #[must_use]
    pub fn request_line(&self) -> &[u8] {
        let line = self.text(self.head.request_line);
        if !line.is_empty() {
            return line;
        }
        let most = self.server().settings.request_head.large_buffers.1 as usize;
        let blank = |byte: &&u8| matches!(byte, b'\r' | b'\n');
        let start = self.buffer.iter().take_while(blank).count();
        let buffer = &self.buffer[start..];
        let buffer = &buffer[..buffer.len().min(most)];
        &buffer[..memchr::memchr2(b'\r', b'\n', buffer).unwrap_or(buffer.len())]
    }

    /// The target as the client sent it, with arguments.
    #[must_use]
    pub fn raw_target(&self) -> &[u8] {
        self.text(self.head.target)
    }

    /// Appends a variable's value to `out`; false if it has none.
    pub fn variable(&self, id: VariableId, out: &mut Vec<u8>) -> bool {
        match &self.generation.config.http.variables.kinds[id.0 as usize] {
            Kind::Builtin(evaluate) => evaluate(self, out),
            Kind::Prefixed(evaluate, suffix) => evaluate(self, suffix, out),
            Kind::Assigned => self.append_slot(id, out).unwrap_or(false),
            Kind::Set(uninitialized) => match self.append_slot(id, out) {
                Some(found) => found,
                None => {
                    uninitialized(self, id);
                    true
                }
            },
            Kind::Map(map) => match self.append_slot(id, out) {
                Some(found) => found,
                None => map.append(id, self, out),
            },
            Kind::Geo(geo) => match self.append_slot(id, out) {
                Some(found) => found,
                None => geo.append(id, self, out),
            },
            Kind::Geoip2(geoip2) => match self.append_slot(id, out) {
                Some(found) => found,
                None => geoip2.append(id, self, out),
            },
            Kind::SplitClients(split) => match self.append_slot(id, out) {
                Some(found) => found,
                None => split.append(id, self, out),
            },
        }
    }

    /// Keeps a value for a variable of this request.
    pub fn assign(&self, id: VariableId, slot: Slot) {
        let mut slots = self.slots.borrow_mut();
        let index = id.0 as usize;
        if slots.len() <= index {
            slots.resize(index + 1, Slot::Unset);
        }
        slots[index] = slot;
    }

    /// Appends the kept value; `None` if there is none, false if it was kept that the variable has no value.
    fn append_slot(&self, id: VariableId, out: &mut Vec<u8>) -> Option<bool> {
        match self.slots.borrow().get(id.0 as usize) {
            Some(Slot::Value(value)) => {
                out.extend_from_slice(value);
                Some(true)
            }
            Some(Slot::NotFound) => Some(false),
            Some(Slot::Unset) | None => None,
        }
    }

    /// Gives the variables of named groups the values of the last match.
    pub fn assign_groups(&self, groups: &[(usize, VariableId)]) {
        for &(group, variable) in groups {
            let mut value = Vec::new();
            let slot = match self.capture(group, &mut value) {
                true => Slot::Value(Bytes::from(value)),
                false => Slot::NotFound,
            };
            self.assign(variable, slot);
        }
    }

    /// The kept value of a variable.
    #[must_use]
    pub fn slot(&self, id: VariableId) -> Slot {
        self.slots
            .borrow()
            .get(id.0 as usize)
            .cloned()
            .unwrap_or_default()
    }

    /// Appends group `index` of the last pattern that matched.
    pub fn capture(&self, index: usize, out: &mut Vec<u8>) -> bool {
        let captures = self.captures.borrow();
        match captures.positions.get(index * 2..index * 2 + 2) {
            Some(&[start, end]) if start != u32::MAX => {
                out.extend_from_slice(&captures.subject[start as usize..end as usize]);
                true
            }
            _ => false,
        }
    }

    /// The client's path had escapes or a `+`: then nginx escapes captures anew where they become arguments.
    #[must_use]
    pub fn path_was_escaped(&self) -> bool {
        memchr::memchr2(b'%', b'+', self.text(self.head.path)).is_some()
    }

    /// Whether only the head of the response is sent; without a version there is none to send.
    #[must_use]
    pub fn is_head(&self) -> bool {
        self.method == Method::Head && self.version != Version::Http09
    }
}
