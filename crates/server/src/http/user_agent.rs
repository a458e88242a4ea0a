//! Browsers that nginx treats in a way of their own, told by User-Agent as it tells them.

use super::Request;
use wire::http1::Known;

/// What is known of a browser.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Browser {
    pub msie: bool,
    /// Internet Explorer 4, 5, or 6 without Windows XP's second service pack.
    pub msie6: bool,
    pub chrome: bool,
    /// Safari on Mac OS X.
    pub safari: bool,
}

/// The browser of a request.
#[must_use]
pub fn browser(request: &Request) -> Browser {
    request
        .field(Known::UserAgent)
        .map_or_else(Browser::default, Browser::of)
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    memchr::memmem::find(text, word).is_some()
}

impl Browser {
    /// Reads a User-Agent field.
    #[must_use]
    pub fn of(text: &[u8]) -> Browser {
        if contains(text, b"Opera") {
            return Browser::default();
        }
        let version = memchr::memmem::find(text, b"MSIE ").map(|at| &text[at + 5..]);
        if let Some(version) = version.filter(|version| version.len() > 2) {
            let msie6 = match version {
                [b'4' | b'5', b'.', ..] => true,
                [b'6', b'.', _, rest @ ..] => !contains(rest, b"SV1"),
                _ => false,
            };
            return Browser {
                msie: true,
                msie6,
                ..Browser::default()
            };
        }
        if contains(text, b"Gecko/") {
            return Browser::default();
        }
        let chrome = contains(text, b"Chrome/");
        let safari = !chrome && contains(text, b"Safari/") && contains(text, b"Mac OS X");
        Browser {
            chrome,
            safari,
            ..Browser::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Browser;

    #[test]
    fn browsers_are_told_apart() {
        let none = Browser::default();
        let msie = Browser { msie: true, ..none };
        let msie6 = Browser {
            msie: true,
            msie6: true,
            ..none
        };
        for (text, browser) in [
            ("Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)", msie6),
            (
                "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1)",
                msie,
            ),
            ("Mozilla/4.0 (compatible; MSIE 5.5; Windows 98)", msie6),
            ("Mozilla/5.0 (compatible; MSIE 10.0; Windows NT 6.2)", msie),
            ("Mozilla/4.0 (compatible; MSIE 6.0) Opera 8.0", none),
            ("MSIE 6", none),
            ("Mozilla/5.0 (X11) Gecko/20100101 Firefox/130.0", none),
            (
                "Mozilla/5.0 AppleWebKit/537.36 Chrome/156.0 Safari/537.36",
                Browser {
                    chrome: true,
                    ..none
                },
            ),
            (
                "Mozilla/5.0 (Macintosh; Mac OS X 14) Version/17 Safari/605",
                Browser {
                    safari: true,
                    ..none
                },
            ),
        ] {
            assert_eq!(Browser::of(text.as_bytes()), browser, "{text}");
        }
    }
}
