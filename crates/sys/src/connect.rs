//! Connections that we begin: non-blocking, from an address of our own choice where one is asked for.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::address::{Raw, SocketAddress};
use crate::errno::check;
use crate::socket;

/// How a connection is begun.
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions<'a> {
    /// The local address; port 0: any.
    pub bind: Option<&'a SocketAddress>,
    /// The local address need not be one of this machine.
    pub transparent: bool,
    pub keepalive: bool,
    /// Bytes.
    pub receive_buffer: Option<usize>,
    /// Bytes.
    pub send_buffer: Option<usize>,
}

/// What failed.
#[derive(Debug)]
pub struct ConnectError {
    /// As error logs name it: `connect()`.
    pub call: &'static str,
    pub error: io::Error,
}

fn failed(call: &'static str) -> impl FnOnce(io::Error) -> ConnectError {
    move |error| ConnectError { call, error }
}

/// Begins a connection. True: it stands; false: it is under way, and the socket becomes writable when it stands or failed.
pub fn connect(
    address: &SocketAddress,
    options: &ConnectOptions<'_>,
) -> Result<(OwnedFd, bool), ConnectError> {
    let raw = Raw::from_address(address).map_err(failed("connect()"))?;
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: the call takes integers only.
    let descriptor =
        check(unsafe { libc::socket(raw.family(), kind, 0) }).map_err(failed("socket()"))?;
    // SAFETY: the kernel just returned this descriptor and nothing else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
    if options.keepalive {
        socket::set_keepalive(&socket, None).map_err(failed("setsockopt(SO_KEEPALIVE)"))?;
    }
    if let Some(bytes) = options.receive_buffer {
        socket::set_receive_buffer(&socket, bytes).map_err(failed("setsockopt(SO_RCVBUF)"))?;
    }
    if let Some(bytes) = options.send_buffer {
        socket::set_send_buffer(&socket, bytes).map_err(failed("setsockopt(SO_SNDBUF)"))?;
    }
    if let Some(local) = options.bind {
        bind(&socket, local, options.transparent)?;
    }
    // SAFETY: the pointer and the length describe `raw`, which outlives the call.
    let result = check(unsafe { libc::connect(socket.as_raw_fd(), raw.pointer(), raw.length) });
    match result {
        Ok(_) => Ok((socket, true)),
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok((socket, false)),
        Err(error) => Err(ConnectError {
            call: "connect()",
            error,
        }),
    }
}

fn bind(socket: &OwnedFd, local: &SocketAddress, transparent: bool) -> Result<(), ConnectError> {
    let raw = Raw::from_address(local).map_err(failed("bind()"))?;
    if transparent {
        let (level, option, call) = match raw.family() {
            libc::AF_INET6 => (
                libc::IPPROTO_IPV6,
                libc::IPV6_TRANSPARENT,
                "setsockopt(IPV6_TRANSPARENT)",
            ),
            _ => (
                libc::IPPROTO_IP,
                libc::IP_TRANSPARENT,
                "setsockopt(IP_TRANSPARENT)",
            ),
        };
        socket::set_int(socket, level, option, 1).map_err(failed(call))?;
    }
    if local.port() == 0 && !local.is_unix() {
        // Ports are not used up for peers that differ.
        let _older_kernel =
            socket::set_int(socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1);
    }
    // SAFETY: the pointer and the length describe `raw`, which outlives the call.
    check(unsafe { libc::bind(socket.as_raw_fd(), raw.pointer(), raw.length) })
        .map(drop)
        .map_err(failed("bind()"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, SocketAddr, TcpListener};

    #[test]
    fn a_connection_comes_from_the_address_that_was_asked_for() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = SocketAddress::from(listener.local_addr().unwrap());
        let from = SocketAddress::from(SocketAddr::from(([127, 0, 0, 2], 0)));
        let options = ConnectOptions {
            bind: Some(&from),
            keepalive: true,
            ..ConnectOptions::default()
        };
        let (_socket, _stands) = connect(&address, &options).unwrap();
        let (_accepted, peer) = listener.accept().unwrap();
        assert_eq!(peer.ip().to_string(), "127.0.0.2");
    }

    #[test]
    fn a_missing_socket_file_is_an_error_at_once() {
        let address = SocketAddress::Unix("/nonexistent/socket".into());
        let error = connect(&address, &ConnectOptions::default()).unwrap_err();
        assert_eq!(
            (error.call, error.error.kind()),
            ("connect()", io::ErrorKind::NotFound)
        );
    }
}
