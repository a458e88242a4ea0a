//! Variables of the certificate that a client has shown. Without one they have no value.

use super::{Fixed, append};
use crate::http::Request;
use crate::tls::names;
use crate::tls::ocsp::Trouble;
use aws_lc_rs::digest;
use rustls::pki_types::CertificateDer;
use std::io::Write;
use wire::fields::base64;
use wire::uri::{Class, escape_into};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;

pub const FIXED: &[Fixed] = &[
    ("ssl_client_cert", |request, out| {
        with_der(request, |der| {
            // Later lines begin with a tab, so that the value fits a field.
            let text = pem(der);
            let text = text.trim_end_matches('\n').replace('\n', "\n\t");
            append(Some(text.as_bytes()), out)
        })
    }),
    ("ssl_client_raw_cert", |request, out| {
        with_der(request, |der| append(Some(pem(der).as_bytes()), out))
    }),
    ("ssl_client_escaped_cert", |request, out| {
        with_der(request, |der| {
            escape_into(pem(der).as_bytes(), Class::UriComponent, out);
            true
        })
    }),
    ("ssl_client_fingerprint", |request, out| {
        with_der(request, |der| {
            let digest = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, der);
            for byte in digest.as_ref() {
                let _memory = write!(out, "{byte:02x}");
            }
            true
        })
    }),
    ("ssl_client_i_dn", |request, out| {
        with(request, |certificate| {
            append(Some(names::rfc2253(certificate.issuer()).as_bytes()), out)
        })
    }),
    ("ssl_client_i_dn_legacy", |request, out| {
        with(request, |certificate| {
            append(Some(names::legacy(certificate.issuer()).as_bytes()), out)
        })
    }),
    ("ssl_client_s_dn", |request, out| {
        with(request, |certificate| {
            append(Some(names::rfc2253(certificate.subject()).as_bytes()), out)
        })
    }),
    ("ssl_client_s_dn_legacy", |request, out| {
        with(request, |certificate| {
            append(Some(names::legacy(certificate.subject()).as_bytes()), out)
        })
    }),
    ("ssl_client_serial", |request, out| {
        with(request, |certificate| {
            serial(certificate.raw_serial(), out);
            true
        })
    }),
    ("ssl_client_v_end", |request, out| {
        with(request, |certificate| {
            time(certificate.validity().not_after, out)
        })
    }),
    ("ssl_client_v_remain", |request, out| {
        with(request, |certificate| {
            let end = certificate.validity().not_after.timestamp();
            let left = end.saturating_sub(ASN1Time::now().timestamp()).max(0);
            let _memory = write!(out, "{}", left / 86_400);
            true
        })
    }),
    ("ssl_client_v_start", |request, out| {
        with(request, |certificate| {
            time(certificate.validity().not_before, out)
        })
    }),
    ("ssl_client_verify", |request, out| {
        let Some(session) = request.connection.stream.tls() else {
            return false;
        };
        let settled = request.connection.settled.get();
        let flaw = settled.and_then(|settled| settled.flaw);
        let trouble = settled.and_then(|settled| settled.trouble);
        let flaw = flaw.map(|flaw| flaw.text());
        match flaw.or(trouble.map(Trouble::as_str)) {
            Some(text) => {
                out.extend_from_slice(b"FAILED:");
                append(Some(text.as_bytes()), out)
            }
            None => {
                let session = session.borrow();
                let shown = session.connection().peer_certificates();
                append(
                    Some(if shown.is_some() { b"SUCCESS" } else { b"NONE" }),
                    out,
                )
            }
        }
    }),
];

/// Asks the bytes of the certificate, if there is one. On a connection with TLS, what is not there is empty.
fn with_der(request: &Request, ask: impl FnOnce(&CertificateDer<'_>) -> bool) -> bool {
    let Some(session) = request.connection.stream.tls() else {
        return false;
    };
    let session = session.borrow();
    let shown = session.connection().peer_certificates();
    shown.and_then(<[_]>::first).is_some_and(ask)
}

fn with(request: &Request, ask: impl FnOnce(&X509Certificate<'_>) -> bool) -> bool {
    with_der(request, |der| {
        X509Certificate::from_der(der).is_ok_and(|(_, certificate)| ask(&certificate))
    })
}

/// Base64 between two lines, 64 characters a line.
fn pem(der: &[u8]) -> String {
    let text = base64::encode(der);
    let mut out = String::with_capacity(text.len() + text.len() / 64 + 64);
    out.push_str("-----BEGIN CERTIFICATE-----\n");
    for line in text.chunks(64) {
        out.extend(line.iter().map(|&byte| char::from(byte)));
        out.push('\n');
    }
    out.push_str("-----END CERTIFICATE-----\n");
    out
}

/// An integer of DER in hexadecimal, its sign before it.
fn serial(bytes: &[u8], out: &mut Vec<u8>) {
    let mut magnitude = bytes.to_vec();
    if bytes.first().is_some_and(|byte| byte & 0x80 != 0) {
        out.push(b'-');
        let mut carry = true;
        for byte in magnitude.iter_mut().rev() {
            let (next, over) = (!*byte).overflowing_add(u8::from(carry));
            (*byte, carry) = (next, over);
        }
    }
    let zeros = magnitude.iter().take_while(|&&byte| byte == 0).count();
    let digits = magnitude.get(zeros..).unwrap_or_default();
    match digits.is_empty() {
        true => out.extend_from_slice(b"00"),
        false => {
            for byte in digits {
                let _memory = write!(out, "{byte:02X}");
            }
        }
    }
}

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// As in `Nov  2 07:03:28 2026 GMT`.
fn time(time: ASN1Time, out: &mut Vec<u8>) -> bool {
    let time = time.to_datetime();
    let month = MONTHS[usize::from(u8::from(time.month()) - 1)];
    let (day, hour, minute, second) = (time.day(), time.hour(), time.minute(), time.second());
    let year = time.year();
    let _memory = write!(
        out,
        "{month} {day:2} {hour:02}:{minute:02}:{second:02} {year} GMT"
    );
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serials_as_openssl_prints_them() {
        for (bytes, shown) in [
            (&[0][..], "00"),
            (&[0x0f], "0F"),
            (&[0, 0xa1, 0xb2], "A1B2"),
            (&[0xff], "-01"),
            (&[0x80], "-80"),
            (&[0xff, 0], "-0100"),
        ] {
            let mut out = Vec::new();
            serial(bytes, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), shown, "{bytes:?}");
        }
    }
}
