//! `acme_issuer`, `acme_shared_zone` and `acme_certificate` as they are written.

use super::certificates::Slot;
use crate::config::build::{Build, Paths};
use crate::config::directive::{Arity, HTTP, Outcome, SERVER, Set, block, row};
use crate::config::setting::Complaint;
use crate::routing::hosts::ServerName;
use acme::challenge::Challenge;
use acme::{External, Issuer, Kind, Trust, Wanted};
use conf::table::Row;
use conf::{Directive, Item, Word, values};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use std::path::PathBuf;
use std::sync::Arc;
use wire::fields::base64;

/// Where states are kept if nothing else is said, and the prefix is the built-in one.
const BUILT_IN: &str = "/var/lib/gannet";
/// nginx wants eight pages at least.
const ZONE_MIN: u64 = 8 * 4096;
/// Names that one certificate may have.
const NAMES_MAX: usize = 100;

pub const DIRECTIVES: &[Row<Set>] = &[
    block(
        "acme_issuer",
        HTTP,
        Arity::Exactly(1),
        issuer,
        "A server that issues certificates (ACME): `uri`, `account_key`, `challenge`, `contact`, `external_account_key`, `profile`, `ssl_trusted_certificate`, `ssl_verify`, `state_path`, `accept_terms_of_service`.",
    ),
    row(
        "acme_shared_zone",
        HTTP,
        Arity::Exactly(1),
        shared_zone,
        "Accepted: all threads share the certificates and the answers.",
    ),
    row(
        "acme_certificate",
        SERVER,
        Arity::AtLeast(1),
        certificate,
        "A certificate that an `acme_issuer` is asked for: names, else those of `server_name`, and `key=`; it is in `$acme_certificate` and `$acme_certificate_key`.",
    ),
];

/// An issuer with its name and the directory of its state.
#[derive(Debug)]
pub struct Place {
    pub name: String,
    pub issuer: Issuer,
    pub state: Option<PathBuf>,
}

/// The issuers of a configuration.
#[derive(Debug, Default)]
pub struct Issuers(Vec<Arc<Place>>);

/// An `acme_certificate`.
#[derive(Debug, Clone)]
pub struct Asked {
    issuer: String,
    names: Vec<String>,
    key: Kind,
}

crate::config::setting::settings! {
    certificate: Option<Arc<Asked>> = None,
}

impl Issuers {
    /// The certificate that a server wants.
    pub fn slot(
        &self,
        settings: &Settings,
        names: &[ServerName],
    ) -> Result<Option<Arc<Slot>>, String> {
        let Some(asked) = &settings.certificate else {
            return Ok(None);
        };
        let found = self.0.iter().find(|place| place.name == asked.issuer);
        let Some(place) = found else {
            return Err(format!("acme_issuer \"{}\" is not defined", asked.issuer));
        };
        let mut wanted = Wanted {
            names: asked.names.clone(),
            key: asked.key,
        };
        if wanted.names.is_empty() {
            let plain = names.iter().filter(|name| name.as_pattern().is_none());
            let shown = plain.map(|name| String::from_utf8_lossy(&name.shown()).into_owned());
            wanted.names = shown.filter(|name| !name.is_empty()).collect();
        }
        wanted.names.sort();
        wanted.names.dedup();
        if let Some(name) = wanted.names.iter().find(|name| name.contains('*')) {
            return Err(format!(
                "acme_certificate: \"{name}\" has a wildcard, which no challenge of HTTP or TLS can prove; name what is wanted"
            ));
        }
        match wanted.names.len() {
            0 => Err("acme_certificate has no name to ask for: say server_name".to_owned()),
            1..=NAMES_MAX => Ok(Some(Arc::new(Slot::new(Arc::clone(place), wanted)))),
            _ => Err(format!(
                "acme_certificate: more than {NAMES_MAX} names for one certificate"
            )),
        }
    }
}

