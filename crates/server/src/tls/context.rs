//! What the connections of a server are made with: certificates, suites, sessions, ready for rustls. Made when the
//! configuration is read, so that what is wrong with a file is told then.

use super::by_name::{ByName, Pairs};
use super::certificate::{self, Choice, Held};
use super::commands::{self, Commanded};
use super::directive::{Settings, VerifyClient};
use super::ocsp::{self, Staple, Stapling};
use super::path::Trust;
use super::{ciphers, client, sessions, tickets};
use crate::config::build::Paths;
use crate::http::Request;
use crate::net::tls::{Records, fragment_size};
use aws_lc_rs::digest;
use bytes::Bytes;
use conf::Source;
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs as provider};
use rustls::server::{NoServerSessionStorage, StoresServerSessions};
use rustls::sign::CertifiedKey;
use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A server's side of TLS.
#[derive(Debug)]
pub struct Context {
    http1: Arc<ServerConfig>,
    http2: Arc<ServerConfig>,
    pub records: Records,
    /// The server has no certificate: who asks for it is turned away.
    pub rejects: bool,
    /// Clients are asked for certificates, which these issuers should have signed.
    pub trust: Option<Arc<Trust>>,
    /// Issuers are asked about these certificates.
    pub ocsp: Option<ocsp::Client>,
    /// What was found when it was made and is no error.
    pub warnings: Vec<String>,
    /// The certificates depend on what the client asks for.
    by_name: Option<Box<ByName>>,
}

/// What configurations are made of before their certificates are known.
#[derive(Debug)]
pub struct Base {
    settings: Settings,
    paths: Paths,
    config: ServerConfig,
    trust: Option<Arc<Trust>>,
}

/// The protocols offered by ALPN, the preferred first.
#[must_use]
pub fn alpn(http2: bool) -> Vec<Vec<u8>> {
    let http1: [&[u8]; 3] = [b"http/1.1", b"http/1.0", b"http/0.9"];
    let http2: &[&[u8]] = if http2 { &[b"h2"] } else { &[] };
    let all = http2.iter().chain(&http1);
    all.map(|name| name.to_vec()).collect()
}

impl Context {
    /// For a connection that may speak HTTP/2, or may not; `request` holds what the certificates' names depend on.
    pub fn config(
        &self,
        http2: bool,
        request: impl FnOnce() -> Box<Request>,
    ) -> Result<Arc<ServerConfig>, String> {
        match &self.by_name {
            None => Ok(Arc::clone(if http2 { &self.http2 } else { &self.http1 })),
            Some(by_name) => by_name.config(http2, &request()),
        }
    }

    /// A configuration with the certificates that these values name.
    pub fn of_values(base: &Base, values: &[(Bytes, Bytes)]) -> Result<ServerConfig, String> {
        let mut settings = base.settings.clone();
        settings.certificates = values.iter().map(|(name, _)| name.clone()).collect();
        settings.keys = values.iter().map(|(_, name)| name.clone()).collect();
        let keys = certified_keys(&settings, &conf::Disk, &base.paths)?;
        let terms = terms(&keys, base.trust.as_deref());
        let mut config = base.config.clone();
        let held = keys.into_iter().map(|key| (key, None)).collect();
        config.cert_resolver = Arc::new(Choice::new(held));
        keep_sessions(&mut config, &settings, terms);
        Ok(config)
    }

    /// The same with the protocols that a connection may speak.
    #[must_use]
    pub fn speaking(config: &ServerConfig, http2: bool) -> Arc<ServerConfig> {
        let mut config = config.clone();
        config.alpn_protocols = alpn(http2);
        Arc::new(config)
    }

    /// The context that the settings ask for, if they ask for one.
    pub fn new(
        settings: &Settings,
        source: &dyn Source,
        paths: &Paths,
    ) -> Result<Option<Arc<Context>>, String> {
        if settings.certificates.is_empty() && !settings.reject_handshake {
            return Ok(None);
        }
        let mut settings = settings.clone();
        let commanded = commands::apply(&mut settings)?;
        let settings = &settings;
        let keys = match settings.by_name {
            Some(_) => Vec::new(),
            None => certified_keys(settings, source, paths)?,
        };
        let provider = Arc::new(crypto(settings, commanded)?);
        let versions = settings.protocols.versions();
        let builder = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .map_err(|_| "ssl_protocols and ssl_ciphers leave nothing to offer".to_owned())?;
        let path = |name: &Bytes| path(paths, name);
        let trust = client::trust(settings, source, &path)?;
        let builder = match &trust {
            Some(trust) => {
                builder.with_client_cert_verifier(Arc::new(client::Asker(Arc::clone(trust))))
            }
            None => builder.with_no_client_auth(),
        };
        let terms = terms(&keys, trust.as_deref());
        let rejects = settings.reject_handshake;
        let mut warnings = Vec::new();
        let held = with_staples(settings, source, paths, keys, &mut warnings)?;
        let mut config = builder.with_cert_resolver(Arc::new(Choice::new(held)));
        let records = match settings.buffer_size {
            0 => Records::Growing,
            size => Records::Fixed(usize::try_from(size).unwrap_or(usize::MAX)),
        };
        config.max_fragment_size = fragment_size(records);
        config.ignore_client_order = settings.prefer_server_ciphers;
        keep_sessions(&mut config, settings, terms);
        let base = |pairs: &Pairs| {
            let base = Base {
                settings: settings.clone(),
                paths: paths.clone(),
                config: config.clone(),
                trust: trust.clone(),
            };
            Box::new(ByName::new(Arc::clone(pairs), settings.keep, base))
        };
        Ok(Some(Arc::new(Context {
            by_name: settings.by_name.as_ref().map(base),
            http1: Context::speaking(&config, false),
            http2: Context::speaking(&config, true),
            records,
            rejects,
            trust,
            ocsp: ocsp_of_clients(settings)?,
            warnings,
        })))
    }
}

