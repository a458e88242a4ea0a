//! Who may have pictures made: signed URLs and a list of sizes, so that nobody can keep the processors busy or fill the
//! disk with sizes that no page asks for. Asked before the content, so that no upstream is bothered either.

use super::small_light::parameters::{self, Parameters};
use super::small_light::wish::Wish;

use super::small_light::{Asked, asked};
use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, Outcome, Set, row};
use crate::http::{Interrupt, Phase, Request};
use crate::log::error::{Level, write_request};
use conf::Directive;
use conf::table::Row;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::sync::Arc;

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "image_secret",
        HSL,
        Arity::AtLeast(1),
        secret,
        "Keys of signatures: small_light makes only pictures whose URL ends in signature=HMAC-SHA256 with one of them.",
    ),
    row(
        "image_sizes",
        HSL,
        Arity::AtLeast(1),
        sizes,
        "The sizes that URLs may ask for, as WxH, Wx- or -xH; patterns may ask for any.",
    ),
];

/// The name of the argument that carries the signature.
const ARGUMENT: &[u8] = b"signature=";

/// Sides in pixels; `None`: not given.
type Size = (Option<u32>, Option<u32>);

crate::config::setting::settings! {
    secrets: Arc<Vec<Box<[u8]>>> = Arc::default(),
    sizes: Arc<Vec<(Option<u32>, Option<u32>)>> = Arc::default(),
}

fn secret(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let setting = build.location().image_guard.secrets.vacant()?;
    if directive.args.iter().any(|key| key.is_empty()) {
        return Err("invalid value".into());
    }
    let keys = directive.args.iter().map(|key| key.to_vec().into());
    setting.set(Arc::new(keys.collect()))
}

fn sizes(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let setting = build.location().image_guard.sizes.vacant()?;
    let mut sizes = Vec::new();
    for word in &directive.args {
        sizes.push(size(word).ok_or_else(|| format!("invalid size \"{word}\""))?);
    }
    setting.set(Arc::new(sizes))
}

fn size(word: &[u8]) -> Option<Size> {
    let cross = memchr::memchr(b'x', word)?;
    let side = |text: &[u8]| match text {
        b"-" => Some(None),
        text => {
            let number = u32::try_from(conf::values::parse_number(text)?).ok()?;
            (number > 0).then_some(Some(number))
        }
    };
    let size = (side(&word[..cross])?, side(&word[cross + 1..])?);
    (size != (None, None)).then_some(size)
}

/// Ends a request for a picture that may not be made: 403.
pub fn check(request: &Request) -> Phase {
    let settings = &request.location().settings;
    let guard = &settings.image_guard;
    let is_open = guard.secrets.is_empty() && guard.sizes.is_empty();
    if is_open || !settings.small_light.on || request.depth > 0 {
        return Ok(());
    }
    let Asked::Picture(wish) = asked(request, &settings.small_light) else {
        return Ok(());
    };
    let refuse = |why: &str| {
        write_request(request, Level::Error, format_args!("small_light: {why}"));
        Err(Interrupt::Status(403))
    };
    if !guard.secrets.is_empty() && !is_signed(request.raw_target(), &guard.secrets) {
        return refuse("the URL is not signed with a key of image_secret");
    }
    let names_a_side = || names_a_side(request.raw_target(), settings.small_light.arguments);
    if !guard.sizes.is_empty() && names_a_side() && !is_allowed(&wish, &guard.sizes) {
        return refuse("the size is none of image_sizes");
    }
    Ok(())
}

/// What is signed of a target, and the signature: all of it but the argument, which stands last.
fn split(target: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memmem::rfind(target, ARGUMENT)?;
    let signature = &target[at + ARGUMENT.len()..];
    let (signed, mark) = target.split_at(at.checked_sub(1)?);
    (matches!(mark.first(), Some(b'?' | b'&')) && !signature.contains(&b'&'))
        .then_some((signed, signature))
}

fn is_signed(target: &[u8], keys: &[Box<[u8]>]) -> bool {
    let Some((signed, signature)) = split(target) else {
        return false;
    };
    let Some(signature) = bytes_of(signature) else {
        return false;
    };
    keys.iter().any(|key| {
        // A key may be of any length.
        Hmac::<Sha256>::new_from_slice(key).is_ok_and(|mut mac| {
            mac.update(signed);
            // Takes the same time wherever they differ.
            mac.verify_slice(&signature).is_ok()
        })
    })
}

/// The bytes of a text of hexadecimal digits.
fn bytes_of(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = text.chunks(2).map(|pair| match *pair {
        [high, low] => Some((digit(high)? * 16 + digit(low)?) as u8),
        _ => None,
    });
    pairs.collect()
}

/// Whether the box and the canvas are among these; a side of neither is.
fn is_allowed(wish: &Wish, sizes: &[Size]) -> bool {
    let is_one = |size: &Size| *size == (None, None) || sizes.contains(size);
    wish.box_in_pixels()
        .is_some_and(|boxes| boxes.iter().all(is_one))
}

/// Whether a target itself asks for a size, beside what its pattern says.
fn names_a_side(target: &[u8], arguments: bool) -> bool {
    let mut parameters = Parameters::default();
    match arguments {
        true => {
            let mark = memchr::memchr(b'?', target);
            let query = mark.map_or(&b""[..], |mark| &target[mark + 1..]);
            let _pattern = parameters.add_arguments(query);
        }
        false => {
            let _pattern = parameters.add_list(parameters::list(target).unwrap_or_default());
        }
    }
    Wish::new(&parameters).cuts_or_grows()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_the_last_argument() {
        for (target, expected) in [
            (
                "/small_light(dw=1)/a?signature=00",
                Some(("/small_light(dw=1)/a", "00")),
            ),
            ("/a?dw=1&signature=ff", Some(("/a?dw=1", "ff"))),
            ("/a?signature=ff&dw=1", None),
            ("/a?xsignature=ff", None),
            ("/a", None),
            ("signature=ff", None),
        ] {
            let found = split(target.as_bytes());
            let expected = expected.map(|(a, b)| (a.as_bytes(), b.as_bytes()));
            assert_eq!(found, expected, "{target}");
        }
    }

    #[test]
    fn signatures_are_hmac_sha256() {
        // From RFC 4231, section 4.3.
        let keys: Vec<Box<[u8]>> = vec![b"other"[..].into(), b"Jefe"[..].into()];
        let good = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        let target =
            |signature: &str| format!("what do ya want for nothing?&signature={signature}");
        // The mark before the argument is not signed.
        assert!(is_signed(target(good).as_bytes(), &keys));
        assert!(is_signed(target(&good.to_uppercase()).as_bytes(), &keys));
        for bad in ["", "5b", "zz", &good[1..], &good.replace('5', "6")] {
            assert!(!is_signed(target(bad).as_bytes(), &keys), "{bad}");
        }
        assert!(!is_signed(target(good).as_bytes(), &keys[..1]));
    }

    #[test]
    fn sizes_have_sides() {
        for (word, expected) in [
            ("100x50", Some((Some(100), Some(50)))),
            ("100x-", Some((Some(100), None))),
            ("-x50", Some((None, Some(50)))),
            ("-x-", None),
            ("0x5", None),
            ("100", None),
            ("ax5", None),
            ("", None),
        ] {
            assert_eq!(size(word.as_bytes()), expected, "{word}");
        }
    }
}
