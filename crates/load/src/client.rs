//! The client of one user: of HTTP/1.1, or a stream of a shared connection of HTTP/2; a connection to each server, a request and its response at a time.

use crate::failure::Failure;
use crate::http2::{self, Connection, Group};
use crate::jar::{Jar, Place};
use crate::plan::{ClientOptions, Plan, Step};
use crate::record::Sample;
use crate::response::{Invalid, Reader};
use crate::stream::Stream;
use crate::target::{Endpoint, Scheme, plain};
use crate::tls::Tls;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;
use tokio_rustls::TlsConnector;

/// The buffer that all connections of a thread read into.
const SCRATCH: usize = 64 * 1024;
/// How long the server's end of a connection is waited for that it said it would close.
const CLOSE_WAIT: Duration = Duration::from_secs(1);

/// Memory that the users of a thread share: nobody keeps it over an await.
pub type Scratch = Rc<RefCell<Vec<u8>>>;

pub fn scratch() -> Scratch {
    Rc::new(RefCell::new(vec![0; SCRATCH]))
}

/// One user's connections.
pub struct Client {
    connections: Vec<Option<Stream>>,
    reader: Reader,
    scratch: Scratch,
    /// A request with values in it, being put together.
    assembled: Vec<u8>,
    deadline: Deadline,
    /// When the response was whole.
    done_at: Option<Instant>,
    options: ClientOptions,
    tls: Option<Tls>,
    /// The user's cookies, where it keeps them, and those that go with the request under way.
    jar: Option<Jar>,
    cookies: Vec<u8>,
    /// Of HTTP/2, shared with other users.
    group: Option<Rc<Group>>,
}

impl Client {
    pub fn new(plan: &Plan, scratch: Scratch, group: Option<Rc<Group>>) -> Client {
        let mut reader = Reader::default();
        reader.kept.always_head = plan.client.cookies;
        Client {
            connections: plan.endpoints.iter().map(|_| None).collect(),
            reader,
            jar: plan.client.cookies.then(Jar::default),
            cookies: Vec::new(),
            scratch,
            assembled: Vec::new(),
            deadline: Deadline::default(),
            done_at: None,
            options: plan.client.clone(),
            tls: plan.tls.clone(),
            group,
        }
    }

    /// The response read last, as far as it was kept.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Closes all connections, so that the next requests open new ones.
    pub fn forget(&mut self) {
        self.connections.iter_mut().for_each(|slot| *slot = None);
    }

    /// Sends the step's request and reads the response. `begin` is when it began or was due, `now` the present;
    /// `keep` bytes of the body are kept.
    /// The sample has all but the judgement of the checks; beside it, when the response was whole.
    pub async fn exchange(
        &mut self,
        endpoint: &Endpoint,
        step: &Step,
        values: &[Vec<u8>],
        begin: Instant,
        now: Instant,
        keep: usize,
    ) -> (Sample, Instant) {
        let mut sample = Sample {
            label: step.label,
            ..Sample::default()
        };
        // The timeout runs from now on: a request that was due long ago still has its chance.
        self.deadline.set(now + self.options.timeout);
        self.done_at = None;
        self.reader.start(step.request.method == "HEAD", keep);
        self.choose_cookies(endpoint, step, values);
        let done = match self.group.clone() {
            None => self.attempt(endpoint, step, values, &mut sample).await,
            Some(group) => {
                self.attempt_stream(&group, endpoint, step, values, &mut sample)
                    .await
            }
        };
        sample.failure = done.err();
        self.keep_cookies(endpoint, step, values);
        if sample.failure.is_some() {
            self.drop_connection(step);
        }
        sample.status = self.reader.status;
        sample.keep_alive = self.reader.keep_alive;
        sample.received_bytes = self.reader.received;
        sample.body_bytes = self.reader.body_bytes;
        let done_at = self.done_at.unwrap_or_else(Instant::now);
        sample.total_ns = nanoseconds(done_at - begin);
        (sample, done_at)
    }

