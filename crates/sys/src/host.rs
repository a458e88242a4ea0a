//! The addresses of a host name, as the machine's own means (/etc/hosts, the system's name servers) tell them.

use std::ffi::CString;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr;

/// The addresses of `host`, those of IPv4 first; only of families that the machine has addresses of. Blocks.
pub fn addresses(host: &str) -> io::Result<Vec<IpAddr>> {
    let host = CString::new(host).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: addrinfo is integers and pointers; all zero is a valid value that asks for nothing.
    let mut hints: libc::addrinfo = unsafe { std::mem::zeroed() };
    hints.ai_socktype = libc::SOCK_STREAM;
    hints.ai_flags = libc::AI_ADDRCONFIG;
    let mut list = ptr::null_mut();
    // SAFETY: the name ends with a zero byte, no service is asked for, and all pointers outlive the call.
    let status =
        unsafe { libc::getaddrinfo(host.as_ptr(), ptr::null(), &raw const hints, &raw mut list) };
    if status != 0 {
        return Err(io::ErrorKind::NotFound.into());
    }
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    let mut next = list;
    while !next.is_null() {
        // SAFETY: getaddrinfo gave a chain of entries that end with a null pointer; they live until freeaddrinfo.
        let entry = unsafe { &*next };
        match entry.ai_family {
            libc::AF_INET => {
                // SAFETY: an entry of this family points to a sockaddr_in; it is copied whatever its alignment.
                let name: libc::sockaddr_in = unsafe { ptr::read_unaligned(entry.ai_addr.cast()) };
                v4.push(Ipv4Addr::from(name.sin_addr.s_addr.to_ne_bytes()).into());
            }
            libc::AF_INET6 => {
                // SAFETY: an entry of this family points to a sockaddr_in6; it is copied whatever its alignment.
                let name: libc::sockaddr_in6 = unsafe { ptr::read_unaligned(entry.ai_addr.cast()) };
                v6.push(IpAddr::from(Ipv6Addr::from(name.sin6_addr.s6_addr)));
            }
            _ => {}
        }
        next = entry.ai_next;
    }
    // SAFETY: the list came from getaddrinfo, is freed once, and nothing points into it any more.
    unsafe { libc::freeaddrinfo(list) };
    v4.append(&mut v6);
    match v4.is_empty() {
        true => Err(io::ErrorKind::NotFound.into()),
        false => Ok(v4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_or_not() {
        let local = addresses("localhost").expect("every machine knows itself");
        assert!(local.iter().all(IpAddr::is_loopback), "{local:?}");
        assert!(addresses("no such host").is_err() && addresses("a\0b").is_err());
    }
}
