//! OpenSSL's language of protocols, cipher suites and curves, in terms of what rustls has. Lists that name only other
//! suites leave TLS 1.3 alone; names that OpenSSL does not have are errors.

use rustls::crypto::SupportedKxGroup;
use rustls::crypto::aws_lc_rs::{cipher_suite as suite, kx_group};
use rustls::{CipherSuite, SupportedCipherSuite};

/// A set of protocol versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protocols(u8);

/// The names, oldest first; a version's bit is its place.
const NAMES: [&str; 6] = ["SSLv2", "SSLv3", "TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"];
const TLS12: u8 = 1 << 4;
const TLS13: u8 = 1 << 5;

impl Default for Protocols {
    fn default() -> Protocols {
        Protocols(TLS12 | TLS13)
    }
}

/// One version, as `ssl_protocols` names it.
#[must_use]
pub fn protocol(name: &[u8]) -> Option<Protocols> {
    let place = NAMES
        .iter()
        .position(|known| known.as_bytes().eq_ignore_ascii_case(name))?;
    Some(Protocols(1 << place))
}

impl Protocols {
    #[must_use]
    pub fn none() -> Protocols {
        Protocols(0)
    }

    #[must_use]
    pub fn contains(self, other: Protocols) -> bool {
        self.0 & other.0 != 0
    }

    pub fn add(&mut self, other: Protocols) {
        self.0 |= other.0;
    }

    #[must_use]
    pub fn all() -> Protocols {
        Protocols(u8::MAX)
    }

    #[must_use]
    pub fn with(self, other: Protocols) -> Protocols {
        Protocols(self.0 | other.0)
    }

    #[must_use]
    pub fn without(self, other: Protocols) -> Protocols {
        Protocols(self.0 & !other.0)
    }

    /// Those from one version on, or up to it.
    #[must_use]
    pub fn bounded(self, one: Protocols, is_least: bool) -> Protocols {
        let below = one.0.wrapping_sub(1);
        Protocols(match is_least {
            true => self.0 & !below,
            false => self.0 & (below | one.0),
        })
    }

    /// Whether there are some that are not offered.
    #[must_use]
    pub fn has_old(self) -> bool {
        self.0 & !(TLS12 | TLS13) != 0
    }

    /// The versions that are not offered.
    #[must_use]
    pub fn old_names(self) -> Vec<&'static str> {
        let old = self.0 & !(TLS12 | TLS13);
        let named = NAMES.iter().enumerate();
        let named = named.filter(|(place, _)| old & (1 << place) != 0);
        named.map(|(_, name)| *name).collect()
    }

    /// What rustls is told.
    #[must_use]
    pub fn versions(self) -> Vec<&'static rustls::SupportedProtocolVersion> {
        let known = [
            (TLS13, &rustls::version::TLS13),
            (TLS12, &rustls::version::TLS12),
        ];
        let offered = known.into_iter().filter(|(bit, _)| self.0 & bit != 0);
        offered.map(|(_, version)| version).collect()
    }
}

/// A suite of TLS 1.2 with what OpenSSL's words say of it.
struct Known {
    name: &'static str,
    suite: SupportedCipherSuite,
    ecdsa: bool,
    /// The words that mean it beside its name.
    words: &'static [&'static str],
}

const fn known(
    name: &'static str,
    suite: SupportedCipherSuite,
    ecdsa: bool,
    words: &'static [&'static str],
) -> Known {
    Known {
        name,
        suite,
        ecdsa,
        words,
    }
}

const AES128: &[&str] = &["AES", "AES128", "AESGCM", "SHA256"];
const AES256: &[&str] = &["AES", "AES256", "AESGCM", "SHA384"];
const CHACHA: &[&str] = &["CHACHA20"];

/// In OpenSSL's own order.
static SUITES: [Known; 6] = [
    known(
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        true,
        AES256,
    ),
    known(
        "ECDHE-RSA-AES256-GCM-SHA384",
        suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        false,
        AES256,
    ),
    known(
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        true,
        CHACHA,
    ),
    known(
        "ECDHE-RSA-CHACHA20-POLY1305",
        suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        false,
        CHACHA,
    ),
    known(
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        true,
        AES128,
    ),
    known(
        "ECDHE-RSA-AES128-GCM-SHA256",
        suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        false,
        AES128,
    ),
];

/// The suites of TLS 1.3 by their names.
static SUITES13: [(&str, SupportedCipherSuite); 3] = [
    ("TLS_AES_256_GCM_SHA384", suite::TLS13_AES_256_GCM_SHA384),
    (
        "TLS_CHACHA20_POLY1305_SHA256",
        suite::TLS13_CHACHA20_POLY1305_SHA256,
    ),
    ("TLS_AES_128_GCM_SHA256", suite::TLS13_AES_128_GCM_SHA256),
];

