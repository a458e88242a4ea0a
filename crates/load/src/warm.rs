//! Warming a cache: the URLs of lists and sitemaps are fetched once, at a bounded rate, so that a cache on the way has them.

use crate::fetch::{Fetched, Fetcher, Options};
use crate::target::Target;
use flate2::read::MultiGzDecoder;
use std::collections::{BTreeMap, HashSet};
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lists and sitemaps that one run reads.
pub const LISTS_MAX: usize = 1000;
/// Bytes of one, unpacked; the protocol of sitemaps allows 50 MB.
const LIST_BYTES_MAX: u64 = 64 << 20;
/// How deep indexes of sitemaps may stand inside one another.
const DEPTH_MAX: usize = 4;
/// Failures that are told one by one.
const FAILURES_MAX: usize = 100;
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// What is to be fetched, and how fast.
#[derive(Clone, Debug)]
pub struct Plan {
    pub urls: Vec<Target>,
    /// Requests a second.
    pub rate: f64,
    /// Requests at a time.
    pub jobs: usize,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub fetched: usize,
    pub failed: usize,
    pub bytes: u64,
    pub statuses: BTreeMap<u16, usize>,
    /// The first of them.
    pub failures: Vec<String>,
}

/// The URLs that lists name: files of URLs, sitemaps and their indexes, plain or as gzip, on the disk or at a URL.
pub fn collect(
    sources: &[String],
    most: usize,
    options: &Arc<Options>,
) -> Result<Vec<Target>, String> {
    let mut collector = Collector {
        fetcher: Fetcher::new(Arc::clone(options)),
        lists: 0,
        most,
        seen: HashSet::new(),
        urls: Vec::new(),
    };
    for source in sources {
        collector.read(source, 0)?;
    }
    Ok(collector.urls)
}

struct Collector {
    fetcher: Fetcher,
    lists: usize,
    most: usize,
    seen: HashSet<String>,
    urls: Vec<Target>,
}

impl Collector {
    fn read(&mut self, source: &str, depth: usize) -> Result<(), String> {
        let named = |why: String| format!("{source}: {why}");
        self.lists += 1;
        if self.lists > LISTS_MAX || depth > DEPTH_MAX {
            return Err(named("too many lists".into()));
        }
        let bytes = self.bytes(source).map_err(named)?;
        let text = unpacked(bytes).map_err(named)?;
        let listed = listed(&text).map_err(named)?;
        for word in listed.words {
            if listed.is_index {
                self.read(&word, depth + 1)?;
            } else if self.urls.len() < self.most && self.seen.insert(word.clone()) {
                self.urls.push(Target::parse(&word).map_err(named)?);
            }
        }
        Ok(())
    }

    fn bytes(&mut self, source: &str) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        if !source.contains("://") {
            let file = std::fs::File::open(Path::new(source)).map_err(|error| error.to_string())?;
            let mut file = file.take(LIST_BYTES_MAX + 1);
            file.read_to_end(&mut bytes)
                .map_err(|error| error.to_string())?;
        } else {
            let keep = usize::try_from(LIST_BYTES_MAX).unwrap_or(usize::MAX);
            let fetched = self.fetcher.get(&Target::parse(source)?, keep)?;
            if fetched.status != 200 {
                return Err(format!(
                    "the server answered with status {}",
                    fetched.status
                ));
            }
            if fetched.bytes > LIST_BYTES_MAX {
                return Err("the list is too long".into());
            }
            bytes = fetched.body;
        }
        match bytes.len() as u64 > LIST_BYTES_MAX {
            true => Err("the list is too long".into()),
            false => Ok(bytes),
        }
    }
}

/// A list as text, whatever it was packed in.
fn unpacked(bytes: Vec<u8>) -> Result<String, String> {
    let bytes = match bytes.starts_with(&GZIP) {
        false => bytes,
        true => {
            let mut text = Vec::new();
            let mut decoder = MultiGzDecoder::new(&bytes[..]).take(LIST_BYTES_MAX + 1);
            let read = decoder.read_to_end(&mut text);
            read.map_err(|error| format!("gzip: {error}"))?;
            if text.len() as u64 > LIST_BYTES_MAX {
                return Err("the list is too long".into());
            }
            text
        }
    };
    String::from_utf8(bytes).map_err(|_| "the list is no text".into())
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Listed {
    /// They are sitemaps themselves.
    is_index: bool,
    words: Vec<String>,
}

/// The URLs of a list: those in `loc` of a sitemap, or a line each, but for comments.
fn listed(text: &str) -> Result<Listed, String> {
    let text = text.trim_start_matches('\u{feff}').trim();
    if !text.starts_with('<') {
        let lines = text.lines().map(str::trim);
        let words = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        return Ok(Listed {
            is_index: false,
            words: words.map(str::to_owned).collect(),
        });
    }
    let is_index = text.contains("<sitemapindex");
    if !is_index && !text.contains("<urlset") {
        return Err("this is no sitemap".into());
    }
    let mut words = Vec::new();
    let mut rest = text;
    while let Some((_, behind)) = rest.split_once("<loc>") {
        let (value, behind) = behind.split_once("</loc>").ok_or("a <loc> has no end")?;
        words.push(plain_text(value)?);
        rest = behind;
    }
    Ok(Listed { is_index, words })
}

/// The text of an element: entities resolved, CDATA taken as it is.
fn plain_text(value: &str) -> Result<String, String> {
    let value = value.trim();
    let cdata = value.strip_prefix("<![CDATA[");
    if let Some(text) = cdata.and_then(|text| text.strip_suffix("]]>")) {
        return Ok(text.trim().to_owned());
    }
    let mut text = String::with_capacity(value.len());
    let mut rest = value;
    while let Some((before, behind)) = rest.split_once('&') {
        let (name, behind) = behind.split_once(';').ok_or("an entity has no end")?;
        text.push_str(before);
        text.push(entity(name).ok_or_else(|| format!("unknown entity \"&{name};\""))?);
        rest = behind;
    }
    text.push_str(rest);
    Ok(text)
}

fn entity(name: &str) -> Option<char> {
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code).filter(|character| !character.is_control())?
        }
    })
}

