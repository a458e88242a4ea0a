//! `proxy_pass https://`: TLS to upstreams (`proxy_ssl_…`).

mod identity; // what upstreams are shown
mod verify; // whether they are believed

use super::failure::{Failure, Stage};
use super::proxy::request_head::HttpVersion;
use super::settings::Settings as Relay;
use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, Outcome, Set, flag, row};
use crate::config::setting::Complaint;
use crate::http::Request;
use crate::net::tls::{Records, Session};
use crate::net::{Stream, Timer};
use crate::tls::by_name::Keep;
use crate::tls::ciphers::{Protocols, all13, list, list13, protocol};
use crate::variables::Template;
use bytes::Bytes;
use conf::Directive;
use conf::table::Row;
use identity::{Identity, Meant, Named, Passwords, Shown};

pub use identity::Identities;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs as provider};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore};
use rustls::{Error, SignatureScheme, SupportedCipherSuite};
use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::task::Poll;
use verify::{Lists, Verified};

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "proxy_ssl_name",
        HSL,
        Arity::Exactly(1),
        name,
        "The name that an upstream's certificate is for, and that is asked for.",
    ),
    row(
        "proxy_ssl_server_name",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().proxy_tls.server_name, d),
        "Whether upstreams are told the name (SNI).",
    ),
    row(
        "proxy_ssl_verify",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().proxy_tls.verify, d),
        "Whether certificates of upstreams are checked.",
    ),
    row(
        "proxy_ssl_trusted_certificate",
        HSL,
        Arity::Exactly(1),
        verify::trusted,
        "The issuers whose certificates are trusted.",
    ),
    row(
        "proxy_ssl_session_reuse",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().proxy_tls.session_reuse, d),
        "Whether sessions with upstreams are taken up again.",
    ),
    row(
        "proxy_ssl_protocols",
        HSL,
        Arity::AtLeast(1),
        protocols,
        "The versions that upstreams are offered; those before TLS 1.2 are not.",
    ),
    row(
        "proxy_ssl_verify_depth",
        HSL,
        Arity::Exactly(1),
        depth,
        "How many certificates may stand between an upstream's and a trusted one.",
    ),
    row(
        "proxy_ssl_crl",
        HSL,
        Arity::Exactly(1),
        verify::lists,
        "Lists of certificates that their issuers have taken back.",
    ),
    row(
        "proxy_ssl_certificate",
        HSL,
        Arity::Exactly(1),
        identity::certificate,
        "The certificate that upstreams are shown when they ask for one; variables are worked out for each connection.",
    ),
    row(
        "proxy_ssl_certificate_key",
        HSL,
        Arity::Exactly(1),
        identity::key,
        "Its key.",
    ),
    row(
        "proxy_ssl_password_file",
        HSL,
        Arity::Exactly(1),
        identity::password_file,
        "A file of passwords for keys, one a line; each is tried.",
    ),
    row(
        "proxy_ssl_certificate_cache",
        HSL,
        Arity::Between(1, 3),
        identity::certificate_cache,
        "How many certificates with variables in their names are kept, and how long: max=, inactive=, valid=; off.",
    ),
    row(
        "proxy_ssl_ciphers",
        HSL,
        Arity::Exactly(1),
        ciphers,
        "The suites of TLS 1.2 that upstreams are offered.",
    ),
    row(
        "proxy_ssl_conf_command",
        HSL,
        Arity::Exactly(2),
        command,
        "`Ciphersuites`: the suites of TLS 1.3 that upstreams are offered.",
    ),
];

crate::config::setting::settings! {
    /// `None`: `$proxy_host`.
    name: Option<Arc<Template>> = None,
    server_name: bool = false,
    verify: bool = false,
    trusted: Option<Arc<RootCertStore>> = None,
    session_reuse: bool = true,
    protocols: Protocols = Protocols::default(),
    depth: usize = 1,
    lists: Option<Arc<Lists>> = None,
    certificate: Option<Arc<Named>> = None,
    key: Option<Arc<Named>> = None,
    passwords: Passwords = Arc::default(),
    keep: Keep = Keep::default(),
    /// What the four before lead to; settled when all settings are known.
    shown: Option<Shown> = None,
    /// Of TLS 1.2.
    ciphers: Vec<SupportedCipherSuite> = list("DEFAULT").unwrap_or_default(),
    /// Of TLS 1.3.
    suites: Vec<SupportedCipherSuite> = all13(),
}

fn name(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    build.location().proxy_tls.name.vacant()?;
    let template = Template::compile(&directive.args[0], &mut build.variables)?;
    build
        .location()
        .proxy_tls
        .name
        .set(Some(Arc::new(template)))
}

/// `proxy_ssl_ciphers`: what is known of them is offered.
fn ciphers(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    build.location().proxy_tls.ciphers.vacant()?;
    let text = directive.args[0].as_str().ok_or("invalid value")?;
    let suites = list(text).map_err(|error| Complaint::bare(error.text("proxy_ssl_ciphers")))?;
    build.location().proxy_tls.ciphers.set(suites)
}

