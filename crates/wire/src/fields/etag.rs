//! Entity tags (RFC 9110, 8.8.3) and the fields that name them, matched as nginx matches: the lists are searched for
//! the response's own tag, so that what else stands in them need not be well-formed.

use super::date;

/// nginx's tag of a file: modification time in seconds and size in bytes, both hexadecimal.
pub fn of_file(mtime_seconds: i64, size: u64) -> String {
    let sign = if mtime_seconds < 0 { "-" } else { "" };
    format!("\"{sign}{:x}-{size:x}\"", mtime_seconds.unsigned_abs())
}

/// If-None-Match: `*`, or a tag that is the same but for weakness.
pub fn matches_weak(list: &[u8], etag: &[u8]) -> bool {
    find(list, etag.strip_prefix(b"W/").unwrap_or(etag), true)
}

/// If-Match: `*`, or the very tag. A weak one never matches.
pub fn matches_strong(list: &[u8], etag: &[u8]) -> bool {
    list == b"*" || (!etag.starts_with(b"W/") && find(list, etag, false))
}

fn find(list: &[u8], etag: &[u8], weak: bool) -> bool {
    if list == b"*" {
        return true;
    }
    if etag.is_empty() {
        return false;
    }
    let mut rest = list;
    while !rest.is_empty() {
        let tag = match rest.strip_prefix(b"W/") {
            Some(tag) if weak => tag,
            _ => rest,
        };
        if let Some(after) = tag.strip_prefix(etag) {
            match skip(after, b" \t").first() {
                None | Some(b',') => return true,
                Some(_) => {}
            }
        }
        let comma = memchr::memchr(b',', rest).unwrap_or(rest.len());
        rest = skip(&rest[comma..], b" \t,");
    }
    false
}

fn skip<'a>(bytes: &'a [u8], set: &[u8]) -> &'a [u8] {
    let count = bytes.iter().take_while(|b| set.contains(b)).count();
    &bytes[count..]
}

/// If-Range: whether the representation is still the one the client has part of. A value that ends with a quote is
/// compared as a strong tag, any other as a date that must be the very modification time in Unix seconds.
pub fn if_range_holds(value: &[u8], etag: Option<&[u8]>, last_modified: Option<i64>) -> bool {
    if value.len() >= 2 && value.ends_with(b"\"") {
        return etag.is_some_and(|etag| etag == value && !etag.starts_with(b"W/"));
    }
    match (date::parse(value), last_modified) {
        (Some(date), Some(modified)) => date == modified,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The list; whether If-None-Match, If-Match and If-Range hold for `"E"`. Each row was sent to nginx 1.22.
    #[test]
    fn lists_as_nginx_matches_them() {
        for (list, weak, strong, range) in [
            ("\"E\"", true, true, true),
            ("W/\"E\"", true, false, false),
            ("*", true, true, false),
            ("\"x\"", false, false, false),
            ("\"x\", \"E\"", true, true, false),
            ("\"x\",\"E\"", true, true, false),
            ("\"x\" \"E\"", false, false, false),
            ("E", false, false, false),
            ("\"E", false, false, false),
            ("\"E\"x", false, false, false),
            ("W/\"x\", W/\"E\"", true, false, false),
            (", \"E\"", true, true, false),
            (",,\"E\"", true, true, false),
            ("\"x\",,\"E\"", true, true, false),
            ("\"E\",", true, true, false),
            ("w/\"E\"", false, false, false),
            ("\"a,b\", \"E\"", true, true, false),
            ("\"x\"; \"E\"", false, false, false),
            ("* , \"x\"", false, false, false),
            ("\"x\", *", false, false, false),
            ("\"E\"\t", true, true, false),
            ("\"x\"\t,\t\"E\"", true, true, false),
            ("W/ \"E\"", false, false, false),
            ("x, \"E\"", true, true, false),
            ("\"EE\"", false, false, false),
            ("", false, false, false),
        ] {
            assert_eq!(
                matches_weak(list.as_bytes(), b"\"E\""),
                weak,
                "If-None-Match: {list}"
            );
            assert_eq!(
                matches_strong(list.as_bytes(), b"\"E\""),
                strong,
                "If-Match: {list}"
            );
            assert_eq!(
                if_range_holds(list.as_bytes(), Some(b"\"E\""), Some(0)),
                range,
                "If-Range: {list}"
            );
        }
    }

    #[test]
    fn weak_tags_of_our_own() {
        assert!(matches_weak(b"\"E\"", b"W/\"E\""));
        assert!(matches_weak(b"W/\"E\"", b"W/\"E\""));
        assert!(!matches_strong(b"W/\"E\"", b"W/\"E\""));
        assert!(!if_range_holds(b"W/\"E\"", Some(b"W/\"E\""), None));
        assert!(!matches_weak(b"\"x\"", b""));
    }

    #[test]
    fn if_range_by_date() {
        let date = b"Sun, 06 Nov 1994 08:49:37 GMT";
        assert!(if_range_holds(date, Some(b"\"E\""), Some(784_111_777)));
        assert!(!if_range_holds(date, None, Some(784_111_778)));
        assert!(!if_range_holds(date, None, None));
        assert!(!if_range_holds(
            b"\"Sun, 06 Nov 1994 08:49:37 GMT\"",
            None,
            Some(784_111_777)
        ));
    }

    #[test]
    fn file_tags() {
        assert_eq!(of_file(0x6b02_09f4, 90), "\"6b0209f4-5a\"");
        assert_eq!(of_file(-86_400, 3), "\"-15180-3\"");
    }
}
