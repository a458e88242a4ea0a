//! HTTP/1 replies as a strict client reads them: status line, fields, body by Content-Length, chunks or close.

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    pub status_line: String,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub trailers: Vec<(String, String)>,
    /// What was wrong with the framing.
    pub fault: Option<&'static str>,
}

impl Reply {
    pub fn status(&self) -> u16 {
        self.status_line
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok())
            .unwrap_or(0)
    }

    /// The first field of that name.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Parses one reply from the start of `bytes` and gives how many it took; None while it is not complete.
/// With `ended` the stream has closed, so what is there is all.
pub fn parse(bytes: &[u8], method: &str, ended: bool) -> Option<(Reply, usize)> {
    let head_end = find(bytes, b"\r\n\r\n")? + 4;
    let head = latin1(&bytes[..head_end - 4]);
    let mut lines = head.split("\r\n");
    let mut reply = Reply {
        status_line: lines.next()?.to_string(),
        ..Reply::default()
    };
    reply.fields = lines.map(field).collect();
    let rest = &bytes[head_end..];
    let status = reply.status();
    if status < 200 || status == 204 || status == 304 || method == "HEAD" {
        return Some((reply, head_end));
    }
    let chunked = reply
        .field("Transfer-Encoding")
        .is_some_and(|v| v.eq_ignore_ascii_case("chunked"));
    let length = reply
        .field("Content-Length")
        .map(|value| value.parse::<usize>());
    let used = match length {
        _ if chunked => match chunks(rest, &mut reply) {
            Some(used) => used,
            None if ended => cut_short(&mut reply, rest, "the chunks end early"),
            None => return None,
        },
        Some(Ok(length)) if rest.len() >= length => {
            reply.body = rest[..length].to_vec();
            length
        }
        Some(Ok(_)) if ended => {
            cut_short(&mut reply, rest, "the body is shorter than Content-Length")
        }
        Some(Err(_)) => cut_short(&mut reply, rest, "Content-Length is no number"),
        None if ended => {
            reply.body = rest.to_vec();
            rest.len()
        }
        _ => return None,
    };
    Some((reply, head_end + used))
}

fn cut_short(reply: &mut Reply, rest: &[u8], fault: &'static str) -> usize {
    reply.fault = Some(fault);
    reply.body = rest.to_vec();
    rest.len()
}

/// Decodes chunks into the reply; None when they are not complete.
fn chunks(bytes: &[u8], reply: &mut Reply) -> Option<usize> {
    let (mut at, mut body) = (0, Vec::new());
    loop {
        let line = find(&bytes[at..], b"\r\n")?;
        let size = usize::from_str_radix(&latin1(&bytes[at..at + line]), 16).ok()?;
        at += line + 2;
        if size == 0 {
            break;
        }
        body.extend_from_slice(bytes.get(at..at + size)?);
        if bytes.get(at + size..at + size + 2)? != b"\r\n" {
            return None;
        }
        at += size + 2;
    }
    let mut trailers = Vec::new();
    loop {
        let line = find(&bytes[at..], b"\r\n")?;
        let text = latin1(&bytes[at..at + line]);
        at += line + 2;
        if text.is_empty() {
            break;
        }
        trailers.push(field(&text));
    }
    reply.body = body;
    reply.trailers = trailers;
    Some(at)
}

fn field(line: &str) -> (String, String) {
    match line.split_once(':') {
        Some((name, value)) => (
            name.to_string(),
            value.strip_prefix(' ').unwrap_or(value).to_string(),
        ),
        None => (line.to_string(), "[no colon]".to_string()),
    }
}

pub fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes
        .windows(needle.len())
        .position(|window| window == needle)
}

fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn bodies_end_where_their_framing_says() {
        let fixed = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabHTTP/1.1";
        let (reply, used) = parse(fixed, "GET", false).expect("complete");
        assert_eq!((reply.text().as_str(), used), ("ab", 40));
        let chunked =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n";
        let (reply, used) = parse(chunked, "GET", false).expect("complete");
        assert_eq!((reply.text().as_str(), used), ("abc", chunked.len()));
        assert_eq!(reply.trailers, [("X".to_string(), "y".to_string())]);
        assert_eq!(parse(&chunked[..60], "GET", false), None);
        let (reply, _) = parse(&chunked[..60], "GET", true).expect("what is there");
        assert!(reply.fault.is_some());
        let (reply, used) = parse(fixed, "HEAD", false).expect("complete");
        assert_eq!((reply.body.len(), used), (0, 38));
    }
}
