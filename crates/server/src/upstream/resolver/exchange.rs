//! One question to one name server: over UDP, and over TCP where the answer does not fit. Each question has a socket of its
//! own, so that its port is as hard to guess as its number.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use wire::dns::{Answer, Kind, Query};

/// The largest answer over UDP.
const DATAGRAM_MAX: usize = 4096;

/// The call that failed.
#[derive(Debug)]
pub(super) struct Failed {
    pub call: &'static str,
    pub error: io::Error,
}

fn failed(call: &'static str) -> impl Fn(io::Error) -> Failed {
    move |error| Failed { call, error }
}

/// Asks; `None` for what no name can be. Waits as long as there is no answer.
pub(super) async fn ask(
    server: SocketAddr,
    name: &[u8],
    kind: Kind,
) -> Result<Option<Answer>, Failed> {
    let mut id = [0; 2];
    sys::machine::random(&mut id).map_err(failed("getrandom"))?;
    let Some(query) = Query::new(name, kind, u16::from_ne_bytes(id)) else {
        return Ok(None);
    };
    match over_udp(server, &query).await? {
        Answer::Truncated => over_tcp(server, &query).await.map(Some),
        answer => Ok(Some(answer)),
    }
}

async fn over_udp(server: SocketAddr, query: &Query) -> Result<Answer, Failed> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await.map_err(failed("bind"))?;
    socket.connect(server).await.map_err(failed("connect"))?;
    socket.send(&query.bytes).await.map_err(failed("send"))?;
    let mut buffer = vec![0; DATAGRAM_MAX];
    loop {
        let length = socket.recv(&mut buffer).await.map_err(failed("recv"))?;
        // What answers another question was meant for nobody, or to deceive.
        if let Some(answer) = query.answer(&buffer[..length]) {
            return Ok(answer);
        }
    }
}

async fn over_tcp(server: SocketAddr, query: &Query) -> Result<Answer, Failed> {
    let mut stream = TcpStream::connect(server)
        .await
        .map_err(failed("connect"))?;
    let length = u16::try_from(query.bytes.len()).unwrap_or(u16::MAX);
    let mut message = length.to_be_bytes().to_vec();
    message.extend_from_slice(&query.bytes);
    stream.write_all(&message).await.map_err(failed("send"))?;
    let length = stream.read_u16().await.map_err(failed("recv"))?;
    let mut response = vec![0; usize::from(length)];
    stream
        .read_exact(&mut response)
        .await
        .map_err(failed("recv"))?;
    let unrelated = || failed("recv")(io::ErrorKind::InvalidData.into());
    query.answer(&response).ok_or_else(unrelated)
}
