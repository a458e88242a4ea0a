//! Opening sockets that listen. The process layer opens them all, before the pid file is written; nothing else does.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::address::{Raw, SocketAddress};
use crate::errno::{Errno, check};
use crate::socket::{self, Probes, get_int, set_int};
use crate::user::{Gid, Uid};

/// nginx's backlog on Linux.
pub const DEFAULT_BACKLOG: u32 = 511;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// TCP or a UNIX stream.
    Stream,
    /// UDP, for QUIC.
    Datagram,
}

/// `so_keepalive=`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Keepalive {
    #[default]
    System,
    Off,
    On(Probes),
}

/// The parameters of nginx's `listen` that belong to the socket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ListenOptions {
    pub kind: Kind,
    pub backlog: u32,
    pub reuse_port: bool,
    /// For IPv6 only; a UNIX or IPv4 socket ignores it.
    pub ipv6_only: bool,
    /// Wake up only when the client has sent something.
    pub deferred_accept: bool,
    pub keepalive: Keepalive,
    pub receive_buffer: Option<usize>,
    pub send_buffer: Option<usize>,
    /// The queue of TCP Fast Open.
    pub fast_open: Option<u32>,
    pub multipath: bool,
    /// For a UNIX address; nginx's: whoever opened it owns it, and all may connect.
    pub file: Option<SocketFile>,
}

/// Whose a socket's file is, and what is left of a former one at its place goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SocketFile {
    pub mode: u32,
    pub owner: Option<Uid>,
    pub group: Option<Gid>,
}

impl Default for ListenOptions {
    fn default() -> Self {
        ListenOptions {
            kind: Kind::Stream,
            backlog: DEFAULT_BACKLOG,
            reuse_port: false,
            ipv6_only: true,
            deferred_accept: false,
            keepalive: Keepalive::System,
            receive_buffer: None,
            send_buffer: None,
            fast_open: None,
            multipath: false,
            file: None,
        }
    }
}

/// Which call failed at which address. It prints as nginx logs it: `bind() to 0.0.0.0:80 failed (98: Address already in
/// use)`.
#[derive(Debug)]
pub struct ListenError {
    pub call: &'static str,
    pub address: SocketAddress,
    pub source: io::Error,
}

impl fmt::Display for ListenError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let to = if matches!(self.call, "bind()" | "listen()") {
            "to "
        } else {
            ""
        };
        write!(
            out,
            "{} {to}{} failed ({})",
            self.call,
            self.address,
            Errno(&self.source)
        )
    }
}

impl std::error::Error for ListenError {}

/// Opens, binds and (for streams) listens; the socket is non-blocking and closed on exec. The socket file of a UNIX
/// address becomes writable for all, as in nginx; the caller removes it.
pub fn listen(address: &SocketAddress, options: &ListenOptions) -> Result<OwnedFd, ListenError> {
    let bound = bind(address, options)?;
    configure(&bound, address, options)?;
    Ok(bound)
}

fn bind(address: &SocketAddress, options: &ListenOptions) -> Result<OwnedFd, ListenError> {
    let failed = |call| {
        move |source| ListenError {
            call,
            address: address.clone(),
            source,
        }
    };
    let raw = Raw::from_address(address).map_err(failed("bind()"))?;
    let kind = match options.kind {
        Kind::Stream => libc::SOCK_STREAM,
        Kind::Datagram => libc::SOCK_DGRAM,
    };
    let protocol = if options.multipath && options.kind == Kind::Stream {
        libc::IPPROTO_MPTCP
    } else {
        0
    };
    // SAFETY: the call takes integers only.
    let result = unsafe {
        libc::socket(
            raw.family(),
            kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC,
            protocol,
        )
    };
    let descriptor = check(result).map_err(failed("socket()"))?;
    // SAFETY: the kernel just returned this descriptor and nothing else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
    if !address.is_unix() {
        // On UDP, SO_REUSEADDR would let two servers share a port without a word.
        if options.kind == Kind::Stream {
            set_int(&socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)
                .map_err(failed("setsockopt(SO_REUSEADDR)"))?;
        }
        if options.reuse_port {
            set_reuse_port(&socket).map_err(failed("setsockopt(SO_REUSEPORT)"))?;
        }
        if raw.family() == libc::AF_INET6 {
            set_int(
                &socket,
                libc::IPPROTO_IPV6,
                libc::IPV6_V6ONLY,
                options.ipv6_only.into(),
            )
            .map_err(failed("setsockopt(IPV6_V6ONLY)"))?;
        }
    }
    if options.file.is_some() {
        remove_stale(address);
    }
    // SAFETY: the pointer and length describe a live socket address.
    check(unsafe { libc::bind(socket.as_raw_fd(), raw.pointer(), raw.length) })
        .map_err(failed("bind()"))?;
    if let (Some(path), None) = (address.socket_file(), options.file) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))
            .map_err(failed("chmod()"))?;
    }
    Ok(socket)
}

