//! Requests that other servers answer, whatever protocol they speak: a server is chosen, the request is sent, the head of
//! the response is read, and what failed is tried elsewhere where that is allowed. `answer` makes the response of it.

use super::answer::{self, Finish};
use super::cached::{self, Fetch, Looked};
use super::failure::{Failure, Stage, may_repeat};
use super::group::{Group, Outcome, Peer};
use super::idle::{self, Owner};
use super::line::Line;
use super::receive::{Answer, Receiver};
use super::secure::Secure;
use super::send::{NotSent, Sender, Source, Wrap};
use super::settings::{Family, Settings};
use super::sticky::Bond;
use super::{connect, fastcgi, http2, pooled, proxy, target};
use crate::cache::settings::UseStale;
use crate::config::model::Location;
use crate::content::Content;
use crate::http::request::RequestBody;
use crate::http::trace::{Attempt, Trace};
use crate::http::{Interrupt, Phase, Request, Response, thread};
use crate::log::error::{Level, write_late, write_request};
use crate::net::Timer;
use crate::request_body;
use crate::request_body::read::Reader;
use bytes::Bytes;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// The settings of the relay that answers a request.
#[must_use]
pub fn settings(request: &Request) -> &Settings {
    let location = request.location();
    match location.content {
        Content::FastCgi(_) => &location.settings.fastcgi_relay,
        _ => &location.settings.proxy_relay,
    }
}

/// A request as it is sent, to however many servers.
pub struct Job {
    pub family: Family,
    /// The head, and what was joined to it.
    pub head: Vec<u8>,
    /// The URI in the head, for logs.
    uri: Range<usize>,
    pub is_head: bool,
    /// The upstream is asked to leave the connection open.
    pub keep: bool,
    /// `proxy_http_version 2`.
    http2: bool,
    wrap: Wrap,
    body: OwnBody,
    started_ms: u64,
    /// The cache waits for what comes.
    pub fetch: Option<Rc<Fetch>>,
}

/// The body to send.
enum OwnBody {
    None,
    Memory(Bytes),
    File(crate::http::body::FileRange),
    /// It is read from the client while it is sent, and only once.
    Client(Option<Box<Reader>>),
}

/// `proxy_pass`.
pub async fn proxy(request: &mut Request, pass: &Arc<proxy::Pass>) -> Phase<Response> {
    let destination = pass.destination(request)?;
    let own_key =
        |request: &Request, out: &mut Vec<u8>| proxy::write_key(request, pass, &destination, out);
    let fetch = match cached::look(request, Family::Proxy, own_key).await? {
        Looked::Answer(response) => return Ok(cached_answer(request, Family::Proxy, response)),
        Looked::Ask(fetch) => fetch,
        Looked::AskUnsafe(doomed) => {
            let outcome = ask_proxy(request, pass, destination, None).await;
            doomed.settle(&outcome);
            return told(request, Family::Proxy, outcome);
        }
        Looked::AnswerAndAsk(response, fetch) => {
            let (mut copy, pass) = (cached::background(request, &fetch), Arc::clone(pass));
            tokio::task::spawn_local(async move {
                let fetched = ask_proxy(&mut copy, &pass, destination, Some(fetch)).await;
                cached::drain(fetched, &copy);
            });
            return Ok(cached_answer(request, Family::Proxy, response));
        }
    };
    let outcome = ask_proxy(request, pass, destination, fetch.clone()).await;
    let outcome = cached::settle(request, Family::Proxy, fetch, outcome);
    told(request, Family::Proxy, outcome)
}

/// A response out of the cache, or of an upstream, with what the cache says of it.
fn cached_answer(request: &Request, family: Family, mut response: Box<Response>) -> Response {
    cached::tell(request, family, &mut response);
    *response
}

fn told(request: &Request, family: Family, outcome: Phase<Response>) -> Phase<Response> {
    outcome.map(|mut response| {
        cached::tell(request, family, &mut response);
        response
    })
}

