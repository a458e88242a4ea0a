//! Opening a connection to an upstream.

use super::failure::{Failure, Stage};
use super::http2::Connection;
use super::idle::{Link, Owner, Wire};
use super::settings::Settings;
use crate::http::{Request, thread};
use crate::net::{Stream, Timer};
use std::io;
use std::task::Poll;
use sys::address::SocketAddress;
use sys::connect::{ConnectOptions, connect};

/// Connects to the address of `owner`, as the settings say, and secures the connection where that is asked for.
pub async fn open(
    owner: &Owner,
    request: &Request,
    settings: &Settings,
    timer: &mut Timer,
) -> Result<Link, Failure> {
    let address = &owner.address;
    let bytes = |size: Option<u64>| size.and_then(|size| usize::try_from(size).ok());
    let options = ConnectOptions {
        bind: owner.local.as_ref(),
        transparent: settings.bind.as_ref().is_some_and(|bind| bind.transparent),
        keepalive: settings.socket_keepalive && !address.is_unix(),
        receive_buffer: bytes(settings.socket_rcvbuf),
        send_buffer: bytes(settings.socket_sndbuf),
    };
    let failed = |error| Failure::call("connect()", error, Stage::Connecting);
    let (socket, stands) = connect(address, &options).map_err(|failure| match failure.call {
        // As nginx, which names the address where the system refuses at once.
        "connect()" => {
            let call = format!("connect() to {address}");
            Failure::call(call, failure.error, Stage::Connecting)
        }
        call => Failure::call(call, failure.error, Stage::Connecting),
    })?;
    let is_tcp = !address.is_unix();
    if is_tcp {
        // Requests are whole when they are sent; nothing is gained by waiting.
        let _slower = sys::socket::set_no_delay(&socket, true);
    }
    let stream = Stream::to_upstream(socket, is_tcp).map_err(failed)?;
    if !stands {
        wait(&stream, request, settings, timer).await?;
    }
    if let Some(secure) = owner.secure.clone() {
        secure
            .shake_hands(&stream, request, settings, timer)
            .await?;
    }
    let wire = match owner.http2 {
        true => Wire::Http2(Box::new(Connection::open(stream, settings).await?)),
        false => Wire::Plain(stream),
    };
    Ok(Link {
        wire,
        requests: 1,
        opened_ms: thread::monotonic_ms(),
        reused: false,
    })
}

/// The own address that a connection to `address` is to have (`proxy_bind`).
pub fn local_address(
    address: &SocketAddress,
    request: &Request,
    settings: &Settings,
) -> Option<SocketAddress> {
    let bind = settings.bind.as_ref().filter(|_| !address.is_unix())?;
    bind.evaluate(request).map(SocketAddress::Ip)
}

async fn wait(
    stream: &Stream,
    request: &Request,
    settings: &Settings,
    timer: &mut Timer,
) -> Result<(), Failure> {
    timer.set(settings.connect_timeout_ms);
    let waited = std::future::poll_fn(|context| {
        if let Poll::Ready(ready) = stream.poll_writable(context) {
            return Poll::Ready(ready.map_err(failed_late));
        }
        if settings.heeds_client(request) && request.poll_client_ended(context).is_ready() {
            return Poll::Ready(Err(Failure::ClientGone(Stage::Connecting)));
        }
        timer
            .poll_expired(context)
            .map(|()| Err(Failure::TimedOut(Stage::Connecting)))
    })
    .await;
    timer.clear();
    waited?;
    match sys::socket::pending_error(stream) {
        Ok(None) => Ok(()),
        Ok(Some(error)) | Err(error) => Err(failed_late(error)),
    }
}

fn failed_late(error: io::Error) -> Failure {
    Failure::call("connect()", error, Stage::Connecting)
}
