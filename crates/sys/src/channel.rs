//! Packets with file descriptors between two related processes, over a pair of UNIX sockets that keep the bounds of a
//! packet.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::errno::{check, check_size, retry};

/// The most descriptors the kernel carries in one packet.
pub const MAX_DESCRIPTORS: usize = 253;

/// Room for one control message with the most descriptors: `CMSG_SPACE(253 * 4)` is below this on every platform.
const CONTROL_BYTES: usize = 1088;

#[repr(align(8))]
struct Control([u8; CONTROL_BYTES]);

/// Two connected ends, both non-blocking and closed on exec.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: the call writes two descriptors into an array of two.
    check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) })?;
    // SAFETY: the kernel just returned both descriptors and nothing else owns them.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

/// Sends one packet whole, or nothing: `WouldBlock` when the peer is behind with reading. The bytes must not be empty.
pub fn send(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    if bytes.is_empty() || descriptors.len() > MAX_DESCRIPTORS {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let mut slice = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let mut control = Control([0; CONTROL_BYTES]);
    let mut message = empty_message();
    message.msg_iov = &raw mut slice;
    message.msg_iovlen = 1;
    if !descriptors.is_empty() {
        let payload = u32::try_from(size_of_val(descriptors)).expect("at most 253 descriptors");
        message.msg_control = control.0.as_mut_ptr().cast();
        // SAFETY: CMSG_SPACE, CMSG_LEN, CMSG_FIRSTHDR and CMSG_DATA compute within the control buffer, which has room for
        // the 253 descriptors allowed above; BorrowedFd is a transparent c_int.
        unsafe {
            message.msg_controllen = libc::CMSG_SPACE(payload) as _;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(payload) as _;
            let data = libc::CMSG_DATA(header).cast::<libc::c_int>();
            for (index, descriptor) in descriptors.iter().enumerate() {
                data.add(index).write_unaligned(descriptor.as_raw_fd());
            }
        }
    }
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: the message points to one live slice and one live control buffer, which the kernel only reads.
    retry(|| check_size(unsafe { libc::sendmsg(socket, &raw const message, libc::MSG_NOSIGNAL) }))
        .map(drop)
}

/// Receives one packet; 0 bytes mean that the peer has closed. A packet larger than the buffer, or descriptors that this
/// process has no room for, are an error: half a packet is of no use.
pub fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut slice = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let mut control = Control([0; CONTROL_BYTES]);
    let mut message = empty_message();
    message.msg_iov = &raw mut slice;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = CONTROL_BYTES as _;
    let socket = socket.as_fd().as_raw_fd();
    let count = retry(|| {
        // SAFETY: the message points to one live, writable slice and control buffer of the lengths stated.
        check_size(unsafe { libc::recvmsg(socket, &raw mut message, libc::MSG_CMSG_CLOEXEC) })
    })?;
    let descriptors = take_descriptors(&message);
    if message.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0 {
        return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
    }
    Ok((count, descriptors))
}

/// Takes ownership of the descriptors in a received message. Private: the message must just have come from `recvmsg`,
/// and must be passed here once.
fn take_descriptors(message: &libc::msghdr) -> Vec<OwnedFd> {
    let mut taken = Vec::new();
    // SAFETY: recvmsg filled the control buffer, so its headers are valid and their lengths lie within it; each descriptor
    // in an SCM_RIGHTS payload is new to this process and owned by nobody else.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                let bytes =
                    ((*header).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
                let data = libc::CMSG_DATA(header).cast::<libc::c_int>();
                for index in 0..bytes / size_of::<libc::c_int>() {
                    taken.push(OwnedFd::from_raw_fd(data.add(index).read_unaligned()));
                }
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    taken
}

fn empty_message() -> libc::msghdr {
    // SAFETY: msghdr is pointers and integers; null pointers with zero lengths are an empty message.
    unsafe { std::mem::zeroed() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read;

    #[test]
    fn the_largest_packet_of_descriptors_arrives() {
        let (a, b) = pair().unwrap();
        let file = File::open("/proc/self/status").unwrap();
        let many = vec![file.as_fd(); MAX_DESCRIPTORS];
        send(&a, b"hello", &many).unwrap();
        send(&a, b"next", &[]).unwrap();
        let mut buffer = [0; 16];
        let (count, taken) = receive(&b, &mut buffer).unwrap();
        assert_eq!(
            (&buffer[..count], taken.len()),
            (&b"hello"[..], MAX_DESCRIPTORS)
        );
        let mut text = String::new();
        File::from(taken.into_iter().last().unwrap())
            .read_to_string(&mut text)
            .unwrap();
        assert!(text.starts_with("Name:"));
        let (count, taken) = receive(&b, &mut buffer).unwrap();
        assert_eq!((&buffer[..count], taken.len()), (&b"next"[..], 0));
        drop(a);
        assert_eq!(receive(&b, &mut buffer).unwrap().0, 0);
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let (a, b) = pair().unwrap();
        let file = File::open("/dev/null").unwrap();
        assert!(send(&a, b"x", &vec![file.as_fd(); MAX_DESCRIPTORS + 1]).is_err());
        assert!(send(&a, b"", &[]).is_err());
        send(&a, b"too long", &[file.as_fd()]).unwrap();
        assert_eq!(
            receive(&b, &mut [0; 3]).unwrap_err().raw_os_error(),
            Some(libc::EMSGSIZE)
        );
        assert_eq!(
            receive(&b, &mut [0; 3]).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
    }
}
