//! The certificate that upstreams are shown when they ask for one (`proxy_ssl_certificate`).

use crate::config::build::Build;
use crate::config::directive::Outcome;
use crate::config::setting::Complaint;
use crate::tls::certificate;
use conf::Directive;
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::sync::Arc;

/// A chain of certificates and the name of its file, as it was written.
#[derive(Debug)]
pub struct Chain {
    name: String,
    certificates: Vec<CertificateDer<'static>>,
}

/// A key and the path of its file.
#[derive(Debug)]
pub struct Key {
    path: String,
    key: PrivateKeyDer<'static>,
}

/// What a file of the configuration holds, and its path.
fn read(
    build: &mut Build<'_>,
    directive: &Directive,
    what: &str,
) -> Result<(String, Vec<u8>), Complaint> {
    let text = directive.args[0].as_str().ok_or("invalid value")?;
    if text.contains('$') {
        return Err("variables are not supported here".into());
    }
    let path = build.conf_path(text);
    let shown = path.display().to_string();
    match build.read_file(&path) {
        Ok(bytes) => Ok((shown, bytes)),
        Err(error) => {
            let why = certificate::no_file(&path, &error);
            let call = "BIO_new_file";
            Err(Complaint::bare(format!(
                "cannot load {what} \"{shown}\": {call}() failed {why}"
            )))
        }
    }
}

pub fn chain(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    build.location().proxy_tls.certificate.vacant()?;
    let chain = match directive.args[0].is_empty() {
        true => None,
        false => {
            let (path, bytes) = read(build, directive, "certificate")?;
            let certificates = certificate::chain(&bytes).map_err(|why| {
                let call = "PEM_read_bio_X509_AUX";
                Complaint::bare(format!(
                    "cannot load certificate \"{path}\": {call}() failed {why}"
                ))
            })?;
            let name = directive.args[0].to_string();
            Some(Arc::new(Chain { name, certificates }))
        }
    };
    build.location().proxy_tls.certificate.set(chain)
}

pub fn key(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    build.location().proxy_tls.key.vacant()?;
    let key = match directive.args[0].is_empty() {
        true => None,
        false => {
            let (path, bytes) = read(build, directive, "certificate key")?;
            let key = certificate::key(&bytes, &[]).map_err(|why| {
                let call = "PEM_read_bio_PrivateKey";
                Complaint::bare(format!(
                    "cannot load certificate key \"{path}\": {call}() failed {why}"
                ))
            })?;
            Some(Arc::new(Key { path, key }))
        }
    };
    build.location().proxy_tls.key.set(key)
}

/// A certificate with its key.
#[derive(Debug)]
pub struct Identity(Arc<CertifiedKey>);

impl Identity {
    /// `None` where no certificate is to be shown.
    pub fn of(
        chain: Option<&Arc<Chain>>,
        key: Option<&Arc<Key>>,
    ) -> Result<Option<Identity>, String> {
        let Some(chain) = chain else {
            return Ok(None);
        };
        let name = &chain.name;
        let directive = "\"proxy_ssl_certificate_key\"";
        let key =
            key.ok_or_else(|| format!("no {directive} is defined for certificate \"{name}\""))?;
        let joined = certificate::join(chain.certificates.clone(), &key.key);
        let call = "SSL_CTX_use_PrivateKey";
        let failed = |why| format!("{call}(\"{}\") failed {why}", key.path);
        Ok(Some(Identity(Arc::new(joined.map_err(failed)?))))
    }
}

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
