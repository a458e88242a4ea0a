//! What a pool knows of a request: a few of its FastCGI parameters, kept with the child that works on it.

use wire::fastcgi::Pairs;

/// The parameters that the status, the logs and the checks need. The vectors are reused from request to request.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub method: Vec<u8>,
    pub script_name: Vec<u8>,
    pub script_filename: Vec<u8>,
    pub query: Vec<u8>,
    pub content_length: u64,
    pub user: Vec<u8>,
    pub remote: Vec<u8>,
}

/// Kept of each value; what is longer is of no use in a log or status.
const VALUE_MAX: usize = 4096;

impl Facts {
    /// Takes what the parameters of a request say.
    pub fn read(&mut self, params: &[u8]) {
        self.forget();
        for (name, value) in Pairs::new(params) {
            let place = match name {
                b"REQUEST_METHOD" => &mut self.method,
                b"SCRIPT_NAME" => &mut self.script_name,
                b"SCRIPT_FILENAME" => &mut self.script_filename,
                b"QUERY_STRING" => &mut self.query,
                b"REMOTE_USER" => &mut self.user,
                b"REMOTE_ADDR" => &mut self.remote,
                b"CONTENT_LENGTH" => {
                    let length = std::str::from_utf8(value).ok();
                    self.content_length = length.and_then(|text| text.parse().ok()).unwrap_or(0);
                    continue;
                }
                _ => continue,
            };
            // The last of a name that comes twice, as PHP has it.
            place.clear();
            place.extend_from_slice(&value[..value.len().min(VALUE_MAX)]);
        }
    }

    /// Empty, with the memory of the values kept.
    pub fn forget(&mut self) {
        for place in [
            &mut self.method,
            &mut self.script_name,
            &mut self.script_filename,
            &mut self.query,
            &mut self.user,
            &mut self.remote,
        ] {
            place.clear();
        }
        self.content_length = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::fastcgi::pair;

    #[test]
    fn the_last_of_a_name_counts() {
        let mut params = Vec::new();
        for (name, value) in [
            ("SCRIPT_NAME", "/a.php"),
            ("CONTENT_LENGTH", "12"),
            ("SCRIPT_NAME", "/b.php"),
            ("HTTP_X", "y"),
        ] {
            pair(&mut params, name.as_bytes(), value.as_bytes());
        }
        let mut facts = Facts::default();
        facts.read(&params);
        assert_eq!(
            (&facts.script_name[..], facts.content_length),
            (&b"/b.php"[..], 12)
        );
        facts.read(b"");
        assert_eq!(
            (&facts.script_name[..], facts.content_length),
            (&b""[..], 0)
        );
    }
}
