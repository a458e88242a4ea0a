//! An ACME server, how we speak to it, and our account there.

use crate::Error;
use crate::challenge::Challenge;
use crate::client::Client;
use instant_acme::{
    Account, AccountBuilder, AccountCredentials, ExternalAccountKey, Key, NewAccount,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// Whose word the ACME server's own certificate is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Trust {
    #[default]
    System,
    Roots(Vec<CertificateDer<'static>>),
    Anyone,
}

/// An account elsewhere that ours is bound to (RFC 8555, 7.3.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct External {
    pub id: String,
    /// The key of an HMAC, decoded.
    pub key: Vec<u8>,
}

/// A server and the terms on which it is spoken to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Issuer {
    /// The URL of the directory.
    pub directory: String,
    /// URLs, `mailto:` and others.
    pub contacts: Vec<String>,
    /// PKCS #8 of a P-256 key; none: one is made.
    pub account_key: Option<Vec<u8>>,
    pub external: Option<External>,
    pub terms_accepted: bool,
    pub challenge: Challenge,
    /// The name of a profile, and whether there is to be no certificate without it.
    pub profile: Option<(String, bool)>,
    pub trust: Trust,
}

impl Issuer {
    fn connect(&self) -> Result<AccountBuilder, Error> {
        let client = Client::new(&self.trust)?;
        Ok(Account::builder_with_http(Box::new(client)))
    }

    /// The account that `saved` tells of, or else a new one and what is to be saved of it.
    pub async fn account(&self, saved: Option<&[u8]>) -> Result<(Account, Option<Vec<u8>>), Error> {
        if let Some(saved) = saved.filter(|saved| self.is_ours(saved)) {
            let credentials: AccountCredentials =
                serde_json::from_slice(saved).map_err(|error| Error(error.to_string()))?;
            let account = self.connect()?.from_credentials(credentials).await?;
            return Ok((account, None));
        }
        let (account, credentials) = match &self.account_key {
            None => self.create().await?,
            Some(key) => self.create_from(key).await?,
        };
        let credentials =
            serde_json::to_vec(&credentials).map_err(|error| Error(error.to_string()))?;
        Ok((account, Some(credentials)))
    }

    /// Whether what was saved is of this directory, and of this key if one is given.
    fn is_ours(&self, saved: &[u8]) -> bool {
        let Ok(fields) = serde_json::from_slice::<serde_json::Value>(saved) else {
            return false;
        };
        let same_directory = fields["directory"].as_str() == Some(&self.directory);
        let same_key = || match &self.account_key {
            None => true,
            Some(key) => serde_json::from_slice::<AccountCredentials>(saved)
                .is_ok_and(|saved| saved.private_key().secret_pkcs8_der() == key),
        };
        same_directory && same_key()
    }

    async fn create(&self) -> Result<(Account, AccountCredentials), Error> {
        let contacts: Vec<&str> = self.contacts.iter().map(String::as_str).collect();
        let account = NewAccount {
            contact: &contacts,
            terms_of_service_agreed: self.terms_accepted,
            only_return_existing: false,
        };
        let external = self.external.as_ref();
        let external =
            external.map(|external| ExternalAccountKey::new(external.id.clone(), &external.key));
        let directory = self.directory.clone();
        let created = self
            .connect()?
            .create(&account, directory, external.as_ref());
        Ok(created.await?)
    }

    async fn create_from(&self, key: &[u8]) -> Result<(Account, AccountCredentials), Error> {
        if self.external.is_some() {
            return Err(Error(
                "external_account_key needs an account key of its own: leave account_key away"
                    .to_owned(),
            ));
        }
        let pkcs8 = PrivatePkcs8KeyDer::from(key.to_vec());
        let parsed = Key::from_pkcs8_der(pkcs8.clone_key())?;
        let pair = (parsed, PrivateKeyDer::Pkcs8(pkcs8));
        let created = self
            .connect()?
            .create_from_key(pair, self.directory.clone());
        let (account, credentials) = created.await?;
        if !self.contacts.is_empty() {
            let contacts: Vec<&str> = self.contacts.iter().map(String::as_str).collect();
            account.update_contacts(&contacts).await?;
        }
        Ok((account, credentials))
    }
}
