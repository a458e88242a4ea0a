//! What an ACME server asks to see whether a name is ours: a file below `/.well-known/acme-challenge/` (HTTP-01), and a
//! certificate for a hello with `acme-tls/1` (TLS-ALPN-01). Answered for any server, as long as an order is under way.

use crate::http::{Body, Request, Response};
use acme::challenge::{ALPN, Answers, PREFIX, Proof};
use bytes::Bytes;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::server::ClientHello;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use wire::http1::Method;

/// An answer that an ACME server may ask for.
enum Answer {
    /// Asked for by its token: the key authorization.
    Http(Bytes),
    /// Asked for by a name in a hello.
    Tls(Arc<ServerConfig>),
}

/// How many answers there are, so that requests pass by without a lock when there are none.
static COUNT: AtomicUsize = AtomicUsize::new(0);
static ANSWERS: LazyLock<Mutex<HashMap<String, Answer>>> = LazyLock::new(Mutex::default);

/// Puts answers where requests and hellos find them.
pub struct Board;

fn change(change: impl FnOnce(&mut HashMap<String, Answer>)) {
    let mut answers = ANSWERS.lock().unwrap_or_else(PoisonError::into_inner);
    change(&mut answers);
    COUNT.store(answers.len(), Ordering::Release);
}

fn find<T>(name: &str, take: impl FnOnce(&Answer) -> Option<T>) -> Option<T> {
    let answers = ANSWERS.lock().unwrap_or_else(PoisonError::into_inner);
    answers.get(name).and_then(take)
}

/// The name that a hello has for an address (RFC 8738): that of its reverse look-up.
fn name_in_hello(name: &str) -> String {
    match name.parse::<IpAddr>() {
        Err(_) => name.to_ascii_lowercase(),
        Ok(IpAddr::V4(address)) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        Ok(IpAddr::V6(address)) => {
            let octets = address.octets();
            let digits = octets.iter().rev();
            let digits = digits.map(|octet| format!("{:x}.{:x}.", octet & 15, octet >> 4));
            format!("{}ip6.arpa", digits.collect::<String>())
        }
    }
}

fn config(proof: Proof) -> Option<Arc<ServerConfig>> {
    let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let chain = vec![CertificateDer::from(proof.certificate_der)];
    let key = PrivatePkcs8KeyDer::from(proof.key_der);
    let signer = aws_lc_rs::sign::any_supported_type(&key.into()).ok()?;
    // Made here, so that they belong together; rustls cannot tell, for it does not know the critical extension.
    let pair = CertifiedKey::new(chain, signer);
    let mut config = builder
        .with_safe_default_protocol_versions()
        .ok()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(pair)));
    config.alpn_protocols = vec![ALPN.to_vec()];
    Some(Arc::new(config))
}

impl Answers for Board {
    fn http(&self, token: &str, key_authorization: &str) {
        let answer = Answer::Http(Bytes::copy_from_slice(key_authorization.as_bytes()));
        change(|answers| {
            answers.insert(token.to_owned(), answer);
        });
    }

    fn tls(&self, name: &str, proof: Proof) {
        if let Some(config) = config(proof) {
            change(|answers| {
                answers.insert(name_in_hello(name), Answer::Tls(config));
            });
        }
    }

    fn withdraw(&self, token_or_name: &str) {
        change(|answers| {
            answers.remove(token_or_name);
            answers.remove(&name_in_hello(token_or_name));
        });
    }
}

/// The answer, if an ACME server asks for one.
#[must_use]
pub fn respond(request: &Request) -> Option<Response> {
    if COUNT.load(Ordering::Acquire) == 0 || !matches!(request.method, Method::Get | Method::Head) {
        return None;
    }
    let token = request.uri.strip_prefix(PREFIX.as_bytes())?;
    let text = find(std::str::from_utf8(token).ok()?, |answer| match answer {
        Answer::Http(text) => Some(text.clone()),
        Answer::Tls(_) => None,
    })?;
    let mut response = Response::new(200, Body::Memory(text));
    response.content_type = Some(Bytes::from_static(b"text/plain"));
    Some(response)
}

/// What a hello is shown that asks for a proof.
#[must_use]
pub fn proof(hello: &ClientHello<'_>) -> Option<Arc<ServerConfig>> {
    if COUNT.load(Ordering::Acquire) == 0 {
        return None;
    }
    let mut protocols = hello.alpn()?;
    if protocols.next() != Some(ALPN) || protocols.next().is_some() {
        return None;
    }
    let name = hello.server_name()?.to_ascii_lowercase();
    find(&name, |answer| match answer {
        Answer::Tls(config) => Some(Arc::clone(config)),
        Answer::Http(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_asked_for_by_their_reverse_names() {
        for (name, expected) in [
            ("A.example", "a.example"),
            ("127.0.0.1", "1.0.0.127.in-addr.arpa"),
            (
                "2001:db8::1",
                "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa",
            ),
        ] {
            assert_eq!(name_in_hello(name), expected);
        }
    }

    #[test]
    fn answers_are_there_until_they_are_withdrawn() {
        let is_there = |name: &str| find(name, |_| Some(())).is_some();
        Board.http("token-of-a-test", "token-of-a-test.thumb");
        assert!(is_there("token-of-a-test"));
        Board.withdraw("token-of-a-test");
        assert!(!is_there("token-of-a-test"));
        let proof = Proof::new("10.9.8.7", &[1; 32]).expect("a proof");
        Board.tls("10.9.8.7", proof);
        assert!(is_there("7.8.9.10.in-addr.arpa"));
        Board.withdraw("10.9.8.7");
        assert!(!is_there("7.8.9.10.in-addr.arpa"));
    }
}
