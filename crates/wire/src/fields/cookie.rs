//! Cookies of a request, found as nginx's `$cookie_name` finds them.

use memchr::{memchr, memchr2};

/// The value of the first cookie of the name over all Cookie fields. Names match in any case, `,` separates too,
/// spaces around `=` are skipped, and the value goes up to the next `;` whatever quotes it holds.
pub fn find<'a>(values: impl Iterator<Item = &'a [u8]>, name: &[u8]) -> Option<&'a [u8]> {
    let mut values = values;
    values.find_map(|value| find_in(value, name))
}

/// The value that a Set-Cookie field sets for a cookie of the name, found as nginx's `$upstream_cookie_name` finds it.
pub fn set<'a>(value: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (start, after) = value.split_at_checked(name.len())?;
    let value = spaces(after).strip_prefix(b"=")?;
    let value = spaces(value);
    let own = start.eq_ignore_ascii_case(name);
    own.then(|| &value[..memchr(b';', value).unwrap_or(value.len())])
}

fn find_in<'a>(value: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut rest = value;
    while !rest.is_empty() {
        if let Some((start, after)) = rest.split_at_checked(name.len())
            && start.eq_ignore_ascii_case(name)
            && let Some(value) = spaces(after).strip_prefix(b"=")
        {
            let value = spaces(value);
            return Some(&value[..memchr(b';', value).unwrap_or(value.len())]);
        }
        let end = memchr2(b';', b',', rest).map_or(rest.len(), |separator| separator + 1);
        rest = spaces(&rest[end..]);
    }
    None
}

fn spaces(bytes: &[u8]) -> &[u8] {
    let count = bytes.iter().take_while(|b| **b == b' ').count();
    &bytes[count..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_that_are_set() {
        for (value, expected) in [
            ("a=1; Path=/", Some("1")),
            ("A = 1", Some("1")),
            ("a=", Some("")),
            ("a", None),
            ("ab=1", None),
            ("b=1; a=2", None),
            (" a=1", None),
        ] {
            let found = set(value.as_bytes(), b"a");
            assert_eq!(found, expected.map(str::as_bytes), "{value}");
        }
    }

    /// Each row was sent to nginx 1.22 and `$cookie_a` returned.
    #[test]
    fn as_nginx_finds_them() {
        for (value, expected) in [
            ("a=1", Some("1")),
            ("b=2; a=1", Some("1")),
            ("a=1;b=2", Some("1")),
            ("a =1", Some("1")),
            ("a= 1", Some("1")),
            ("a = 1", Some("1")),
            ("a=1 ; b", Some("1 ")),
            ("A=1", Some("1")),
            ("aa=2; a=1", Some("1")),
            ("b=a=3; a=1", Some("1")),
            ("a", None),
            ("a;b=2", None),
            ("a=", Some("")),
            ("a=\"1\"", Some("\"1\"")),
            ("a=1,b=2", Some("1,b=2")),
            (",a=1", Some("1")),
            ("b=2,a=1", Some("1")),
            ("b=2 ; a=1", Some("1")),
            ("; a=1", Some("1")),
            ("a=1=2", Some("1=2")),
            ("b=2;\ta=1", None),
            ("a\t=1", None),
            ("xa=1", None),
            ("b=\"x; a=9\"; a=1", Some("9\"")),
            ("a=1;a=2", Some("1")),
            ("b=x a=1", None),
        ] {
            let found = find([value.as_bytes()].into_iter(), b"a");
            assert_eq!(found, expected.map(str::as_bytes), "{value}");
        }
        let values: [&[u8]; 3] = [b"b=1", b"a", b"a=2"];
        assert_eq!(find(values.into_iter(), b"a"), Some(&b"2"[..]));
    }
}
