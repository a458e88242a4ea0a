//! What a client says who it is: the name and password of an `Authorization: Basic` field (RFC 7617).

use super::Request;
use wire::fields::base64::{self, Alphabet};
use wire::http1::Known;

/// Appends `NAME:PASSWORD` and says where the colon stands in what was appended. As in nginx there are none where the name
/// is empty or no colon follows it; `out` is then as it was.
pub fn append_basic(request: &Request, out: &mut Vec<u8>) -> Option<usize> {
    let value = request.field(Known::Authorization)?;
    let (scheme, encoded) = value.split_at_checked(b"Basic ".len())?;
    if !scheme.eq_ignore_ascii_case(b"Basic ") {
        return None;
    }
    let before = out.len();
    let decoded = base64::decode_into(encoded.trim_ascii_start(), Alphabet::Standard, out);
    let colon = memchr::memchr(b':', &out[before..]).filter(|&colon| colon > 0);
    if decoded.is_none() || colon.is_none() {
        out.truncate(before);
        return None;
    }
    colon
}