/// The file of a socket that nobody listens at any more is in the way.
fn remove_stale(address: &SocketAddress) {
    let Some(path) = address.socket_file() else {
        return;
    };
    let is_stale = std::os::unix::net::UnixStream::connect(path)
        .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if is_stale {
        // What stays in the way is told by bind().
        let _in_the_way = std::fs::remove_file(path);
    }
}

fn own(path: &std::path::Path, file: SocketFile) -> io::Result<()> {
    let (owner, group) = (
        file.owner.map(|owner| owner.0),
        file.group.map(|group| group.0),
    );
    if owner.is_some() || group.is_some() {
        std::os::unix::fs::chown(path, owner, group)?;
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(file.mode))
}

/// Sets the options that may change while the socket listens, and (again) its backlog: for fresh sockets, and at a reload
/// or an upgrade for those already open.
pub fn configure(
    socket: impl AsFd,
    address: &SocketAddress,
    options: &ListenOptions,
) -> Result<(), ListenError> {
    let socket = socket.as_fd();
    let failed = |call| {
        move |source| ListenError {
            call,
            address: address.clone(),
            source,
        }
    };
    if let (Some(path), Some(file)) = (address.socket_file(), options.file) {
        own(path, file).map_err(failed("chown()"))?;
    }
    if let Some(bytes) = options.receive_buffer {
        socket::set_receive_buffer(socket, bytes).map_err(failed("setsockopt(SO_RCVBUF)"))?;
    }
    if let Some(bytes) = options.send_buffer {
        socket::set_send_buffer(socket, bytes).map_err(failed("setsockopt(SO_SNDBUF)"))?;
    }
    let tcp = !address.is_unix() && options.kind == Kind::Stream;
    if tcp {
        match options.keepalive {
            Keepalive::System => Ok(()),
            Keepalive::Off => socket::set_keepalive(socket, None),
            Keepalive::On(probes) => socket::set_keepalive(socket, Some(probes)),
        }
        .map_err(failed("setsockopt(SO_KEEPALIVE)"))?;
        if let Some(queue) = options.fast_open {
            set_int(
                socket,
                libc::IPPROTO_TCP,
                libc::TCP_FASTOPEN,
                saturate(queue),
            )
            .map_err(failed("setsockopt(TCP_FASTOPEN)"))?;
        }
    }
    if options.kind == Kind::Stream {
        // SAFETY: the call takes a borrowed, open descriptor and an integer.
        check(unsafe { libc::listen(socket.as_raw_fd(), saturate(options.backlog)) })
            .map_err(failed("listen()"))?;
    }
    if tcp {
        let deferred = libc::c_int::from(options.deferred_accept);
        if deferred != 0
            || get_int(socket, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT).unwrap_or(0) != 0
        {
            set_int(socket, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, deferred)
                .map_err(failed("setsockopt(TCP_DEFER_ACCEPT)"))?;
        }
    }
    Ok(())
}

/// Lets further sockets of this user listen at the same address. Binding the first one without it, and calling this
/// after, keeps the error that a second server started by mistake must get.
pub fn set_reuse_port(socket: impl AsFd) -> io::Result<()> {
    set_int(socket, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)
}