/// Words that mean every suite here.
const ALL_WORDS: &[&str] = &[
    "ALL",
    "DEFAULT",
    "HIGH",
    "COMPLEMENTOFDEFAULT",
    "EECDH",
    "ECDHE",
    "kEECDH",
    "kECDHE",
    "ECDH",
    "TLSv1.2",
    "AEAD",
    "FIPS",
];

/// Words of OpenSSL that mean nothing here: what they name is not there.
const NO_WORDS: &[&str] = &[
    "aNULL",
    "eNULL",
    "NULL",
    "COMPLEMENTOFALL",
    "MEDIUM",
    "LOW",
    "EXP",
    "EXPORT",
    "EXPORT40",
    "EXPORT56",
    "MD5",
    "SHA1",
    "SHA",
    "SSLv2",
    "SSLv3",
    "TLSv1",
    "TLSv1.0",
    "RC4",
    "RC2",
    "IDEA",
    "SEED",
    "CAMELLIA",
    "CAMELLIA128",
    "CAMELLIA256",
    "DES",
    "3DES",
    "kRSA",
    "aDSS",
    "DSS",
    "DH",
    "DHE",
    "EDH",
    "kDHE",
    "kEDH",
    "kDH",
    "kDHr",
    "kDHd",
    "ADH",
    "AECDH",
    "aECDH",
    "kECDH",
    "kECDHr",
    "kECDHe",
    "aDH",
    "PSK",
    "kPSK",
    "aPSK",
    "kECDHEPSK",
    "kDHEPSK",
    "kRSAPSK",
    "SRP",
    "kSRP",
    "aSRP",
    "KRB5",
    "kGOST",
    "aGOST",
    "aGOST01",
    "GOST94",
    "GOST89MAC",
    "GOST",
    "ARIA",
    "ARIA128",
    "ARIA256",
    "ARIAGCM",
    "AESCCM",
    "AESCCM8",
    "SUITEB128",
    "SUITEB128ONLY",
    "SUITEB192",
    "CBC",
    "kGOST18",
    "aGOST12",
    "GOST12",
    "eGOST2012",
];

/// Beginnings of the names of suites that OpenSSL has or had and that are not here.
const OTHER_SUITES: &[&str] = &[
    "ECDHE-",
    "DHE-",
    "EDH-",
    "AES128-",
    "AES256-",
    "CAMELLIA128-",
    "CAMELLIA256-",
    "DES-",
    "RC4-",
    "SEED-",
    "IDEA-",
    "PSK-",
    "RSA-PSK-",
    "SRP-",
    "ADH-",
    "AECDH-",
    "ECDH-",
    "DH-",
    "NULL-",
    "EXP-",
    "ARIA128-",
    "ARIA256-",
    "GOST",
    "KRB5-",
    "IANA-",
];

/// Ends of such names.
const OTHER_ENDS: &[&str] = &[
    "SHA",
    "SHA256",
    "SHA384",
    "MD5",
    "GCM-SHA256",
    "GCM-SHA384",
    "POLY1305",
    "CCM",
    "CCM8",
    "GOST89",
];

/// What is wrong with a list.
#[derive(Debug, PartialEq, Eq)]
pub enum ListError {
    Unknown(String),
}

impl ListError {
    /// The complaint: nobody needs to look the names up.
    #[must_use]
    pub fn text(&self, directive: &str) -> String {
        let ListError::Unknown(name) = self;
        format!(
            "unknown cipher \"{name}\" in \"{directive}\", known are: {}",
            known_names()
        )
    }
}

fn known_names() -> String {
    let names: Vec<&str> = SUITES.iter().map(|known| known.name).collect();
    names.join(", ")
}

/// The suites of TLS 1.2 that a list in OpenSSL's language means, in its order: words with `!`, `-`, `+` before them and
/// `+` within, `@STRENGTH`, `@SECLEVEL=n`.
pub fn list(text: &str) -> Result<Vec<SupportedCipherSuite>, ListError> {
    let (mut chosen, mut dead): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    for word in text
        .split([':', ',', ' ', ';'])
        .filter(|word| !word.is_empty())
    {
        if word.starts_with('@') {
            continue;
        }
        // `DEFAULT@SECLEVEL=1` says two things.
        let word = word.split_once('@').map_or(word, |(word, _)| word);
        let (sign, name) = match word.as_bytes().first() {
            Some(b'!' | b'-' | b'+') => word.split_at(1),
            _ => ("", word),
        };
        let meant = meaning(name)?;
        match sign {
            "!" => {
                dead.extend(&meant);
                chosen.retain(|place| !meant.contains(place));
            }
            "-" => chosen.retain(|place| !meant.contains(place)),
            "+" => {
                let (moved, rest): (Vec<usize>, Vec<usize>) =
                    chosen.iter().partition(|place| meant.contains(place));
                chosen = rest.into_iter().chain(moved).collect();
            }
            _ => {
                for place in meant {
                    if !chosen.contains(&place) && !dead.contains(&place) {
                        chosen.push(place);
                    }
                }
            }
        }
    }
    Ok(chosen
        .into_iter()
        .map(|place| SUITES[place].suite)
        .collect())
}

