//! Sockets that carry a connection: options, names, what TCP knows of the peer, and the end of the connection.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use crate::address::{Raw, SocketAddress};
use crate::errno::{check, length_of, retry};

/// Takes one waiting connection, already non-blocking and closed on exec. `WouldBlock` when none waits.
pub fn accept(listener: impl AsFd) -> io::Result<(OwnedFd, SocketAddress)> {
    let mut raw = Raw::empty();
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    let descriptor = retry(|| {
        // SAFETY: the address pointer has the room that the length states; both live through the call.
        check(unsafe {
            libc::accept4(
                listener.as_fd().as_raw_fd(),
                raw.pointer_mut(),
                &raw mut raw.length,
                flags,
            )
        })
    })?;
    // SAFETY: the kernel just returned this descriptor and nothing else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
    let address = raw
        .to_address()
        .ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))?;
    Ok((socket, address))
}

/// The address the connection arrived at, or the socket listens on.
pub fn local_address(socket: impl AsFd) -> io::Result<SocketAddress> {
    let mut raw = Raw::empty();
    // SAFETY: the address pointer has the room that the length states; both live through the call.
    check(unsafe {
        libc::getsockname(
            socket.as_fd().as_raw_fd(),
            raw.pointer_mut(),
            &raw mut raw.length,
        )
    })?;
    raw.to_address()
        .ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))
}

/// As [`local_address`], for one who knows the descriptor's number and that its owner keeps it open.
pub fn local_address_of(descriptor: RawFd) -> io::Result<SocketAddress> {
    // SAFETY: only asks about the socket; a descriptor that is not open, or is another one, gives an error or that one's name.
    local_address(unsafe { BorrowedFd::borrow_raw(descriptor) })
}

/// The peer's address; a UNIX peer has an empty path.
pub fn peer_address(socket: impl AsFd) -> io::Result<SocketAddress> {
    let mut raw = Raw::empty();
    // SAFETY: the address pointer has the room that the length states; both live through the call.
    check(unsafe {
        libc::getpeername(
            socket.as_fd().as_raw_fd(),
            raw.pointer_mut(),
            &raw mut raw.length,
        )
    })?;
    raw.to_address()
        .ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))
}

/// Sends small segments at once (`tcp_nodelay`).
pub fn set_no_delay(socket: impl AsFd, on: bool) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_TCP, libc::TCP_NODELAY, on.into())
}

/// Holds back partial segments until switched off (`tcp_nopush`).
pub fn set_cork(socket: impl AsFd, on: bool) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_TCP, libc::TCP_CORK, on.into())
}

pub fn set_receive_buffer(socket: impl AsFd, bytes: usize) -> io::Result<()> {
    set_int(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, saturate(bytes))
}

pub fn set_send_buffer(socket: impl AsFd, bytes: usize) -> io::Result<()> {
    set_int(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, saturate(bytes))
}

/// The send buffer's size as the kernel counts it (twice what was asked for).
pub fn send_buffer(socket: impl AsFd) -> io::Result<usize> {
    get_int(socket, libc::SOL_SOCKET, libc::SO_SNDBUF)
        .map(|bytes| usize::try_from(bytes).unwrap_or(0))
}

/// Bounds the unsent bytes kept in the kernel (`TCP_NOTSENT_LOWAT`).
pub fn set_unsent_low_water(socket: impl AsFd, bytes: usize) -> io::Result<()> {
    set_int(
        socket,
        libc::IPPROTO_TCP,
        libc::TCP_NOTSENT_LOWAT,
        saturate(bytes),
    )
}

/// Closing will reset the connection and drop unsent bytes (`reset_timedout_connection`, `return 444`).
pub fn set_reset_on_close(socket: impl AsFd) -> io::Result<()> {
    set_option(
        socket,
        libc::SOL_SOCKET,
        libc::SO_LINGER,
        libc::linger {
            l_onoff: 1,
            l_linger: 0,
        },
    )
}

