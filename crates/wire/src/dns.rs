//! DNS (RFC 1035, RFC 2782) as far as names of servers need it: one question, and the addresses or services that a name
//! server answers with. The messages themselves are the business of the `domain` crate.

use domain::base::iana::{Class, Opcode, Rcode};
use domain::base::name::NameBuilder;
use domain::base::{Message, MessageBuilder, Name, Rtype, ToName};
use domain::rdata::{A, Aaaa, Srv};
use std::net::IpAddr;

/// Records of an answer that are looked at; more are dropped.
pub const RECORDS_MAX: usize = 256;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    A,
    Aaaa,
    Srv,
}

impl Kind {
    fn rtype(self) -> Rtype {
        match self {
            Kind::A => Rtype::A,
            Kind::Aaaa => Rtype::AAAA,
            Kind::Srv => Rtype::SRV,
        }
    }
}

/// A question, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    pub bytes: Vec<u8>,
    kind: Kind,
}

/// One thing that a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    Address(IpAddr),
    Service {
        priority: u16,
        weight: u16,
        port: u16,
        /// A name, without the last dot.
        target: String,
    },
}

/// What a name server says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// What the name stands for, at least one thing, and for how many seconds.
    Records { records: Vec<Record>, ttl: u32 },
    /// Another name is to be asked for.
    Alias(String),
    /// The answer did not fit: ask again over TCP.
    Truncated,
    /// There is no such name, or nothing of that kind: `NOT_FOUND`; or another reason, as RFC 1035 numbers them.
    Failure(u8),
}

/// The name server could not read the question, 1 in RFC 1035; for a response that cannot be read, too.
pub const FORMAT_ERROR: u8 = 1;
/// There is no such name.
pub const NOT_FOUND: u8 = 3;

/// nginx's text for a failure.
#[must_use]
pub fn failure_text(code: u8) -> &'static str {
    match code {
        FORMAT_ERROR => "Format error",
        2 => "Server failure",
        NOT_FOUND => "Host not found",
        4 => "Unimplemented",
        5 => "Operation refused",
        _ => "Unknown error",
    }
}

impl Query {
    /// Asks for a name; `None` for what no name can be.
    #[must_use]
    pub fn new(name: &[u8], kind: Kind, id: u16) -> Option<Query> {
        let name = self::name(name)?;
        let mut builder = MessageBuilder::new_vec();
        builder.header_mut().set_id(id);
        builder.header_mut().set_rd(true);
        let mut builder = builder.question();
        builder.push((&name, kind.rtype())).ok()?;
        Some(Query {
            bytes: builder.finish(),
            kind,
        })
    }

    /// Reads a response; `None` if it answers something else.
    #[must_use]
    pub fn answer(&self, response: &[u8]) -> Option<Answer> {
        let query = Message::from_octets(&self.bytes[..]).ok()?;
        let response = Message::from_octets(response).ok()?;
        if !response.is_answer(&query) || response.header().opcode() != Opcode::QUERY {
            return None;
        }
        match response.header().rcode() {
            Rcode::NOERROR if response.header().tc() => Some(Answer::Truncated),
            Rcode::NOERROR => Some(self.records(&response)),
            code => Some(Answer::Failure(code.to_int())),
        }
    }

    fn records(&self, response: &Message<&[u8]>) -> Answer {
        let unreadable = Answer::Failure(FORMAT_ERROR);
        let Some(owner) = response.canonical_name() else {
            return unreadable;
        };
        let Some((records, ttl)) = self.records_of(response, &owner) else {
            return unreadable;
        };
        let asked = response.sole_question();
        match records.is_empty() {
            false => Answer::Records { records, ttl },
            true if asked.is_ok_and(|asked| !asked.qname().name_eq(&owner)) => {
                Answer::Alias(owner.to_string())
            }
            true => Answer::Failure(NOT_FOUND),
        }
    }

    /// What the response says of a name, and for how long; `None` if it cannot be read.
    fn records_of(
        &self,
        response: &Message<&[u8]>,
        owner: &impl ToName,
    ) -> Option<(Vec<Record>, u32)> {
        let (mut records, mut ttl) = (Vec::new(), u32::MAX);
        for record in response.answer().ok()?.take(RECORDS_MAX) {
            let record = record.ok()?;
            let wanted = record.rtype() == self.kind.rtype() && record.class() == Class::IN;
            if !wanted || !record.owner().name_eq(owner) {
                continue;
            }
            ttl = ttl.min(record.ttl().as_secs());
            records.push(match self.kind {
                Kind::A => {
                    let data = record.to_record::<A>().ok()??;
                    Record::Address(data.data().addr().into())
                }
                Kind::Aaaa => {
                    let data = record.to_record::<Aaaa>().ok()??;
                    Record::Address(data.data().addr().into())
                }
                Kind::Srv => service(record.to_record::<Srv<_>>().ok()??.data()),
            });
        }
        Some((records, ttl))
    }
}

fn service(data: &Srv<impl ToName>) -> Record {
    Record::Service {
        priority: data.priority(),
        weight: data.weight(),
        port: data.port(),
        target: data.target().to_cow().to_string(),
    }
}

