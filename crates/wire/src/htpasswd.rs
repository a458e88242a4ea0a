//! Files of users and passwords, as `htpasswd` writes and nginx reads them: a line `NAME:HASH` or `NAME:HASH:COMMENT` for
//! each user.

/// The hash of the first line for `user`. A line that begins with `#` is a comment; one that only the end of the file
/// ends counts.
#[must_use]
pub fn find<'f>(file: &'f [u8], user: &[u8]) -> Option<&'f [u8]> {
    file.split(|&byte| byte == b'\n').find_map(|line| {
        if line.starts_with(b"#") {
            return None;
        }
        let hash = line.strip_prefix(user)?.strip_prefix(b":")?;
        let end = memchr::memchr2(b':', b'\r', hash);
        Some(&hash[..end.unwrap_or(hash.len())])
    })
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn lines() {
        let file = b"a:1\nab:2:a comment\r\n#c:3\nd\n:none\nd:4\r\nempty:\na:5\nlast:6";
        for (user, hash) in [
            ("a", Some("1")),
            ("ab", Some("2")),
            ("c", None),
            ("#c", None),
            ("d", Some("4")),
            ("empty", Some("")),
            ("last", Some("6")),
            ("las", None),
            ("x", None),
        ] {
            let found = find(file, user.as_bytes());
            assert_eq!(found, hash.map(str::as_bytes), "{user}");
        }
    }
}