/// TCP keep-alive probes; a part that is `None` keeps the system's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Probes {
    pub idle: Option<Duration>,
    pub interval: Option<Duration>,
    pub count: Option<u32>,
}

/// Switches TCP keep-alive on with these probes, or off.
pub fn set_keepalive(socket: impl AsFd, probes: Option<Probes>) -> io::Result<()> {
    let socket = socket.as_fd();
    set_int(
        socket,
        libc::SOL_SOCKET,
        libc::SO_KEEPALIVE,
        probes.is_some().into(),
    )?;
    let Some(probes) = probes else { return Ok(()) };
    let seconds = |time: Duration| saturate(usize::try_from(time.as_secs()).unwrap_or(usize::MAX));
    if let Some(idle) = probes.idle {
        set_int(socket, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, seconds(idle))?;
    }
    if let Some(interval) = probes.interval {
        set_int(
            socket,
            libc::IPPROTO_TCP,
            libc::TCP_KEEPINTVL,
            seconds(interval),
        )?;
    }
    if let Some(count) = probes.count {
        set_int(
            socket,
            libc::IPPROTO_TCP,
            libc::TCP_KEEPCNT,
            saturate(count as usize),
        )?;
    }
    Ok(())
}

/// What the kernel knows of a TCP connection: nginx's `$tcpinfo_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpInfo {
    /// Microseconds.
    pub rtt: u32,
    /// Microseconds.
    pub rttvar: u32,
    /// Segments.
    pub snd_cwnd: u32,
    /// Bytes.
    pub rcv_space: u32,
}

/// As [`tcp_info`], for one who knows the descriptor's number and that its owner keeps it open.
pub fn tcp_info_of(descriptor: RawFd) -> io::Result<TcpInfo> {
    // SAFETY: only asks about the socket; a descriptor that is not open, or is another one, gives an error or that one's numbers.
    tcp_info(unsafe { BorrowedFd::borrow_raw(descriptor) })
}

pub fn tcp_info(socket: impl AsFd) -> io::Result<TcpInfo> {
    let info: libc::tcp_info = option(socket, libc::IPPROTO_TCP, libc::TCP_INFO)?;
    Ok(TcpInfo {
        rtt: info.tcpi_rtt,
        rttvar: info.tcpi_rttvar,
        snd_cwnd: info.tcpi_snd_cwnd,
        rcv_space: info.tcpi_rcv_space,
    })
}

/// The error waiting on a socket, such as that of a connection attempt (`SO_ERROR`).
pub fn pending_error(socket: impl AsFd) -> io::Result<Option<io::Error>> {
    let number = get_int(socket, libc::SOL_SOCKET, libc::SO_ERROR)?;
    Ok((number != 0).then(|| io::Error::from_raw_os_error(number)))
}

/// Bytes that were written to a UNIX socket and that the other side has not read yet (the kernel's accounts, which count
/// more than the bytes alone): 0 says that it has read all.
pub fn unread_by_peer(socket: impl AsFd) -> io::Result<usize> {
    let mut count: libc::c_int = 0;
    // SAFETY: the call writes one integer, which outlives it.
    check(unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut count) })?;
    usize::try_from(count).map_err(io::Error::other)
}

/// Ends the connection in one direction or both; an error of a peer already gone is returned like any other.
pub fn shutdown(socket: impl AsFd, how: std::net::Shutdown) -> io::Result<()> {
    let how = match how {
        std::net::Shutdown::Read => libc::SHUT_RD,
        std::net::Shutdown::Write => libc::SHUT_WR,
        std::net::Shutdown::Both => libc::SHUT_RDWR,
    };
    // SAFETY: the call takes a borrowed, open descriptor and an integer.
    check(unsafe { libc::shutdown(socket.as_fd().as_raw_fd(), how) }).map(drop)
}

pub fn set_nonblocking(descriptor: impl AsFd, on: bool) -> io::Result<()> {
    let mut value = libc::c_int::from(on);
    // SAFETY: FIONBIO reads one int through the pointer, which outlives the call.
    check(unsafe {
        libc::ioctl(
            descriptor.as_fd().as_raw_fd(),
            libc::FIONBIO,
            &raw mut value,
        )
    })
    .map(drop)
}

