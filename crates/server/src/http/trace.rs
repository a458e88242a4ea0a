//! What a request met of other servers, try by try: for `$upstream_…` and the log.

use super::thread;
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A name and a value of a head or of trailers.
pub type Field = (Bytes, Bytes);

/// All tries for one request. Those for several groups, one after another by internal redirects, are set apart.
#[derive(Debug, Default)]
pub struct Trace {
    pub attempts: Vec<Rc<Attempt>>,
    /// The fields of the last response, as they came; kept only if the configuration uses such a variable
    /// (`Variables::uses_upstream_fields`).
    pub fields: Vec<Field>,
    /// What its body goes on to tell.
    pub late: Rc<Late>,
    /// Where the request goes, as logs name it: `http://127.0.0.1:8080/path`.
    pub destination: Bytes,
    /// `$pool_queue_time`: milliseconds that the request waited for a worker of a pool.
    pub queued_ms: Option<u64>,
}

/// What is only known while the body is read.
#[derive(Debug, Default)]
pub struct Late {
    /// The fields at the end of the body.
    pub trailers: RefCell<Vec<Field>>,
    /// For the error log, in nginx's words; whoever holds the request writes them there.
    pub messages: RefCell<Vec<Message>>,
}

/// A line for the error log.
#[derive(Debug)]
pub struct Message {
    pub severity: Severity,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    Info,
    Warning,
    Error,
    Critical,
}

/// Messages that wait for the log at most; what comes beyond is dropped.
const MESSAGES_MAX: usize = 64;

impl Late {
    pub fn say(&self, severity: Severity, text: impl Into<String>) {
        let mut messages = self.messages.borrow_mut();
        if messages.len() < MESSAGES_MAX {
            messages.push(Message {
                severity,
                text: text.into(),
            });
        }
    }
}

/// One try. Times are in milliseconds from its beginning, and `None` before they are known. The body of the response
/// goes on writing into it.
#[derive(Debug, Default)]
pub struct Attempt {
    /// The server's address, or the group's name if it had none to give; `None` sets groups apart.
    pub peer: Option<Bytes>,
    /// The thread's monotonic milliseconds at its beginning.
    pub started_ms: u64,
    /// 0 before there is one.
    pub status: Cell<u16>,
    pub connect_ms: Cell<Option<u64>>,
    pub header_ms: Cell<Option<u64>>,
    pub response_ms: Cell<Option<u64>>,
    /// Bytes of the body.
    pub response_length: Cell<u64>,
    pub bytes_received: Cell<u64>,
    pub bytes_sent: Cell<u64>,
}

impl Attempt {
    /// Milliseconds since the beginning.
    #[must_use]
    pub fn elapsed_ms(&self) -> u64 {
        thread::monotonic_ms().saturating_sub(self.started_ms)
    }

    /// Notes the end, once.
    pub fn end(&self) {
        if self.response_ms.get().is_none() {
            self.response_ms.set(Some(self.elapsed_ms()));
        }
    }
}

impl Trace {
    /// Begins the tries of a group: to be called once by each content that asks other servers.
    pub fn begin_group(trace: &mut Option<Box<Trace>>) -> &mut Trace {
        match trace {
            None => trace.insert(Box::default()),
            Some(trace) => {
                if !trace.attempts.is_empty() {
                    trace.attempts.push(Rc::default());
                }
                trace.forget_response();
                trace
            }
        }
    }

    /// Begins a try with the server of this address; with the group's name if there is no server.
    pub fn begin(&mut self, peer: Bytes) -> Rc<Attempt> {
        self.forget_response();
        let attempt = Rc::new(Attempt {
            peer: Some(peer),
            started_ms: thread::monotonic_ms(),
            ..Attempt::default()
        });
        self.attempts.push(Rc::clone(&attempt));
        attempt
    }

    fn forget_response(&mut self) {
        self.fields.clear();
        self.late.trailers.borrow_mut().clear();
    }

    /// Appends a value of each try, as nginx joins them; false if there was none.
    pub fn append_each(&self, out: &mut Vec<u8>, append: impl Fn(&Attempt, &mut Vec<u8>)) -> bool {
        let mut attempts = self.attempts.iter();
        let Some(first) = attempts.next() else {
            return false;
        };
        append(first, out);
        while let Some(attempt) = attempts.next() {
            if attempt.peer.is_some() {
                out.extend_from_slice(b", ");
                append(attempt, out);
                continue;
            }
            out.extend_from_slice(b" : ");
            if let Some(next) = attempts.next() {
                append(next, out);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_joined_by_commas_and_groups_by_colons() {
        let shown = |trace: &Trace| {
            let mut out = Vec::new();
            trace.append_each(&mut out, |attempt, out| {
                out.extend_from_slice(attempt.peer.as_deref().unwrap_or(b"?"));
            });
            String::from_utf8(out).expect("ASCII")
        };
        let mut trace = None;
        Trace::begin_group(&mut trace).begin("a".into());
        let all = trace.as_mut().expect("begun");
        assert_eq!(shown(all), "a");
        all.begin("b".into()).status.set(200);
        assert_eq!(shown(all), "a, b");
        let all = Trace::begin_group(&mut trace);
        assert_eq!(shown(all), "a, b : ");
        all.begin("c".into());
        all.begin("d".into());
        assert_eq!(shown(all), "a, b : c, d");
        assert!(!Trace::default().append_each(&mut Vec::new(), |_, _| {}));
    }
}
