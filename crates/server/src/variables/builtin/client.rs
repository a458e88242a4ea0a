//! Variables of the client and its connection: addresses, ports, counters, what TCP knows.

use super::{Fixed, Prefixed, append, append_number, append_seconds};
use crate::access::{browser, referer, secure_link};
use crate::filter::userid;
use crate::http::{Request, counters, thread};
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use sys::address::SocketAddress;
use sys::socket::TcpInfo;
use wire::http1::Known;
use wire::proxy_protocol::Header;

pub const FIXED: &[Fixed] = &[
    ("remote_addr", remote_addr),
    ("remote_port", |request, out| {
        append_port(request.remote(), out)
    }),
    ("binary_remote_addr", binary_remote_addr),
    ("realip_remote_addr", |request, out| {
        append_address(&request.connection.remote, out)
    }),
    ("realip_remote_port", |request, out| {
        append_port(&request.connection.remote, out)
    }),
    ("modern_browser", browser::append_modern),
    ("ancient_browser", browser::append_ancient),
    ("msie", browser::append_msie),
    ("invalid_referer", referer::append_invalid),
    ("secure_link", secure_link::append),
    ("secure_link_expires", secure_link::append_expires),
    ("server_addr", |request, out| {
        append_address(request.connection.local_address(), out)
    }),
    ("server_port", |request, out| {
        append_port(&request.connection.local, out)
    }),
    ("proxy_protocol_addr", |request, out| {
        append_told(request, out, |told| &told.address)
    }),
    ("proxy_protocol_port", |request, out| {
        append_told_port(request, out, |told| told.port)
    }),
    ("proxy_protocol_server_addr", |request, out| {
        append_told(request, out, |told| &told.server_address)
    }),
    ("proxy_protocol_server_port", |request, out| {
        append_told_port(request, out, |told| told.server_port)
    }),
    ("uid_got", userid::append_got),
    ("uid_set", userid::append_set),
    ("uid_reset", |_, _| true),
    ("scheme", |request, out| {
        let scheme: &[u8] = match request.connection.is_tls() {
            true => b"https",
            false => b"http",
        };
        append(Some(scheme), out)
    }),
    ("https", |request, out| {
        let on: &[u8] = if request.connection.is_tls() {
            b"on"
        } else {
            b""
        };
        append(Some(on), out)
    }),
    ("connection", |request, out| {
        append_number(request.connection.number, out)
    }),
    ("connection_requests", |request, out| {
        let number = match &request.stream {
            Some(stream) => stream.number(),
            None => request.connection.requests.get(),
        };
        append_number(number, out)
    }),
    // Empty for HTTP/1.
    ("http2", |request, out| {
        let name = request.stream.as_ref();
        let name = name.map_or("", |stream| stream.name(request.connection.is_tls()));
        out.extend_from_slice(name.as_bytes());
        true
    }),
    ("connection_time", |request, out| {
        let now = thread::monotonic_ms();
        append_seconds(now.saturating_sub(request.connection.started_ms), out)
    }),
    ("proxy_add_x_forwarded_for", proxy_add_x_forwarded_for),
    ("tcpinfo_rtt", |request, out| {
        append_tcp_info(request, out, |info| info.rtt)
    }),
    ("tcpinfo_rttvar", |request, out| {
        append_tcp_info(request, out, |info| info.rttvar)
    }),
    ("tcpinfo_snd_cwnd", |request, out| {
        append_tcp_info(request, out, |info| info.snd_cwnd)
    }),
    ("tcpinfo_rcv_space", |request, out| {
        append_tcp_info(request, out, |info| info.rcv_space)
    }),
    ("connections_active", |_, out| {
        append_number(counters::totals().active, out)
    }),
    ("connections_reading", |_, out| {
        append_number(counters::totals().reading, out)
    }),
    ("connections_writing", |_, out| {
        append_number(counters::totals().writing, out)
    }),
    ("connections_waiting", |_, out| {
        append_number(counters::totals().waiting(), out)
    }),
];

pub const PREFIXED: &[Prefixed] = &[("proxy_protocol_tlv_", |request, name, out| {
    let told = request.connection.proxied.get();
    append(told.and_then(|told| told.tlv(name)).as_deref(), out)
})];

/// An address that a proxy told by the PROXY protocol.
fn append_told(request: &Request, out: &mut Vec<u8>, part: fn(&Header) -> &str) -> bool {
    let told = request.connection.proxied.get();
    append(told.map(|told| part(told).as_bytes()), out)
}

/// A port that a proxy told; as in nginx 0 is empty.
fn append_told_port(request: &Request, out: &mut Vec<u8>, part: fn(&Header) -> u16) -> bool {
    match request.connection.proxied.get().map(|told| part(told)) {
        Some(0) => true,
        Some(port) => append_number(u64::from(port), out),
        None => false,
    }
}

fn remote_addr(request: &Request, out: &mut Vec<u8>) -> bool {
    append_address(request.remote(), out)
}

/// An address as nginx writes it: without the port, and `unix:` with the path of a UNIX socket.
fn append_address(address: &SocketAddress, out: &mut Vec<u8>) -> bool {
    match address {
        SocketAddress::Ip(address) => append_ip(address.ip(), out),
        SocketAddress::Unix(path) => {
            out.extend_from_slice(b"unix:");
            out.extend_from_slice(path.as_os_str().as_bytes());
        }
    }
    true
}

fn append_ip(ip: IpAddr, out: &mut Vec<u8>) {
    match ip {
        IpAddr::V4(ip) => {
            for (index, octet) in ip.octets().into_iter().enumerate() {
                if index > 0 {
                    out.push(b'.');
                }
                append_number(u64::from(octet), out);
            }
        }
        // Writing to memory does not fail.
        IpAddr::V6(ip) => drop(write!(out, "{ip}")),
    }
}

/// A port; a UNIX socket's is empty.
fn append_port(address: &SocketAddress, out: &mut Vec<u8>) -> bool {
    match address.port() {
        0 => true,
        port => append_number(u64::from(port), out),
    }
}

fn binary_remote_addr(request: &Request, out: &mut Vec<u8>) -> bool {
    match request.remote().ip() {
        Some(IpAddr::V4(ip)) => append(Some(&ip.octets()), out),
        Some(IpAddr::V6(ip)) => append(Some(&ip.octets()), out),
        None => remote_addr(request, out),
    }
}

fn proxy_add_x_forwarded_for(request: &Request, out: &mut Vec<u8>) -> bool {
    if super::received::append_known(request, Known::XForwardedFor, b", ", out) {
        out.extend_from_slice(b", ");
    }
    remote_addr(request, out)
}

fn append_tcp_info(request: &Request, out: &mut Vec<u8>, part: fn(&TcpInfo) -> u32) -> bool {
    match sys::socket::tcp_info(&request.connection.stream) {
        Ok(info) => append_number(u64::from(part(&info)), out),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_no_port() {
        for (address, text, port) in [
            (
                SocketAddress::Ip("127.0.0.1:80".parse().expect("an address")),
                "127.0.0.1",
                "80",
            ),
            (
                SocketAddress::Ip("[::1]:8080".parse().expect("an address")),
                "::1",
                "8080",
            ),
            (SocketAddress::Unix("/run/a".into()), "unix:/run/a", ""),
            (SocketAddress::Unix("".into()), "unix:", ""),
        ] {
            let (mut written, mut written_port) = (Vec::new(), Vec::new());
            assert!(append_address(&address, &mut written));
            assert!(append_port(&address, &mut written_port));
            assert_eq!(written, text.as_bytes());
            assert_eq!(written_port, port.as_bytes());
        }
    }
}
