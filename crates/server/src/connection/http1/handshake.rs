//! `listen … ssl`: the TLS handshake of a connection before its first request. The client's hello names a server, whose
//! certificates and terms it gets; bytes that are no TLS are left to be read as a plain request, which is refused.

use super::Http1;
use crate::acme::challenges;
use crate::config::Generation;
use crate::config::model::ServerId;
use crate::connection::complaints;
use crate::http::{Request, thread};
use crate::net::tls::{Records, Session};
use crate::tls::context::Context as Terms;
use crate::tls::settled::Settled;
use rustls::ServerConfig;
use rustls::server::{Accepted, Acceptor};
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The first byte of a TLS record, and a bit of that of SSL 2.
const RECORD: u8 = 0x16;
const SSL2: u8 = 0x80;

/// A fatal alert: unrecognized_name.
const NOT_HERE: &[u8] = &[0x15, 3, 3, 0, 2, 2, 112];

/// What a connection is ready for when all that comes before the first request is done.
pub enum Opened {
    Http1,
    Http2,
    /// Nothing: it is to be closed.
    Closed,
}

/// How a handshake ended early.
enum Failure {
    /// The end, before the hello was whole or after.
    Ended,
    Failed(io::Error),
    Refused(rustls::Error),
    Rejected,
    /// A certificate whose name has variables could not be had.
    NoCertificate(String),
    TimedOut,
    /// The server needs the connection's place.
    Asked,
}

/// What the first bytes were.
enum Hello {
    Whole(Box<Accepted>, Vec<u8>),
    /// No TLS; the bytes wait as the start of a request.
    Plain,
}

/// What some bytes of a hello came to.
enum Fed {
    More,
    Hello(Hello),
    Refused(rustls::Error, Vec<u8>),
}

impl Http1 {
    /// Whether something comes before the first request.
    pub fn expects_opening(&self) -> bool {
        self.expects_proxy_header() || self.expects_tls()
    }

    /// Reads what a proxy says and shakes hands, where the address asks for it.
    pub async fn open(&mut self) -> Opened {
        if self.expects_proxy_header() && !self.read_proxy_header().await {
            return Opened::Closed;
        }
        if !self.expects_tls() {
            return Opened::Http1;
        }
        if !self.shake_hands().await {
            return Opened::Closed;
        }
        if self.info.stream.speaks(b"h2") {
            return Opened::Http2;
        }
        self.timer.set(self.head_settings().timeout_ms);
        Opened::Http1
    }

    /// Whether TLS is spoken at the connection's address.
    pub fn expects_tls(&self) -> bool {
        self.generation.config.http.listens[self.listener]
            .listen
            .ssl
    }

