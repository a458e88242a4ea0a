//! `ssl_stapling`: the issuer's word on our own certificate, fetched when clients come for it and what is there grows old.
//! The first client after a start gets none, as with nginx.

use super::message::{Status, Subject, responder_of};
use super::now;
use super::responder::{self, Responder};
use crate::log::error::{self, Level};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

/// An answer is fetched anew after this time, in seconds, and so long before it ceases to hold; as nginx.
const REFRESH_MAX: i64 = 3600;
const REFRESH_BEFORE: i64 = 300;
/// Seconds between two questions.
const PAUSE: i64 = 300;

/// What the directives say.
#[derive(Debug, Clone, Copy)]
pub struct Stapling<'a> {
    /// `ssl_stapling_responder`.
    pub responder: &'a str,
    /// `ssl_trusted_certificate` and kin, where an issuer may be that does not stand behind the certificate.
    pub issuers: &'a [Vec<u8>],
}

/// The word on one certificate. It outlives a reload that leaves the certificate as it is.
#[derive(Debug)]
pub struct Staple {
    subject: Subject,
    responder: Responder,
    /// The certificate's file, for logs.
    name: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The answer, and when it ceases to hold.
    answer: Option<(Arc<[u8]>, i64)>,
    /// The certificate with it.
    stapled: Option<Arc<CertifiedKey>>,
    refresh: i64,
    asking: bool,
}

type Known = HashMap<(Vec<u8>, Responder), Weak<Staple>>;

static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

impl Staple {
    /// For a certificate with its chain, read from `name`; an error is nginx's reason to leave it without.
    pub fn of(
        key: &CertifiedKey,
        name: &str,
        stapling: Stapling<'_>,
    ) -> Result<Arc<Staple>, String> {
        let none = || format!("issuer certificate not found for certificate \"{name}\"");
        let certificate = key.cert.first().ok_or_else(none)?;
        let behind = key.cert.iter().skip(1).map(|der| &der[..]);
        let issuers = behind.chain(stapling.issuers.iter().map(|der| &der[..]));
        let subject = { issuers }
            .find_map(|issuer| Subject::new(certificate, issuer))
            .ok_or_else(none)?;
        let url = match stapling.responder {
            "" => responder_of(certificate)
                .ok_or_else(|| format!("no OCSP responder URL in the certificate \"{name}\""))?,
            written => written.to_owned(),
        };
        let responder = Responder::parse(&url).map_err(|why| {
            format!("{why} in OCSP responder \"{url}\" in the certificate \"{name}\"")
        })?;
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, staple| staple.strong_count() > 0);
        let place = (certificate.to_vec(), responder.clone());
        if let Some(staple) = known.get(&place).and_then(Weak::upgrade) {
            return Ok(staple);
        }
        let staple = Arc::new(Staple {
            subject,
            responder,
            name: name.to_owned(),
            state: Mutex::default(),
        });
        known.insert(place, Arc::downgrade(&staple));
        Ok(staple)
    }

    /// The certificate with the issuer's word, if that is there and holds. Asks for it where it is missing or old.
    #[must_use]
    pub fn stapled(self: &Arc<Staple>, key: &Arc<CertifiedKey>) -> Option<Arc<CertifiedKey>> {
        let now = now();
        let mut state = self.lock();
        if now >= state.refresh && !state.asking {
            state.asking = true;
            self.ask();
        }
        let (answer, until) = state.answer.clone()?;
        if until < now {
            return None;
        }
        // A reload may have read the key anew.
        if let Some(stapled) = &state.stapled
            && Arc::ptr_eq(&stapled.key, &key.key)
        {
            return Some(Arc::clone(stapled));
        }
        let mut stapled = CertifiedKey::clone(key);
        stapled.ocsp = Some(answer.to_vec());
        let stapled = Arc::new(stapled);
        state.stapled = Some(Arc::clone(&stapled));
        Some(stapled)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(self: &Arc<Staple>) {
        let own = Arc::clone(self);
        responder::ask(&self.responder, self.subject.request(), move |answer| {
            own.take(answer);
        });
    }

    fn take(&self, answer: Result<Vec<u8>, String>) {
        let now = now();
        let read = answer.and_then(|answer| {
            let read = self.subject.read(&answer, now)?;
            match read.status {
                Status::Good => Ok((answer, read.until)),
                status => {
                    let status = status.as_str();
                    Err(format!(
                        "certificate status \"{status}\" in the OCSP response"
                    ))
                }
            }
        });
        let mut state = self.lock();
        state.asking = false;
        state.refresh = now + PAUSE;
        match read {
            Ok((answer, until)) => {
                // One that does not say how long it holds is fetched anew, and kept until then.
                let until = until.unwrap_or(now + REFRESH_MAX);
                state.refresh = (until - REFRESH_BEFORE)
                    .min(now + REFRESH_MAX)
                    .max(now + PAUSE);
                state.answer = Some((answer.into(), until));
                state.stapled = None;
            }
            Err(why) => {
                let (responder, name) = (self.responder.name(), &self.name);
                error::write(
                    Level::Error,
                    format_args!(
                        "{why} while requesting certificate status, responder: {responder}, certificate: \"{name}\""
                    ),
                );
            }
        }
    }
}
