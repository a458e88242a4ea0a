//! Tags that upstreams give their responses, so that all with a tag can be purged at once: Surrogate-Key (tags between
//! blanks), Cache-Tag (between commas) and Cache-Groups (strings between commas, RFC 9875).

use wire::http1::response::Head;

/// Tags of one purge; the others are left out.
pub const TAGS_MAX: usize = 64;

/// The tags of a response.
pub fn of<'b>(head: &'b Head, buffer: &'b [u8]) -> impl Iterator<Item = &'b [u8]> {
    head.fields.iter().flat_map(move |field| {
        let name = field.name.of(buffer);
        let value = field.value.of(buffer);
        let separator = match name.len() {
            13 if name.eq_ignore_ascii_case(b"Surrogate-Key") => b' ',
            9 if name.eq_ignore_ascii_case(b"Cache-Tag") => b',',
            12 if name.eq_ignore_ascii_case(b"Cache-Groups") => b',',
            _ => 0,
        };
        let value = if separator == 0 { b"" } else { value };
        value
            .split(move |&byte| byte == separator)
            .map(plain)
            .filter(|tag| !tag.is_empty())
    })
}

/// A tag without what stands around it: blanks, quotes, parameters of a string.
fn plain(item: &[u8]) -> &[u8] {
    let item = item.trim_ascii();
    match item.strip_prefix(b"\"") {
        None => item,
        Some(rest) => rest.split(|&byte| byte == b'"').next().unwrap_or_default(),
    }
}

/// The tags in what a purge asks for: between blanks or commas, at most `TAGS_MAX`.
pub fn asked(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|byte| matches!(byte, b' ' | b',' | b'\t'))
        .map(plain)
        .filter(|tag| !tag.is_empty())
        .take(TAGS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::http1::response::Parser;

    #[test]
    fn tags_stand_in_three_fields() {
        let text = b"HTTP/1.1 200 OK\r\nSurrogate-Key: a  b,c\r\ncache-tag: d e, f ,\r\n\
            Cache-Groups: \"g h\", \"i\";x=1\r\nX-Tag: no\r\n\r\n";
        let mut parser = Parser::new();
        parser
            .parse(text, text.len())
            .expect("a head")
            .expect("whole");
        let head = parser.take_head();
        let tags: Vec<_> = of(&head, text).collect();
        let expected: [&[u8]; 7] = [b"a", b"b,c", b"d e", b"f", b"g h", b"i", b""];
        assert_eq!(tags, expected[..6]);
        let tags: Vec<_> = asked(b" a, \"b\"  c,,").collect();
        assert_eq!(tags, [b"a", b"b", b"c"]);
    }
}