/// `proxy_ssl_conf_command`: of OpenSSL's commands those that have a meaning here.
fn command(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    build.location().proxy_tls.suites.vacant()?;
    let (name, value) = (&directive.args[0], &directive.args[1]);
    let failed = |why: &str| {
        Complaint::bare(format!(
            "SSL_CONF_cmd(\"{name}\", \"{value}\") failed ({why})"
        ))
    };
    if !name.eq_ignore_ascii_case(b"Ciphersuites") {
        return Err(failed("of OpenSSL's commands only Ciphersuites is known"));
    }
    let text = value.as_str().ok_or("invalid value")?;
    let suites = list13(text)
        .map_err(|unknown| failed(&format!("cipher suite \"{unknown}\" is not known")))?;
    build.location().proxy_tls.suites.set(suites)
}

fn depth(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    build.location().proxy_tls.depth.vacant()?;
    let depth = conf::values::parse_number(&directive.args[0]).ok_or("invalid number")?;
    let depth = usize::try_from(depth).map_err(|_| "invalid number")?;
    build.location().proxy_tls.depth.set(depth)
}

fn protocols(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    build.location().proxy_tls.protocols.vacant()?;
    let mut all = Protocols::none();
    for word in &directive.args {
        all.add(protocol(word).ok_or_else(|| format!("invalid value \"{word}\""))?);
    }
    if all.has_old() {
        let old = all.old_names().join(", ");
        let text = format!("{old}: protocols before TLSv1.2 are not offered");
        build.warn(directive, text);
    }
    build.location().proxy_tls.protocols.set(all)
}

impl Settings {
    /// nginx's check of the settings together, and what they lead to.
    pub fn complete(&mut self, identities: &mut Identities<'_>) -> Result<(), String> {
        if let Some(certificate) = &self.certificate {
            let (key, passwords) = (self.key.as_ref(), &self.passwords);
            self.shown = Some(identities.find(certificate, key, passwords, self.keep)?);
        }
        if self.verify && self.trusted.is_none() {
            return Err("no proxy_ssl_trusted_certificate for proxy_ssl_verify".to_owned());
        }
        Ok(())
    }

    /// What is always shown.
    fn identity(&self) -> Option<&Arc<CertifiedKey>> {
        match &self.shown {
            Some(Shown::Read(identity)) => Some(identity),
            _ => None,
        }
    }

    fn is_like(&self, other: &Settings) -> bool {
        is_same(self.trusted.as_ref(), other.trusted.as_ref())
            && is_same(self.lists.as_ref(), other.lists.as_ref())
            && is_same(self.identity(), other.identity())
            && self.depth == other.depth
            && self.ciphers == other.ciphers
            && self.suites == other.suites
            && self.server_name == other.server_name
            && self.verify == other.verify
            && self.session_reuse == other.session_reuse
            && self.protocols == other.protocols
    }
}

fn is_same<T>(one: Option<&Arc<T>>, other: Option<&Arc<T>>) -> bool {
    one.map(Arc::as_ptr) == other.map(Arc::as_ptr)
}

/// How a connection is secured. Only for the same terms is it used again.
#[derive(Debug, Clone)]
pub struct Secure {
    name: Bytes,
    config: Arc<ClientConfig>,
    /// The certificate that is shown, if the request decides which.
    meant: Option<Meant>,
}

impl PartialEq for Secure {
    fn eq(&self, other: &Secure) -> bool {
        let is_alike = self.name == other.name && self.meant == other.meant;
        is_alike && Arc::ptr_eq(&self.config, &other.config)
    }
}

/// Sets of settings whose configurations a thread keeps, with the sessions that they hold.
const CONFIGS_MAX: usize = 64;

thread_local! {
    static CONFIGS: RefCell<Vec<(Settings, bool, Arc<ClientConfig>)>> = const { RefCell::new(Vec::new()) };
}

impl Secure {
    /// The terms of a request that is passed on by https; `None` for http.
    pub fn of(request: &Request) -> Result<Option<Secure>, Failure> {
        let Some(proxied) = request.proxied.as_ref().filter(|proxied| proxied.https) else {
            return Ok(None);
        };
        let settings = &request.location().settings.proxy_tls;
        let name = match &settings.name {
            Some(template) => template.evaluate(request),
            None => proxied.host.clone(),
        };
        let http2 = request.location().settings.proxy.http_version == HttpVersion::Http2;
        let config = config(settings, http2).map_err(failed)?;
        let name = Bytes::copy_from_slice(without_port(&name));
        let meant = match &settings.shown {
            Some(Shown::ByName(by_name)) => by_name.meant(request),
            _ => None,
        };
        Ok(Some(Secure {
            name,
            config,
            meant,
        }))
    }

