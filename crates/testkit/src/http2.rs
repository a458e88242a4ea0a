//! One request over a connection of its own that speaks HTTP/2 from its first byte, by the h2 crate. The request is written
//! as one of HTTP/1, and so is the reply.

use crate::client::READ_LIMIT;
use crate::{reply::Reply, tls};
use bytes::Bytes;
use http::{HeaderMap, Request, Uri};
use rustls::pki_types::ServerName;
use std::net::TcpStream;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

/// What came back.
pub enum Outcome {
    Reply(Reply),
    /// The stream or the connection ended otherwise; this is why.
    Ended(String),
}

/// Sends a request written as HTTP/1's and reads the reply; `secured` is the name that is asked for by TLS.
pub fn exchange(
    stream: TcpStream,
    secured: Option<(&str, &tls::Terms)>,
    request: &[u8],
) -> Result<Outcome, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let (head, body) = parse(request)?;
    runtime.block_on(async {
        let answered = tokio::time::timeout(READ_LIMIT, connect(stream, secured, head, body)).await;
        Ok(match answered {
            Ok(Ok(reply)) => Outcome::Reply(reply),
            Ok(Err(error)) => Outcome::Ended(reason(&error)),
            Err(_) => Outcome::Ended("nothing came for long".to_string()),
        })
    })
}

fn reason(error: &h2::Error) -> String {
    match error.reason() {
        Some(reason) if error.is_reset() => format!("stream reset: {reason:?}"),
        _ => "connection ended".to_string(),
    }
}

/// Host becomes `:authority`; Connection has no meaning.
fn parse(request: &[u8]) -> Result<(Request<()>, Bytes), String> {
    let end =
        crate::reply::find(request, b"\r\n\r\n").ok_or("the request has no end of its head")?;
    let body = Bytes::copy_from_slice(&request[end + 4..]);
    let head = String::from_utf8_lossy(&request[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, path) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or("/"),
    );
    let mut builder = Request::builder().method(method);
    let mut authority = None;
    for line in lines {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        match name.to_ascii_lowercase().as_str() {
            "host" => authority = Some(value.trim().to_string()),
            "connection" => {}
            _ => builder = builder.header(name, value.trim()),
        }
    }
    let uri = Uri::builder()
        .scheme("http")
        .authority(authority.unwrap_or_else(|| "localhost".to_string()))
        .path_and_query(path)
        .build()
        .map_err(|error| error.to_string())?;
    let head = builder
        .uri(uri)
        .body(())
        .map_err(|error| error.to_string())?;
    Ok((head, body))
}

async fn connect(
    stream: TcpStream,
    secured: Option<(&str, &tls::Terms)>,
    head: Request<()>,
    body: Bytes,
) -> Result<Reply, h2::Error> {
    let stream = stream
        .set_nonblocking(true)
        .and_then(|()| tokio::net::TcpStream::from_std(stream));
    let stream = stream.map_err(io)?;
    let Some((name, terms)) = secured else {
        return answer(stream, head, body).await;
    };
    let config = tls::config(terms).map_err(io)?;
    let name = ServerName::try_from(name.to_string());
    let name = name.map_err(|error| io(std::io::Error::other(error)))?;
    let secured = TlsConnector::from(config).connect(name, stream).await;
    answer(secured.map_err(io)?, head, body).await
}

async fn answer<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    head: Request<()>,
    body: Bytes,
) -> Result<Reply, h2::Error> {
    let (mut client, connection) = h2::client::handshake(stream).await?;
    let driving = tokio::spawn(connection);
    let (response, mut sending) = client.send_request(head, body.is_empty())?;
    if !body.is_empty() {
        // A server may refuse it: its answer is what counts.
        let _refused = sending.send_data(body, true);
    }
    let mut response = response.await?;
    let mut reply = Reply {
        status_line: format!("HTTP/2 {}", response.status().as_u16()),
        fields: lines(response.headers()),
        ..Reply::default()
    };
    let body = response.body_mut();
    loop {
        match body.data().await {
            None => break,
            Some(Ok(bytes)) => {
                let _ended = body.flow_control().release_capacity(bytes.len());
                reply.body.extend_from_slice(&bytes);
            }
            Some(Err(_)) => {
                reply.fault = Some("the stream was reset");
                break;
            }
        }
    }
    if let Ok(Some(trailers)) = body.trailers().await {
        reply.trailers = lines(&trailers);
    }
    driving.abort();
    Ok(reply)
}

fn io(error: std::io::Error) -> h2::Error {
    // The client has no connection: there is no error of the protocol's for that.
    let _ = error;
    h2::Error::from(h2::Reason::CONNECT_ERROR)
}

fn lines(fields: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &[u8]| value.iter().map(|&byte| char::from(byte)).collect();
    fields
        .iter()
        .map(|(name, value)| (name.to_string(), text(value.as_bytes())))
        .collect()
}