fn issuer(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let name = directive.args[0].to_string();
    if build.http.acme.0.iter().any(|known| known.name == name) {
        return Err(format!("duplicate acme_issuer \"{name}\"").into());
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if name.is_empty() || name.starts_with('.') || !name.bytes().all(plain) {
        return Err(format!("invalid name of an acme_issuer \"{name}\"").into());
    }
    let mut reading = Reading {
        place: Place {
            state: Some(built_in_state(build.paths, &name)),
            name,
            issuer: Issuer::default(),
        },
        seen: Vec::new(),
        verify: true,
    };
    for item in directive.block.iter().flat_map(|block| &block.items) {
        let item = match item {
            Item::Directive(item) => item,
            Item::Error(error) => return Err(Complaint::bare(error.to_string())),
        };
        // The line of the item, not of the block.
        reading
            .entry(build, item)
            .map_err(|why| Complaint::bare(item.error(why).to_string()))?;
    }
    let mut place = reading.place;
    if place.issuer.directory.is_empty() {
        return Err(format!("acme_issuer \"{}\" has no \"uri\"", place.name).into());
    }
    if !reading.verify {
        place.issuer.trust = Trust::Anyone;
    }
    build.http.acme.0.push(Arc::new(place));
    Ok(())
}

fn built_in_state(paths: &Paths, name: &str) -> PathBuf {
    let directory = format!("acme_{name}");
    match paths.prefix == std::path::Path::new(crate::config::defaults::PREFIX) {
        true => PathBuf::from(BUILT_IN).join(directory),
        false => paths.in_prefix(&directory),
    }
}

/// A block under way.
struct Reading {
    place: Place,
    /// What may stand once and has.
    seen: Vec<String>,
    verify: bool,
}

impl Reading {
    fn entry(&mut self, build: &Build<'_>, item: &Directive) -> Result<(), String> {
        if item.block.is_some() {
            return Err("unexpected \"{\"".to_owned());
        }
        let name = item.name.to_string();
        if name != "contact" && self.seen.contains(&name) {
            return Err(format!("\"{name}\" directive is duplicate"));
        }
        let issuer = &mut self.place.issuer;
        match (name.as_str(), &item.args[..]) {
            ("uri", [uri]) => {
                let uri = uri.to_string();
                if !uri.starts_with("https://") {
                    return Err(format!("\"uri\" must begin with \"https://\": \"{uri}\""));
                }
                issuer.directory = uri;
            }
            ("account_key", [key]) => issuer.account_key = account_key(build, key)?,
            ("challenge", [word]) => {
                issuer.challenge = Challenge::named(&word.to_string()).ok_or_else(|| {
                    format!("unknown challenge \"{word}\": http-01 and tls-alpn-01 are known")
                })?;
            }
            ("contact", [contact]) => {
                let contact = contact.to_string();
                issuer.contacts.push(match contact.contains(':') {
                    true => contact,
                    false => format!("mailto:{contact}"),
                });
            }
            ("external_account_key", [id, key]) => {
                issuer.external = Some(external(build, id, key)?)
            }
            ("profile", [profile]) => issuer.profile = Some((profile.to_string(), false)),
            ("profile", [profile, word]) if word[..] == *b"require" => {
                issuer.profile = Some((profile.to_string(), true));
            }
            ("preferred_chain", [_]) => {
                return Err(
                    "\"preferred_chain\" is not supported by gannet yet: the server's default chain is taken"
                        .to_owned(),
                );
            }
            ("ssl_trusted_certificate", [file]) => issuer.trust = Trust::Roots(roots(build, file)?),
            ("ssl_verify", [word]) => {
                self.verify = values::parse_flag(word).ok_or_else(|| {
                    format!(
                        "invalid value \"{word}\" in \"ssl_verify\" directive, it must be \"on\" or \"off\""
                    )
                })?;
            }
            ("state_path", [path]) if path[..] == *b"off" => self.place.state = None,
            ("state_path", [path]) => {
                self.place.state = Some(build.paths.in_prefix(&path.to_string()));
            }
            ("accept_terms_of_service", []) => issuer.terms_accepted = true,
            (
                "uri"
                | "account_key"
                | "challenge"
                | "contact"
                | "external_account_key"
                | "profile"
                | "preferred_chain"
                | "ssl_trusted_certificate"
                | "ssl_verify"
                | "state_path"
                | "accept_terms_of_service",
                _,
            ) => {
                return Err(format!(
                    "invalid number of arguments in \"{name}\" directive"
                ));
            }
            _ => return Err(format!("unknown directive \"{name}\"")),
        }
        self.seen.push(name);
        Ok(())
    }
}

/// A kind of key that is made, or the file of one.
fn account_key(build: &Build<'_>, word: &Word) -> Result<Option<Vec<u8>>, String> {
    let written = word.to_string();
    match Kind::named(&written) {
        Some(Kind::EcdsaP256) => return Ok(None),
        Some(_) => {
            return Err(format!(
                "account_key \"{written}\": only ecdsa:256 is made here"
            ));
        }
        None => {}
    }
    let text = read(build, &written)?;
    match PrivatePkcs8KeyDer::from_pem_slice(&text) {
        Ok(key) => Ok(Some(key.secret_pkcs8_der().to_vec())),
        Err(error) => Err(format!(
            "account_key \"{written}\" is no P-256 key in PKCS #8 ({error}): make one with openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256"
        )),
    }
}

fn read(build: &Build<'_>, name: &str) -> Result<Vec<u8>, String> {
    let path = build.conf_path(name);
    build.read_file(&path).map_err(|error| {
        format!(
            "open() \"{}\" failed ({})",
            path.display(),
            sys::errno::Errno(&error)
        )
    })
}

/// The key of an HMAC in base64url: in a file, or after `data:`.
fn external(build: &Build<'_>, id: &Word, key: &Word) -> Result<External, String> {
    let written = key.to_string();
    let text = match written.strip_prefix("data:") {
        Some(data) => data.as_bytes().to_vec(),
        None => read(build, &written)?,
    };
    match base64::decode(text.trim_ascii(), base64::Alphabet::Url) {
        Some(key) if !key.is_empty() => Ok(External {
            id: id.to_string(),
            key,
        }),
        _ => Err(format!(
            "external_account_key: \"{written}\" holds no base64url"
        )),
    }
}

fn roots(build: &Build<'_>, file: &Word) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = read(build, &file.to_string())?;
    let mut roots = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let bad = |error| format!("ssl_trusted_certificate \"{file}\": {error}");
        roots.push(certificate.map_err(bad)?);
    }
    match roots.is_empty() {
        true => Err(format!(
            "ssl_trusted_certificate \"{file}\" holds no certificate"
        )),
        false => Ok(roots),
    }
}