async fn ask_proxy(
    request: &mut Request,
    pass: &proxy::Pass,
    destination: proxy::Destination,
    fetch: Option<Rc<Fetch>>,
) -> Phase<Response> {
    let (body, wrap, framing) = take_body(request, Family::Proxy).await?;
    let mut head = Vec::with_capacity(1024);
    let written = proxy::request_head::write(request, pass, &destination, framing, &mut head)?;
    let group = match &destination {
        proxy::Destination::Group(id) => known_group(request, *id),
        proxy::Destination::Place(place) => target::find(request, place).await?,
    };
    let job = Job {
        family: Family::Proxy,
        head,
        uri: written.uri,
        is_head: written.is_head,
        keep: true,
        http2: asks_http2(request),
        wrap,
        body: match written.has_body {
            true => OwnBody::None,
            false => body,
        },
        started_ms: thread::monotonic_ms(),
        fetch,
    };
    tries(request, job, &group).await
}

/// `fastcgi_pass`.
pub async fn fastcgi(request: &mut Request, pass: &fastcgi::Pass) -> Phase<Response> {
    let destination = pass.destination(request)?;
    let fetch = match cached::look(request, Family::FastCgi, |_, _| {}).await? {
        Looked::Answer(response) => return Ok(cached_answer(request, Family::FastCgi, response)),
        Looked::Ask(fetch) => fetch,
        Looked::AskUnsafe(doomed) => {
            let outcome = ask_fastcgi(request, destination, None).await;
            doomed.settle(&outcome);
            return told(request, Family::FastCgi, outcome);
        }
        Looked::AnswerAndAsk(response, fetch) => {
            let mut copy = cached::background(request, &fetch);
            tokio::task::spawn_local(async move {
                let fetched = ask_fastcgi(&mut copy, destination, Some(fetch)).await;
                cached::drain(fetched, &copy);
            });
            return Ok(cached_answer(request, Family::FastCgi, response));
        }
    };
    let outcome = ask_fastcgi(request, destination, fetch.clone()).await;
    let outcome = cached::settle(request, Family::FastCgi, fetch, outcome);
    told(request, Family::FastCgi, outcome)
}

async fn ask_fastcgi(
    request: &mut Request,
    destination: fastcgi::Destination,
    fetch: Option<Rc<Fetch>>,
) -> Phase<Response> {
    let (body, _, _) = take_body(request, Family::FastCgi).await?;
    let is_pool = matches!(destination, fastcgi::Destination::Pool(_));
    let keep = is_pool || request.location().settings.fastcgi.keep_conn;
    let mut head = Vec::with_capacity(2048);
    fastcgi::params::write(request, keep, &mut head)?;
    let job = Job {
        family: Family::FastCgi,
        head,
        uri: 0..0,
        is_head: request.is_head(),
        keep,
        http2: false,
        wrap: Wrap::Records,
        body,
        started_ms: thread::monotonic_ms(),
        fetch,
    };
    let group = match &destination {
        fastcgi::Destination::Group(id) => known_group(request, *id),
        fastcgi::Destination::Place(place) => target::find(request, place).await?,
        fastcgi::Destination::Pool(id) => return pooled::ask(request, job, *id).await,
    };
    tries(request, job, &group).await
}

fn asks_http2(request: &Request) -> bool {
    request.location().settings.proxy.http_version == proxy::request_head::HttpVersion::Http2
}

fn known_group(request: &Request, id: super::group::GroupId) -> Arc<Group> {
    Arc::clone(request.generation.config.http.upstreams.group(id))
}