    /// Shakes hands on a connection that stands.
    pub async fn shake_hands(
        self,
        stream: &Stream,
        request: &Request,
        relay: &Relay,
        timer: &mut Timer,
    ) -> Result<(), Failure> {
        let verifies = request.location().settings.proxy_tls.verify;
        let text = std::str::from_utf8(&self.name).unwrap_or_default();
        let name = match ServerName::try_from(text) {
            Ok(name) => name.to_owned(),
            // Not a name that could be asked for or checked.
            Err(_) if !verifies => ServerName::from(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            Err(error) => return Err(failed(Error::General(error.to_string()))),
        };
        let config = match self.meant {
            Some(meant) => meant.config(&self.config).map_err(Failure::Own)?,
            None => self.config,
        };
        let client = ClientConnection::new(config, name).map_err(failed)?;
        stream.secure(Session::new(client.into(), Records::Fixed(usize::MAX)));
        timer.set(relay.connect_timeout_ms);
        let shaken = std::future::poll_fn(|context| {
            if let Poll::Ready(done) = stream.poll_handshake(context) {
                return Poll::Ready(done.map_err(|error| match error.kind() {
                    std::io::ErrorKind::UnexpectedEof => {
                        Failure::Handshake("peer closed connection in SSL handshake".to_owned())
                    }
                    _ => Failure::Handshake(format!("SSL_do_handshake() failed (SSL: {error})")),
                }));
            }
            if relay.heeds_client(request) && request.poll_client_ended(context).is_ready() {
                return Poll::Ready(Err(Failure::ClientGone(Stage::Handshake)));
            }
            timer
                .poll_expired(context)
                .map(|()| Err(Failure::TimedOut(Stage::Handshake)))
        })
        .await;
        timer.clear();
        shaken
    }
}

fn failed(error: Error) -> Failure {
    Failure::Handshake(format!("SSL_do_handshake() failed (SSL: {error})"))
}

/// A host without the port behind it.
fn without_port(host: &[u8]) -> &[u8] {
    if let Some(rest) = host.strip_prefix(b"[") {
        let end = memchr::memchr(b']', rest).unwrap_or(rest.len());
        return &rest[..end];
    }
    match memchr::memchr(b':', host) {
        Some(colon) => &host[..colon],
        None => host,
    }
}

/// The configuration for settings: the same one for the same settings, because it holds the sessions.
fn config(settings: &Settings, http2: bool) -> Result<Arc<ClientConfig>, Error> {
    CONFIGS.with(|configs| {
        let mut configs = configs.borrow_mut();
        let mut known = configs.iter();
        if let Some((_, _, config)) = known.find(|(s, h2, _)| *h2 == http2 && s.is_like(settings)) {
            return Ok(Arc::clone(config));
        }
        let mut config = new_config(settings)?;
        if http2 {
            config.alpn_protocols = vec![b"h2".to_vec()];
        }
        let config = Arc::new(config);
        if configs.len() == CONFIGS_MAX {
            configs.remove(0);
        }
        configs.push((settings.clone(), http2, Arc::clone(&config)));
        Ok(config)
    })
}

fn new_config(settings: &Settings) -> Result<ClientConfig, Error> {
    let mut suites = settings.suites.clone();
    suites.extend(&settings.ciphers);
    let crypto = Arc::new(CryptoProvider {
        cipher_suites: suites,
        ..provider::default_provider()
    });
    let versions = settings.protocols.versions();
    let builder = ClientConfig::builder_with_provider(Arc::clone(&crypto))
        .with_protocol_versions(&versions)?;
    let verifier: Arc<dyn ServerCertVerifier> = match &settings.trusted {
        Some(roots) if settings.verify => Arc::new(Verified {
            crypto,
            roots: Arc::clone(roots),
            lists: settings.lists.clone(),
            depth: settings.depth,
        }),
        _ if settings.verify => return Err(Error::General("no trusted certificate".to_owned())),
        _ => Arc::new(Unverified(crypto)),
    };
    let builder = builder
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match settings.identity() {
        Some(identity) => {
            builder.with_client_cert_resolver(Arc::new(Identity(Arc::clone(identity))))
        }
        None => builder.with_no_client_auth(),
    };
    config.enable_sni = settings.server_name;
    if !settings.session_reuse {
        config.resumption = Resumption::disabled();
    }
    Ok(config)
}

/// `proxy_ssl_verify off`, nginx's default: any certificate will do, if the upstream has its key.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::build::Paths;

    #[test]
    fn ports_are_no_part_of_names() {
        for (host, name) in [
            ("a.example", "a.example"),
            ("a.example:8443", "a.example"),
            ("[::1]:8443", "::1"),
            ("127.0.0.1:1", "127.0.0.1"),
            ("", ""),
        ] {
            assert_eq!(without_port(host.as_bytes()), name.as_bytes(), "{host}");
        }
    }

    #[test]
    fn verifying_takes_issuers() {
        let mut settings = Settings {
            verify: true,
            ..Settings::default()
        };
        let paths = Paths {
            prefix: "/".into(),
            conf_prefix: "/".into(),
            conf_file: "/nginx.conf".into(),
            error_log: "/error.log".into(),
        };
        let mut identities = Identities::new(&conf::Disk, &paths);
        assert!(settings.complete(&mut identities).is_err() && new_config(&settings).is_err());
        assert!(Settings::default().complete(&mut identities).is_ok());
    }
}
