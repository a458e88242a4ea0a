//! What a handshake has settled with a client, beside what the TLS library keeps.

use super::client;
use super::context::Context;
use super::flaw::Flaw;
use super::ocsp::{Check, Trouble};
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use rustls::server::ClientHello;

/// Of one connection.
#[derive(Debug, Default)]
pub struct Settled {
    /// The server that the client has named, in lower case, if there is one of this name at its address.
    pub server_name: Option<Box<str>>,
    /// What is wrong with the client's certificate.
    pub flaw: Option<Flaw>,
    /// What its issuers say against it.
    pub trouble: Option<Trouble>,
    /// What the client has offered, by numbers.
    pub suites: Box<[u16]>,
    pub groups: Box<[u16]>,
    pub schemes: Box<[u16]>,
    /// How a new session's handshake is signed: by us, and by the client.
    pub signed: Option<u16>,
    pub client_signed: Option<u16>,
}

impl Settled {
    #[must_use]
    pub fn new<'h>(
        server_name: Option<String>,
        hello: impl Fn() -> ClientHello<'h>,
        config: &ServerConfig,
    ) -> Settled {
        // What the library will do, too, in this very turn.
        let key = config.cert_resolver.resolve(hello());
        let hello = hello();
        let groups = hello.named_groups().unwrap_or_default();
        let schemes = hello.signature_schemes();
        let signer = key.and_then(|key| key.key.choose_scheme(schemes));
        Settled {
            server_name: server_name.map(String::into_boxed_str),
            flaw: None,
            trouble: None,
            suites: hello
                .cipher_suites()
                .iter()
                .map(|suite| u16::from(*suite))
                .collect(),
            groups: groups.iter().map(|group| u16::from(*group)).collect(),
            schemes: schemes.iter().map(|scheme| u16::from(*scheme)).collect(),
            signed: signer.map(|signer| u16::from(signer.scheme())),
            client_signed: None,
        }
    }

    /// Looks at the certificate that the client has shown.
    pub fn look_at(&mut self, context: &Context, shown: Option<&[CertificateDer<'_>]>) {
        if let (Some(trust), Some(chain)) = (&context.trust, shown) {
            self.flaw = client::verify(trust, chain);
            self.client_signed = chain.first().and_then(|own| client::scheme_of(own));
        }
    }

    /// What its issuers are to be asked about it (`ssl_ocsp`).
    #[must_use]
    pub fn to_ask(&self, context: &Context, shown: Option<&[CertificateDer<'_>]>) -> Option<Check> {
        let (client, trust) = (context.ocsp.as_ref()?, context.trust.as_ref()?);
        match (self.flaw, shown) {
            (None, Some(chain)) => Some(client.check(&trust.path(chain))),
            _ => None,
        }
    }
}
