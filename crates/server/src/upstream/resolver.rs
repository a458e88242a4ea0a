//! `resolver`: names are looked up at run time, without blocking, and what is found is kept as long as it is valid. All
//! threads share what one of them found; a name is asked for once at a time.

pub mod directive; // resolver, resolver_timeout
mod exchange; // one question to one name server

use crate::log::error::{self, Level};
pub use directive::{DIRECTIVES, Raw, Settings};
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use wire::dns::{self, Answer, Kind, Record};

/// Names that are kept; when there are more, those that are out of date go, or all of them.
const KNOWN_MAX: usize = 4096;
/// Names that are asked for at the same time; more fail.
const ASKING_MAX: usize = 1024;
/// Aliases of aliases that are followed.
const ALIASES_MAX: usize = 16;
/// How long a name server may take before the next one is asked.
const RESEND: Duration = Duration::from_secs(5);
/// How long a name is asked for at most.
const EXPIRE: Duration = Duration::from_secs(30);
/// Longer validity is cut.
const VALID_MAX: u64 = 10 * 365 * 24 * 60 * 60;

/// Why a name was not found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// As a name server said, by RFC 1035's numbers.
    Code(u8),
    TimedOut,
}

impl Failure {
    pub const NOT_FOUND: Failure = Failure::Code(dns::NOT_FOUND);
}

impl fmt::Display for Failure {
    /// As nginx's log has it.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Code(code) => write!(out, "{code}: {}", dns::failure_text(*code)),
            Failure::TimedOut => out.write_str("110: Operation timed out"),
        }
    }
}

/// What a name stands for.
#[derive(Debug, Clone)]
pub struct Found {
    pub records: Arc<[Record]>,
    pub valid_until: Instant,
}

impl Found {
    /// The addresses, the IPv4 ones first.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.records.iter().filter_map(|record| match record {
            Record::Address(ip) => Some(*ip),
            Record::Service { .. } => None,
        })
    }
}

type Outcome = Result<Found, Failure>;
/// Services or addresses, and the name in lower case.
type Question = (bool, Box<[u8]>);

/// The name servers of a block, and what they said.
#[derive(Debug)]
pub struct Resolver {
    servers: Vec<SocketAddr>,
    /// Seconds, in place of what the answers say.
    valid: Option<u64>,
    ipv4: bool,
    ipv6: bool,
    /// The name server whose turn it is.
    turn: AtomicUsize,
    names: Mutex<Names>,
}

#[derive(Debug, Default)]
struct Names {
    known: HashMap<Question, Found>,
    asking: HashMap<Question, watch::Receiver<Option<Outcome>>>,
}

impl Resolver {
    /// The addresses of a name.
    pub async fn addresses(self: &Arc<Self>, name: &[u8], within: Duration) -> Outcome {
        self.look_up((false, normal(name)), within).await
    }

    /// The services of a name: its SRV records.
    pub async fn services(self: &Arc<Self>, name: &[u8], within: Duration) -> Outcome {
        self.look_up((true, normal(name)), within).await
    }

    async fn look_up(self: &Arc<Self>, question: Question, within: Duration) -> Outcome {
        let mut answer = match self.begin(question) {
            Ok(answer) => answer,
            Err(outcome) => return outcome,
        };
        // Nobody is left to answer if the thread that asks has ended.
        let answered = async {
            match answer.wait_for(Option::is_some).await {
                Ok(outcome) => outcome.clone().unwrap_or(Err(Failure::TimedOut)),
                Err(_) => Err(Failure::TimedOut),
            }
        };
        let answered = tokio::time::timeout(within, answered).await;
        answered.unwrap_or(Err(Failure::TimedOut))
    }

