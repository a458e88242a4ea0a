//! `ssl_conf_command`: OpenSSL's own commands, those that mean something here; they change what the other directives say.

use super::ciphers::{self, Protocols, protocol};
use super::directive::Settings;
use bytes::Bytes;
use rustls::SupportedCipherSuite;

/// The commands that are known.
const KNOWN: &str =
    "Ciphersuites, CipherString, Curves, Groups, MinProtocol, MaxProtocol, Protocol, Options";

/// Options that hold anyway, ask for nothing that a client could notice, or name what is not there.
const OTHER_OPTIONS: &[&str] = &[
    "EmptyFragments",
    "Bugs",
    "Compression",
    "ECDHSingle",
    "DHSingle",
    "NoResumptionOnRenegotiation",
    "UnsafeLegacyRenegotiation",
    "UnsafeLegacyServerConnect",
    "EncryptThenMac",
    "NoRenegotiation",
    "AllowNoDHEKEX",
    "PrioritizeChaCha",
    "MiddleboxCompat",
    "AntiReplay",
    "ExtendedMasterSecret",
    "CANames",
    "KTLS",
    "IgnoreUnexpectedEOF",
];

/// What commands make of a server's settings.
#[derive(Debug, Default)]
pub struct Commanded {
    /// The suites of TLS 1.3.
    pub suites13: Option<Vec<SupportedCipherSuite>>,
}

/// Carries the commands out.
pub fn apply(settings: &mut Settings) -> Result<Commanded, String> {
    let mut commanded = Commanded::default();
    let commands = std::sync::Arc::clone(&settings.commands);
    for (name, value) in &*commands {
        let (name, text) = (
            String::from_utf8_lossy(name),
            String::from_utf8_lossy(value),
        );
        let bad = |before: &str| {
            format!(
                "SSL_CONF_cmd(\"{name}\", \"{text}\") failed (SSL: {before}error:0A000180:SSL routines::bad value:cmd={name}, value={text})"
            )
        };
        match name.to_ascii_lowercase().as_str() {
            "ciphersuites" => {
                let suites = ciphers::list13(&text)
                    .map_err(|_| bad("error:0A0000B9:SSL routines::no cipher match "))?;
                commanded.suites13 = Some(suites);
            }
            "cipherstring" => settings.ciphers = value.clone(),
            "curves" | "groups" => settings.curves = value.clone(),
            "minprotocol" | "maxprotocol" => {
                let is_least = name.eq_ignore_ascii_case("MinProtocol");
                bound(&mut settings.protocols, &text, is_least).ok_or_else(|| bad(""))?;
            }
            "protocol" => protocols(settings, &text).ok_or_else(|| bad(""))?,
            "options" => options(settings, &text).ok_or_else(|| bad(""))?,
            _ => {
                return Err(format!(
                    "SSL_CONF_cmd(\"{name}\", \"{text}\") failed (SSL: error:0A000182:SSL routines::unknown cmd name:cmd={name}), known are: {KNOWN}"
                ));
            }
        }
    }
    Ok(commanded)
}

/// Leaves the versions from one on, or up to one.
fn bound(protocols: &mut Protocols, text: &str, is_least: bool) -> Option<()> {
    if text.eq_ignore_ascii_case("None") {
        return Some(());
    }
    let one = protocol(text.as_bytes())?;
    *protocols = protocols.bounded(one, is_least);
    Some(())
}

/// A list of versions, with signs before those that are added or taken away.
fn protocols(settings: &mut Settings, text: &str) -> Option<()> {
    for word in text.split(',').map(str::trim) {
        let (sign, word) = match word.as_bytes().first()? {
            b'-' | b'+' => word.split_at(1),
            _ => ("", word),
        };
        let named = match word.eq_ignore_ascii_case("ALL") {
            true => Protocols::all(),
            false => protocol(word.as_bytes())?,
        };
        settings.protocols = match sign {
            "-" => settings.protocols.without(named),
            _ => settings.protocols.with(named),
        };
    }
    Some(())
}

fn options(settings: &mut Settings, text: &str) -> Option<()> {
    for word in text.split(',').map(str::trim) {
        let (on, word) = match word.strip_prefix('-') {
            Some(word) => (false, word),
            None => (true, word.strip_prefix('+').unwrap_or(word)),
        };
        match word.to_ascii_lowercase().as_str() {
            "sessionticket" => settings.tickets = on,
            "serverpreference" => settings.prefer_server_ciphers = on,
            _ if OTHER_OPTIONS
                .iter()
                .any(|known| known.eq_ignore_ascii_case(word)) => {}
            _ => return None,
        }
    }
    Some(())
}

/// A command of the configuration: its name and value.
pub type Command = (Bytes, Bytes);

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(commands: &[(&'static str, &'static str)]) -> Result<(Settings, Commanded), String> {
        let mut settings = Settings {
            commands: (commands.iter())
                .map(|(name, value)| {
                    (
                        Bytes::from_static(name.as_bytes()),
                        Bytes::from_static(value.as_bytes()),
                    )
                })
                .collect(),
            ..Settings::default()
        };
        let commanded = apply(&mut settings)?;
        Ok((settings, commanded))
    }

    #[test]
    fn commands_change_settings() {
        let (settings, commanded) = applied(&[
            ("Ciphersuites", "TLS_AES_128_GCM_SHA256"),
            ("MinProtocol", "TLSv1.3"),
            ("options", "-SessionTicket,PrioritizeChaCha"),
            ("Groups", "P-256"),
        ])
        .expect("known commands");
        assert_eq!(commanded.suites13.map(|suites| suites.len()), Some(1));
        assert_eq!(settings.protocols.versions().len(), 1);
        assert!(!settings.tickets);
        assert_eq!(&settings.curves[..], b"P-256");
    }

    #[test]
    fn what_is_not_known_is_an_error() {
        for (name, value) in [
            ("Foo", "bar"),
            ("Ciphersuites", "FOO"),
            ("MinProtocol", "TLSv9"),
            ("Options", "Foo"),
        ] {
            let error = applied(&[(name, value)]).expect_err("an error");
            assert!(error.starts_with(&format!(
                "SSL_CONF_cmd(\"{name}\", \"{value}\") failed (SSL: "
            )));
        }
    }
}
