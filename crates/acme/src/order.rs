//! A certificate, from the order to its chain.

use crate::challenge::{Answers, Challenge, Proof};
use crate::{Error, Issuer, Kind};
use instant_acme::{
    Account, AuthorizationStatus, ChallengeType, Identifier, NewOrder, OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName};
use std::net::IpAddr;
use std::time::Duration;
use x509_parser::pem::Pem;

/// How long an ACME server may take to look at the answers, and to issue.
const PATIENCE: RetryPolicy = RetryPolicy::new().timeout(Duration::from_secs(120));

/// A certificate that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Wanted {
    /// Names and addresses.
    pub names: Vec<String>,
    pub key: Kind,
}

/// A certificate that was issued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issued {
    /// The chain, the certificate first.
    pub chain_pem: String,
    pub key_pem: String,
}

/// The time a certificate holds, in seconds of the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    pub begins: i64,
    pub ends: i64,
}

impl Validity {
    /// Of the first certificate of a chain.
    pub fn of(chain_pem: &str) -> Result<Validity, Error> {
        let bad = || Error("the chain holds no certificate that can be read".to_owned());
        let first = Pem::iter_from_buffer(chain_pem.as_bytes()).next();
        let first = first.ok_or_else(bad)?.map_err(|_| bad())?;
        let certificate = first.parse_x509().map_err(|_| bad())?;
        let validity = certificate.validity();
        Ok(Validity {
            begins: validity.not_before.timestamp(),
            ends: validity.not_after.timestamp(),
        })
    }
}

/// Answers that are withdrawn when the order is over, however it ends.
struct Shown<'a> {
    answers: &'a dyn Answers,
    names: Vec<String>,
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        for name in &self.names {
            self.answers.withdraw(name);
        }
    }
}

/// Orders a certificate and waits for it.
pub async fn obtain(
    account: &Account,
    issuer: &Issuer,
    wanted: &Wanted,
    answers: &dyn Answers,
) -> Result<Issued, Error> {
    let identifiers: Vec<Identifier> = wanted.names.iter().map(|name| identifier(name)).collect();
    let mut asked = NewOrder::new(&identifiers);
    if let Some((profile, required)) = &issuer.profile {
        let is_known = account.profiles().any(|known| known.name == profile);
        match (is_known, required) {
            (true, _) => asked = asked.profile(profile),
            (false, true) => {
                return Err(Error(format!("the server has no profile \"{profile}\"")));
            }
            (false, false) => {}
        }
    }
    let mut order = account.new_order(&asked).await?;
    let mut shown = Shown {
        answers,
        names: Vec::new(),
    };
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        let name = authorization.identifier().to_string();
        match authorization.status {
            AuthorizationStatus::Valid => continue,
            AuthorizationStatus::Pending => {}
            _ => return Err(Error(format!("the authorization of {name} is not open"))),
        }
        let kind = match issuer.challenge {
            Challenge::Http01 => ChallengeType::Http01,
            Challenge::TlsAlpn01 => ChallengeType::TlsAlpn01,
        };
        let Some(mut challenge) = authorization.challenge(kind) else {
            return Err(Error(format!(
                "the server offers no such challenge for {name}"
            )));
        };
        let authorized = challenge.key_authorization();
        match issuer.challenge {
            Challenge::Http01 => {
                shown.names.push(challenge.token.clone());
                answers.http(&challenge.token, authorized.as_str());
            }
            Challenge::TlsAlpn01 => {
                shown.names.push(name.clone());
                answers.tls(&name, Proof::new(&name, authorized.digest().as_ref())?);
            }
        }
        challenge.set_ready().await?;
    }
    if order.poll_ready(&PATIENCE).await? != OrderStatus::Ready {
        return Err(Error(refusal(&mut order).await));
    }
    let key = wanted.key.generate()?;
    let mut parameters = CertificateParams::new(wanted.names.clone())?;
    parameters.distinguished_name = DistinguishedName::new();
    let request = parameters.serialize_request(&key)?;
    order.finalize_csr(request.der()).await?;
    let chain_pem = order.poll_certificate(&PATIENCE).await?;
    Validity::of(&chain_pem)?;
    Ok(Issued {
        chain_pem,
        key_pem: key.serialize_pem(),
    })
}

fn identifier(name: &str) -> Identifier {
    match name.parse::<IpAddr>() {
        Ok(address) => Identifier::Ip(address),
        Err(_) => Identifier::Dns(name.to_owned()),
    }
}

/// What the server says of the challenges that failed.
async fn refusal(order: &mut instant_acme::Order) -> String {
    let mut reasons = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        if authorization.refresh().await.is_err() {
            continue;
        }
        let name = authorization.identifier().to_string();
        for challenge in &authorization.challenges {
            if let Some(problem) = &challenge.error {
                reasons.push(format!("{name}: {problem}"));
            }
        }
    }
    match reasons.is_empty() {
        true => "the server did not accept the answers".to_owned(),
        false => reasons.join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::challenge::Proof;

    #[test]
    fn what_is_no_chain_is_an_error() {
        for bad in [
            "",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "x",
        ] {
            assert!(Validity::of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_certificate_tells_how_long_it_holds() -> Result<(), Error> {
        let proof = Proof::new("a.example", &[0; 32])?;
        let key = Kind::EcdsaP256.generate()?;
        let pem = CertificateParams::new(vec!["a.example".to_owned()])?
            .self_signed(&key)?
            .pem();
        let validity = Validity::of(&pem)?;
        assert!(validity.begins < validity.ends && !proof.key_der.is_empty());
        Ok(())
    }

    #[test]
    fn addresses_are_told_from_names() {
        assert_eq!(
            identifier("::1"),
            Identifier::Ip("::1".parse().expect("an address"))
        );
        assert_eq!(identifier("a.b"), Identifier::Dns("a.b".to_owned()));
    }
}