/// A path of the configuration.
fn path(paths: &Paths, name: &Bytes) -> PathBuf {
    paths.in_conf(&String::from_utf8_lossy(name))
}

/// Where a certificate or key is: in a file, or in the configuration itself (`data:`).
enum File<'a> {
    Path(PathBuf),
    Data(&'a Bytes),
}

impl<'a> File<'a> {
    fn new(paths: &Paths, name: &'a Bytes) -> File<'a> {
        match name.starts_with(DATA) {
            true => File::Data(name),
            false => File::Path(path(paths, name)),
        }
    }

    fn read(&self, source: &dyn Source) -> Result<Cow<'a, [u8]>, String> {
        match self {
            File::Data(text) => Ok(Cow::Borrowed(text.get(DATA.len()..).unwrap_or_default())),
            File::Path(path) => match source.read(path) {
                Ok(text) => Ok(Cow::Owned(text.to_vec())),
                Err(error) => Err(certificate::no_file(path, &error)),
            },
        }
    }
}

impl fmt::Display for File<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            File::Path(path) => path.display().fmt(formatter),
            File::Data(text) => formatter.write_str(&String::from_utf8_lossy(text)),
        }
    }
}

/// Bytes that a client may send before the handshake is done: nginx's measure.
const EARLY_DATA_MAX: u32 = 16 * 1024;

/// Before what stands in the configuration itself.
pub const DATA: &[u8] = b"data:";

/// What the issuer says of the certificate (`ssl_stapling_file`).
fn stapled(
    settings: &Settings,
    source: &dyn Source,
    paths: &Paths,
) -> Result<Option<Vec<u8>>, String> {
    if !settings.stapling || settings.stapling_file.is_empty() {
        return Ok(None);
    }
    let path = path(paths, &settings.stapling_file);
    let answer = source.read(&path).map_err(|error| {
        let why = certificate::no_file(&path, &error);
        format!("BIO_new_file(\"{}\") failed {why}", path.display())
    })?;
    Ok(Some(answer.to_vec()))
}

/// Certificates with the staples that `ssl_stapling` asks for, as far as they can be had.
fn with_staples(
    settings: &Settings,
    source: &dyn Source,
    paths: &Paths,
    keys: Vec<Arc<CertifiedKey>>,
    warnings: &mut Vec<String>,
) -> Result<Vec<Held>, String> {
    if !settings.stapling || !settings.stapling_file.is_empty() {
        return Ok(keys.into_iter().map(|key| (key, None)).collect());
    }
    let mut issuers = Vec::new();
    for name in [&settings.client_certificate, &settings.trusted_certificate] {
        if !name.is_empty() {
            issuers.extend(client::certificates(source, path(paths, name))?);
        }
    }
    let responder = String::from_utf8_lossy(&settings.stapling_responder);
    let stapling = Stapling {
        responder: &responder,
        issuers: &issuers,
    };
    let named = keys.into_iter().zip(settings.certificates.iter());
    let held = named.map(|(key, name)| {
        let name = File::new(paths, name).to_string();
        match Staple::of(&key, &name, stapling) {
            Ok(staple) => (key, Some(staple)),
            Err(why) => {
                warnings.push(format!("\"ssl_stapling\" ignored, {why}"));
                (key, None)
            }
        }
    });
    Ok(held.collect())
}

/// `ssl_ocsp` and kin.
fn ocsp_of_clients(settings: &Settings) -> Result<Option<ocsp::Client>, String> {
    if settings.ocsp != ocsp::Mode::Off && settings.verify_client == VerifyClient::OptionalNoIssuer
    {
        return Err(
            "\"ssl_ocsp\" is incompatible with \"ssl_verify_client optional_no_ca\"".to_owned(),
        );
    }
    let responder = String::from_utf8_lossy(&settings.ocsp_responder);
    ocsp::Client::new(settings.ocsp, &responder, settings.ocsp_cache.as_ref())
}

