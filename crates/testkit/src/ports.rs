//! Free TCP ports. A lease holds an abstract UNIX socket named after the port, so that no other test, in this process
//! or another, is given the same one, and a killed test leaves nothing behind.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the range from which the kernel picks ports of outgoing connections; five digits, so that a port in a body
/// leaves the length as it is.
const FIRST: u16 = 20_000;
const LAST: u16 = 31_999;

/// A port that is ours as long as this lives.
pub struct Lease {
    pub port: u16,
    _mark: UnixListener,
}

/// Leases a port that nobody listens on.
pub fn lease() -> Lease {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let span = LAST - FIRST + 1;
    // Processes begin at different places, so that they seldom try the same port.
    let offset = (std::process::id() % u32::from(span)) as u16;
    for _ in 0..span {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + offset.wrapping_add(step) % span;
        if let Some(mark) = mark(port)
            && TcpListener::bind(("0.0.0.0", port)).is_ok()
        {
            return Lease { port, _mark: mark };
        }
    }
    panic!("no free port between {FIRST} and {LAST}");
}

fn mark(port: u16) -> Option<UnixListener> {
    let name = SocketAddr::from_abstract_name(format!("gannet-test-port-{port}")).ok()?;
    UnixListener::bind_addr(&name).ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn leases_differ_while_they_live() {
        let leases: Vec<_> = (0..50).map(|_| super::lease()).collect();
        let mut ports: Vec<u16> = leases.iter().map(|lease| lease.port).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 50);
        assert!(super::mark(ports[0]).is_none());
    }
}
