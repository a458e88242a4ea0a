//! A client's or an upstream's socket, TCP or UNIX, plain or with TLS on it, with reads into a buffer that the thread's
//! connections share. The runtime hears of a client's socket only when a read finds nothing: a connection whose request is there when it is accepted, and which ends with
//! the response, is never registered with epoll.

use super::tls::Session;
use crate::http::thread;
use std::cell::{Cell, OnceCell, RefCell};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Bytes that one read takes at most.
pub const READ_SIZE: usize = 64 * 1024;

/// Plain bytes that one read of records gives at most: what they hold, and a record that had begun before.
const PLAIN_SIZE: usize = READ_SIZE + 32 * 1024;

/// Bytes of a file that are encrypted at a time.
const FILE_PIECE: usize = 64 * 1024;

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_SIZE].into_boxed_slice());
    static PLAIN: RefCell<Box<[u8]>> = RefCell::new(vec![0; PLAIN_SIZE].into_boxed_slice());
    static PIECE: RefCell<Box<[u8]>> = RefCell::new(vec![0; FILE_PIECE].into_boxed_slice());
}

/// A client's socket.
pub struct Stream {
    watch: RefCell<Option<Watch>>,
    socket: Rc<OwnedFd>,
    is_tcp: bool,
    /// The one read without the runtime was done. It keeps no count of those, so a second one could go on for ever.
    tried: Cell<bool>,
    /// The runtime said that there is something to read, and nobody read it: the next read tries first.
    untaken: Cell<bool>,
    /// Set when a handshake begins.
    tls: OnceCell<Box<RefCell<Session>>>,
}

/// The runtime's interest in a socket.
struct Watch {
    ready: AsyncFd<Rc<OwnedFd>>,
    /// Room for writing is watched, too. Few connections ever wait for it.
    writes: bool,
}

/// Registers a descriptor with the runtime.
#[expect(
    deprecated,
    reason = "its unsafe successor is for types that may close the descriptor behind the runtime's back; these own it"
)]
pub fn watch<T: AsRawFd>(descriptor: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(descriptor, interest)
}

impl Watch {
    fn new(socket: &Rc<OwnedFd>, writes: bool) -> io::Result<Watch> {
        let interest = match writes {
            true => Interest::READABLE | Interest::WRITABLE,
            false => Interest::READABLE,
        };
        let ready = watch(Rc::clone(socket), interest)?;
        Ok(Watch { ready, writes })
    }
}

impl Stream {
    /// A non-blocking socket. With `eager` the first read is tried before the runtime is asked, because it is likely to find
    /// something.
    pub fn new(socket: OwnedFd, is_tcp: bool, eager: bool) -> io::Result<Stream> {
        let socket = Rc::new(socket);
        let watch = match eager {
            true => None,
            false => Some(Watch::new(&socket, false)?),
        };
        Ok(Stream {
            watch: RefCell::new(watch),
            socket,
            is_tcp,
            tried: Cell::new(false),
            untaken: Cell::new(false),
            tls: OnceCell::new(),
        })
    }

    /// A connection of our own to an upstream, watched for reads and writes from the start.
    pub fn to_upstream(socket: OwnedFd, is_tcp: bool) -> io::Result<Stream> {
        let socket = Rc::new(socket);
        let watch = Watch::new(&socket, true)?;
        Ok(Stream {
            watch: RefCell::new(Some(watch)),
            socket,
            is_tcp,
            tried: Cell::new(true),
            untaken: Cell::new(false),
            tls: OnceCell::new(),
        })
    }

    /// Reads once and hands the bytes to `take`; an empty slice is the end of the stream. The buffer is the thread's:
    /// an idle connection owns none.
    pub fn poll_read<T>(
        &self,
        context: &mut Context<'_>,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Poll<io::Result<T>> {
        if let Some(session) = self.tls.get() {
            return self.poll_read_tls(session, context, take);
        }
        SCRATCH.with(|scratch| {
            let mut scratch = scratch.borrow_mut();
            let read = ready!(self.poll_receive(context, &mut scratch))?;
            Poll::Ready(Ok(take(&scratch[..read])))
        })
    }

    #[inline(never)]
    fn poll_read_tls<T>(
        &self,
        session: &RefCell<Session>,
        context: &mut Context<'_>,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Poll<io::Result<T>> {
        PLAIN.with(|plain| {
            let mut plain = plain.borrow_mut();
            let read = ready!(self.poll_decrypted(session, context, &mut plain))?;
            Poll::Ready(Ok(take(&plain[..read])))
        })
    }