fn shared_zone(_: &mut Build<'_>, directive: &Directive) -> Outcome {
    let word = &directive.args[0];
    let invalid = || Complaint::from(format!("invalid parameter \"{word}\""));
    let zone = word.strip_prefix(b"zone=").ok_or_else(invalid)?;
    let colon = memchr::memchr(b':', zone).ok_or_else(invalid)?;
    let size = values::parse_size(&zone[colon + 1..]).ok_or_else(invalid)?;
    match size < ZONE_MIN || colon == 0 {
        true => Err(format!("zone \"{word}\" is too small").into()),
        false => Ok(()),
    }
}

fn certificate(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let setting = build.server().acme.certificate.vacant()?;
    let mut asked = Asked {
        issuer: directive.args[0].to_string(),
        names: Vec::new(),
        key: Kind::default(),
    };
    for word in &directive.args[1..] {
        match word.strip_prefix(b"key=") {
            Some(key) => {
                let key = String::from_utf8_lossy(key);
                let unknown = || Complaint::from(format!("unknown kind of key \"{key}\""));
                asked.key = Kind::named(&key).ok_or_else(unknown)?;
            }
            None => asked.names.push(word.to_string().to_ascii_lowercase()),
        }
    }
    setting.set(Some(Arc::new(asked)))
}