/// Fetches what is planned; `after` is called behind each.
#[must_use]
pub fn run(plan: &Plan, options: &Arc<Options>, after: &(dyn Fn() + Sync)) -> Outcome {
    let next = AtomicUsize::new(0);
    let due = Mutex::new(Instant::now());
    let outcome = Mutex::new(Outcome::default());
    let step = Duration::try_from_secs_f64(1.0 / plan.rate).unwrap_or(Duration::ZERO);
    std::thread::scope(|scope| {
        for _ in 0..plan.jobs.clamp(1, plan.urls.len().max(1)) {
            scope.spawn(|| {
                let mut fetcher = Fetcher::new(Arc::clone(options));
                while let Some(target) = plan.urls.get(next.fetch_add(1, Ordering::Relaxed)) {
                    wait(&due, step);
                    let fetched = fetcher.get(target, 0);
                    let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
                    outcome.take(target, fetched);
                    drop(outcome);
                    after();
                }
            });
        }
    });
    outcome.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a turn: one each `step`. A turn that nobody could take is not made up for.
fn wait(due: &Mutex<Instant>, step: Duration) {
    let turn = {
        let mut due = due.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = (*due).max(Instant::now());
        *due = turn + step;
        turn
    };
    std::thread::sleep(turn.saturating_duration_since(Instant::now()));
}

impl Outcome {
    fn take(&mut self, target: &Target, fetched: Result<Fetched, String>) {
        let why = match fetched {
            Ok(fetched) => {
                self.bytes += fetched.bytes;
                *self.statuses.entry(fetched.status).or_default() += 1;
                if fetched.status < 400 {
                    self.fetched += 1;
                    return;
                }
                format!("status {}", fetched.status)
            }
            Err(why) => why,
        };
        self.failed += 1;
        if self.failures.len() < FAILURES_MAX {
            let Target { endpoint, path } = target;
            let scheme = endpoint.scheme.as_str();
            let url = format!("{scheme}://{}{path}", endpoint.authority);
            self.failures.push(format!("{url}: {why}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_lines_or_sitemaps() {
        let words = |text: &str| {
            let listed = listed(text).expect(text);
            (listed.is_index, listed.words.join(" "))
        };
        let lines = "# these\n http://a/ \n\nhttp://b/?x=1&y=2\n";
        assert_eq!(words(lines), (false, "http://a/ http://b/?x=1&y=2".into()));
        let map = "\u{feff}<?xml version=\"1.0\"?>\n<urlset><url><loc> http://a/?x=1&amp;y=&#39;2&#x27;\
            </loc><image:loc>http://no/</image:loc></url><loc><![CDATA[http://b/?a&b]]></loc></urlset>";
        assert_eq!(
            words(map),
            (false, "http://a/?x=1&y='2' http://b/?a&b".into())
        );
        let index = "<sitemapindex><sitemap><loc>http://a/1.xml.gz</loc></sitemap></sitemapindex>";
        assert_eq!(words(index), (true, "http://a/1.xml.gz".into()));
        for text in [
            "<html></html>",
            "<urlset><loc>http://a/",
            "<urlset><loc>&nbsp;</loc></urlset>",
            "<urlset><loc>&#10;</loc></urlset>",
            "<urlset><loc>&amp</loc></urlset>",
        ] {
            assert!(listed(text).is_err(), "{text}");
        }
    }

    #[test]
    fn gzip_is_unpacked_and_broken_gzip_is_told() {
        use std::io::Write;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(b"http://a/").expect("memory");
        let packed = encoder.finish().expect("memory");
        assert_eq!(unpacked(packed.clone()), Ok("http://a/".into()));
        assert!(unpacked(packed[..packed.len() - 9].to_vec()).is_err());
        assert!(unpacked(vec![0xff]).is_err());
    }
}
