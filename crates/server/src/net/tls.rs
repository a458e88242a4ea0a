//! A TLS session over a socket: records in, plain bytes out, and back. It reads and writes nothing that the stream has not
//! told it to; the stream (`net/stream.rs`) waits, this file encrypts. RFC 8446, RFC 5246.

use rustls::Connection;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::BorrowedFd;

/// Plain bytes that are taken at a time; their records are on the way before more are taken.
const WRITE_MAX: usize = 64 * 1024;
/// Plain bytes that wait to share a record with what follows.
const HELD_MAX: usize = 8 * 1024;
/// The first records of a burst are small, so that a client can use what has come before all of it has.
const FIRST_RECORD: usize = 1369;
const MIDDLE_RECORD: usize = 4229;
const LARGEST_RECORD: usize = 16 * 1024;
/// Bytes of a burst after which records grow.
const FIRST_BYTES: usize = 8 * FIRST_RECORD;
const MIDDLE_BYTES: usize = FIRST_BYTES + 16 * MIDDLE_RECORD;
/// Silence after which a burst begins anew: the kernel is then careful again, too.
const BURST_PAUSE_MS: u64 = 1000;

/// How large records are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Records {
    /// Small ones first, then larger ones.
    Growing,
    /// All of this size (`ssl_buffer_size`).
    Fixed(usize),
}

/// One end of a TLS connection after or in its handshake.
pub struct Session {
    connection: Connection,
    /// Plain bytes that were taken and wait for company.
    held: Vec<u8>,
    /// Plain bytes that came while nobody wanted to read.
    stash: Vec<u8>,
    records: Records,
    burst: usize,
    wrote_ms: u64,
    ended: bool,
    broken: bool,
    /// Data may come before the handshake is done, and be answered then.
    takes_early: bool,
    /// The identifier in the server's hello, once that went out.
    id: Option<Box<[u8]>>,
}

/// The socket as rustls writes to it, and what is looked for in the first bytes.
struct Socket<'a> {
    socket: BorrowedFd<'a>,
    id: Option<&'a mut Option<Box<[u8]>>>,
}

impl Socket<'_> {
    fn look_at(&mut self, bytes: &[u8]) {
        if let Some(id) = self.id.take()
            && id.is_none()
        {
            *id = Some(session_id(bytes).unwrap_or_default().into());
        }
    }
}

