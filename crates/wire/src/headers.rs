//! The header list of a response: ordered, keeping names as given, because a drop-in forwards what it was handed.
//! Lists are short, so every look-up is a walk.

use bytes::Bytes;
use memchr::memchr3;
use std::borrow::Cow;

/// One header: the name in its own case, and the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub name: Cow<'static, [u8]>,
    pub value: Bytes,
}

/// Headers in the order they will be written; names may repeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderList {
    headers: Vec<Header>,
}

/// A header's name: a literal costs nothing, received bytes are kept as an owned copy.
pub trait IntoName {
    fn into_name(self) -> Cow<'static, [u8]>;
}

impl IntoName for &'static str {
    fn into_name(self) -> Cow<'static, [u8]> {
        Cow::Borrowed(self.as_bytes())
    }
}

impl IntoName for Vec<u8> {
    fn into_name(self) -> Cow<'static, [u8]> {
        Cow::Owned(self)
    }
}

impl IntoName for Cow<'static, [u8]> {
    fn into_name(self) -> Cow<'static, [u8]> {
        self
    }
}

impl HeaderList {
    pub const fn new() -> HeaderList {
        HeaderList {
            headers: Vec::new(),
        }
    }

    pub fn with_capacity(headers: usize) -> HeaderList {
        HeaderList {
            headers: Vec::with_capacity(headers),
        }
    }

    /// Adds a header before all others.
    pub fn push_first(&mut self, name: impl IntoName, value: impl Into<Bytes>) {
        self.headers.insert(
            0,
            Header {
                name: name.into_name(),
                value: value.into(),
            },
        );
    }

    /// Adds a header at the end, whether or not the name is there already.
    pub fn push(&mut self, name: impl IntoName, value: impl Into<Bytes>) {
        self.headers.push(Header {
            name: name.into_name(),
            value: value.into(),
        });
    }

    /// Replaces the first header of the name in its place and removes the others; adds it when there is none.
    pub fn set(&mut self, name: impl IntoName, value: impl Into<Bytes>) {
        let name = name.into_name();
        let header = Header {
            name,
            value: value.into(),
        };
        let Some(first) = self.position(&header.name) else {
            self.headers.push(header);
            return;
        };
        let mut index = 0;
        self.headers.retain(|h| {
            index += 1;
            index <= first + 1 || !h.name.eq_ignore_ascii_case(&header.name)
        });
        self.headers[first] = header;
    }

    /// Removes every header of the name; true if there was one.
    pub fn remove(&mut self, name: impl AsRef<[u8]>) -> bool {
        let before = self.headers.len();
        self.headers
            .retain(|h| !h.name.eq_ignore_ascii_case(name.as_ref()));
        self.headers.len() != before
    }

    /// Keeps the headers the predicate accepts, in their order.
    pub fn retain(&mut self, keep: impl FnMut(&Header) -> bool) {
        self.headers.retain(keep);
    }

    /// The first value of the name, whatever its case.
    pub fn find(&self, name: impl AsRef<[u8]>) -> Option<&Bytes> {
        self.position(name.as_ref())
            .map(|index| &self.headers[index].value)
    }

    /// All values of the name in order.
    pub fn find_all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Bytes> {
        let name = name.as_bytes();
        self.headers
            .iter()
            .filter(move |h| h.name.eq_ignore_ascii_case(name))
            .map(|h| &h.value)
    }

    pub fn contains(&self, name: impl AsRef<[u8]>) -> bool {
        self.position(name.as_ref()).is_some()
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Header> {
        self.headers.iter()
    }

    pub fn len(&self) -> usize {
        self.headers.len()
    }

    pub fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }

    pub fn clear(&mut self) {
        self.headers.clear();
    }

    /// The headers before the one of this number, and the others; all come before a number that is too large.
    pub fn split_at(&self, number: usize) -> (&[Header], &[Header]) {
        self.headers.split_at(number.min(self.headers.len()))
    }

    /// Appends the headers to a head being built, without the empty line that ends it.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        write(&self.headers, out);
    }

    fn position(&self, name: &[u8]) -> Option<usize> {
        self.headers
            .iter()
            .position(|h| h.name.eq_ignore_ascii_case(name))
    }
}

/// Appends `Name: value` lines to a head being built.
/// CR, LF and NUL become spaces (RFC 9110, 5.5): unlike nginx, no value can split the response.
pub fn write(headers: &[Header], out: &mut Vec<u8>) {
    for header in headers {
        write_clean(&header.name, out);
        out.extend_from_slice(b": ");
        write_clean(&header.value, out);
        out.extend_from_slice(b"\r\n");
    }
}

fn write_clean(bytes: &[u8], out: &mut Vec<u8>) {
    if memchr3(b'\r', b'\n', 0, bytes).is_none() {
        out.extend_from_slice(bytes);
        return;
    }
    out.extend(bytes.iter().map(|b| {
        if matches!(b, b'\r' | b'\n' | 0) {
            b' '
        } else {
            *b
        }
    }));
}

impl<'a> IntoIterator for &'a HeaderList {
    type Item = &'a Header;
    type IntoIter = std::slice::Iter<'a, Header>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl IntoIterator for HeaderList {
    type Item = Header;
    type IntoIter = std::vec::IntoIter<Header>;

    fn into_iter(self) -> Self::IntoIter {
        self.headers.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(list: &HeaderList) -> String {
        let mut out = Vec::new();
        list.write_to(&mut out);
        String::from_utf8(out).expect("ASCII was pushed")
    }

    #[test]
    fn order_and_case_are_kept() {
        let mut list = HeaderList::new();
        list.push("Server", "gannet");
        list.push(b"x-ODD".to_vec(), vec![b'1']);
        list.push("Set-Cookie", "a");
        list.push("set-cookie", "b");
        assert_eq!(
            written(&list),
            "Server: gannet\r\nx-ODD: 1\r\nSet-Cookie: a\r\nset-cookie: b\r\n"
        );
        assert_eq!(list.find("X-Odd"), Some(&Bytes::from_static(b"1")));
        assert_eq!(list.find_all("SET-COOKIE").count(), 2);
        list.set("Set-Cookie", "c");
        assert_eq!(
            written(&list),
            "Server: gannet\r\nx-ODD: 1\r\nSet-Cookie: c\r\n"
        );
        list.set("ETag", "\"1\"");
        assert!(list.remove("server") && !list.remove("server"));
        assert_eq!(
            written(&list),
            "x-ODD: 1\r\nSet-Cookie: c\r\nETag: \"1\"\r\n"
        );
    }

    #[test]
    fn a_value_cannot_split_the_response() {
        let mut list = HeaderList::new();
        list.push("Location", "/a\r\nSet-Cookie: x\0");
        assert_eq!(written(&list), "Location: /a  Set-Cookie: x \r\n");
    }
}