/// A name of labels; one dot at its end may stand.
fn name(text: &[u8]) -> Option<Name<Vec<u8>>> {
    let text = text.strip_suffix(b".").unwrap_or(text);
    let mut builder = NameBuilder::new_vec();
    for label in text.split(|&byte| byte == b'.') {
        if label.is_empty() {
            return None;
        }
        builder.append_label(label).ok()?;
    }
    builder.into_name().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::rdata::Cname;

    fn name_of(text: &str) -> Name<Vec<u8>> {
        name(text.as_bytes()).expect("a name")
    }

    /// A response with the question `a.test` of the kind, and whatever `fill` adds.
    fn response(
        kind: Kind,
        id: u16,
        fill: impl FnOnce(&mut domain::base::message_builder::AnswerBuilder<Vec<u8>>),
    ) -> Vec<u8> {
        let mut builder = MessageBuilder::new_vec();
        builder.header_mut().set_id(id);
        builder.header_mut().set_qr(true);
        let mut builder = builder.question();
        builder
            .push((&name_of("A.test"), kind.rtype()))
            .expect("there is room");
        let mut builder = builder.answer();
        fill(&mut builder);
        builder.finish()
    }

    fn answer(kind: Kind, bytes: &[u8]) -> Option<Answer> {
        Query::new(b"a.test", kind, 7)
            .expect("a name")
            .answer(bytes)
    }

    #[test]
    fn names_are_checked() {
        for (text, valid) in [
            ("a", true),
            ("a.test.", true),
            ("", false),
            (".", false),
            ("a..b", false),
            (".a", false),
            (&"a".repeat(63), true),
            (&"a".repeat(64), false),
            (&"a.".repeat(127), true),
            (&"a.".repeat(128), false),
        ] {
            assert_eq!(name(text.as_bytes()).is_some(), valid, "{text}");
        }
    }

    #[test]
    fn addresses_are_those_of_the_name_at_the_end_of_aliases() {
        let bytes = response(Kind::A, 7, |all| {
            let (alias, other) = (name_of("b.test"), name_of("c.test"));
            all.push((&name_of("a.test"), 60, Cname::new(&alias)))
                .unwrap();
            all.push((&alias, 30, A::from_octets(192, 0, 2, 1)))
                .unwrap();
            all.push((&other, 10, A::from_octets(192, 0, 2, 9)))
                .unwrap();
            all.push((&alias, 20, A::from_octets(192, 0, 2, 2)))
                .unwrap();
        });
        let records = ["192.0.2.1", "192.0.2.2"].map(|ip| {
            let ip = ip.parse().expect("an address");
            Record::Address(ip)
        });
        let expected = Answer::Records {
            records: records.into(),
            ttl: 20,
        };
        assert_eq!(answer(Kind::A, &bytes), Some(expected));
    }

    #[test]
    fn an_alias_alone_is_followed_by_who_asked() {
        let bytes = response(Kind::Aaaa, 7, |all| {
            let alias = name_of("b.test");
            all.push((&name_of("a.test"), 60, Cname::new(&alias)))
                .unwrap();
        });
        let expected = Answer::Alias("b.test".to_owned());
        assert_eq!(answer(Kind::Aaaa, &bytes), Some(expected));
    }

    #[test]
    fn services_have_their_numbers() {
        let bytes = response(Kind::Srv, 7, |all| {
            let target = name_of("b.test");
            all.push((&name_of("a.test"), 5, Srv::new(1, 2, 8080, &target)))
                .unwrap();
        });
        let expected = Answer::Records {
            records: vec![Record::Service {
                priority: 1,
                weight: 2,
                port: 8080,
                target: "b.test".to_owned(),
            }],
            ttl: 5,
        };
        assert_eq!(answer(Kind::Srv, &bytes), Some(expected));
    }

    #[test]
    fn what_answers_another_question_is_none() {
        let nothing = |_: &mut domain::base::message_builder::AnswerBuilder<Vec<u8>>| {};
        let right = response(Kind::A, 7, nothing);
        assert_eq!(answer(Kind::A, &right), Some(Answer::Failure(NOT_FOUND)));
        assert_eq!(answer(Kind::A, &response(Kind::A, 8, nothing)), None);
        assert_eq!(answer(Kind::Aaaa, &right), None);
        let query = Query::new(b"a.test", Kind::A, 7).expect("a name");
        assert_eq!(query.answer(&query.bytes), None, "a question is no answer");
        for length in 0..right.len() {
            let cut = answer(Kind::A, &right[..length]);
            assert!(!matches!(cut, Some(Answer::Records { .. })), "{length}");
        }
    }

    #[test]
    fn failures_and_cut_answers_are_told() {
        for (flags, expected) in [
            (0, Answer::Failure(NOT_FOUND)),
            (2, Answer::Failure(2)),
            (3, Answer::Failure(NOT_FOUND)),
            (5, Answer::Failure(5)),
        ] {
            let mut bytes = response(Kind::A, 7, |_| {});
            bytes[3] |= flags;
            assert_eq!(answer(Kind::A, &bytes), Some(expected), "{flags}");
        }
        let mut bytes = response(Kind::A, 7, |_| {});
        bytes[2] |= 2;
        assert_eq!(answer(Kind::A, &bytes), Some(Answer::Truncated));
    }
}
