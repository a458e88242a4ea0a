//! What a request met of other servers, try by try: for `$upstream_…` and the log.

use bytes::Bytes;

/// A name and a value of a head or of trailers.
pub type Field = (Bytes, Bytes);

/// All tries for one request. Those for several groups, one after another by internal redirects, are set apart.
#[derive(Debug, Default)]
pub struct Trace {
    pub attempts: Vec<Attempt>,
    /// The fields of the last response, as they came; kept only if the configuration uses such a variable
    /// (`Variables::uses_upstream_fields`).
    pub fields: Vec<Field>,
    /// Those at the end of its body.
    pub trailers: Vec<Field>,
}

/// One try. Times are in milliseconds from its beginning, and `None` before they are known.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The server's address, or the group's name if it had none to give; `None` sets groups apart.
    pub peer: Option<Bytes>,
    /// 0 before there is one.
    pub status: u16,
    pub connect_ms: Option<u64>,
    pub header_ms: Option<u64>,
    pub response_ms: Option<u64>,
    /// Bytes of the body.
    pub response_length: u64,
    pub bytes_received: u64,
    pub bytes_sent: u64,
}

impl Trace {
    /// Begins the tries of a group: to be called once by each content that asks other servers.
    pub fn begin_group(trace: &mut Option<Box<Trace>>) -> &mut Trace {
        match trace {
            None => trace.insert(Box::default()),
            Some(trace) => {
                trace.attempts.push(Attempt::default());
                trace.forget_response();
                trace
            }
        }
    }

    /// Begins a try with the server of this address; with the group's name if there is no server.
    pub fn begin(&mut self, peer: Bytes) -> &mut Attempt {
        self.forget_response();
        self.attempts.push(Attempt {
            peer: Some(peer),
            ..Attempt::default()
        });
        let last = self.attempts.len() - 1;
        &mut self.attempts[last]
    }

    /// The try under way.
    pub fn last(&mut self) -> Option<&mut Attempt> {
        self.attempts.last_mut()
    }

    fn forget_response(&mut self) {
        self.fields.clear();
        self.trailers.clear();
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
        all.begin("b".into()).status = 200;
        assert_eq!(shown(all), "a, b");
        let all = Trace::begin_group(&mut trace);
        assert_eq!(shown(all), "a, b : ");
        all.begin("c".into());
        all.begin("d".into());
        assert_eq!(shown(all), "a, b : c, d");
        assert!(!Trace::default().append_each(&mut Vec::new(), |_, _| {}));
    }
}