    /// What of the jar goes with the request.
    fn choose_cookies(&mut self, endpoint: &Endpoint, step: &Step, values: &[Vec<u8>]) {
        self.cookies.clear();
        if let Some(jar) = self.jar.as_ref().filter(|jar| !jar.is_empty()) {
            let path = step.request.path.text(values);
            jar.write(place(endpoint, &path), now_s(), &mut self.cookies);
        }
    }

    /// Puts what the response sets into the jar.
    fn keep_cookies(&mut self, endpoint: &Endpoint, step: &Step, values: &[Vec<u8>]) {
        let head = &self.reader.kept.head;
        if let Some(jar) = self.jar.as_mut().filter(|_| !head.is_empty()) {
            let path = step.request.path.text(values);
            jar.take_head(head, place(endpoint, &path), now_s());
        }
    }

    fn drop_connection(&mut self, step: &Step) {
        if let Some(slot) = self.connections.get_mut(step.request.endpoint) {
            *slot = None;
        }
    }

    async fn attempt(
        &mut self,
        endpoint: &Endpoint,
        step: &Step,
        values: &[Vec<u8>],
        sample: &mut Sample,
    ) -> Result<(), Failure> {
        let kept = self
            .connections
            .get_mut(step.request.endpoint)
            .and_then(Option::take);
        if let Some(mut stream) = kept {
            match self.converse(&mut stream, step, values, sample).await {
                Ok(()) => return self.put_back(step, stream).await,
                // The server closed it while nothing was under way: that is its right, and no failure.
                Err(Failure::Closed | Failure::Io(_))
                    if self.reader.received == 0 && step.request.may_repeat => {}
                Err(failure) => return Err(failure),
            }
        }
        let mut stream = self.connect(endpoint, sample).await?;
        self.converse(&mut stream, step, values, sample).await?;
        self.put_back(step, stream).await
    }

    /// A request as a stream of the group's connection, which is opened where there is none.
    async fn attempt_stream(
        &mut self,
        group: &Group,
        endpoint: &Endpoint,
        step: &Step,
        values: &[Vec<u8>],
        sample: &mut Sample,
    ) -> Result<(), Failure> {
        let slot = group.slot(step.request.endpoint);
        let slot = slot.ok_or_else(|| Failure::Http2("no such server".to_owned()))?;
        let head = match &step.request.prepared_http2 {
            Some(head) if self.cookies.is_empty() => head.clone(),
            _ => step
                .request
                .head_http2(endpoint.scheme.as_str(), values, &self.cookies)
                .map_err(Failure::Http2)?,
        };
        let mut attempts = 0;
        loop {
            attempts += 1;
            let connection = self.shared(slot, endpoint, sample).await?;
            let exchange = connection.exchange(step, head.clone(), values, &mut self.reader);
            let done = self.deadline.within(exchange).await;
            let done = done.unwrap_or(Err(Failure::Timeout));
            let (sent, received) = connection.take_traffic();
            sample.sent_bytes += sent;
            self.reader.received += received;
            if self.options.new_connection {
                *slot.lock().await = None;
            }
            match done {
                // The connection ended before the server looked at the request: that is its right, and no failure.
                Err(failure)
                    if (http2::is_unprocessed(&failure)
                        || step.request.may_repeat && http2::is_unseen(&failure))
                        && self.reader.status == 0
                        && sample.connect_ns.is_none()
                        && attempts == 1 => {}
                Err(failure) => return Err(failure),
                Ok(times) => {
                    let now = Instant::now();
                    sample.waiting_ns = nanoseconds(times.first_at - times.sent_at);
                    sample.receiving_ns = nanoseconds(now - times.first_at);
                    self.done_at = Some(now);
                    return Ok(());
                }
            }
        }
    }