    /// Where the answer will come, or the answer if it is known.
    fn begin(
        self: &Arc<Self>,
        question: Question,
    ) -> Result<watch::Receiver<Option<Outcome>>, Outcome> {
        let mut names = self.names();
        if let Some(found) = names.known.get(&question)
            && found.valid_until > Instant::now()
        {
            return Err(Ok(found.clone()));
        }
        if let Some(asking) = names.asking.get(&question) {
            return Ok(asking.clone());
        }
        if names.asking.len() >= ASKING_MAX {
            return Err(Err(Failure::TimedOut));
        }
        let (sender, receiver) = watch::channel(None);
        names.asking.insert(question.clone(), receiver.clone());
        drop(names);
        let asked = Asked {
            resolver: Arc::clone(self),
            question,
        };
        // By itself, since whoever asks first may go away while others wait.
        tokio::task::spawn_local(async move {
            let outcome = asked.resolver.ask(&asked.question).await;
            asked.settle(&outcome);
            sender.send_replace(Some(outcome));
        });
        Ok(receiver)
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for all that belongs to a question, along its aliases.
    async fn ask(&self, question: &Question) -> Outcome {
        let (services, name) = question;
        let (records, ttl) = match services {
            true => self.follow(name, Kind::Srv).await?,
            false => match (self.ipv4, self.ipv6) {
                (true, false) => self.follow(name, Kind::A).await?,
                (false, _) => self.follow(name, Kind::Aaaa).await?,
                (true, true) => join(tokio::join!(
                    self.follow(name, Kind::A),
                    self.follow(name, Kind::Aaaa)
                ))?,
            },
        };
        let valid = self.valid.unwrap_or(u64::from(ttl)).min(VALID_MAX);
        Ok(Found {
            records: records.into(),
            valid_until: Instant::now() + Duration::from_secs(valid),
        })
    }

    /// The records of a kind, of the name or of what it is an alias of, and how long they are valid.
    async fn follow(&self, name: &[u8], kind: Kind) -> Result<(Vec<Record>, u32), Failure> {
        let mut name = name.to_vec();
        for _ in 0..ALIASES_MAX {
            match self.exchange(&name, kind).await? {
                Answer::Records { records, ttl } => return Ok((records, ttl)),
                Answer::Alias(alias) => name = alias.into_bytes(),
                Answer::Failure(code) => return Err(Failure::Code(code)),
                // `exchange` has asked over TCP, where all has room.
                Answer::Truncated => return Err(Failure::Code(dns::FORMAT_ERROR)),
            }
        }
        Err(Failure::NOT_FOUND)
    }

    /// Asks the name servers in turn until one answers. One that cannot tell leaves it to the next, unless it is the last.
    async fn exchange(&self, name: &[u8], kind: Kind) -> Result<Answer, Failure> {
        let begun = Instant::now();
        loop {
            let (pass, mut refusal) = (Instant::now(), None);
            for _ in &self.servers {
                let turn = self.turn.fetch_add(1, Relaxed) % self.servers.len();
                let server = self.servers[turn];
                let asked = exchange::ask(server, name, kind);
                match tokio::time::timeout(RESEND, asked).await {
                    Ok(Ok(Some(refused @ Answer::Failure(2 | 5)))) => refusal = Some(refused),
                    Ok(Ok(Some(answer))) => return Ok(answer),
                    // What cannot be a name is not asked for.
                    Ok(Ok(None)) => return Err(Failure::NOT_FOUND),
                    Ok(Err(failed)) => complain(&failed, server),
                    Err(_) => {}
                }
                if begun.elapsed() >= EXPIRE {
                    return Err(Failure::TimedOut);
                }
            }
            if let Some(refusal) = refusal {
                return Ok(refusal);
            }
            tokio::time::sleep_until((pass + RESEND).into()).await;
        }
    }
}

fn complain(failed: &exchange::Failed, server: SocketAddr) {
    let exchange::Failed { call, error } = failed;
    let error = sys::errno::Errno(error);
    error::write(
        Level::Error,
        format_args!("{call}() failed ({error}) while resolving, resolver: {server}"),
    );
}

/// A question under way; whatever becomes of it, it is not under way any more in the end.
struct Asked {
    resolver: Arc<Resolver>,
    question: Question,
}

impl Asked {
    fn settle(&self, outcome: &Outcome) {
        let mut names = self.resolver.names();
        names.asking.remove(&self.question);
        if let Ok(found) = outcome {
            let now = Instant::now();
            if names.known.len() >= KNOWN_MAX {
                names.known.retain(|_, found| found.valid_until > now);
            }
            if names.known.len() >= KNOWN_MAX {
                names.known.clear();
            }
            names.known.insert(self.question.clone(), found.clone());
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.resolver.names().asking.remove(&self.question);
    }
}

type Part = Result<(Vec<Record>, u32), Failure>;

/// What both families gave. One that has nothing takes nothing away.
fn join(parts: (Part, Part)) -> Part {
    match parts {
        (Ok((mut one, ttl)), Ok((mut other, other_ttl))) => {
            one.append(&mut other);
            Ok((one, ttl.min(other_ttl)))
        }
        (Ok(part), Err(_)) | (Err(_), Ok(part)) => Ok(part),
        (Err(Failure::Code(dns::NOT_FOUND)), Err(failure)) | (Err(failure), Err(_)) => Err(failure),
    }
}

/// The name in lower case, without the dot that ends it.
fn normal(name: &[u8]) -> Box<[u8]> {
    let name = name.strip_suffix(b".").unwrap_or(name);
    name.to_ascii_lowercase().into()
}

#[cfg(test)]
mod tests;
