//! `ssl_ocsp`: certificates of clients are looked up at their issuers' responders before the first request is answered,
//! and what was said is kept for a while (`ssl_ocsp_cache`).

use super::message::{Status, Subject, responder_of};
use super::now;
use super::responder::{self, Responder};
use crate::log::error::{self, Level};
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use tokio::sync::oneshot;

/// A word without an end holds for so many seconds.
const HOLDS: i64 = 3600;
/// A word takes about so many bytes of a zone.
const WORD_BYTES: u64 = 256;

/// Which certificates of a path are looked up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    #[default]
    Off,
    All,
    /// The client's own only.
    Leaf,
}

/// Why a certificate is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    Revoked,
    Failed,
}

impl Trouble {
    /// nginx's words.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Trouble::Revoked => "certificate revoked",
            Trouble::Failed => "certificate status request failed",
        }
    }
}

/// What was said, until when it holds, by the identifiers of certificates.
type Said = HashMap<Box<[u8]>, (Status, i64)>;

#[derive(Debug)]
struct Words {
    most: usize,
    said: Mutex<Said>,
}

type Zones = HashMap<(Bytes, u64), Weak<Words>>;

static ZONES: LazyLock<Mutex<Zones>> = LazyLock::new(Mutex::default);

impl Words {
    /// The zone of this name, which outlives a reload that keeps it.
    fn zone(name: &Bytes, size: u64) -> Arc<Words> {
        let mut zones = ZONES.lock().unwrap_or_else(PoisonError::into_inner);
        zones.retain(|_, zone| zone.strong_count() > 0);
        let place = (name.clone(), size);
        if let Some(zone) = zones.get(&place).and_then(Weak::upgrade) {
            return zone;
        }
        let zone = Arc::new(Words {
            most: usize::try_from(size / WORD_BYTES).unwrap_or(usize::MAX),
            said: Mutex::default(),
        });
        zones.insert(place, Arc::downgrade(&zone));
        zone
    }

    fn find(&self, id: &[u8], now: i64) -> Option<Status> {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let (status, until) = said.get(id)?;
        (*until >= now).then_some(*status)
    }

    fn put(&self, id: &[u8], status: Status, until: i64, now: i64) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() >= self.most {
            said.retain(|_, (_, until)| *until >= now);
        }
        // What ends soonest makes room.
        if said.len() >= self.most
            && let Some(soonest) = said.iter().min_by_key(|(_, (_, until))| *until)
        {
            let soonest = soonest.0.clone();
            said.remove(&soonest);
        }
        said.insert(id.into(), (status, until));
    }
}

/// What a server asks of whom.
#[derive(Debug)]
pub struct Client {
    mode: Mode,
    /// `ssl_ocsp_responder`; else each certificate says.
    responder: Option<Responder>,
    words: Option<Arc<Words>>,
}

impl Client {
    /// `None` where nothing is asked. `cache` has the name and the size of a zone.
    pub fn new(
        mode: Mode,
        responder: &str,
        cache: Option<&(Bytes, u64)>,
    ) -> Result<Option<Client>, String> {
        if mode == Mode::Off {
            return Ok(None);
        }
        let responder = match responder {
            "" => None,
            url => Some(Responder::parse(url).map_err(|why| {
                format!("{why} in OCSP responder \"{url}\" in \"ssl_ocsp_responder\"")
            })?),
        };
        Ok(Some(Client {
            mode,
            responder,
            words: cache.map(|(name, size)| Words::zone(name, *size)),
        }))
    }

    /// What is to be asked about a path of certificates, the client's own first, the one that signed itself last.
    #[must_use]
    pub fn check(&self, path: &[Vec<u8>]) -> Check {
        let pairs = path.windows(2).take(match self.mode {
            Mode::Leaf => 1,
            Mode::Off | Mode::All => usize::MAX,
        });
        let questions = pairs.map(|pair| {
            let (certificate, issuer) = match pair {
                [certificate, issuer] => (certificate, issuer),
                _ => return None,
            };
            let responder = match &self.responder {
                Some(responder) => responder.clone(),
                None => Responder::parse(&responder_of(certificate)?).ok()?,
            };
            Some((Subject::new(certificate, issuer)?, responder))
        });
        Check {
            questions: questions.collect(),
            words: self.words.clone(),
        }
    }
}

/// A look-up under way.
pub struct Check {
    questions: Vec<Option<(Subject, Responder)>>,
    words: Option<Arc<Words>>,
}

impl Check {
    /// Asks for each certificate; `None` if nothing is wrong with any.
    pub async fn run(self) -> Option<Trouble> {
        for question in self.questions {
            let Some((subject, responder)) = question else {
                error::write(
                    Level::Error,
                    format_args!("no OCSP responder URL in a client's certificate"),
                );
                return Some(Trouble::Failed);
            };
            match status(subject, &responder, self.words.as_ref()).await {
                Some(Status::Good) => {}
                Some(Status::Revoked) => return Some(Trouble::Revoked),
                Some(Status::Unknown) | None => return Some(Trouble::Failed),
            }
        }
        None
    }
}

/// What the responder says, or has said.
async fn status(
    subject: Subject,
    responder: &Responder,
    words: Option<&Arc<Words>>,
) -> Option<Status> {
    let known = words.and_then(|words| words.find(subject.id(), now()));
    if known.is_some() {
        return known;
    }
    let (sender, receiver) = oneshot::channel();
    responder::ask(responder, subject.request(), move |answer| {
        // Whoever asked may be gone.
        let _gone = sender.send(answer);
    });
    let answer = receiver
        .await
        .unwrap_or_else(|_| Err("the thread has ended".to_owned()));
    let now = now();
    match answer.and_then(|answer| subject.read(&answer, now)) {
        Ok(answer) => {
            if let (Some(words), Status::Good | Status::Revoked) = (words, answer.status) {
                words.put(
                    subject.id(),
                    answer.status,
                    answer.until.unwrap_or(now + HOLDS),
                    now,
                );
            }
            Some(answer.status)
        }
        Err(why) => {
            let responder = responder.name();
            error::write(
                Level::Error,
                format_args!("{why} while requesting certificate status, responder: {responder}"),
            );
            None
        }
    }
}
