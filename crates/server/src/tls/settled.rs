//! What a handshake has settled with a client, beside what the TLS library keeps.

use super::client;
use super::context::Context;
use super::flaw::Flaw;
use rustls::pki_types::CertificateDer;
use rustls::server::ClientHello;

/// Of one connection.
#[derive(Debug, Default)]
pub struct Settled {
    /// The server that the client has named, in lower case, if there is one of this name at its address.
    pub server_name: Option<Box<str>>,
    /// What is wrong with the client's certificate.
    pub flaw: Option<Flaw>,
    /// What the client has offered, by numbers.
    pub suites: Box<[u16]>,
    pub groups: Box<[u16]>,
}

impl Settled {
    #[must_use]
    pub fn new(server_name: Option<String>, hello: &ClientHello<'_>) -> Settled {
        let groups = hello.named_groups().unwrap_or_default();
        Settled {
            server_name: server_name.map(String::into_boxed_str),
            flaw: None,
            suites: hello
                .cipher_suites()
                .iter()
                .map(|suite| u16::from(*suite))
                .collect(),
            groups: groups.iter().map(|group| u16::from(*group)).collect(),
        }
    }

    /// Looks at the certificate that the client has shown.
    pub fn look_at(&mut self, context: &Context, shown: Option<&[CertificateDer<'_>]>) {
        if let (Some(trust), Some(chain)) = (&context.trust, shown) {
            self.flaw = client::verify(trust, chain);
        }
    }
}
