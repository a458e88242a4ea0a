//! Logs to syslog: the `syslog:server=…` parameters, and datagrams in nginx's form (RFC 3164 without its length limit).

use super::error::Level;
use crate::config::setting::Complaint;
use crate::http::thread;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "intern", "lpr", "news", "uucp", "clock", "authpriv",
    "ftp", "ntp", "audit", "alert", "cron", "local0", "local1", "local2", "local3", "local4",
    "local5", "local6", "local7",
];
const SEVERITIES: [&str; 8] = [
    "emerg", "alert", "crit", "error", "warn", "notice", "info", "debug",
];
const DEFAULT_FACILITY: u8 = 23;
const DEFAULT_SEVERITY: u8 = 6;
const DEFAULT_PORT: u16 = 514;
const MAX_TAG: usize = 32;
/// `sun_path` with its final zero byte.
const MAX_UNIX_PATH: usize = 107;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Server {
    Udp(SocketAddr),
    Unix(PathBuf),
}

/// A syslog server as one directive names it. Its socket is opened with the first line.
#[derive(Debug)]
pub struct Peer {
    server: Server,
    facility: u8,
    /// Of access logs; a line of the error log has that of its level.
    severity: u8,
    tag: String,
    hostname: Option<String>,
    socket: Mutex<Option<Arc<Socket>>>,
}

#[derive(Debug)]
enum Socket {
    Udp(UdpSocket),
    Unix(UnixDatagram),
}

/// The parameters of `syslog:` while they are read.
#[derive(Default)]
struct Parameters {
    server: Option<Server>,
    facility: Option<u8>,
    severity: Option<u8>,
    tag: Option<String>,
    nohostname: bool,
}

impl Peer {
    /// Reads what follows `syslog:`.
    pub fn parse(text: &str) -> Result<Peer, Complaint> {
        let mut parameters = Parameters::default();
        for word in text.split(',') {
            parameters.read(word)?;
        }
        let server = parameters.server.ok_or("no syslog server specified")?;
        let hostname = match parameters.nohostname {
            true => None,
            false => Some(
                sys::machine::hostname()
                    .map_err(|error| {
                        format!("gethostname() failed ({})", sys::errno::Errno(&error))
                    })?
                    .to_ascii_lowercase(),
            ),
        };
        Ok(Peer {
            server,
            facility: parameters.facility.unwrap_or(DEFAULT_FACILITY),
            severity: parameters.severity.unwrap_or(DEFAULT_SEVERITY),
            tag: parameters.tag.unwrap_or_else(|| "nginx".to_owned()),
            hostname,
            socket: Mutex::new(None),
        })
    }

    /// Appends the head of a message: `<190>Nov 21 12:00:00 host nginx: `.
    pub fn append_head(&self, severity: Option<u8>, out: &mut Vec<u8>) {
        let priority = u16::from(self.facility) * 8 + u16::from(severity.unwrap_or(self.severity));
        // Writing to memory does not fail.
        let _ = write!(out, "<{priority}>");
        thread::append_time_syslog(out);
        if let Some(hostname) = &self.hostname {
            let _ = write!(out, " {hostname}");
        }
        let _ = write!(out, " {}: ", self.tag);
    }

    /// Sends one message. What the server or its socket's buffer does not take is lost, as in nginx; after an error the
    /// next message opens the socket anew, so that a restarted server is found again.
    pub fn send(&self, message: &[u8]) {
        let Some(socket) = self.socket() else {
            return;
        };
        let sent = match &*socket {
            Socket::Udp(socket) => socket.send(message),
            Socket::Unix(socket) => socket.send(message),
        };
        if let Err(error) = sent
            && error.kind() != io::ErrorKind::WouldBlock
        {
            let mut kept = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, &socket)) {
                *kept = None;
            }
        }
    }

    /// Sends a line of the error log, which has the severity of its level.
    pub fn send_error(&self, level: Level, line: &[u8]) {
        let mut message = Vec::with_capacity(line.len() + 64);
        self.append_head(Some(level as u8), &mut message);
        message.extend_from_slice(line);
        self.send(&message);
    }

    fn socket(&self) -> Option<Arc<Socket>> {
        let mut kept = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_none() {
            *kept = self.connect().ok().map(Arc::new);
        }
        kept.clone()
    }

    fn connect(&self) -> io::Result<Socket> {
        match &self.server {
            Server::Udp(address) => {
                let any: IpAddr = match address {
                    SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
                    SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
                };
                let socket = UdpSocket::bind((any, 0))?;
                socket.set_nonblocking(true)?;
                socket.connect(address)?;
                Ok(Socket::Udp(socket))
            }
            Server::Unix(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.set_nonblocking(true)?;
                socket.connect(path)?;
                Ok(Socket::Unix(socket))
            }
        }
    }
}

impl Parameters {
    fn read(&mut self, word: &str) -> Result<(), Complaint> {
        let duplicate = |name: &str| Complaint::from(format!("duplicate syslog \"{name}\""));
        match word.split_once('=') {
            Some(("server", text)) => {
                if self.server.is_some() {
                    return Err(duplicate("server"));
                }
                self.server = Some(parse_server(text)?);
            }
            Some(("facility", text)) => {
                if self.facility.is_some() {
                    return Err(duplicate("facility"));
                }
                self.facility = Some(number_of(&FACILITIES, text, "facility")?);
            }
            Some(("severity", text)) => {
                if self.severity.is_some() {
                    return Err(duplicate("severity"));
                }
                self.severity = Some(number_of(&SEVERITIES, text, "severity")?);
            }
            Some(("tag", text)) => {
                if self.tag.is_some() {
                    return Err(duplicate("tag"));
                }
                check_tag(text)?;
                self.tag = Some(text.to_owned());
            }
            None if word == "nohostname" => self.nohostname = true,
            _ => return Err(format!("unknown syslog parameter \"{word}\"").into()),
        }
        Ok(())
    }
}