/// Every certificate with its key.
fn certified_keys(
    settings: &Settings,
    source: &dyn Source,
    paths: &Paths,
) -> Result<Vec<Arc<CertifiedKey>>, String> {
    let stapled = stapled(settings, source, paths)?;
    let mut joined = Vec::new();
    for (place, certificate) in settings.certificates.iter().enumerate() {
        let Some(key) = settings.keys.get(place) else {
            let last = settings.certificates.last().unwrap_or(certificate);
            let shown = String::from_utf8_lossy(last);
            return Err(format!(
                "no \"ssl_certificate_key\" is defined for certificate \"{shown}\""
            ));
        };
        let mut pair = pair((certificate, key), &settings.passwords, source, paths)?;
        pair.ocsp.clone_from(&stapled);
        joined.push(Arc::new(pair));
    }
    Ok(joined)
}

/// A certificate with its key, as a directive names them; the key may be behind one of the passwords.
pub fn pair(
    (certificate, key): (&Bytes, &Bytes),
    passwords: &[Vec<u8>],
    source: &dyn Source,
    paths: &Paths,
) -> Result<CertifiedKey, String> {
    let (certificate, key) = (File::new(paths, certificate), File::new(paths, key));
    let failed = |call: &str, why: String| {
        format!("cannot load certificate \"{certificate}\": {call}() failed {why}")
    };
    let text = certificate
        .read(source)
        .map_err(|why| failed("BIO_new_file", why))?;
    let chain = certificate::chain(&text).map_err(|why| failed("PEM_read_bio_X509_AUX", why))?;
    let failed = |call: &str, why: String| {
        format!("cannot load certificate key \"{key}\": {call}() failed {why}")
    };
    let text = key
        .read(source)
        .map_err(|why| failed("BIO_new_file", why))?;
    let parsed =
        certificate::key(&text, passwords).map_err(|why| failed("PEM_read_bio_PrivateKey", why))?;
    certificate::join(chain, &parsed)
        .map_err(|why| format!("SSL_CTX_use_PrivateKey(\"{key}\") failed {why}"))
}

/// The suites and groups that are offered.
fn crypto(settings: &Settings, commanded: Commanded) -> Result<CryptoProvider, String> {
    let written = String::from_utf8_lossy(&settings.ciphers);
    let mut suites = commanded.suites13.unwrap_or_else(ciphers::all13);
    let old = ciphers::list(&written).map_err(|error| error.text("ssl_ciphers"))?;
    suites.extend(old);
    let curves = String::from_utf8_lossy(&settings.curves);
    let groups = ciphers::groups(&curves).map_err(|unknown| {
        let reason = match unknown.as_str() {
            "" => format!("none of these is offered: {}", ciphers::group_names()),
            name => format!("group '{name}' is not one of {}", ciphers::group_names()),
        };
        format!("SSL_CTX_set1_curves_list(\"{curves}\") failed ({reason})")
    })?;
    Ok(CryptoProvider {
        cipher_suites: suites,
        kx_groups: groups,
        ..provider::default_provider()
    })
}

/// What a session is bound to: it is taken up only where the same certificates are shown, and the same issuers of
/// clients' certificates are trusted.
fn terms(keys: &[Arc<CertifiedKey>], trust: Option<&Trust>) -> [u8; 16] {
    let mut all = digest::Context::new(&digest::SHA256);
    for certificate in keys.iter().flat_map(|key| &key.cert) {
        all.update(certificate);
    }
    if let Some(trust) = trust {
        all.update(&trust.depth.to_be_bytes());
        trust.terms().for_each(|der| all.update(der));
    }
    let mut terms = [0; 16];
    terms.copy_from_slice(&all.finish().as_ref()[..16]);
    terms
}

fn keep_sessions(config: &mut ServerConfig, settings: &Settings, terms: [u8; 16]) {
    let timeout = Duration::from_secs(settings.session_timeout);
    let cache = &settings.session_cache;
    let kept = match (&cache.shared, cache.builtin) {
        (Some((name, size)), _) => Some(sessions::zone(name, *size)),
        (None, Some(count)) => Some(sessions::builtin(count)),
        (None, None) => None,
    };
    // The library takes early data only with sessions that are kept here, and can be taken up once.
    let kept = match settings.early_data {
        true => kept.or_else(|| Some(sessions::builtin(sessions::BUILTIN_SESSIONS))),
        false => kept,
    };
    if settings.early_data {
        config.max_early_data_size = EARLY_DATA_MAX;
        config.send_half_rtt_data = true;
    }
    config.session_storage = match kept {
        Some(sessions) => Arc::new(sessions::View {
            sessions,
            terms,
            timeout,
        }) as Arc<dyn StoresServerSessions>,
        None => Arc::new(NoServerSessionStorage {}),
    };
    if settings.tickets && !settings.early_data {
        config.ticketer = Arc::new(tickets::Tickets {
            keys: Arc::clone(&settings.ticket_keys),
            terms,
            timeout,
        });
    }
}
