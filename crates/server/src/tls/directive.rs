//! The directives `ssl_…` of servers.

use super::by_name::Keep;
use super::ciphers::{Protocols, protocol};
use super::context::DATA;
use super::ocsp::Mode;
use crate::config::build::Build;
use crate::config::directive::{Arity, HS, Outcome, Set, flag, number, row, sec, size};
use crate::config::setting::{Complaint, Setting};
use bytes::Bytes;
use conf::table::Row;
use conf::{Directive, values};
use std::sync::Arc;

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "ssl_certificate",
        HS,
        Arity::Exactly(1),
        |b, d| push(&mut b.server().tls.certificates, d),
        "A certificate with its chain; several for several kinds of keys.",
    ),
    row(
        "ssl_certificate_key",
        HS,
        Arity::Exactly(1),
        |b, d| push(&mut b.server().tls.keys, d),
        "The key of the certificate at the same place.",
    ),
    row(
        "ssl_certificate_cache",
        HS,
        Arity::Between(1, 3),
        certificate_cache,
        "How many certificates with variables in their names are kept, and how long: max=, inactive=, valid=; off.",
    ),
    row(
        "ssl_certificate_reload",
        HS,
        Arity::Flag,
        |b, d| flag(&mut b.server().tls.reload, d),
        "Whether changed files of certificates, keys and lists are a reason to read the configuration again, as after SIGHUP.",
    ),
    row(
        "ssl_password_file",
        HS,
        Arity::Exactly(1),
        password_file,
        "A file of passwords for keys, one a line; each is tried.",
    ),
    row(
        "ssl_conf_command",
        HS,
        Arity::Exactly(2),
        conf_command,
        "A command of OpenSSL's: Ciphersuites, CipherString, Groups, MinProtocol, MaxProtocol, Protocol, Options.",
    ),
    row(
        "ssl_early_data",
        HS,
        Arity::Flag,
        |b, d| flag(&mut b.server().tls.early_data, d),
        "Whether requests of TLS 1.3 are taken before the handshake is done; sessions are then kept by the server.",
    ),
    row(
        "ssl_protocols",
        HS,
        Arity::AtLeast(1),
        protocols,
        "The versions that are offered; those before TLS 1.2 are not.",
    ),
    row(
        "ssl_ciphers",
        HS,
        Arity::Exactly(1),
        |b, d| text(&mut b.server().tls.ciphers, d),
        "The cipher suites of TLS 1.2, as OpenSSL writes them.",
    ),
    row(
        "ssl_prefer_server_ciphers",
        HS,
        Arity::Flag,
        |b, d| flag(&mut b.server().tls.prefer_server_ciphers, d),
        "Whether the server's order of cipher suites counts, or the client's.",
    ),
    row(
        "ssl_ecdh_curve",
        HS,
        Arity::Exactly(1),
        |b, d| text(&mut b.server().tls.curves, d),
        "The groups of the key exchange.",
    ),
    row(
        "ssl_session_cache",
        HS,
        Arity::Between(1, 2),
        session_cache,
        "Where sessions are kept that clients may take up again.",
    ),
    row(
        "ssl_session_tickets",
        HS,
        Arity::Flag,
        |b, d| flag(&mut b.server().tls.tickets, d),
        "Whether clients keep their sessions themselves.",
    ),
    row(
        "ssl_session_ticket_key",
        HS,
        Arity::Exactly(1),
        ticket_key,
        "A file of 48 or 80 bytes with a key for tickets; the first one makes them.",
    ),
    row(
        "ssl_session_timeout",
        HS,
        Arity::Exactly(1),
        |b, d| sec(&mut b.server().tls.session_timeout, d),
        "How long a session may be taken up again.",
    ),
    row(
        "ssl_buffer_size",
        HS,
        Arity::Exactly(1),
        |b, d| size(&mut b.server().tls.buffer_size, d),
        "The size of all records; without it they begin small and grow.",
    ),
    row(
        "ssl_dhparam",
        HS,
        Arity::Exactly(1),
        |b, d| text(&mut b.server().tls.dhparam, d),
        "Accepted: No suite here uses such parameters; elliptic curves take their place.",
    ),
    row(
        "ssl_stapling",
        HS,
        Arity::Flag,
        |b, d| flag(&mut b.server().tls.stapling, d),
        "Whether clients are told what the issuer says of the certificate (OCSP).",
    ),
    row(
        "ssl_stapling_file",
        HS,
        Arity::Exactly(1),
        |b, d| text(&mut b.server().tls.stapling_file, d),
        "A file with the issuer's answer (OCSP, DER), as `openssl ocsp -respout` writes it.",
    ),
    row(
        "ssl_stapling_verify",
        HS,
        Arity::Flag,
        |b, d| flag(&mut b.server().tls.stapling_verify, d),
        "Accepted: What a responder says of a certificate is always verified.",
    ),
    row(
        "ssl_stapling_responder",
        HS,
        Arity::Exactly(1),
        |b, d| text(&mut b.server().tls.stapling_responder, d),
        "Who is asked about the certificate, in place of the responder that it names.",
    ),
    row(
        "ssl_ocsp",
        HS,
        Arity::Exactly(1),
        ocsp,
        "Whether issuers are asked about clients' certificates: on for all of a path, leaf for the client's own.",
    ),
    row(
        "ssl_ocsp_responder",
        HS,
        Arity::Exactly(1),
        |b, d| text(&mut b.server().tls.ocsp_responder, d),
        "Who is asked, in place of the responders that the certificates name.",
    ),
    row(
        "ssl_ocsp_cache",
        HS,
        Arity::Exactly(1),
        ocsp_cache,
        "Where answers about clients' certificates are kept: shared:NAME:SIZE, or off.",
    ),
    row(
        "ssl_verify_client",
        HS,
        Arity::Exactly(1),
        verify_client,
        "Whether clients are asked for certificates, and what becomes of those without a good one.",
    ),
    row(
        "ssl_client_certificate",
        HS,
        Arity::Exactly(1),
        |b, d| text(&mut b.server().tls.client_certificate, d),
        "The issuers of clients' certificates; clients are told their names.",
    ),
    row(
        "ssl_trusted_certificate",
        HS,
        Arity::Exactly(1),
        |b, d| text(&mut b.server().tls.trusted_certificate, d),
        "Further issuers that are trusted; clients are not told of them.",
    ),
    row(
        "ssl_verify_depth",
        HS,
        Arity::Exactly(1),
        |b, d| number(&mut b.server().tls.verify_depth, d),
        "Certificates between a client's and a trusted one, at most.",
    ),
    row(
        "ssl_crl",
        HS,
        Arity::Exactly(1),
        |b, d| text(&mut b.server().tls.crl, d),
        "Lists of certificates that were taken back.",
    ),
    row(
        "ssl_reject_handshake",
        HS,
        Arity::Flag,
        |b, d| flag(&mut b.server().tls.reject_handshake, d),
        "Refuse clients that ask for this server.",
    ),
];

