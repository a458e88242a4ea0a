//! The certificate that upstreams are shown when they ask for one (`proxy_ssl_certificate`). Without variables in its name
//! it is read with the configuration, else when a connection is made.

use crate::config::build::{Build, Paths};
use crate::config::directive::Outcome;
use crate::config::setting::Complaint;
use crate::http::Request;
use crate::tls::by_name::{Keep, Key, Store};
use crate::tls::{context, directive};
use crate::variables::Template;
use bytes::Bytes;
use conf::{Directive, Disk, Source};
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, SignatureScheme};
use std::sync::Arc;

/// A certificate or a key as a directive names it.
#[derive(Debug)]
pub struct Named {
    text: Bytes,
    template: Template,
}

impl Named {
    fn has_variables(&self) -> bool {
        self.text.contains(&b'$')
    }
}

/// Of one file; each is tried.
pub type Passwords = Arc<[Vec<u8>]>;

pub fn certificate(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    build.location().proxy_tls.certificate.vacant()?;
    let named = named(build, directive)?;
    build.location().proxy_tls.certificate.set(named)
}

pub fn key(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    build.location().proxy_tls.key.vacant()?;
    let named = named(build, directive)?;
    build.location().proxy_tls.key.set(named)
}

/// An empty name is none.
fn named(build: &mut Build<'_>, directive: &Directive) -> Result<Option<Arc<Named>>, Complaint> {
    let word = &directive.args[0];
    if word.is_empty() {
        return Ok(None);
    }
    Ok(Some(Arc::new(Named {
        text: Bytes::copy_from_slice(word),
        template: Template::compile(word, &mut build.variables)?,
    })))
}

pub fn password_file(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    build.location().proxy_tls.passwords.vacant()?;
    let passwords = directive::passwords(build, directive)?;
    build.location().proxy_tls.passwords.set(passwords)
}

pub fn certificate_cache(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    build.location().proxy_tls.keep.vacant()?;
    let keep = directive::keep(directive)?;
    build.location().proxy_tls.keep.set(keep)
}

/// What is shown: a certificate with its key, or what names one.
#[derive(Debug, Clone)]
pub enum Shown {
    Read(Arc<CertifiedKey>),
    ByName(Arc<ByName>),
}

/// What one location, or several that have the same from the block around them, show.
struct Entry {
    certificate: Arc<Named>,
    key: Arc<Named>,
    passwords: Passwords,
    keep: Keep,
    shown: Shown,
}

/// What the locations of a configuration show, each read once.
pub struct Identities<'a> {
    source: &'a dyn Source,
    paths: &'a Paths,
    known: Vec<Entry>,
}

impl<'a> Identities<'a> {
    #[must_use]
    pub fn new(source: &'a dyn Source, paths: &'a Paths) -> Identities<'a> {
        Identities {
            source,
            paths,
            known: Vec::new(),
        }
    }

    pub fn find(
        &mut self,
        certificate: &Arc<Named>,
        key: Option<&Arc<Named>>,
        passwords: &Passwords,
        keep: Keep,
    ) -> Result<Shown, String> {
        let key = key.ok_or_else(|| {
            let text = String::from_utf8_lossy(&certificate.text);
            let directive = "\"proxy_ssl_certificate_key\"";
            format!("no {directive} is defined for certificate \"{text}\"")
        })?;
        let is_same = |entry: &&Entry| {
            Arc::ptr_eq(&entry.certificate, certificate)
                && Arc::ptr_eq(&entry.key, key)
                && Arc::ptr_eq(&entry.passwords, passwords)
                && entry.keep == keep
        };
        if let Some(entry) = self.known.iter().find(is_same) {
            return Ok(entry.shown.clone());
        }
        let shown = if certificate.has_variables() || key.has_variables() {
            Shown::ByName(Arc::new(ByName {
                certificate: Arc::clone(certificate),
                key: Arc::clone(key),
                passwords: Arc::clone(passwords),
                paths: self.paths.clone(),
                keep,
                kept: Store::default(),
            }))
        } else {
            let names = (&certificate.text, &key.text);
            let pair = context::pair(names, passwords, self.source, self.paths)?;
            Shown::Read(Arc::new(pair))
        };
        self.known.push(Entry {
            certificate: Arc::clone(certificate),
            key: Arc::clone(key),
            passwords: Arc::clone(passwords),
            keep,
            shown: shown.clone(),
        });
        Ok(shown)
    }
}

/// A certificate whose name, or whose key's, has variables in it.
#[derive(Debug)]
pub struct ByName {
    certificate: Arc<Named>,
    key: Arc<Named>,
    passwords: Passwords,
    paths: Paths,
    keep: Keep,
    kept: Store<Arc<CertifiedKey>>,
}

/// What one request would have its upstream shown.
#[derive(Debug, Clone)]
pub struct Meant {
    by_name: Arc<ByName>,
    names: Key,
}

impl PartialEq for Meant {
    fn eq(&self, other: &Meant) -> bool {
        Arc::ptr_eq(&self.by_name, &other.by_name) && self.names == other.names
    }
}

impl ByName {
    /// `None` if the request names no certificate.
    pub fn meant(self: &Arc<ByName>, request: &Request) -> Option<Meant> {
        let certificate = self.certificate.template.evaluate(request);
        if certificate.is_empty() {
            return None;
        }
        let key = self.key.template.evaluate(request);
        Some(Meant {
            by_name: Arc::clone(self),
            names: vec![(certificate, key)],
        })
    }
}

impl Meant {
    /// `base` with the certificate. Sessions are not taken up again: they belong to the certificate they began with.
    pub fn config(self, base: &ClientConfig) -> Result<Arc<ClientConfig>, String> {
        let by_name = &self.by_name;
        let make = |names: &Key| {
            let (certificate, key) = names.first().ok_or("there is no name")?;
            let names = (certificate, key);
            context::pair(names, &by_name.passwords, &Disk, &by_name.paths).map(Arc::new)
        };
        let pair = by_name.kept.find_or_make(self.names, by_name.keep, make)?;
        let mut config = base.clone();
        config.client_auth_cert_resolver = Arc::new(Identity(pair));
        config.resumption = Resumption::disabled();
        Ok(Arc::new(config))
    }
}

/// A certificate with its key.
#[derive(Debug)]
pub struct Identity(pub Arc<CertifiedKey>);

impl ResolvesClientCert for Identity {
    /// As with OpenSSL, whatever issuers the upstream names.
    fn resolve(&self, _: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let usable = self.0.key.choose_scheme(schemes).is_some();
        usable.then(|| Arc::clone(&self.0))
    }

    fn has_certs(&self) -> bool {
        true
    }
}
