//! Messages over the packet socket between master and worker: a message is cut into packets, and put together again. The
//! sender never waits: what the socket does not take stays in a queue.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::messages::Parcel;
use sys::channel::{self, MAX_DESCRIPTORS};

/// The bytes of one packet, its flag apart; the kernel's default buffer takes several.
const PACKET_BYTES: usize = 32 << 10;

/// A message that grows beyond this is no message of ours.
const MAX_MESSAGE_BYTES: usize = 2 << 30;

/// First byte of a packet.
const MORE: u8 = 0;
const LAST: u8 = 1;

struct Packet {
    bytes: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

/// One end.
pub struct Channel {
    socket: OwnedFd,
    outgoing: VecDeque<Packet>,
    incoming: Parcel<OwnedFd>,
    buffer: Vec<u8>,
}

/// What reading gave.
pub enum Incoming {
    Message(Parcel<OwnedFd>),
    /// Nothing more for now.
    Empty,
    /// The other end has closed, or talks nonsense.
    Closed,
}

impl Channel {
    pub fn new(socket: OwnedFd) -> Channel {
        Channel {
            socket,
            outgoing: VecDeque::new(),
            incoming: Parcel::default(),
            buffer: vec![0; PACKET_BYTES + 1],
        }
    }

    /// Two connected ends.
    pub fn pair() -> io::Result<(Channel, Channel)> {
        let (one, other) = channel::pair()?;
        Ok((Channel::new(one), Channel::new(other)))
    }

    /// Queues a message and sends as much as goes.
    pub fn send(&mut self, parcel: &Parcel<BorrowedFd<'_>>) -> io::Result<()> {
        let mut descriptors = parcel.descriptors.as_slice();
        let mut rest = parcel.bytes.as_slice();
        loop {
            let (bytes, after) = rest.split_at(rest.len().min(PACKET_BYTES));
            let (own, others) = descriptors.split_at(descriptors.len().min(MAX_DESCRIPTORS));
            (rest, descriptors) = (after, others);
            let last = rest.is_empty() && descriptors.is_empty();
            let mut packet = Vec::with_capacity(bytes.len() + 1);
            packet.push(if last { LAST } else { MORE });
            packet.extend_from_slice(bytes);
            let descriptors: io::Result<Vec<OwnedFd>> =
                own.iter().map(BorrowedFd::try_clone_to_owned).collect();
            self.outgoing.push_back(Packet {
                bytes: packet,
                descriptors: descriptors?,
            });
            if last {
                return self.flush();
            }
        }
    }

    /// Sends what waits; the rest when the socket is writable again.
    pub fn flush(&mut self) -> io::Result<()> {
        while let Some(packet) = self.outgoing.front() {
            let descriptors: Vec<BorrowedFd<'_>> =
                packet.descriptors.iter().map(AsFd::as_fd).collect();
            match channel::send(&self.socket, &packet.bytes, &descriptors) {
                Ok(()) => drop(self.outgoing.pop_front()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => {
                    self.outgoing.clear();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    pub fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// The next whole message.
    pub fn receive(&mut self) -> Incoming {
        loop {
            let (count, descriptors) = match channel::receive(&self.socket, &mut self.buffer) {
                Ok(packet) => packet,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Incoming::Empty,
                Err(_) => return Incoming::Closed,
            };
            let Some((&flag, bytes)) = self.buffer[..count].split_first() else {
                return Incoming::Closed;
            };
            if self.incoming.bytes.len() + bytes.len() > MAX_MESSAGE_BYTES {
                return Incoming::Closed;
            }
            self.incoming.bytes.extend_from_slice(bytes);
            self.incoming.descriptors.extend(descriptors);
            if flag == LAST {
                return Incoming::Message(std::mem::take(&mut self.incoming));
            }
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn messages_larger_than_the_socket_arrive_whole_and_in_order() {
        let (mut master, mut worker) = Channel::pair().unwrap();
        let null = File::open("/dev/null").unwrap();
        for (bytes, descriptors) in [(0, 0), (1, 600), (PACKET_BYTES, 1), (3 << 20, 300)] {
            let parcel = Parcel {
                bytes: (0..bytes).map(|at: usize| at as u8).collect(),
                descriptors: vec![null.as_fd(); descriptors],
            };
            master.send(&parcel).unwrap();
            let got = loop {
                match worker.receive() {
                    Incoming::Message(got) => break got,
                    Incoming::Empty => master.flush().unwrap(),
                    Incoming::Closed => panic!("closed"),
                }
            };
            assert!(!master.has_outgoing());
            assert_eq!(got.bytes, parcel.bytes);
            assert_eq!(got.descriptors.len(), descriptors);
        }
        assert!(matches!(worker.receive(), Incoming::Empty));
        drop(master);
        assert!(matches!(worker.receive(), Incoming::Closed));
    }
}