/// What is asked of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VerifyClient {
    #[default]
    Off,
    On,
    Optional,
    /// `optional_no_ca`: somebody else decides whether the issuer is known.
    OptionalNoIssuer,
}

/// Where sessions are kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionCache {
    /// `off`: clients are told that there are none.
    pub off: bool,
    /// Kept by this server alone: so many.
    pub builtin: Option<u64>,
    /// The name and the size of a zone that servers share.
    pub shared: Option<(Bytes, u64)>,
}

crate::config::setting::settings! {
    certificates: Arc<[Bytes]> = Arc::default(),
    keys: Arc<[Bytes]> = Arc::default(),
    /// The certificates and keys, where some have variables in their names.
    by_name: Option<super::by_name::Pairs> = None,
    reload: bool = false,
    keep: super::by_name::Keep = super::by_name::Keep::default(),
    passwords: Arc<[Vec<u8>]> = Arc::default(),
    commands: Arc<[super::commands::Command]> = Arc::default(),
    early_data: bool = false,
    protocols: Protocols = Protocols::default(),
    ciphers: Bytes = Bytes::from_static(b"HIGH:!aNULL:!MD5"),
    prefer_server_ciphers: bool = false,
    curves: Bytes = Bytes::from_static(b"auto"),
    session_cache: SessionCache = SessionCache::default(),
    tickets: bool = true,
    ticket_keys: Arc<[super::tickets::FileKey]> = Arc::default(),
    session_timeout: u64 = 300,
    /// 0: records begin small and grow.
    buffer_size: u64 = 0,
    reject_handshake: bool = false,
    dhparam: Bytes = Bytes::new(),
    verify_client: VerifyClient = VerifyClient::Off,
    client_certificate: Bytes = Bytes::new(),
    trusted_certificate: Bytes = Bytes::new(),
    verify_depth: u64 = 1,
    crl: Bytes = Bytes::new(),
    stapling: bool = false,
    stapling_file: Bytes = Bytes::new(),
    stapling_verify: bool = false,
    stapling_responder: Bytes = Bytes::new(),
    ocsp: super::ocsp::Mode = super::ocsp::Mode::Off,
    ocsp_responder: Bytes = Bytes::new(),
    /// The name and the size of a zone.
    ocsp_cache: Option<(Bytes, u64)> = None,
}