fn number_of(names: &[&str], text: &str, kind: &str) -> Result<u8, Complaint> {
    names
        .iter()
        .position(|&name| name == text)
        .map(|index| index as u8)
        .ok_or_else(|| format!("unknown syslog {kind} \"{text}\"").into())
}

fn check_tag(text: &str) -> Result<(), Complaint> {
    if text.len() > MAX_TAG {
        return Err(format!("syslog tag length exceeds {MAX_TAG}").into());
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if !text.bytes().all(allowed) {
        return Err("syslog \"tag\" only allows alphanumeric characters and underscore".into());
    }
    Ok(())
}

fn parse_server(text: &str) -> Result<Server, Complaint> {
    let wrong = |reason: &str| Complaint::from(format!("{reason} in syslog server \"{text}\""));
    if let Some(path) = text.strip_prefix("unix:") {
        return match path.len() {
            0 => Err(wrong("no path in the unix domain socket")),
            1..=MAX_UNIX_PATH => Ok(Server::Unix(PathBuf::from(path))),
            _ => Err(wrong("too long path in the unix domain socket")),
        };
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or_else(|| wrong("invalid host"))?;
            let address: Ipv6Addr = host.parse().map_err(|_| wrong("invalid IPv6 address"))?;
            let port = match after.strip_prefix(':') {
                Some(port) => parse_port(port).ok_or_else(|| wrong("invalid port"))?,
                None if after.is_empty() => DEFAULT_PORT,
                None => return Err(wrong("invalid port")),
            };
            return Ok(Server::Udp((address, port).into()));
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, parse_port(port).ok_or_else(|| wrong("invalid port"))?),
            None => (text, DEFAULT_PORT),
        },
    };
    if host.is_empty() {
        return Err(wrong("no host"));
    }
    (host, port)
        .to_socket_addrs()
        .ok()
        .and_then(|mut found| found.next())
        .map(Server::Udp)
        .ok_or_else(|| wrong("host not found"))
}

fn parse_port(text: &str) -> Option<u16> {
    text.parse().ok().filter(|&port| port != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(text: &str) -> String {
        Peer::parse(text).map(drop).unwrap_err().text
    }

    #[test]
    fn parameters_are_refused_as_nginx_words_it() {
        assert_eq!(complaint("foo"), "unknown syslog parameter \"foo\"");
        assert_eq!(
            complaint("server=127.0.0.1,"),
            "unknown syslog parameter \"\""
        );
        assert_eq!(complaint("facility=user"), "no syslog server specified");
        assert_eq!(complaint("server="), "no host in syslog server \"\"");
        assert_eq!(
            complaint("server=unix:"),
            "no path in the unix domain socket in syslog server \"unix:\""
        );
        assert_eq!(
            complaint("server=127.0.0.1:99999"),
            "invalid port in syslog server \"127.0.0.1:99999\""
        );
        assert_eq!(
            complaint("server=127.0.0.1,facility=foo"),
            "unknown syslog facility \"foo\""
        );
        assert_eq!(
            complaint("server=127.0.0.1,tag=a-b"),
            "syslog \"tag\" only allows alphanumeric characters and underscore"
        );
        assert_eq!(
            complaint("server=127.0.0.1,server=127.0.0.2"),
            "duplicate syslog \"server\""
        );
    }

    #[test]
    fn messages_reach_a_udp_server() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        server
            .set_read_timeout(Some(std::time::Duration::from_secs(10)))
            .unwrap();
        let peer = Peer::parse(&format!(
            "server={},facility=user,severity=warn,tag=site_1,nohostname",
            server.local_addr().unwrap()
        ))
        .unwrap();
        let mut message = Vec::new();
        peer.append_head(None, &mut message);
        message.extend_from_slice(b"hello");
        peer.send(&message);
        let mut buffer = [0; 256];
        let length = server.recv(&mut buffer).unwrap();
        let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
        let (head, rest) = text.split_at("<12>Nov 21 12:00:00".len());
        assert!(head.starts_with("<12>"), "{head}");
        assert_eq!(rest, " site_1: hello");
    }

    #[test]
    fn a_unix_server_that_comes_back_is_found_again() {
        let path = std::env::temp_dir().join(format!("gannet-syslog-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let peer = Peer::parse(&format!("server=unix:{}", path.display())).unwrap();
        peer.send(b"nobody listens");
        for round in [b"1", b"2"] {
            let server = UnixDatagram::bind(&path).unwrap();
            server
                .set_read_timeout(Some(std::time::Duration::from_secs(10)))
                .unwrap();
            // The first message after the server went away finds that out.
            peer.send(b"lost");
            peer.send(round);
            let mut buffer = [0; 16];
            let mut length = server.recv(&mut buffer).unwrap();
            if buffer[..length] == *b"lost" {
                length = server.recv(&mut buffer).unwrap();
            }
            assert_eq!(buffer[..length], round[..]);
            std::fs::remove_file(&path).unwrap();
        }
    }
}
