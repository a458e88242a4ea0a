//! The floor: accept, read, write, nothing else. One prebuilt response, whatever was asked; what a real server
//! uses above this is the price of being a server.

use std::fs::File;
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{Context, Result};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fs::sendfile;
use rustix::io::Errno;
use rustix::net::{SendFlags, SocketFlags, accept_with, send};

/// Marks the listening socket among the events; no descriptor has this number.
const LISTENER: u64 = u64::MAX;
const EVENTS_AT_ONCE: usize = 512;
const READ_BUFFER: usize = 8 * 1024;
/// From here on a copy into the socket costs more than handing over pages of the file: about even at 100 KB, twice
/// as much at 1 MB.
const SENDFILE_FROM: usize = 256 * 1024;
const END_OF_REQUEST: &[u8] = b"\r\n\r\n";

/// Serves the file given on the command line until a signal ends the process.
pub fn run(mut arguments: impl Iterator<Item = String>) -> Result<()> {
    let port = arguments.next().context("floor: which port?")?.parse()?;
    let path = arguments.next().context("floor: which file?")?;
    let close = arguments.next().as_deref() == Some("close");
    let mut file = File::open(&path).with_context(|| path.clone())?;
    let mut body = Vec::new();
    file.read_to_end(&mut body)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    rustix::net::listen(&listener, 4096)?;
    listener.set_nonblocking(true)?;
    Floor {
        answer: Answer::new(body, file, close),
        listener,
        connections: Vec::new(),
    }
    .serve()
}

struct Floor {
    answer: Answer,
    listener: TcpListener,
    /// By descriptor number.
    connections: Vec<Option<Connection>>,
}

struct Connection {
    socket: OwnedFd,
    /// How much of the response is out, while one is being sent.
    sending: Option<usize>,
    told_when_writable: bool,
}

enum After {
    Wait,
    Close,
}

impl Floor {
    fn serve(&mut self) -> Result<()> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(
            &epoll,
            &self.listener,
            EventData::new_u64(LISTENER),
            EventFlags::IN,
        )?;
        let mut events = Vec::with_capacity(EVENTS_AT_ONCE);
        loop {
            events.clear();
            match epoll::wait(&epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                let token = event.data.u64();
                if token == LISTENER {
                    self.accept_all(&epoll)?;
                } else {
                    self.advance(&epoll, token as usize)?;
                }
            }
        }
    }

    fn accept_all(&mut self, epoll: &OwnedFd) -> Result<()> {
        loop {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let socket = match accept_with(&self.listener, flags) {
                Ok(socket) => socket,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::CONNABORTED | Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let index = socket.as_raw_fd() as usize;
            let interest = EventFlags::IN | EventFlags::ET;
            epoll::add(epoll, &socket, EventData::new_u64(index as u64), interest)?;
            if self.connections.len() <= index {
                self.connections.resize_with(index + 1, || None);
            }
            self.connections[index] = Some(Connection {
                socket,
                sending: None,
                told_when_writable: false,
            });
        }
    }

    fn advance(&mut self, epoll: &OwnedFd, index: usize) -> Result<()> {
        let Some(slot) = self.connections.get_mut(index) else {
            return Ok(());
        };
        let Some(connection) = slot else {
            return Ok(());
        };
        match connection.advance(&self.answer) {
            After::Close => *slot = None,
            After::Wait if connection.sending.is_some() && !connection.told_when_writable => {
                // Once and for good: only responses larger than the socket's buffer come here.
                let interest = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
                epoll::modify(
                    epoll,
                    &connection.socket,
                    EventData::new_u64(index as u64),
                    interest,
                )?;
                connection.told_when_writable = true;
            }
            After::Wait => {}
        }
        Ok(())
    }
}

impl Connection {
    /// Reads a request and answers it, or goes on with an answer the socket had no room for.
    fn advance(&mut self, answer: &Answer) -> After {
        if let Some(sent) = self.sending {
            return self.write(answer, sent);
        }
        let mut buffer = [0; READ_BUFFER];
        match rustix::io::read(&self.socket, &mut buffer) {
            Ok(0) => After::Close,
            Ok(count) if buffer[..count].ends_with(END_OF_REQUEST) => self.write(answer, 0),
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => After::Wait,
            Err(_) => After::Close,
        }
    }

    fn write(&mut self, answer: &Answer, mut sent: usize) -> After {
        while sent < answer.length {
            match answer.send_from(&self.socket, sent) {
                Ok(count) => sent += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.sending = Some(sent);
                    return After::Wait;
                }
                Err(_) => return After::Close,
            }
        }
        self.sending = None;
        if answer.close {
            After::Close
        } else {
            After::Wait
        }
    }
}

/// The one response. `memory` holds the head, and the body too when that is cheaper to copy.
struct Answer {
    memory: Vec<u8>,
    head_length: usize,
    file: File,
    length: usize,
    close: bool,
}

impl Answer {
    fn new(body: Vec<u8>, file: File, close: bool) -> Answer {
        let connection = if close { "close" } else { "keep-alive" };
        let mut memory = format!(
            "HTTP/1.1 200 OK\r\nServer: floor/1.22.1\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
             Content-Type: application/octet-stream\r\nContent-Length: {}\r\n\
             Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nConnection: {connection}\r\n\
             ETag: \"2ebd8211-400\"\r\nAccept-Ranges: bytes\r\n\r\n",
            body.len()
        )
        .into_bytes();
        let head_length = memory.len();
        let length = head_length + body.len();
        if body.len() < SENDFILE_FROM {
            memory.extend_from_slice(&body);
        }
        Answer {
            memory,
            head_length,
            file,
            length,
            close,
        }
    }

    /// Sends some of the response, from `sent` on.
    fn send_from(&self, socket: &OwnedFd, sent: usize) -> rustix::io::Result<usize> {
        if let Some(rest) = self.memory.get(sent..).filter(|rest| !rest.is_empty()) {
            let more = if self.memory.len() < self.length {
                SendFlags::MORE
            } else {
                SendFlags::empty()
            };
            return send(socket, rest, more | SendFlags::NOSIGNAL);
        }
        let mut offset = (sent - self.head_length) as u64;
        sendfile(socket, &self.file, Some(&mut offset), self.length - sent)
    }
}