fn certificate_cache(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let setting = build.server().tls.keep.vacant()?;
    setting.set(keep(directive)?)
}

/// How long certificates with variables in their names are kept (`ssl_certificate_cache` and its like).
pub fn keep(directive: &Directive) -> Result<Keep, Complaint> {
    let mut keep = Keep {
        max: 0,
        inactive_ms: 10_000,
        valid_ms: 60_000,
    };
    let mut off = false;
    for word in &directive.args {
        let invalid = || Complaint::from(format!("invalid parameter \"{word}\""));
        if let Some(max) = word.strip_prefix(b"max=") {
            let max = values::parse_number(max).filter(|max| *max > 0);
            keep.max = usize::try_from(max.ok_or_else(invalid)?).unwrap_or(usize::MAX);
        } else if let Some(time) = word.strip_prefix(b"inactive=") {
            keep.inactive_ms = values::parse_sec(time)
                .ok_or_else(invalid)?
                .saturating_mul(1000);
        } else if let Some(time) = word.strip_prefix(b"valid=") {
            keep.valid_ms = values::parse_sec(time)
                .ok_or_else(invalid)?
                .saturating_mul(1000);
        } else if word[..] == *b"off" {
            off = true;
        } else {
            return Err(invalid());
        }
    }
    if off {
        keep = Keep::default();
    } else if keep.max == 0 {
        let name = &directive.name;
        return Err(format!("\"{name}\" must have the \"max\" parameter").into());
    }
    Ok(keep)
}

impl Settings {
    /// The files that the settings name, as they are written; none with variables in their names.
    pub fn files(&self) -> impl Iterator<Item = &Bytes> {
        let lists = [&self.client_certificate, &self.trusted_certificate];
        let lists = lists.into_iter().chain([&self.crl, &self.stapling_file]);
        let pairs = self.certificates.iter().chain(self.keys.iter());
        let is_file =
            |name: &&Bytes| !name.is_empty() && !name.contains(&b'$') && !name.starts_with(DATA);
        pairs.chain(lists).filter(is_file)
    }
}

fn verify_client(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let setting = &mut build.server().tls.verify_client;
    setting.vacant()?;
    let word = &directive.args[0];
    let value = match word.to_ascii_lowercase().as_slice() {
        b"off" => VerifyClient::Off,
        b"on" => VerifyClient::On,
        b"optional" => VerifyClient::Optional,
        b"optional_no_ca" => VerifyClient::OptionalNoIssuer,
        _ => return Err(format!("invalid value \"{word}\"").into()),
    };
    setting.set(value)
}

/// What nginx reads of a line, at most.
const PASSWORD_MAX: usize = 4096;

fn password_file(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    build.server().tls.passwords.vacant()?;
    let passwords = passwords(build, directive)?;
    build.server().tls.passwords.set(passwords)
}

