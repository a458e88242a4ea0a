//! Asking OCSP responders: a thread of the worker does it, over HTTP/1.0, each time on a connection of its own.

use bytes::Bytes;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc};
use wire::http1::response::Parser;

/// How long a question may take, the wait for its turn included.
const TIME_MAX: Duration = Duration::from_secs(15);
/// Bytes of an answer.
const ANSWER_MAX: usize = 64 * 1024;
/// Bytes of the head before it.
const HEAD_MAX: usize = 8 * 1024;
/// Questions that are asked at a time, and that wait.
const AT_ONCE_MAX: usize = 32;
const WAITING_MAX: usize = 1024;
const PORT: u16 = 80;

/// Where answers are had from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Responder {
    /// With a port.
    host: String,
    /// As it was written.
    authority: String,
    path: String,
}

impl Responder {
    /// Reads `http://host[:port][/path]`.
    pub fn parse(url: &str) -> Result<Responder, &'static str> {
        let scheme = url
            .get(..7)
            .filter(|scheme| scheme.eq_ignore_ascii_case("http://"));
        let rest = scheme
            .and_then(|_| url.get(7..))
            .ok_or("invalid URL prefix")?;
        let (authority, path) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => (rest, "/"),
        };
        let behind = authority
            .rsplit_once(']')
            .map_or(authority, |(_, behind)| behind);
        let host = match behind.rsplit_once(':') {
            None => format!("{authority}:{PORT}"),
            Some((_, port)) if port.parse::<u16>().is_ok_and(|port| port > 0) => {
                authority.to_owned()
            }
            Some(_) => return Err("invalid port"),
        };
        let is_text = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if authority.is_empty() || authority.starts_with(':') || !is_text(rest) {
            return Err("no host");
        }
        Ok(Responder {
            host,
            authority: authority.to_owned(),
            path: path.to_owned(),
        })
    }

    /// The host, for logs.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.authority
    }

    async fn ask(&self, question: &[u8]) -> Result<Vec<u8>, String> {
        let failed = |error: std::io::Error| error.to_string();
        let mut stream = TcpStream::connect(&self.host[..]).await.map_err(failed)?;
        let head = format!(
            "POST {} HTTP/1.0\r\nHost: {}\r\nContent-Type: application/ocsp-request\r\nContent-Length: {}\r\n\r\n",
            self.path,
            self.authority,
            question.len()
        );
        let request = [head.as_bytes(), question].concat();
        stream.write_all(&request).await.map_err(failed)?;
        let mut answer = Vec::new();
        let most = (ANSWER_MAX + HEAD_MAX) as u64;
        let mut limited = stream.take(most);
        limited.read_to_end(&mut answer).await.map_err(failed)?;
        body(&answer)
    }
}

/// The body of a response that was read to its end.
fn body(answer: &[u8]) -> Result<Vec<u8>, String> {
    let mut parser = Parser::new();
    let length = match parser.parse(answer, HEAD_MAX) {
        Ok(Some(length)) => length,
        Ok(None) => return Err("the responder closed the connection too early".to_owned()),
        Err(error) => return Err(error.to_string()),
    };
    let head = parser.head();
    if head.status != 200 {
        return Err(format!(
            "the responder answered with status {}",
            head.status
        ));
    }
    let announced = head
        .value(wire::http1::Known::ContentLength, answer)
        .and_then(wire::http1::body::parse_content_length);
    let rest = answer.get(length..).unwrap_or_default();
    match announced.map(usize::try_from) {
        Some(Ok(announced)) if announced <= rest.len() => Ok(rest[..announced].to_vec()),
        Some(_) => Err("the responder closed the connection too early".to_owned()),
        None if rest.len() > ANSWER_MAX => Err("the answer is too large".to_owned()),
        None => Ok(rest.to_vec()),
    }
}

type Then = Box<dyn FnOnce(Result<Vec<u8>, String>) + Send>;

/// A question, and what is done with the answer.
struct Question {
    responder: Responder,
    question: Bytes,
    then: Then,
}

/// Tells the thread what is to be asked.
static ASKER: LazyLock<Mutex<Option<mpsc::Sender<Question>>>> = LazyLock::new(Mutex::default);

/// Asks, and hands the answer to `then` on another thread. Without a place in the queue it is handed an error at once.
pub fn ask(
    responder: &Responder,
    question: Vec<u8>,
    then: impl FnOnce(Result<Vec<u8>, String>) + Send + 'static,
) {
    let question = Question {
        responder: responder.clone(),
        question: question.into(),
        then: Box::new(then),
    };
    let mut asker = ASKER.lock().unwrap_or_else(PoisonError::into_inner);
    if asker.as_ref().is_none_or(mpsc::Sender::is_closed) {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let thread = std::thread::Builder::new().name("ocsp".to_owned());
        *asker = thread
            .spawn(move || run(receiver))
            .is_ok()
            .then_some(sender);
    }
    let unsent = match asker.as_ref() {
        Some(sender) => match sender.try_send(question) {
            Ok(()) => return,
            Err(mpsc::error::TrySendError::Full(question)) => (question, "too many questions wait"),
            Err(mpsc::error::TrySendError::Closed(question)) => (question, "the thread has ended"),
        },
        None => (question, "the thread failed to start"),
    };
    drop(asker);
    let (question, why) = unsent;
    (question.then)(Err(why.to_owned()));
}

fn run(mut receiver: mpsc::Receiver<Question>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    // Without one the channel closes, and whoever asks is told so.
    let Ok(runtime) = runtime else { return };
    let places = std::sync::Arc::new(Semaphore::new(AT_ONCE_MAX));
    runtime.block_on(async move {
        while let Some(asked) = receiver.recv().await {
            let places = std::sync::Arc::clone(&places);
            tokio::spawn(async move {
                let answered = tokio::time::timeout(TIME_MAX, async {
                    let _place = places.acquire().await.map_err(|error| error.to_string())?;
                    asked.responder.ask(&asked.question).await
                });
                let answer = answered
                    .await
                    .unwrap_or_else(|_| Err("timed out".to_owned()));
                (asked.then)(answer);
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_responders() {
        for (url, expected) in [
            ("http://a.example", Ok(("a.example:80", "/"))),
            ("HTTP://a.example:81/x/y", Ok(("a.example:81", "/x/y"))),
            ("http://[::1]/", Ok(("[::1]:80", "/"))),
            ("http://[::1]:8/", Ok(("[::1]:8", "/"))),
            ("https://a/", Err("invalid URL prefix")),
            ("http://", Err("no host")),
            ("http://a:b/", Err("invalid port")),
            ("http://a /", Err("no host")),
        ] {
            let parsed = Responder::parse(url);
            let parsed = parsed.as_ref().map(|it| (&it.host[..], &it.path[..]));
            assert_eq!(parsed.map_err(|error| *error), expected, "{url}");
        }
    }

    #[test]
    fn bodies_of_answers() {
        for (answer, expected) in [
            ("HTTP/1.0 200 OK\r\n\r\nabc", Ok("abc")),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabc", Ok("ab")),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc",
                Err("the responder closed the connection too early"),
            ),
            (
                "HTTP/1.1 404 No\r\n\r\n",
                Err("the responder answered with status 404"),
            ),
            ("", Err("the responder closed the connection too early")),
        ] {
            let body = body(answer.as_bytes());
            let body = body
                .as_ref()
                .map(|body| std::str::from_utf8(body).expect("text"));
            assert_eq!(body.map_err(|error| &error[..]), expected, "{answer}");
        }
    }
}