/// Takes the listening sockets that the parent left open over exec, by their numbers. The second call gives none: each
/// socket has one owner. Call it before this process opens a listening socket of its own; numbers of anything else are
/// answered with an error, and left alone.
pub fn adopt(numbers: &[i32]) -> Vec<io::Result<OwnedFd>> {
    static ADOPTED: AtomicBool = AtomicBool::new(false);
    if ADOPTED.swap(true, Ordering::SeqCst) {
        return Vec::new();
    }
    let mut taken = HashSet::new();
    let adopt_one = |&number: &i32| {
        if number <= libc::STDERR_FILENO || !taken.insert(number) {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        // SAFETY: borrowed for two calls that fail on a number that is not open; nothing is closed meanwhile.
        let socket = unsafe { BorrowedFd::borrow_raw(number) };
        kind_of(socket)?;
        crate::file::set_close_on_exec(socket, true)?;
        crate::socket::set_nonblocking(socket, true)?;
        // SAFETY: it is a listening socket; this process has opened none yet, so it came over exec and has no owner. It is
        // taken once (the set and the flag above).
        Ok(unsafe { OwnedFd::from_raw_fd(number) })
    };
    numbers.iter().map(adopt_one).collect()
}

/// The kind of a socket that listens (streams) or is bound (datagrams); an error for any other descriptor.
pub fn kind_of(socket: impl AsFd) -> io::Result<Kind> {
    let socket = socket.as_fd();
    if get_int(socket, libc::SOL_SOCKET, libc::SO_TYPE)? == libc::SOCK_DGRAM {
        return Ok(Kind::Datagram);
    }
    match get_int(socket, libc::SOL_SOCKET, libc::SO_ACCEPTCONN)? {
        0 => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        _ => Ok(Kind::Stream),
    }
}

fn saturate(value: u32) -> libc::c_int {
    libc::c_int::try_from(value).unwrap_or(libc::c_int::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    fn any() -> SocketAddress {
        SocketAddress::Ip("127.0.0.1:0".parse().unwrap())
    }

    #[test]
    fn sockets_share_an_address_only_when_told_to() {
        let first = listen(&any(), &ListenOptions::default()).unwrap();
        let address = socket::local_address(&first).unwrap();
        let refused = listen(
            &address,
            &ListenOptions {
                reuse_port: true,
                ..ListenOptions::default()
            },
        )
        .unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!("bind() to {address} failed (98: Address already in use)")
        );
        set_reuse_port(&first).unwrap();
        let second = listen(
            &address,
            &ListenOptions {
                reuse_port: true,
                ..ListenOptions::default()
            },
        )
        .unwrap();
        assert!(listen(&address, &ListenOptions::default()).is_err());
        // Connections now reach both.
        let SocketAddress::Ip(ip) = address else {
            unreachable!()
        };
        let clients: Vec<TcpStream> = (0..64).map(|_| TcpStream::connect(ip).unwrap()).collect();
        for listener in [&first, &second] {
            assert!(socket::accept(listener).is_ok());
        }
        drop(clients);
    }

    #[test]
    fn every_option_is_accepted_by_the_kernel() {
        let options = ListenOptions {
            backlog: 16,
            deferred_accept: true,
            keepalive: Keepalive::On(Probes::default()),
            receive_buffer: Some(32 << 10),
            send_buffer: Some(32 << 10),
            fast_open: Some(8),
            ..ListenOptions::default()
        };
        let socket = listen(&any(), &options).unwrap();
        assert!(get_int(&socket, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT).unwrap() > 0);
        assert_eq!(kind_of(&socket).unwrap(), Kind::Stream);
        configure(&socket, &any(), &ListenOptions::default()).unwrap();
        assert_eq!(
            get_int(&socket, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT).unwrap(),
            0
        );
        let datagram = listen(
            &any(),
            &ListenOptions {
                kind: Kind::Datagram,
                ..ListenOptions::default()
            },
        )
        .unwrap();
        assert_eq!(kind_of(&datagram).unwrap(), Kind::Datagram);
    }

    #[test]
    fn a_unix_socket_is_open_to_all_and_its_file_must_be_new() {
        let path = std::env::temp_dir().join(format!("gannet-sys-{}.sock", std::process::id()));
        let address = SocketAddress::Unix(path.clone());
        let socket = listen(&address, &ListenOptions::default()).unwrap();
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o666
        );
        assert_eq!(socket::local_address(&socket).unwrap(), address);
        assert_eq!(
            listen(&address, &ListenOptions::default())
                .unwrap_err()
                .call,
            "bind()"
        );
        std::fs::remove_file(path).unwrap();
    }
}