    /// The connection in a slot; a new one if it takes no more requests.
    async fn shared(
        &mut self,
        slot: &tokio::sync::Mutex<Option<Connection>>,
        endpoint: &Endpoint,
        sample: &mut Sample,
    ) -> Result<Connection, Failure> {
        let held = self.deadline.within(slot.lock()).await;
        let mut held = held.ok_or(Failure::Timeout)?;
        if let Some(connection) = &*held {
            let ready = self.deadline.within(connection.ready()).await;
            if ready.ok_or(Failure::Timeout)?.is_ok() {
                return Ok(connection.clone());
            }
            *held = None;
        }
        let stream = self.connect(endpoint, sample).await?;
        let opened = self.deadline.within(Connection::open(stream)).await;
        let connection = opened.ok_or(Failure::Timeout)??;
        *held = Some(connection.clone());
        Ok(connection)
    }

    async fn connect(
        &mut self,
        endpoint: &Endpoint,
        sample: &mut Sample,
    ) -> Result<Stream, Failure> {
        let start = Instant::now();
        let mut last = Failure::Connect("it has no address".to_owned());
        for address in &endpoint.addresses {
            match self.deadline.within(TcpStream::connect(address)).await {
                None => return Err(Failure::Timeout),
                Some(Err(error)) => last = Failure::connect(&error),
                Some(Ok(stream)) => {
                    let failed = |error| Failure::connect(&error);
                    stream.set_nodelay(true).map_err(failed)?;
                    sample.connect_ns = Some(nanoseconds(start.elapsed()));
                    return match endpoint.scheme {
                        Scheme::Http => Ok(Stream::Plain(stream)),
                        Scheme::Https => self.shake_hands(endpoint, stream, sample).await,
                    };
                }
            }
        }
        Err(last)
    }

    async fn shake_hands(
        &mut self,
        endpoint: &Endpoint,
        stream: TcpStream,
        sample: &mut Sample,
    ) -> Result<Stream, Failure> {
        let start = Instant::now();
        let tls = self.tls.as_ref();
        let tls = tls.ok_or_else(|| Failure::Tls("not set up".to_owned()))?;
        let name = tls.name(endpoint).map_err(Failure::Tls)?;
        let connector = TlsConnector::from(Arc::clone(&tls.config));
        let shaken = self.deadline.within(connector.connect(name, stream)).await;
        let stream = shaken
            .ok_or(Failure::Timeout)?
            .map_err(|error| Failure::Tls(plain(&error)))?;
        sample.tls_ns = Some(nanoseconds(start.elapsed()));
        Ok(Stream::Tls(Box::new(stream)))
    }

    async fn converse(
        &mut self,
        stream: &mut Stream,
        step: &Step,
        values: &[Vec<u8>],
        sample: &mut Sample,
    ) -> Result<(), Failure> {
        self.assembled.clear();
        let bytes = match &step.request.prepared {
            Some(bytes) if self.cookies.is_empty() => bytes.as_ref(),
            _ => {
                step.request
                    .write(values, &self.cookies, &mut self.assembled);
                self.assembled.as_slice()
            }
        };
        sample.sent_bytes = bytes.len() as u64;
        let send = async {
            stream.write_all(bytes).await?;
            // TLS has records of its own that may still be on their way out.
            stream.flush().await
        };
        let sent = self.deadline.within(send).await;
        sent.ok_or(Failure::Timeout)?
            .map_err(|error| Failure::io(&error))?;
        let sent_at = Instant::now();
        let (mut first_at, mut pieces) = (None, 0usize);
        let (reader, scratch) = (&mut self.reader, &self.scratch);
        let receive = poll_fn(|cx| {
            loop {
                let Poll::Ready(count) = receive(stream, scratch, reader, cx)? else {
                    return Poll::Pending;
                };
                first_at.get_or_insert_with(Instant::now);
                pieces += 1;
                if count == 0 {
                    let whole = reader.end();
                    return Poll::Ready(if whole { Ok(()) } else { Err(Failure::Closed) });
                }
                if reader.is_done() {
                    return Poll::Ready(Ok(()));
                }
            }
        });
        let received = self.deadline.within(receive).await;
        // Most responses come in one piece.
        let done_at = match (first_at, &received) {
            (Some(first_at), Some(Ok(()))) if pieces == 1 => first_at,
            _ => Instant::now(),
        };
        let first_at = first_at.unwrap_or(done_at);
        sample.waiting_ns = nanoseconds(first_at - sent_at);
        sample.receiving_ns = nanoseconds(done_at - first_at);
        self.done_at = Some(done_at);
        received.unwrap_or(Err(Failure::Timeout))
    }