pub(crate) fn set_int(
    socket: impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    set_option(socket, level, name, value)
}

pub(crate) fn get_int(
    socket: impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
) -> io::Result<libc::c_int> {
    option(socket, level, name)
}

fn set_option<T: Copy>(
    socket: impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    value: T,
) -> io::Result<()> {
    let descriptor = socket.as_fd().as_raw_fd();
    // SAFETY: the pointer and length describe one live value of plain data.
    check(unsafe {
        libc::setsockopt(
            descriptor,
            level,
            name,
            (&raw const value).cast(),
            length_of::<T>(),
        )
    })
    .map(drop)
}

/// Reads an option into `T`, which must be plain data: private, called with `c_int` and `tcp_info` only.
fn option<T: Copy>(socket: impl AsFd, level: libc::c_int, name: libc::c_int) -> io::Result<T> {
    // SAFETY: T is a C integer or structure of integers (see above), for which all zero is a valid value.
    let mut value: T = unsafe { std::mem::zeroed() };
    let mut length = length_of::<T>();
    let descriptor = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `length` bytes, which is the size of the value pointed to.
    check(unsafe {
        libc::getsockopt(
            descriptor,
            level,
            name,
            (&raw mut value).cast(),
            &raw mut length,
        )
    })?;
    Ok(value)
}

fn saturate(value: usize) -> libc::c_int {
    libc::c_int::try_from(value).unwrap_or(libc::c_int::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    fn pair() -> (TcpListener, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener, client)
    }

    #[test]
    fn what_the_peer_has_not_read_is_known() {
        use std::io::{Read, Write};
        let (mut ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        ours.write_all(b"12345678").unwrap();
        assert!(unread_by_peer(&ours).unwrap() >= 8);
        theirs.read_exact(&mut [0; 8]).unwrap();
        assert_eq!(unread_by_peer(&ours).unwrap(), 0);
    }

    #[test]
    fn accepting_gives_a_nonblocking_socket_and_both_addresses() {
        let (listener, mut client) = pair();
        let (server, peer) = accept(&listener).unwrap();
        assert_eq!(peer, SocketAddress::Ip(client.local_addr().unwrap()));
        assert_eq!(
            local_address(&server).unwrap(),
            SocketAddress::Ip(client.peer_addr().unwrap())
        );
        assert_eq!(peer_address(&server).unwrap(), peer);
        let mut server = TcpStream::from(server);
        assert_eq!(
            server.read(&mut [0; 1]).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
        server.write_all(b"x").unwrap();
        shutdown(&server, std::net::Shutdown::Write).unwrap();
        let mut got = Vec::new();
        client.read_to_end(&mut got).unwrap();
        assert_eq!(got, b"x");
    }

    #[test]
    fn options_are_taken() {
        let (_listener, client) = pair();
        set_no_delay(&client, true).unwrap();
        assert!(client.nodelay().unwrap());
        set_cork(&client, true).unwrap();
        set_cork(&client, false).unwrap();
        set_keepalive(
            &client,
            Some(Probes {
                idle: Some(Duration::from_secs(7)),
                ..Probes::default()
            }),
        )
        .unwrap();
        assert_eq!(
            get_int(&client, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE).unwrap(),
            7
        );
        set_send_buffer(&client, 64 << 10).unwrap();
        assert_eq!(send_buffer(&client).unwrap(), 128 << 10);
        assert!(tcp_info(&client).unwrap().snd_cwnd > 0);
        assert!(pending_error(&client).unwrap().is_none());
    }

    #[test]
    fn a_reset_reaches_the_peer() {
        let (listener, mut client) = pair();
        let (server, _) = accept(&listener).unwrap();
        set_reset_on_close(&server).unwrap();
        drop(server);
        assert_eq!(
            client.read(&mut [0; 1]).unwrap_err().kind(),
            io::ErrorKind::ConnectionReset
        );
    }
}
