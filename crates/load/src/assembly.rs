//! The parts of a plan while it is put together: servers and rows of the report, each with its number.

use crate::plan::{Checks, LABELS_MAX, Step, Take, Think};
use crate::request::Request;
use crate::target::{Endpoint, Target};
use crate::template::Template;
use regex::bytes::Regex;

/// Servers in one run.
const ENDPOINTS_MAX: usize = 100;
/// The row of all requests for which there was no row left.
const OTHERS: &str = "others";

#[derive(Debug, Default)]
pub struct Assembly {
    pub endpoints: Vec<Endpoint>,
    pub labels: Vec<String>,
}

/// What is sent, in words.
pub struct Sent<'a> {
    pub target: &'a Target,
    pub path: Template,
    pub method: &'a str,
    pub headers: &'a [(String, Template)],
    pub body: Option<Template>,
    /// The row; without one, the path, and the method unless it is GET.
    pub name: Option<String>,
}

impl Assembly {
    pub fn step(
        &mut self,
        sent: Sent<'_>,
        checks: Checks,
        takes: Vec<Take>,
        think: Option<Think>,
    ) -> Result<Step, String> {
        let endpoint = self.endpoint(sent.target)?;
        let authority = &sent.target.endpoint.authority;
        let request = Request::new(
            endpoint,
            authority,
            sent.method,
            sent.path,
            sent.headers,
            sent.body,
        );
        let name = sent.name.unwrap_or_else(|| {
            let server = if endpoint == 0 {
                ""
            } else {
                authority.as_str()
            };
            let path = sent.target.path.as_str();
            match sent.method {
                "GET" => format!("{server}{path}"),
                method => format!("{method} {server}{path}"),
            }
        });
        Ok(Step {
            label: self.label(name),
            request,
            checks,
            takes,
            think,
        })
    }

    /// The number of the row with this name; when there are too many, the last one is for all others.
    fn label(&mut self, name: String) -> usize {
        let labels = &mut self.labels;
        if let Some(found) = labels.iter().position(|label| *label == name) {
            return found;
        }
        if labels.len() + 1 < LABELS_MAX {
            labels.push(name);
        } else if labels.len() < LABELS_MAX {
            labels.push(OTHERS.to_owned());
        }
        labels.len() - 1
    }

    /// The number of the URL's server.
    fn endpoint(&mut self, target: &Target) -> Result<usize, String> {
        let is_known = |endpoint: &Endpoint| endpoint.is_same(&target.endpoint);
        if let Some(known) = self.endpoints.iter().position(is_known) {
            return Ok(known);
        }
        if self.endpoints.len() >= ENDPOINTS_MAX {
            return Err(format!("more than {ENDPOINTS_MAX} servers"));
        }
        self.endpoints.push(target.endpoint.clone());
        Ok(self.endpoints.len() - 1)
    }
}

/// The target of a URL or, where there is a base, of a path.
pub fn target(base: Option<&str>, url: &str) -> Result<Target, String> {
    match base {
        Some(base) if url.starts_with('/') => {
            let mut target = Target::parse(base)?;
            let origin = format!("http://x{url}");
            target.path = Target::parse(&origin)
                .map_err(|_| format!("invalid path \"{url}\""))?
                .path;
            Ok(target)
        }
        _ => Target::parse(url),
    }
}

/// A regular expression over bytes.
pub fn pattern(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| {
        let why = error.to_string();
        let last = why.lines().last().unwrap_or_default();
        let last = last.trim_start_matches("error: ");
        format!("invalid regular expression \"{text}\": {last}")
    })
}

/// Reads `200,300-399`.
pub fn statuses(text: &str) -> Result<Vec<(u16, u16)>, String> {
    let one = |text: &str| {
        let status = text.trim().parse().ok();
        status.filter(|status| (100..=999).contains(status))
    };
    text.split(',')
        .map(|part| {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            match (one(from), one(to)) {
                (Some(from), Some(to)) if from <= to => Ok((from, to)),
                _ => Err(format!("\"{part}\" is no status such as 200 or 300-399")),
            }
        })
        .collect()
}

/// Cuts `3:URL`; a URL alone weighs 1.
pub fn weighted(text: &str) -> Result<(u32, &str), String> {
    let Some((weight, url)) = text.split_once(':') else {
        return Ok((1, text));
    };
    let is_weight = weight.bytes().all(|byte| byte.is_ascii_digit());
    if weight.is_empty() || !is_weight || !(url.contains("//") || url.starts_with('/')) {
        return Ok((1, text));
    }
    match weight.parse() {
        Ok(weight @ 1..=1_000_000) => Ok((weight, url)),
        _ => Err(format!(
            "the weight in \"{text}\" must be between 1 and 1000000"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_statuses_and_paths_are_read() {
        assert_eq!(weighted("3:http://a/"), Ok((3, "http://a/")));
        assert_eq!(weighted("2:/x"), Ok((2, "/x")));
        assert_eq!(weighted("http://a:80/"), Ok((1, "http://a:80/")));
        assert_eq!(weighted("a:80/x"), Ok((1, "a:80/x")));
        assert!(weighted("0:http://a/").is_err());
        assert_eq!(statuses("200, 300-399"), Ok(vec![(200, 200), (300, 399)]));
        for bad in ["", "99", "399-300", "x", "200,"] {
            assert!(statuses(bad).is_err(), "{bad}");
        }
        let found = target(Some("https://a/b"), "/c?d").unwrap();
        assert_eq!(
            (found.endpoint.host.as_str(), found.path.as_str()),
            ("a", "/c?d")
        );
        assert!(target(None, "/c").is_err());
        assert!(target(Some("http://a/"), "/c d").is_err());
    }

    #[test]
    fn rows_are_bounded() {
        let mut assembly = Assembly::default();
        for n in 0..1000 {
            let row = assembly.label(n.to_string());
            assert_eq!(row, n.min(LABELS_MAX - 1));
        }
        assert_eq!(assembly.labels.len(), LABELS_MAX);
        assert_eq!(assembly.label("5".to_owned()), 5);
    }
}
