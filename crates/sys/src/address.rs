//! Socket addresses, TCP and UNIX, and their form in memory (`struct sockaddr`).

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::errno::length_of;

/// Where a socket listens or its peer sits. It prints as nginx writes it: `127.0.0.1:80`, `[::1]:80`, `unix:/path`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SocketAddress {
    Ip(SocketAddr),
    /// A path; empty when the socket has no name; an abstract name keeps its leading zero byte.
    Unix(PathBuf),
}

impl SocketAddress {
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            SocketAddress::Ip(address) => Some(address.ip()),
            SocketAddress::Unix(_) => None,
        }
    }

    /// The port; 0 for a UNIX socket.
    pub fn port(&self) -> u16 {
        match self {
            SocketAddress::Ip(address) => address.port(),
            SocketAddress::Unix(_) => 0,
        }
    }

    /// The file that a listening UNIX socket leaves behind; `None` for an abstract or unnamed one.
    pub fn socket_file(&self) -> Option<&Path> {
        match self {
            SocketAddress::Unix(path) => match path.as_os_str().as_bytes().first() {
                None | Some(0) => None,
                Some(_) => Some(path),
            },
            SocketAddress::Ip(_) => None,
        }
    }

    pub fn is_unix(&self) -> bool {
        matches!(self, SocketAddress::Unix(_))
    }
}

impl fmt::Display for SocketAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SocketAddress::Ip(address) => write!(out, "{address}"),
            SocketAddress::Unix(path) => write!(out, "unix:{}", path.display()),
        }
    }
}

impl From<SocketAddr> for SocketAddress {
    fn from(address: SocketAddr) -> Self {
        SocketAddress::Ip(address)
    }
}

/// An address as the kernel reads and writes it.
pub(crate) struct Raw {
    pub storage: libc::sockaddr_storage,
    pub length: libc::socklen_t,
}

impl Raw {
    /// Room for any address, to be filled by the kernel.
    pub fn empty() -> Raw {
        // SAFETY: sockaddr_storage is plain integers and arrays of them; all zero is a valid value (family AF_UNSPEC).
        let storage = unsafe { std::mem::zeroed() };
        Raw {
            storage,
            length: length_of::<libc::sockaddr_storage>(),
        }
    }

    pub fn pointer(&self) -> *const libc::sockaddr {
        (&raw const self.storage).cast()
    }

    pub fn pointer_mut(&mut self) -> *mut libc::sockaddr {
        (&raw mut self.storage).cast()
    }

    pub fn family(&self) -> libc::c_int {
        libc::c_int::from(self.storage.ss_family)
    }