    /// Reads records until one of them has something for the reader; 0 at the end.
    fn poll_decrypted(
        &self,
        session: &RefCell<Session>,
        context: &mut Context<'_>,
        plain: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            {
                let mut session = session.borrow_mut();
                let stashed = session.take_stash(plain);
                if stashed > 0 || session.has_ended() {
                    return Poll::Ready(Ok(stashed));
                }
            }
            // What reading has made the session say, and what the last writes left.
            self.push(session, context)?;
            let mut session = session.borrow_mut();
            let count = SCRATCH.with(|scratch| {
                let mut scratch = scratch.borrow_mut();
                let read = ready!(self.poll_receive(context, &mut scratch))?;
                if read == 0 {
                    session.end();
                }
                Poll::Ready(session.receive(&scratch[..read], plain))
            });
            match ready!(count) {
                Ok(0) => {}
                Err(error) => {
                    // The alert that says why.
                    let _gone = session.flush(self.as_fd());
                    return Poll::Ready(Err(error));
                }
                count => return Poll::Ready(count),
            }
        }
    }

    /// Writes what the session has for the socket; if it does not take all, the task is woken when it does.
    fn push(&self, session: &RefCell<Session>, context: &mut Context<'_>) -> io::Result<()> {
        while session.borrow().wants_write() {
            if session.borrow_mut().flush(self.as_fd())? {
                break;
            }
            self.clear_writable();
            match self.poll_room(context) {
                Poll::Ready(ready) => ready?,
                Poll::Pending => break,
            }
        }
        Ok(())
    }

    /// Puts TLS on the connection: all that is read and written from now on goes through the session.
    pub fn secure(&self, session: Session) {
        let _once = self.tls.set(Box::new(RefCell::new(session)));
    }

    /// Whether the handshake has chosen this protocol (ALPN).
    #[must_use]
    pub fn speaks(&self, protocol: &[u8]) -> bool {
        (self.tls.get())
            .is_some_and(|session| session.borrow().connection().alpn_protocol() == Some(protocol))
    }

    /// Gives the session bytes that were read before it was there.
    pub fn feed(&self, records: &[u8]) -> io::Result<()> {
        let Some(session) = self.tls.get() else {
            return Ok(());
        };
        let mut session = session.borrow_mut();
        let fed = PLAIN.with(|plain| session.receive_ahead(records, &mut plain.borrow_mut()));
        if fed.is_err() {
            // The alert that says why.
            let _gone = session.flush(self.as_fd());
        }
        fed
    }

    /// The TLS session, if there is one.
    #[must_use]
    pub fn tls(&self) -> Option<&RefCell<Session>> {
        self.tls.get().map(|session| &**session)
    }

    /// Carries a handshake on; ready when it is done. The end of the stream is an error.
    pub fn poll_handshake(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(session) = self.tls.get() else {
            return Poll::Ready(Ok(()));
        };
        loop {
            self.push(session, context)?;
            let mut session = session.borrow_mut();
            let is_done = !session.is_handshaking() || session.has_early_data();
            if is_done && !session.wants_write() {
                return Poll::Ready(Ok(()));
            }
            if !session.is_handshaking() {
                return Poll::Pending;
            }
            let received = SCRATCH.with(|scratch| {
                let mut scratch = scratch.borrow_mut();
                Poll::Ready(match ready!(self.poll_receive(context, &mut scratch))? {
                    0 => Err(io::ErrorKind::UnexpectedEof.into()),
                    read => PLAIN.with(|plain| {
                        session.receive_ahead(&scratch[..read], &mut plain.borrow_mut())
                    }),
                })
            });
            if let Err(error) = ready!(received) {
                let _gone = session.flush(self.as_fd());
                return Poll::Ready(Err(error));
            }
        }
    }

    /// Ready when all that was taken is with the kernel. A plain connection keeps nothing back.
    pub fn poll_flush(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(session) = self.tls.get() else {
            return Poll::Ready(Ok(()));
        };
        self.push(session, context)?;
        match session.borrow().wants_write() {
            true => Poll::Pending,
            false => Poll::Ready(Ok(())),
        }
    }

    /// Whether all that was taken is with the kernel, or could be put there at once.
    pub fn try_flush(&self) -> io::Result<bool> {
        match self.tls.get() {
            None => Ok(true),
            Some(session) => {
                let mut session = session.borrow_mut();
                Ok(!session.wants_write() || session.flush(self.as_fd())?)
            }
        }
    }

    /// Says that nothing more will be sent.
    pub fn shut_down(&self) {
        if let Some(session) = self.tls.get() {
            session.borrow_mut().close(self.as_fd());
        }
        // A peer that is gone needs no telling.
        let _gone = sys::socket::shutdown(self, std::net::Shutdown::Write);
    }

    fn poll_receive(
        &self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let watch = &mut *self.watch.borrow_mut();
        loop {
            let Some(watching) = watch else {
                if self.tried.replace(true) {
                    *watch = Some(Watch::new(&self.socket, false)?);
                    continue;
                }
                match sys::io::receive(self.socket.as_fd(), buffer) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        *watch = Some(Watch::new(&self.socket, false)?);
                        continue;
                    }
                    read => return Poll::Ready(read),
                }
            };
            if self.untaken.take() {
                match sys::io::receive(self.socket.as_fd(), buffer) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    read => {
                        self.untaken
                            .set(matches!(read, Ok(read) if read == buffer.len()));
                        return Poll::Ready(read);
                    }
                }
            }
            let mut readable = ready!(watching.ready.poll_read_ready(context))?;
            match sys::io::receive(self.socket.as_fd(), buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => readable.clear_ready(),
                Ok(read) => {
                    // Less than there was room for: the next read would find nothing, and need not try.
                    if read < buffer.len() {
                        readable.clear_ready();
                    }
                    return Poll::Ready(Ok(read));
                }
                error => return Poll::Ready(error),
            }
        }
    }

    /// Looks at what has come, which stays to be read: ready when there are more than `seen` bytes. No more of them means
    /// that the peer has ended its side.
    pub fn poll_peek(
        &self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
        seen: usize,
    ) -> Poll<io::Result<usize>> {
        let watch = &mut *self.watch.borrow_mut();
        loop {
            match sys::io::peek(self.socket.as_fd(), buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(length) if (1..=seen).contains(&length) => {}
                peeked => return Poll::Ready(peeked),
            }
            let watching = match watch {
                Some(watching) => watching,
                None => watch.insert(Watch::new(&self.socket, false)?),
            };
            let mut readable = ready!(watching.ready.poll_read_ready(context))?;
            if readable.ready().is_read_closed() {
                // The last bytes may have come with the end.
                return Poll::Ready(sys::io::peek(self.socket.as_fd(), buffer));
            }
            readable.clear_ready();
        }
    }

    /// Reads just so many bytes, which `poll_peek` has seen.
    pub fn take(&self, buffer: &mut [u8]) -> io::Result<()> {
        let taken = sys::io::receive(self.socket.as_fd(), buffer)?;
        self.untaken.set(true);
        match taken == buffer.len() {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Ready when the peer has ended its side or the connection is broken. Bytes that come meanwhile stay in the socket.
    pub fn poll_ended(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut watch = self.watch.borrow_mut();
        if watch.is_none() {
            *watch = Watch::new(&self.socket, false).ok();
        }
        let Some(watching) = watch.as_ref() else {
            return Poll::Pending;
        };
        loop {
            let Ok(mut readable) = ready!(watching.ready.poll_read_ready(context)) else {
                return Poll::Ready(());
            };
            let ready = readable.ready();
            if ready.is_read_closed() || ready.is_error() {
                return Poll::Ready(());
            }
            readable.clear_ready();
            self.untaken.set(true);
        }
    }

    /// Ready when there is something to read, or the end; it stays to be read.
    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.untaken.get() || self.has_decrypted() {
            return Poll::Ready(());
        }
        let watch = self.watch.borrow();
        match watch.as_ref() {
            Some(watching) => watching.ready.poll_read_ready(context).map(drop),
            None => Poll::Pending,
        }
    }

    /// Whether nothing has come and the peer has not ended its side. A connection that is not watched is not asked.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        if let Some(session) = self.tls.get() {
            return self.is_quiet_tls(&mut session.borrow_mut());
        }
        let watch = self.watch.borrow();
        let Some(watching) = watch.as_ref() else {
            return true;
        };
        let mut context = Context::from_waker(Waker::noop());
        match watching.ready.poll_read_ready(&mut context) {
            Poll::Pending => !self.untaken.get(),
            Poll::Ready(Ok(mut readable)) => match sys::io::peek(&self.socket, &mut [0]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    readable.clear_ready();
                    true
                }
                _ => false,
            },
            Poll::Ready(Err(_)) => false,
        }
    }

    fn has_decrypted(&self) -> bool {
        (self.tls.get()).is_some_and(|session| session.borrow().has_something())
    }

    /// Records may come that have nothing for the reader, such as session tickets: they are read, and the rest is kept.
    fn is_quiet_tls(&self, session: &mut Session) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        while !session.has_something() {
            let read = SCRATCH.with(|scratch| {
                let mut scratch = scratch.borrow_mut();
                let Poll::Ready(read) = self.poll_receive(&mut context, &mut scratch) else {
                    return None;
                };
                PLAIN.with(|plain| match read {
                    Ok(0) | Err(_) => session.end(),
                    Ok(read) => {
                        // A session that breaks here says so when it is used.
                        let _broken =
                            session.receive_ahead(&scratch[..read], &mut plain.borrow_mut());
                    }
                });
                Some(())
            });
            if read.is_none() {
                return true;
            }
        }
        false
    }

    /// Writes what the socket takes now; `WouldBlock` if nothing. What TLS has taken may still wait to be flushed.
    pub fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.tls.get() {
            None => sys::io::writev(self, slices),
            Some(session) => {
                let mut session = session.borrow_mut();
                session.write(self.as_fd(), slices, thread::monotonic_ms())
            }
        }
    }

    /// Sends one piece; with `more` it waits to share a packet with what follows.
    pub fn try_send(&self, bytes: &[u8], more: bool) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        match self.tls.get() {
            None => sys::io::send(self, bytes, more),
            Some(session) if more && session.borrow_mut().hold(bytes) => Ok(bytes.len()),
            Some(_) => self.try_write(&[IoSlice::new(bytes)]),
        }
    }

    /// Lets the kernel copy from a file; 0 means that the file is shorter than it was.
    pub fn try_sendfile(&self, file: &impl AsFd, offset: u64, count: usize) -> io::Result<usize> {
        match self.tls.get() {
            None => sys::io::sendfile(self, file, offset, count),
            Some(session) => self.send_encrypted(&mut session.borrow_mut(), file, offset, count),
        }
    }

    #[inline(never)]
    fn send_encrypted(
        &self,
        session: &mut Session,
        file: &impl AsFd,
        offset: u64,
        count: usize,
    ) -> io::Result<usize> {
        let now_ms = thread::monotonic_ms();
        PIECE.with(|piece| {
            let mut piece = piece.borrow_mut();
            let mut sent = 0;
            while sent < count {
                if session.has_records() && !session.flush_records(self.as_fd())? {
                    break;
                }
                let wanted = (count - sent).min(FILE_PIECE);
                let read = sys::io::pread(file, &mut piece[..wanted], offset + sent as u64)?;
                if read == 0 {
                    return Ok(sent);
                }
                sent += session.write(self.as_fd(), &[IoSlice::new(&piece[..read])], now_ms)?;
            }
            match sent {
                0 if count > 0 => Err(io::ErrorKind::WouldBlock.into()),
                sent => Ok(sent),
            }
        })
    }

    /// Waits until the socket may take more. To be called after a write said `WouldBlock` and `clear_writable`.
    pub fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.tls.get() {
            None => self.poll_room(context),
            Some(_) => self.poll_flush(context),
        }
    }

    fn poll_room(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut watch = self.watch.borrow_mut();
        if !watch.as_ref().is_some_and(|watching| watching.writes) {
            // The former registration must be gone before the socket can have another.
            *watch = None;
            *watch = Some(Watch::new(&self.socket, true)?);
        }
        let Some(watching) = watch.as_ref() else {
            return Poll::Pending;
        };
        ready!(watching.ready.poll_write_ready(context))?.retain_ready();
        Poll::Ready(Ok(()))
    }

    /// Tells the runtime that a write would block, so that it waits for the next readiness.
    pub fn clear_writable(&self) {
        if let Some(watching) = self
            .watch
            .borrow()
            .as_ref()
            .filter(|watching| watching.writes)
        {
            let _blocked = watching.ready.try_io(Interest::WRITABLE, |_| {
                Err::<(), _>(io::ErrorKind::WouldBlock.into())
            });
        }
    }

    #[must_use]
    pub fn raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    #[must_use]
    pub fn is_tcp(&self) -> bool {
        self.is_tcp
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(session) = self.tls.get() {
            session.borrow_mut().close(self.as_fd());
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