/// The client's body, read whole unless the settings let it pass as it comes.
async fn take_body(
    request: &mut Request,
    family: Family,
) -> Phase<(OwnBody, Wrap, proxy::Framing)> {
    let relay = settings(request);
    if !relay.pass_request_body && request.content_length == Some(0) {
        return Ok((OwnBody::None, Wrap::Plain, proxy::Framing::Length(0)));
    }
    if !relay.pass_request_body || request.body_streamed {
        return Ok((OwnBody::None, Wrap::Plain, proxy::Framing::None));
    }
    let streams = !relay.request_buffering
        && matches!(request.body, RequestBody::Unread)
        && request_body::unread(request);
    if streams {
        let framing = match request.content_length {
            Some(length) => proxy::Framing::Length(length),
            None => proxy::Framing::Chunked,
        };
        let is_10 = family == Family::Proxy
            && request.location().settings.proxy.http_version
                == proxy::request_head::HttpVersion::Http10;
        // A program is told the length beforehand, and so is a server that knows no chunks.
        if framing != proxy::Framing::Chunked || (family == Family::Proxy && !is_10) {
            let wrap = match framing {
                proxy::Framing::Chunked if !asks_http2(request) => Wrap::Chunked,
                _ => Wrap::Plain,
            };
            let reader = Reader::begin(request)?;
            request.body_streamed = true;
            return Ok((OwnBody::Client(Some(Box::new(reader))), wrap, framing));
        }
    }
    request_body::read::read(request).await?;
    let has_length = request.content_length.is_some();
    Ok(match &request.body {
        RequestBody::Unread if has_length => {
            (OwnBody::None, Wrap::Plain, proxy::Framing::Length(0))
        }
        RequestBody::Unread => (OwnBody::None, Wrap::Plain, proxy::Framing::None),
        RequestBody::Memory(bytes) => {
            let framing = proxy::Framing::Length(bytes.len() as u64);
            (OwnBody::Memory(bytes.clone()), Wrap::Plain, framing)
        }
        RequestBody::File(file) => {
            let framing = proxy::Framing::Length(file.length);
            (OwnBody::File(file.range()), Wrap::Plain, framing)
        }
    })
}

/// Asks one server after another until one answers.
async fn tries(request: &mut Request, mut job: Job, group: &Arc<Group>) -> Phase<Response> {
    let generation = Rc::clone(&request.generation);
    let location = generation.config.location(request.location);
    let settings = job.settings(location);
    let mut choice = group.begin(request);
    if settings.next_upstream_tries > 0 {
        let most = usize::try_from(settings.next_upstream_tries).unwrap_or(usize::MAX);
        choice.tries = choice.tries.min(most);
    }
    Trace::begin_group(&mut request.upstream);
    let mut fresh = false;
    loop {
        let Some(peer) = group.next(&mut choice, request) else {
            return Err(no_live(request, &job, group));
        };
        let attempt = begin_attempt(request, &job, peer.name());
        let (secure, unready) = security(request, &job);
        let owner = owner(request, group, &peer, secure, settings, job.http2);
        let mut way = Way::default();
        let tried = match unready {
            Some(failure) => Err(NotSent::Failure(failure)),
            None => {
                one(
                    request, &mut job, settings, &owner, &attempt, &mut way, fresh,
                )
                .await
            }
        };
        write_late(request);
        let failure = match tried {
            Ok((line, answer)) => {
                let status = answer.head.status;
                let elsewhere = choice.tries > 1
                    && settings.next_upstream.contains_status(status)
                    && job.may_go_on(request, settings, &way);
                if !elsewhere {
                    peer.note_success();
                    peer.note_header_time(attempt.header_ms.get().unwrap_or_default());
                    let bond = Bond::of(group, &choice, &peer);
                    let end = Finish::new(owner, peer, &attempt, job.keep);
                    let mut response = answer::finish(request, &job, settings, line, answer, end)?;
                    Bond::settle(bond, group, request, &mut response);
                    return Ok(response);
                }
                Failure::Status(status)
            }
            Err(NotSent::Interrupt(interrupt)) => {
                attempt.end();
                group.report(&mut choice, peer, Outcome::Released);
                return Err(interrupt);
            }
            Err(NotSent::Failure(failure)) => failure,
        };
        attempt.end();
        if let Some((level, text)) = failure.message() {
            write_request(request, level, format_args!("{text}"));
        }
        let is_stale = way.reused && failure.is_of_connection();
        way.sent &= !failure.is_refusal();
        if group.report(&mut choice, peer, outcome(&failure, is_stale)) {
            let (text, stage) = ("upstream server temporarily disabled", failure.stage());
            let message = format_args!("{text} {}", stage.as_str());
            write_request(request, Level::Warning, message);
        }
        // The next one has a connection of its own.
        fresh |= is_stale;
        if let Failure::ClientGone(_) = failure {
            return Err(Interrupt::Status(499));
        }
        attempt.status.set(failure.upstream_status());
        job.note_failure(failure.stale_condition());
        let goes_on = choice.tries > 0
            && (failure.may_go_on(settings) || is_stale)
            && job.may_go_on(request, settings, &way);
        if !goes_on {
            return Err(Interrupt::Status(failure.status()));
        }
    }
}