/// The passwords in the file that a directive names.
pub fn passwords(
    build: &mut Build<'_>,
    directive: &Directive,
) -> Result<Arc<[Vec<u8>]>, Complaint> {
    let text = directive.args[0].as_str().ok_or("invalid value")?;
    let path = build.conf_path(text);
    let shown = path.display();
    let bytes = build.read_file(&path).map_err(|error| {
        let error = sys::errno::Errno(&error);
        Complaint::from(format!("open() \"{shown}\" failed ({error})"))
    })?;
    let mut passwords: Vec<Vec<u8>> = Vec::new();
    for line in bytes.split(|&byte| byte == b'\n') {
        if line.len() > PASSWORD_MAX {
            return Err(format!("too long line in \"{shown}\"").into());
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !line.is_empty() {
            passwords.push(line.to_vec());
        }
    }
    Ok(passwords.into())
}

fn ocsp(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let setting = build.server().tls.ocsp.vacant()?;
    let word = &directive.args[0];
    setting.set(match word.to_ascii_lowercase().as_slice() {
        b"off" => Mode::Off,
        b"on" => Mode::All,
        b"leaf" => Mode::Leaf,
        _ => return Err(format!("invalid value \"{word}\"").into()),
    })
}

fn ocsp_cache(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    build.server().tls.ocsp_cache.vacant()?;
    let word = &directive.args[0];
    if word[..] == *b"off" {
        return build.server().tls.ocsp_cache.set(None);
    }
    let invalid = || Complaint::from(format!("invalid OCSP cache \"{word}\""));
    let text = word.as_str().and_then(|text| text.strip_prefix("shared:"));
    let (name, size) = text
        .and_then(|zone| zone.split_once(':'))
        .ok_or_else(invalid)?;
    let size = values::parse_size(size.as_bytes())
        .filter(|_| !name.is_empty())
        .ok_or_else(invalid)?;
    if size < super::sessions::ZONE_MIN {
        return Err(format!("OCSP cache \"{word}\" is too small").into());
    }
    build
        .zones
        .add(name.as_bytes(), size, "ngx_http_ssl_module ocsp")?;
    let zone = (Bytes::copy_from_slice(name.as_bytes()), size);
    build.server().tls.ocsp_cache.set(Some(zone))
}

fn conf_command(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let word = |place: usize| Bytes::copy_from_slice(&directive.args[place]);
    let setting = &mut build.server().tls.commands;
    let before = setting.0.take().unwrap_or_default();
    let all = before.iter().cloned().chain([(word(0), word(1))]);
    setting.0 = Some(all.collect());
    Ok(())
}

fn push(setting: &mut Setting<Arc<[Bytes]>>, directive: &Directive) -> Outcome {
    let word = Bytes::copy_from_slice(&directive.args[0]);
    let before = setting.0.take().unwrap_or_default();
    setting.0 = Some(before.iter().cloned().chain([word]).collect());
    Ok(())
}

fn text(setting: &mut Setting<Bytes>, directive: &Directive) -> Outcome {
    let word = Bytes::copy_from_slice(&directive.args[0]);
    setting.set(word)
}

fn protocols(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    build.server().tls.protocols.vacant()?;
    let mut all = Protocols::none();
    for word in &directive.args {
        let one = protocol(word).ok_or_else(|| format!("invalid value \"{word}\""))?;
        if all.contains(one) {
            build.warn(directive, format!("duplicate value \"{word}\""));
        }
        all.add(one);
    }
    if all.has_old() {
        let old = all.old_names().join(", ");
        build.warn(
            directive,
            format!("{old}: protocols before TLSv1.2 are not offered"),
        );
    }
    build.server().tls.protocols.set(all)
}

fn session_cache(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    build.server().tls.session_cache.vacant()?;
    let mut cache = SessionCache::default();
    for word in &directive.args {
        let invalid = || Complaint::from(format!("invalid session cache \"{word}\""));
        let text = word.as_str().ok_or_else(invalid)?;
        match text.split_once(':') {
            None if text == "off" => cache.off = true,
            None if text == "none" => cache = SessionCache::default(),
            None if text == "builtin" => cache.builtin = Some(super::sessions::BUILTIN_SESSIONS),
            Some(("builtin", count)) => {
                let count = values::parse_number(count.as_bytes()).ok_or_else(invalid)?;
                cache.builtin = Some(count);
            }
            Some(("shared", zone)) => {
                let (name, size) = zone.split_once(':').ok_or_else(invalid)?;
                let size = values::parse_size(size.as_bytes())
                    .filter(|_| !name.is_empty())
                    .ok_or_else(invalid)?;
                if size < super::sessions::ZONE_MIN {
                    return Err(format!("session cache \"{word}\" is too small").into());
                }
                build
                    .zones
                    .add(name.as_bytes(), size, "ngx_http_ssl_module")?;
                cache.shared = Some((Bytes::copy_from_slice(name.as_bytes()), size));
            }
            _ => return Err(invalid()),
        }
    }
    build.server().tls.session_cache.set(cache)
}

fn ticket_key(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let word = &directive.args[0];
    let text = word.as_str().ok_or("invalid value")?;
    let path = build.conf_path(text);
    let shown = path.display();
    let bytes = build.read_file(&path).map_err(|error| {
        let error = sys::errno::Errno(&error);
        Complaint::from(format!("open() \"{shown}\" failed ({error})"))
    })?;
    let key = super::tickets::FileKey::new(&bytes)
        .ok_or_else(|| format!("\"{shown}\" must be 48 or 80 bytes"))?;
    let setting = &mut build.server().tls.ticket_keys;
    let before = setting.0.take().unwrap_or_default();
    setting.0 = Some(before.iter().cloned().chain([key]).collect());
    Ok(())
}