/// The identifier of a session in the record of a server's hello: behind the heads, the version and 32 random bytes.
fn session_id(record: &[u8]) -> Option<&[u8]> {
    const HANDSHAKE: u8 = 22;
    const SERVER_HELLO: u8 = 2;
    const BEFORE: usize = 5 + 4 + 2 + 32;
    let is_hello = record.first() == Some(&HANDSHAKE) && record.get(5) == Some(&SERVER_HELLO);
    let length = usize::from(*record.get(BEFORE).filter(|_| is_hello)?);
    record.get(BEFORE + 1..)?.get(..length)
}

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.look_at(bytes);
        sys::io::send(self.socket, bytes, false)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if let Some(first) = slices.first() {
            self.look_at(first);
        }
        match slices {
            [one] => sys::io::send(self.socket, one, false),
            _ => sys::io::writev(self.socket, slices),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Session {
    #[must_use]
    pub fn new(mut connection: Connection, records: Records) -> Session {
        // What is taken is bounded here.
        connection.set_buffer_limit(None);
        Session {
            connection,
            held: Vec::new(),
            stash: Vec::new(),
            records,
            burst: 0,
            wrote_ms: 0,
            ended: false,
            broken: false,
            takes_early: false,
            id: None,
        }
    }

    /// Takes data that a client sends before the handshake is done (`ssl_early_data`).
    #[must_use]
    pub fn taking_early_data(mut self, takes: bool) -> Session {
        self.takes_early = takes;
        self
    }

    /// Whether there is data that came before the handshake is done.
    #[must_use]
    pub fn has_early_data(&self) -> bool {
        self.takes_early && self.is_handshaking() && !self.stash.is_empty()
    }

    /// The identifier in the server's hello; before TLS 1.3 it is the session's.
    #[must_use]
    pub fn id(&self) -> &[u8] {
        self.id.as_deref().unwrap_or_default()
    }

    #[must_use]
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    pub fn connection_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }

    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// The peer has said that it sends no more, or its end of the stream came.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether there is something for a reader without another byte from the socket.
    #[must_use]
    pub fn has_something(&self) -> bool {
        !self.stash.is_empty() || self.ended || self.broken
    }

    /// Moves what is there for a reader into `out`; how much.
    pub fn take_stash(&mut self, out: &mut [u8]) -> usize {
        let count = self.stash.len().min(out.len());
        out[..count].copy_from_slice(&self.stash[..count]);
        match count == self.stash.len() {
            true => self.stash = Vec::new(),
            false => drop(self.stash.drain(..count)),
        }
        count
    }

    /// The stream has ended below; without a farewell it ends all the same, as with nginx.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Takes bytes from the socket and puts the plain ones behind each other into `out`; what does not fit is kept.
    pub fn receive(&mut self, mut records: &[u8], out: &mut [u8]) -> io::Result<usize> {
        if self.broken {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let mut filled = 0;
        loop {
            // What came with a client's hello may wait in the session: without new bytes that is looked at.
            if !records.is_empty() && self.connection.read_tls(&mut records)? == 0 {
                break;
            }
            let processed = self.connection.process_new_packets();
            if self.takes_early {
                filled += self.drain_early(&mut out[filled..])?;
            }
            filled += self.drain(&mut out[filled..])?;
            if let Err(error) = processed {
                self.broken = true;
                return match filled {
                    0 => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
                    // The next read finds it broken.
                    filled => Ok(filled),
                };
            }
            if records.is_empty() {
                break;
            }
        }
        Ok(filled)
    }

    /// The same, kept for a reader that comes later.
    pub fn receive_ahead(&mut self, records: &[u8], scratch: &mut [u8]) -> io::Result<()> {
        let count = self.receive(records, scratch)?;
        self.stash.extend_from_slice(&scratch[..count]);
        Ok(())
    }

    /// What came before the handshake is done; it goes before all else.
    fn drain_early(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let Connection::Server(server) = &mut self.connection else {
            return Ok(0);
        };
        let Some(mut early) = server.early_data() else {
            return Ok(0);
        };
        let mut filled = 0;
        let mut piece = [0; 1024];
        loop {
            let rest = &mut out[filled..];
            let count = match rest.is_empty() {
                true => early.read(&mut piece)?,
                false => early.read(rest)?,
            };
            match (count, rest.is_empty()) {
                (0, _) => return Ok(filled),
                (count, true) => self.stash.extend_from_slice(&piece[..count]),
                (count, false) => filled += count,
            }
        }
    }

    fn drain(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        loop {
            let mut reader = self.connection.reader();
            let read = match out[filled..].is_empty() {
                true => break,
                false => reader.read(&mut out[filled..]),
            };
            match read {
                Ok(0) => {
                    self.ended = true;
                    return Ok(filled);
                }
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(filled),
                Err(error) => return Err(error),
            }
        }
        // No room is left: the rest waits.
        let mut piece = [0; 1024];
        loop {
            match self.connection.reader().read(&mut piece) {
                Ok(0) => {
                    self.ended = true;
                    return Ok(filled);
                }
                Ok(count) => self.stash.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(filled),
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether something waits to be written to the socket.
    #[must_use]
    pub fn wants_write(&self) -> bool {
        self.connection.wants_write() || !self.held.is_empty()
    }

    /// Writes what waits; false if the socket took not all of it.
    pub fn flush(&mut self, socket: BorrowedFd<'_>) -> io::Result<bool> {
        if !self.held.is_empty() {
            let held = std::mem::take(&mut self.held);
            self.encrypt(&[IoSlice::new(&held)], held.len())?;
        }
        self.flush_records(socket)
    }

    /// Whether records wait for the socket.
    #[must_use]
    pub fn has_records(&self) -> bool {
        self.connection.wants_write()
    }

    /// Writes the records that wait; false if the socket took not all of them.
    pub fn flush_records(&mut self, socket: BorrowedFd<'_>) -> io::Result<bool> {
        while self.connection.wants_write() {
            let id = self.id.is_none().then_some(&mut self.id);
            match self.connection.write_tls(&mut Socket { socket, id }) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Takes plain bytes: how many. They are encrypted then, and as much is on the way as the socket takes;
    /// `WouldBlock` while records from before wait.
    pub fn write(
        &mut self,
        socket: BorrowedFd<'_>,
        slices: &[IoSlice<'_>],
        now_ms: u64,
    ) -> io::Result<usize> {
        if self.connection.wants_write() && !self.flush_records(socket)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if now_ms.saturating_sub(self.wrote_ms) > BURST_PAUSE_MS {
            self.burst = 0;
        }
        self.wrote_ms = now_ms;
        let length: usize = slices.iter().map(|slice| slice.len()).sum();
        let taken = length.min(WRITE_MAX);
        if self.held.is_empty() {
            self.encrypt(slices, taken)?;
        } else {
            let held = std::mem::take(&mut self.held);
            let mut all = Vec::with_capacity(slices.len() + 1);
            all.push(IoSlice::new(&held));
            all.extend(slices.iter().map(|slice| IoSlice::new(slice)));
            self.encrypt(&all, held.len() + taken)?;
        }
        self.flush_records(socket)?;
        Ok(taken)
    }

    /// Keeps a piece that more will follow at once; false if it is too large for that.
    pub fn hold(&mut self, bytes: &[u8]) -> bool {
        let fits = self.held.len() + bytes.len() <= HELD_MAX && !self.connection.wants_write();
        if fits {
            self.held.extend_from_slice(bytes);
        }
        fits
    }

    /// Makes records of the first `count` bytes.
    fn encrypt(&mut self, slices: &[IoSlice<'_>], count: usize) -> io::Result<()> {
        let (mut index, mut offset, mut left) = (0, 0, count);
        while left > 0 {
            let size = self.record_size(left);
            let (mut wanted, mut parts) = (size, [IoSlice::new(&[]); PARTS_MAX]);
            let mut used = 0;
            while wanted > 0 && index < slices.len() && used < PARTS_MAX {
                let part = &slices[index][offset..];
                let taken = part.len().min(wanted);
                if taken > 0 {
                    parts[used] = IoSlice::new(&part[..taken]);
                    used += 1;
                }
                wanted -= taken;
                offset += taken;
                if offset == slices[index].len() {
                    (index, offset) = (index + 1, 0);
                }
            }
            let gathered = size - wanted;
            if gathered == 0 {
                return Ok(());
            }
            let mut writer = self.connection.writer();
            let written = match &parts[..used] {
                [one] => writer.write(one)?,
                several => writer.write_vectored(several)?,
            };
            if written != gathered {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.burst = self.burst.saturating_add(gathered);
            left -= gathered;
        }
        Ok(())
    }

    /// How much of what is left goes at once. What rustls splits by itself, into full records, needs no splitting here.
    fn record_size(&self, left: usize) -> usize {
        let size = match self.records {
            // The session's own limit does it.
            Records::Fixed(_) => return left,
            Records::Growing if self.burst >= MIDDLE_BYTES => return left,
            Records::Growing if self.burst >= FIRST_BYTES => MIDDLE_RECORD,
            Records::Growing => FIRST_RECORD,
        };
        // One packet or so is not worth a cut.
        match left <= size + FIRST_RECORD {
            true => left,
            false => size,
        }
    }

    /// Says farewell, as far as the socket takes it now.
    pub fn close(&mut self, socket: BorrowedFd<'_>) {
        let answers_early = self.takes_early && self.wrote_ms > 0;
        if self.connection.is_handshaking() && !self.connection.wants_write() && !answers_early {
            return;
        }
        // The peer may be gone, or not read: the end of the stream tells it as well.
        let flushed = self.flush(socket);
        if !self.broken {
            self.connection.send_close_notify();
        }
        if flushed.is_ok() {
            let _gone = self.flush_records(socket);
        }
    }
}

/// Slices that one record is made of at most.
const PARTS_MAX: usize = 6;

/// The size that rustls is told for `records`: it counts the record's head, too.
#[must_use]
pub fn fragment_size(records: Records) -> Option<usize> {
    match records {
        Records::Growing => None,
        Records::Fixed(size) => Some(size.clamp(64, LARGEST_RECORD) + RECORD_HEAD),
    }
}

/// Bytes before a record's content.
const RECORD_HEAD: usize = 5;