/// How the upstream is to be asked over TLS, or why it cannot be.
fn security(request: &Request, job: &Job) -> (Option<Secure>, Option<Failure>) {
    match job.family {
        Family::Proxy => match Secure::of(request) {
            Ok(secure) => (secure, None),
            Err(failure) => (None, Some(failure)),
        },
        Family::FastCgi => (None, None),
    }
}

/// No server of the group can be asked now.
fn no_live(request: &mut Request, job: &Job, group: &Group) -> Interrupt {
    let attempt = begin_attempt(request, job, &group.name);
    attempt.status.set(502);
    attempt.end();
    job.note_failure(UseStale::ERROR);
    let text = "no live upstreams while connecting to upstream";
    write_request(request, Level::Error, format_args!("{text}"));
    Interrupt::Status(502)
}

/// Whose connections a try may use.
fn owner(
    request: &Request,
    group: &Arc<Group>,
    peer: &Peer,
    secure: Option<Secure>,
    settings: &Settings,
    http2: bool,
) -> Owner {
    let is_local = group.keepalive.local;
    Owner {
        group: Arc::clone(group),
        address: peer.address().clone(),
        location: is_local.then_some((request.generation.number, request.location)),
        secure,
        local: connect::local_address(peer.address(), request, settings),
        http2,
    }
}

/// What a failure means for the server.
fn outcome(failure: &Failure, is_stale: bool) -> Outcome {
    match failure {
        Failure::ClientGone(_) | Failure::Own(_) => Outcome::Released,
        Failure::Status(403 | 404) => Outcome::Ok,
        _ if is_stale => Outcome::Stale,
        _ => Outcome::Failed,
    }
}

/// What a try has done.
#[derive(Default)]
pub struct Way {
    /// The upstream has had some of the request.
    sent: bool,
    /// On a connection that had served before.
    reused: bool,
}

impl Job {
    /// What the location says of its family's relay.
    fn settings<'a>(&self, location: &'a Location) -> &'a Settings {
        match self.family {
            Family::Proxy => &location.settings.proxy_relay,
            Family::FastCgi => &location.settings.fastcgi_relay,
        }
    }

    /// Notes for the cache how the last try failed.
    pub fn note_failure(&self, condition: u16) {
        if let Some(fetch) = &self.fetch {
            fetch.note_failure(condition);
        }
    }

    /// Whether the request may be sent to another server as far as the request and the time are concerned.
    pub fn may_go_on(&self, request: &Request, settings: &Settings, way: &Way) -> bool {
        let elapsed_ms = thread::monotonic_ms().saturating_sub(self.started_ms);
        let in_time = settings.next_upstream_timeout_ms == 0
            || elapsed_ms < settings.next_upstream_timeout_ms;
        let repeatable = (!way.sent || may_repeat(request, settings))
            && !matches!(self.body, OwnBody::Client(None));
        in_time && repeatable
    }
}