    /// The response is whole: keeps the connection, or lets the server end it. If the client ended it first, its port
    /// would stay taken for a minute, and soon there would be none left.
    async fn put_back(&mut self, step: &Step, mut stream: Stream) -> Result<(), Failure> {
        if self.reader.keep_alive {
            let slot = self.connections.get_mut(step.request.endpoint);
            if let Some(slot) = slot.filter(|_| !self.options.new_connection) {
                *slot = Some(stream);
            }
            return Ok(());
        }
        let scratch = &self.scratch;
        let end = poll_fn(|cx| {
            let mut scratch = scratch.borrow_mut();
            let mut buffer = ReadBuf::new(&mut scratch);
            Pin::new(&mut stream)
                .poll_read(cx, &mut buffer)
                .map(|read| read.map(|()| buffer.filled().len()))
        });
        self.deadline.set(Instant::now() + CLOSE_WAIT);
        match self.deadline.within(end).await {
            Some(Ok(1..)) => Err(Failure::Invalid(Invalid::Surplus)),
            // Whichever way it ended, or that it did not: the response was whole.
            Some(Ok(0) | Err(_)) | None => Ok(()),
        }
    }
}

/// Reads once and feeds the reader; gives the number of bytes, 0 at the end of the connection.
fn receive(
    stream: &mut Stream,
    scratch: &Scratch,
    reader: &mut Reader,
    cx: &mut Context<'_>,
) -> Poll<Result<usize, Failure>> {
    let mut scratch = scratch.borrow_mut();
    let mut buffer = ReadBuf::new(&mut scratch);
    match Pin::new(stream).poll_read(cx, &mut buffer) {
        Poll::Pending => Poll::Pending,
        Poll::Ready(Err(error)) => Poll::Ready(Err(Failure::io(&error))),
        Poll::Ready(Ok(())) => {
            let filled = buffer.filled();
            reader.feed(filled).map_err(Failure::Invalid)?;
            Poll::Ready(Ok(filled.len()))
        }
    }
}

/// A timeout that is cheap to move: the timer is set anew only when it rings, which for most requests it never does.
#[derive(Default)]
struct Deadline {
    at: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Deadline {
    fn set(&mut self, at: Instant) {
        self.at = Some(at);
        // A timer that would ring too late is of no use.
        if let Some(timer) = &mut self.timer
            && timer.deadline() > at.into()
        {
            timer.as_mut().reset(at.into());
        }
    }

    /// The future's value, or `None` once the deadline has passed.
    async fn within<F: Future>(&mut self, future: F) -> Option<F::Output> {
        let Some(at) = self.at else {
            return Some(future.await);
        };
        let mut future = pin!(future);
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at.into())));
        poll_fn(|cx| {
            if let Poll::Ready(value) = future.as_mut().poll(cx) {
                return Poll::Ready(Some(value));
            }
            while timer.as_mut().poll(cx).is_ready() {
                if Instant::now() >= at {
                    return Poll::Ready(None);
                }
                timer.as_mut().reset(at.into());
            }
            Poll::Pending
        })
        .await
    }
}

fn place<'a>(endpoint: &'a Endpoint, path: &'a [u8]) -> Place<'a> {
    Place {
        host: &endpoint.host,
        path,
        is_secure: endpoint.scheme == Scheme::Https,
    }
}

fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |time| i64::try_from(time.as_secs()).unwrap_or(i64::MAX))
}

pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
