//! How many bytes wait to be read at the other end of a connection on this machine, asked of the kernel over netlink
//! (`sock_diag`): a look at one connection, however many there are, where /proc/net/tcp is a walk over all.

use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::net::{IpAddr, SocketAddr};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const AF_INET: u8 = 2;
const IPPROTO_TCP: u8 = 6;

const HEAD: usize = 16;
const REQUEST: usize = HEAD + 56;
/// Where the answer holds the connection's state and its receive queue.
const STATE: usize = HEAD + 1;
const QUEUE: usize = HEAD + 4 + 48 + 4;

const ESTABLISHED: u8 = 1;
const CLOSE_WAIT: u8 = 8;

/// The bytes that wait at `local` for the connection from `remote`; None when it is not open there.
pub fn received_unread(local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(SOCK_DIAG),
    )
    .ok()?;
    let question = question(local, remote)?;
    let kernel = SocketAddrNetlink::new(0, 0);
    rustix::net::sendto(&socket, &question, SendFlags::empty(), &kernel).ok()?;
    let mut answer = [0; 1024];
    let (length, _) = rustix::net::recv(&socket, &mut answer, RecvFlags::empty()).ok()?;
    let answer = &answer[..length];
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let state = *answer.get(STATE)?;
    if kind != SOCK_DIAG_BY_FAMILY || !matches!(state, ESTABLISHED | CLOSE_WAIT) {
        return None;
    }
    let queue = answer.get(QUEUE..QUEUE + 4)?;
    Some(u32::from_ne_bytes(queue.try_into().ok()?))
}

/// A message head and an `inet_diag_req_v2` that names one connection.
fn question(local: SocketAddr, remote: SocketAddr) -> Option<[u8; REQUEST]> {
    let (IpAddr::V4(local_ip), IpAddr::V4(remote_ip)) = (local.ip(), remote.ip()) else {
        return None;
    };
    let mut message = [0; REQUEST];
    message[0..4].copy_from_slice(&(REQUEST as u32).to_ne_bytes());
    message[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message[6..8].copy_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    let body = &mut message[HEAD..];
    body[0] = AF_INET;
    body[1] = IPPROTO_TCP;
    // Any state.
    body[4..8].fill(0xff);
    body[8..10].copy_from_slice(&local.port().to_be_bytes());
    body[10..12].copy_from_slice(&remote.port().to_be_bytes());
    body[12..16].copy_from_slice(&local_ip.octets());
    body[28..32].copy_from_slice(&remote_ip.octets());
    // No cookie is known.
    body[48..56].fill(0xff);
    Some(message)
}

#[cfg(test)]
mod tests {
    use super::received_unread;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_queue_is_what_was_not_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (there, here) = (client.peer_addr().unwrap(), client.local_addr().unwrap());
        assert_eq!(received_unread(there, here), Some(0));
        client.write_all(b"hello").unwrap();
        assert_eq!(received_unread(there, here), Some(5));
        let (mut accepted, _) = listener.accept().unwrap();
        accepted.read_exact(&mut [0; 3]).unwrap();
        assert_eq!(received_unread(there, here), Some(2));
        accepted.read_exact(&mut [0; 2]).unwrap();
        assert_eq!(received_unread(there, here), Some(0));
        drop(accepted);
        assert_eq!(received_unread(there, here), None);
    }
}