/// The places of the suites that a word means: those that all its parts mean.
fn meaning(word: &str) -> Result<Vec<usize>, ListError> {
    let mut places: Vec<usize> = (0..SUITES.len()).collect();
    for part in word.split('+') {
        let of_part = meaning_of_part(part).ok_or_else(|| ListError::Unknown(word.to_owned()))?;
        places.retain(|place| of_part.contains(place));
    }
    Ok(places)
}

fn meaning_of_part(part: &str) -> Option<Vec<usize>> {
    let of = |wanted: &dyn Fn(&Known) -> bool| {
        let all = SUITES.iter().enumerate();
        all.filter(|(_, known)| wanted(known))
            .map(|(place, _)| place)
            .collect::<Vec<_>>()
    };
    let found = of(&|known| known.name == part || iana_name(known.suite.suite()) == part);
    if !found.is_empty() {
        return Some(found);
    }
    match part {
        "aRSA" | "RSA" => {
            return Some(match part {
                // The key exchange by RSA alone is what is meant where there is no prefix; nothing here has it.
                "RSA" => Vec::new(),
                _ => of(&|known| !known.ecdsa),
            });
        }
        "aECDSA" | "ECDSA" => return Some(of(&|known| known.ecdsa)),
        _ => {}
    }
    if ALL_WORDS.contains(&part) {
        return Some((0..SUITES.len()).collect());
    }
    let by_word = of(&|known| known.words.contains(&part));
    if !by_word.is_empty() {
        return Some(by_word);
    }
    let is_suite = SUITES13.iter().any(|(name, _)| *name == part)
        || (part.starts_with("TLS_") && part.contains("_WITH_"))
        || (OTHER_SUITES.iter().any(|begin| part.starts_with(begin))
            && OTHER_ENDS.iter().any(|end| part.ends_with(end)));
    (NO_WORDS.contains(&part) || is_suite).then(Vec::new)
}

/// The suites of TLS 1.3 of `ssl_conf_command Ciphersuites`.
pub fn list13(text: &str) -> Result<Vec<SupportedCipherSuite>, String> {
    let mut chosen: Vec<SupportedCipherSuite> = Vec::new();
    for word in text.split(':').filter(|word| !word.is_empty()) {
        let known = SUITES13.iter().find(|(name, _)| *name == word);
        match known {
            Some((_, suite)) if !chosen.contains(suite) => chosen.push(*suite),
            Some(_) => {}
            None if word.starts_with("TLS_AES_128_CCM") => {}
            None => return Err(word.to_owned()),
        }
    }
    Ok(chosen)
}

/// All suites of TLS 1.3, in OpenSSL's order.
#[must_use]
pub fn all13() -> Vec<SupportedCipherSuite> {
    SUITES13.iter().map(|(_, suite)| *suite).collect()
}

/// The names of groups, several for one, in the order of preference.
static GROUPS: [(&[&str], &dyn SupportedKxGroup); 4] = [
    (&["X25519MLKEM768"], kx_group::X25519MLKEM768),
    (&["X25519"], kx_group::X25519),
    (&["prime256v1", "P-256", "secp256r1"], kx_group::SECP256R1),
    (&["secp384r1", "P-384"], kx_group::SECP384R1),
];

/// Groups of OpenSSL that are not here.
const OTHER_GROUPS: &[&str] = &[
    "secp521r1",
    "P-521",
    "X448",
    "ffdhe2048",
    "ffdhe3072",
    "ffdhe4096",
    "ffdhe6144",
    "ffdhe8192",
    "brainpoolP256r1",
    "brainpoolP384r1",
    "brainpoolP512r1",
    "secp224r1",
    "P-224",
    "secp192r1",
    "prime192v1",
    "P-192",
    "secp256k1",
    "sect233k1",
    "sect233r1",
    "sect283k1",
    "sect283r1",
    "sect409k1",
    "sect409r1",
    "sect571k1",
    "sect571r1",
    "SecP256r1MLKEM768",
    "SecP384r1MLKEM1024",
    "X448MLKEM1024",
    "MLKEM512",
    "MLKEM768",
    "MLKEM1024",
    "X25519Kyber768Draft00",
];