    /// Shakes hands within the timer's deadline; false: the connection is to be closed.
    pub async fn shake_hands(&mut self) -> bool {
        let failure = match self.handshake().await {
            Ok(()) => return true,
            Err(failure) => failure,
        };
        let complain = |message: std::fmt::Arguments<'_>| {
            complaints::handshake(&self.generation, self.listener, &self.info, message);
        };
        match failure {
            Failure::Ended => complain(format_args!("peer closed connection in SSL handshake")),
            Failure::Failed(error) => match error.get_ref() {
                Some(reason) => complain(format_args!("SSL_do_handshake() failed (SSL: {reason})")),
                None => complain(format_args!(
                    "peer closed connection in SSL handshake ({})",
                    sys::errno::Errno(&error)
                )),
            },
            Failure::Refused(reason) => {
                complain(format_args!("SSL_do_handshake() failed (SSL: {reason})"));
            }
            Failure::NoCertificate(reason) => complain(format_args!("{reason}")),
            Failure::Rejected => complain(format_args!(
                "SSL_do_handshake() failed (SSL: the server rejects handshakes)"
            )),
            Failure::TimedOut => {
                complain(format_args!("client timed out (110: Connection timed out)"));
            }
            Failure::Asked => {}
        }
        false
    }

    async fn handshake(&mut self) -> Result<(), Failure> {
        let mut acceptor = Acceptor::default();
        let mut begun = false;
        let hello =
            std::future::poll_fn(|context| self.poll_hello(context, &mut acceptor, &mut begun))
                .await?;
        let (accepted, rest) = match hello {
            Hello::Plain => return Ok(()),
            Hello::Whole(accepted, rest) => (accepted, rest),
        };
        if let Some(config) = challenges::proof(&accepted.client_hello()) {
            self.secure(accepted, config, Records::Growing, &rest)
                .await?;
            // Whoever asked has seen what there is to see.
            return Err(Failure::Asked);
        }
        let (server, name, terms) = self.terms(&accepted);
        let Some(terms) = terms.filter(|terms| !terms.rejects) else {
            // Whether it goes out or not, the connection is closed.
            let _gone = self.info.stream.try_send(NOT_HERE, false);
            return Err(Failure::Rejected);
        };
        if let Some(asked) = accepted.client_hello().server_name() {
            let _once = self.info.asked_name.set(asked.into());
        }
        let http2 = offers_http2(&self.generation, self.listener, server);
        let config = terms.config(http2, || self.before_a_request(server));
        let config = config.map_err(Failure::NoCertificate)?;
        let mut settled = Settled::new(name, || accepted.client_hello(), &config);
        self.secure(accepted, config, terms.records, &rest).await?;
        if let Some(session) = self.info.stream.tls() {
            let check = {
                let session = session.borrow();
                let shown = session.connection().peer_certificates();
                settled.look_at(&terms, shown);
                settled.to_ask(&terms, shown)
            };
            if let Some(check) = check {
                // Few connections ask: the others have no room for it.
                settled.trouble = Box::pin(check.run()).await;
            }
        }
        let _once = self.info.settled.set(Box::new(settled));
        Ok(())
    }

    /// Shakes hands with `config`; `rest` came after the hello.
    async fn secure(
        &mut self,
        accepted: Box<Accepted>,
        config: Arc<ServerConfig>,
        records: Records,
        rest: &[u8],
    ) -> Result<(), Failure> {
        let takes_early = config.max_early_data_size > 0;
        let connection = accepted.into_connection(config);
        let connection = connection.map_err(|(error, mut alert)| {
            let mut bytes = Vec::new();
            // Memory takes all of it.
            let _whole = alert.write_all(&mut bytes);
            let _gone = self.info.stream.try_send(&bytes, false);
            Failure::Refused(error)
        })?;
        let session = Session::new(connection.into(), records).taking_early_data(takes_early);
        self.info.stream.secure(session);
        let fed = self.info.stream.feed(rest);
        fed.map_err(Failure::Failed)?;
        self.finish_handshake().await
    }

    /// Carries the handshake on after the hello.
    async fn finish_handshake(&mut self) -> Result<(), Failure> {
        std::future::poll_fn(|context| {
            if let Poll::Ready(done) = self.info.stream.poll_handshake(context) {
                return Poll::Ready(done.map_err(|error| match error.kind() {
                    io::ErrorKind::UnexpectedEof => Failure::Ended,
                    _ => Failure::Failed(error),
                }));
            }
            self.timer
                .poll_expired(context)
                .map(|()| Err(Failure::TimedOut))
        })
        .await
    }

    /// Ready when the hello is whole. `begun`: bytes of it have come.
    fn poll_hello(
        &mut self,
        context: &mut Context<'_>,
        acceptor: &mut Acceptor,
        begun: &mut bool,
    ) -> Poll<Result<Hello, Failure>> {
        loop {
            let info = &self.info;
            let read = info.stream.poll_read(context, |bytes| {
                let first = !std::mem::replace(begun, true);
                match bytes.first() {
                    None => None,
                    Some(&byte) if first && byte != RECORD && byte & SSL2 == 0 => {
                        info.pending.borrow_mut().extend_from_slice(bytes);
                        Some(Fed::Hello(Hello::Plain))
                    }
                    Some(_) => Some(feed(acceptor, bytes)),
                }
            });
            let fed = match read {
                Poll::Pending => break,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(Failure::Failed(error))),
                Poll::Ready(Ok(None)) => return Poll::Ready(Err(Failure::Ended)),
                Poll::Ready(Ok(Some(fed))) => fed,
            };
            match fed {
                Fed::More => {}
                Fed::Hello(hello) => return Poll::Ready(Ok(hello)),
                Fed::Refused(error, alert) => {
                    let _gone = self.info.stream.try_send(&alert, false);
                    return Poll::Ready(Err(Failure::Refused(error)));
                }
            }
        }
        if !*begun && self.place.is_asked() {
            return Poll::Ready(Err(Failure::Asked));
        }
        self.place.leave_waker(context);
        self.timer
            .poll_expired(context)
            .map(|()| Err(Failure::TimedOut))
    }

    /// What the variables of certificates' names are asked of: no request has come yet.
    fn before_a_request(&self, server: ServerId) -> Box<Request> {
        let now_ms = thread::monotonic_ms();
        let mut request = super::new_request(&self.generation, &self.info, now_ms);
        request.server = server;
        request.location = self.generation.config.server(server).base;
        request
    }

    /// The server that a hello names, its name if there is one of that name, and on which terms it is spoken to.
    fn terms(&self, accepted: &Accepted) -> (ServerId, Option<String>, Option<Arc<Terms>>) {
        let config = &self.generation.config;
        let hosts = &config.http.listens[self.listener].hosts;
        let (server, name) = match accepted.client_hello().server_name() {
            None => (hosts.default, None),
            Some(name) => {
                let name = name.to_ascii_lowercase();
                let request =
                    super::new_request(&self.generation, &self.info, thread::monotonic_ms());
                let server = hosts.named(name.as_bytes(), &request);
                super::recycle(request);
                (server.unwrap_or(hosts.default), server.map(|_| name))
            }
        };
        // One without a certificate is reached by the default server's.
        let own = config.server(server).tls.as_ref();
        let terms = own.or(config.server(hosts.default).tls.as_ref());
        (server, name, terms.cloned())
    }
}

/// Whether a client that names this server at this address may speak HTTP/2.
fn offers_http2(generation: &Generation, listener: usize, server: ServerId) -> bool {
    let config = &generation.config;
    config.http.listens[listener].listen.http2 || config.server(server).settings.http2.on
}

/// Gives bytes of a hello to the acceptor.
fn feed(acceptor: &mut Acceptor, mut bytes: &[u8]) -> Fed {
    while !bytes.is_empty() {
        match acceptor.read_tls(&mut bytes) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => {
                let error = rustls::Error::General(error.to_string());
                return Fed::Refused(error, Vec::new());
            }
        }
        match acceptor.accept() {
            Ok(None) => {}
            Ok(Some(accepted)) => {
                return Fed::Hello(Hello::Whole(Box::new(accepted), bytes.to_vec()));
            }
            Err((error, mut alert)) => {
                let mut written = Vec::new();
                // Memory takes all of it.
                let _whole = alert.write_all(&mut written);
                return Fed::Refused(error, written);
            }
        }
    }
    Fed::More
}
