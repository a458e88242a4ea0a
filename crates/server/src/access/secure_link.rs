//! `secure_link`: links that only those can make who know a secret, and that may expire. The features are variables:
//! `$secure_link` and `$secure_link_expires`.

use super::auth_basic::same;
use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, Outcome, Set, row};
use crate::http::{Request, thread};
use crate::variables::Template;
use bytes::Bytes;
use conf::Directive;
use conf::table::Row;
use md5::{Digest, Md5};
use wire::fields::base64::{self, Alphabet};

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "secure_link",
        HSL,
        Arity::Exactly(1),
        |b, d| {
            let value = Template::compile(&d.args[0], &mut b.variables);
            let setting = b.location().secure_link.link.vacant()?;
            setting.set(Some(value?))
        },
        "What holds a link's digest and, after a comma, the second since 1970 that it expires at.",
    ),
    row(
        "secure_link_md5",
        HSL,
        Arity::Exactly(1),
        |b, d| {
            let value = Template::compile(&d.args[0], &mut b.variables);
            let setting = b.location().secure_link.md5.vacant()?;
            setting.set(Some(value?))
        },
        "What the digest is made of.",
    ),
    row(
        "secure_link_secret",
        HSL,
        Arity::Exactly(1),
        secure_link_secret,
        "The secret of links of the form /PREFIX/DIGEST/LINK.",
    ),
];

crate::config::setting::settings! {
    link: Option<Template> = None,
    md5: Option<Template> = None,
    secret: Bytes = Bytes::new(),
}

/// Letters of a digest in base64, padding included.
const ENCODED_MAX: usize = 24;

fn secure_link_secret(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let secret = Bytes::copy_from_slice(&directive.args[0]);
    build.location().secure_link.secret.set(secret)
}

impl Settings {
    /// Whether both forms are used, which nginx refuses when it has read all.
    pub fn check(&self) -> Result<(), &'static str> {
        match !self.secret.is_empty() && (self.link.is_some() || self.md5.is_some()) {
            true => Err(
                "\"secure_link_secret\" cannot be mixed with \"secure_link\" and \"secure_link_md5\"",
            ),
            false => Ok(()),
        }
    }
}

/// The digest of a link as it was given, and when the link expires.
struct Link {
    value: Bytes,
    digest_end: usize,
    /// Seconds since 1970.
    expires: Option<u64>,
}

impl Link {
    /// `None`: there is none, or its time is no time.
    fn of(settings: &Settings, request: &Request) -> Option<Link> {
        let value = settings.link.as_ref()?.evaluate(request);
        let Some(comma) = memchr::memchr(b',', &value) else {
            return Some(Link {
                digest_end: value.len(),
                value,
                expires: None,
            });
        };
        let expires = conf::values::parse_number(&value[comma + 1..]).filter(|&time| time > 0)?;
        Some(Link {
            value,
            digest_end: comma,
            expires: Some(expires),
        })
    }
}

/// `$secure_link`: `1` where the link is right, `0` where it has expired; with a secret the link's last part. Otherwise it
/// has no value.
pub fn append(request: &Request, out: &mut Vec<u8>) -> bool {
    let settings = &request.location().settings.secure_link;
    if !settings.secret.is_empty() {
        return append_with_secret(&settings.secret, request, out);
    }
    let (Some(link), Some(md5)) = (Link::of(settings, request), &settings.md5) else {
        return false;
    };
    let encoded = &link.value[..link.digest_end];
    if encoded.len() > ENCODED_MAX {
        return false;
    }
    let digest = base64::decode(encoded, Alphabet::Url);
    let expected = Md5::digest(md5.evaluate(request));
    if !digest.is_some_and(|digest| same(&digest, &expected)) {
        return false;
    }
    let expired = link
        .expires
        .is_some_and(|expires| expires < thread::unix_ms() / 1000);
    out.push(if expired { b'0' } else { b'1' });
    true
}

/// `$secure_link_expires`.
pub fn append_expires(request: &Request, out: &mut Vec<u8>) -> bool {
    let settings = &request.location().settings.secure_link;
    match Link::of(settings, request) {
        Some(link) if link.expires.is_some() && settings.md5.is_some() => {
            out.extend_from_slice(&link.value[link.digest_end + 1..]);
            true
        }
        _ => false,
    }
}

/// `/PREFIX/DIGEST/LINK`: the digest in hexadecimal of link and secret.
fn append_with_secret(secret: &[u8], request: &Request, out: &mut Vec<u8>) -> bool {
    let Some(rest) = request.raw_target().get(1..) else {
        return false;
    };
    let mut parts = rest.splitn(3, |&byte| byte == b'/');
    let (Some(_), Some(digest), Some(link)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let expected = Md5::new().chain_update(link).chain_update(secret);
    let mut text = Vec::with_capacity(32);
    for byte in expected.finalize() {
        for half in [byte >> 4, byte & 15] {
            text.push(b"0123456789abcdef"[usize::from(half)]);
        }
    }
    if !same(&digest.to_ascii_lowercase(), &text) {
        return false;
    }
    out.extend_from_slice(link);
    true
}