    /// Fails only for a UNIX path that the kernel has no room for (108 bytes).
    pub fn from_address(address: &SocketAddress) -> io::Result<Raw> {
        let mut raw = Raw::empty();
        match address {
            SocketAddress::Ip(SocketAddr::V4(v4)) => raw.store(libc::sockaddr_in {
                sin_family: family_of(libc::AF_INET),
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from_ne_bytes(v4.ip().octets()),
                },
                sin_zero: [0; 8],
            }),
            SocketAddress::Ip(SocketAddr::V6(v6)) => raw.store(libc::sockaddr_in6 {
                sin6_family: family_of(libc::AF_INET6),
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr {
                    s6_addr: v6.ip().octets(),
                },
                sin6_scope_id: v6.scope_id(),
            }),
            SocketAddress::Unix(path) => raw.store_path(path.as_os_str().as_bytes())?,
        }
        Ok(raw)
    }

    fn store<T: Copy>(&mut self, value: T) {
        const { assert!(size_of::<T>() <= size_of::<libc::sockaddr_storage>()) };
        // SAFETY: sockaddr_storage is large enough (checked above) and aligned for every kind of socket address.
        unsafe { (&raw mut self.storage).cast::<T>().write(value) };
        self.length = length_of::<T>();
    }

    fn store_path(&mut self, path: &[u8]) -> io::Result<()> {
        let mut name = libc::sockaddr_un {
            sun_family: family_of(libc::AF_UNIX),
            sun_path: [0; 108],
        };
        if path.len() >= name.sun_path.len() {
            return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
        }
        for (to, from) in name.sun_path.iter_mut().zip(path) {
            *to = libc::c_char::from_ne_bytes([*from]);
        }
        self.store(name);
        // A path ends with a zero byte that the kernel wants counted; an abstract name ends where the length says.
        let end = usize::from(path.first().is_some_and(|&byte| byte != 0));
        let length = std::mem::offset_of!(libc::sockaddr_un, sun_path) + path.len() + end;
        self.length = libc::socklen_t::try_from(length).expect("at most 110 bytes");
        Ok(())
    }

    /// None for a family that is neither IP nor UNIX.
    pub fn to_address(&self) -> Option<SocketAddress> {
        match self.family() {
            libc::AF_INET => {
                let v4: libc::sockaddr_in = self.load();
                let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddress::Ip((ip, u16::from_be(v4.sin_port)).into()))
            }
            libc::AF_INET6 => {
                let v6: libc::sockaddr_in6 = self.load();
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let port = u16::from_be(v6.sin6_port);
                Some(SocketAddress::Ip(
                    SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into(),
                ))
            }
            libc::AF_UNIX => Some(SocketAddress::Unix(self.load_path())),
            // The kernel leaves the storage untouched for a peer without a name.
            libc::AF_UNSPEC => Some(SocketAddress::Unix(PathBuf::new())),
            _ => None,
        }
    }

    fn load<T: Copy>(&self) -> T {
        const { assert!(size_of::<T>() <= size_of::<libc::sockaddr_storage>()) };
        // SAFETY: the storage is larger than T (checked above), aligned for it, wholly initialised, and the socket
        // address types have no invalid bit patterns.
        unsafe { (&raw const self.storage).cast::<T>().read() }
    }

    fn load_path(&self) -> PathBuf {
        let name: libc::sockaddr_un = self.load();
        let start = std::mem::offset_of!(libc::sockaddr_un, sun_path);
        let length = (self.length as usize)
            .saturating_sub(start)
            .min(name.sun_path.len());
        let mut bytes: Vec<u8> = name.sun_path[..length]
            .iter()
            .map(|byte| u8::from_ne_bytes(byte.to_ne_bytes()))
            .collect();
        if bytes.first() != Some(&0) {
            bytes.truncate(
                bytes
                    .iter()
                    .position(|&byte| byte == 0)
                    .unwrap_or(bytes.len()),
            );
        }
        PathBuf::from(OsStr::from_bytes(&bytes))
    }
}

fn family_of(family: libc::c_int) -> libc::sa_family_t {
    libc::sa_family_t::try_from(family).expect("address families are small numbers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_kernel_form() {
        let mut all: Vec<SocketAddress> =
            ["127.0.0.1:80", "[::1]:8080", "[fe80::1%3]:443", "0.0.0.0:0"]
                .iter()
                .map(|text| SocketAddress::Ip(text.parse().unwrap()))
                .collect();
        all.extend(["/tmp/a.sock", "", "\0abstract"].map(|path| SocketAddress::Unix(path.into())));
        for address in all {
            assert_eq!(
                Raw::from_address(&address).unwrap().to_address().unwrap(),
                address
            );
        }
    }

    #[test]
    fn a_path_too_long_for_the_kernel_is_refused() {
        for (length, fits) in [(107, true), (108, false), (5000, false)] {
            let address = SocketAddress::Unix("x".repeat(length).into());
            assert_eq!(Raw::from_address(&address).is_ok(), fits, "{length}");
        }
    }

    #[test]
    fn addresses_print_as_in_nginx() {
        assert_eq!(
            SocketAddress::Ip("[::]:80".parse().unwrap()).to_string(),
            "[::]:80"
        );
        assert_eq!(
            SocketAddress::Unix("/run/a.sock".into()).to_string(),
            "unix:/run/a.sock"
        );
    }
}