/// The groups of `ssl_ecdh_curve`; the error is the name that nobody knows, or "" where none is left.
pub fn groups(text: &str) -> Result<Vec<&'static dyn SupportedKxGroup>, String> {
    if text == "auto" {
        return Ok(GROUPS.iter().map(|(_, group)| *group).collect());
    }
    let mut chosen: Vec<&'static dyn SupportedKxGroup> = Vec::new();
    for name in text.split(':').filter(|name| !name.is_empty()) {
        let name = name.trim_start_matches(['?', '*', '-']);
        let same = |known: &&str| known.eq_ignore_ascii_case(name);
        match GROUPS.iter().find(|(names, _)| names.iter().any(&same)) {
            Some((_, group)) if chosen.iter().all(|known| known.name() != group.name()) => {
                chosen.push(*group);
            }
            Some(_) => {}
            None if OTHER_GROUPS.iter().any(same) => {}
            None => return Err(name.to_owned()),
        }
    }
    match chosen.is_empty() {
        true => Err(String::new()),
        false => Ok(chosen),
    }
}

/// The groups that there are.
#[must_use]
pub fn group_names() -> String {
    let names: Vec<&str> = GROUPS
        .iter()
        .filter_map(|(names, _)| names.first())
        .copied()
        .collect();
    names.join(", ")
}

/// OpenSSL's name of a group, as variables have it.
#[must_use]
pub fn group_name(group: rustls::NamedGroup) -> &'static str {
    let known = GROUPS.iter().find(|(_, known)| known.name() == group);
    known
        .and_then(|(names, _)| names.first())
        .copied()
        .unwrap_or_default()
}

/// OpenSSL's name of a suite.
#[must_use]
pub fn name(suite: CipherSuite) -> Option<&'static str> {
    let old = SUITES.iter().find(|known| known.suite.suite() == suite);
    let new = || SUITES13.iter().find(|(_, known)| known.suite() == suite);
    old.map(|known| known.name)
        .or_else(|| new().map(|(name, _)| *name))
}

/// The name that the registry has for a suite of TLS 1.2.
fn iana_name(suite: CipherSuite) -> &'static str {
    suite.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Result<Vec<&'static str>, ListError> {
        let suites = list(text)?;
        Ok(suites
            .iter()
            .filter_map(|suite| name(suite.suite()))
            .collect())
    }

    #[test]
    fn lists_in_openssl_s_language() {
        let all: Vec<&str> = SUITES.iter().map(|known| known.name).collect();
        assert_eq!(names("HIGH:!aNULL:!MD5").as_deref(), Ok(&all[..]));
        assert_eq!(names("DEFAULT@SECLEVEL=1").as_deref(), Ok(&all[..]));
        assert_eq!(names("DEFAULT:@SECLEVEL=1").as_deref(), Ok(&all[..]));
        let one = ["ECDHE-RSA-AES128-GCM-SHA256"];
        for text in [
            "ECDHE-RSA-AES128-GCM-SHA256",
            "ECDHE-RSA-AES128-GCM-SHA256:AES128-SHA",
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            "EECDH+AES128:!aECDSA:!CHACHA20",
            "AESGCM:!AES256:!ECDSA",
            "ALL:-CHACHA20:-AES256:-aECDSA",
        ] {
            assert_eq!(names(text).as_deref(), Ok(&one[..]), "{text}");
        }
        assert_eq!(
            names("AES256-SHA:DHE-RSA-AES128-SHA:RC4+RSA").as_deref(),
            Ok(&[][..])
        );
        assert_eq!(names("foo"), Err(ListError::Unknown("foo".to_owned())));
        let moved = names("HIGH:+AES256").expect("known words");
        assert_eq!(moved[4..], [all[0], all[1]]);
    }

    #[test]
    fn groups_have_several_names() {
        let names = |text: &str| {
            let groups = groups(text)?;
            Ok::<_, String>(
                groups
                    .iter()
                    .map(|group| format!("{:?}", group.name()))
                    .collect::<Vec<_>>()
                    .join(" "),
            )
        };
        assert_eq!(
            names("prime256v1:P-384:secp521r1").as_deref(),
            Ok("secp256r1 secp384r1")
        );
        assert_eq!(names("X25519:X25519").as_deref(), Ok("X25519"));
        assert_eq!(names("secp521r1"), Err(String::new()));
        assert_eq!(names("nonsense"), Err("nonsense".to_owned()));
    }
}