pub fn begin_attempt(request: &mut Request, job: &Job, peer: &Bytes) -> Rc<Attempt> {
    let is_secure = request
        .proxied
        .as_ref()
        .is_some_and(|proxied| proxied.https);
    let scheme: &[u8] = match job.family {
        Family::Proxy if is_secure => b"https://",
        Family::Proxy => b"http://",
        Family::FastCgi => b"fastcgi://",
    };
    let uri = &job.head[job.uri.clone()];
    // A UNIX socket's name ends where the URI begins.
    let separator: &[u8] = match peer.starts_with(b"unix:") && !uri.is_empty() {
        true => b":",
        false => b"",
    };
    let destination = Bytes::from([scheme, peer, separator, uri].concat());
    let trace = request.upstream.get_or_insert_default();
    trace.destination = destination;
    trace.begin(peer.clone())
}

/// One try: a connection, the request, the head of the response.
async fn one(
    request: &mut Request,
    job: &mut Job,
    settings: &Settings,
    owner: &Owner,
    attempt: &Rc<Attempt>,
    way: &mut Way,
    fresh: bool,
) -> Result<(Line, Answer), NotSent> {
    let mut timer = Timer::default();
    let kept = match job.keep && !fresh {
        true => idle::take(owner),
        false => None,
    };
    let link = match kept {
        Some(link) => {
            way.reused = true;
            link
        }
        None => connect::open(owner, request, settings, &mut timer)
            .await
            .map_err(NotSent::Failure)?,
    };
    attempt.connect_ms.set(Some(attempt.elapsed_ms()));
    exchange(request, job, settings, Line::Own(link), attempt, way, timer).await
}

/// Sends the request over a connection that stands, and reads the head of the response.
pub async fn exchange(
    request: &mut Request,
    job: &mut Job,
    settings: &Settings,
    line: Line,
    attempt: &Rc<Attempt>,
    way: &mut Way,
    mut timer: Timer,
) -> Result<(Line, Answer), NotSent> {
    let source = match &mut job.body {
        OwnBody::None => Source::None,
        OwnBody::Memory(bytes) => Source::Memory(bytes.clone()),
        OwnBody::File(range) => Source::File(range.clone()),
        OwnBody::Client(reader) => match reader.take() {
            Some(reader) => Source::Client(reader),
            None => Source::None,
        },
    };
    way.sent = true;
    if let Some(client) = line.http2() {
        let terms = http2::Terms {
            client,
            head: &job.head,
            settings,
            attempt,
        };
        let body = |behind| match source {
            Source::None => Sender::new(behind, Source::None, Wrap::Plain),
            source => Sender::new(Vec::new(), source, Wrap::Plain),
        };
        let answer = http2::exchange(terms, request, body, &mut timer).await?;
        attempt.header_ms.set(Some(attempt.elapsed_ms()));
        return Ok((line, answer));
    }
    let mut sender = Sender::new(job.head.clone(), source, job.wrap);
    let stream = line.stream().ok_or_else(|| {
        let error = std::io::ErrorKind::NotConnected.into();
        NotSent::Failure(Failure::call("send()", error, Stage::Sending))
    })?;
    let generation = Rc::clone(&request.generation);
    let location = generation.config.location(request.location);
    let late = match &request.upstream {
        Some(trace) => Rc::clone(&trace.late),
        None => Rc::default(),
    };
    let answer = loop {
        let whole = sender
            .send(stream, request, &mut timer, &attempt.bytes_sent)
            .await?;
        let receiver = Receiver {
            request,
            settings,
            attempt,
            late: &late,
            fastcgi: &location.settings.fastcgi,
        };
        let received = receiver.receive(&line, job.family, &mut timer, !whole);
        if let Some(mut answer) = received.await.map_err(NotSent::Failure)? {
            answer.is_early = !whole;
            break answer;
        }
    };
    attempt.header_ms.set(Some(attempt.elapsed_ms()));
    Ok((line, answer))
}
