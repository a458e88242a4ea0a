//! `charset`: the character set that a response's Content-Type names, and the change into it from another one by a
//! `charset_map`.

mod table;

use self::table::{Changing, CharsetMap};
use super::rewritten;
use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, HSLI, HTTP, Outcome, Set, block, flag, row};
use crate::config::setting::{Complaint, Setting};
use crate::http::media_types::{self, MediaTypes};
use crate::http::{Request, Response};
use crate::log::error::{Level, write_request};
use crate::variables::Template;
use bytes::Bytes;
use conf::table::Row;
use conf::{Directive, Item};
use std::sync::Arc;

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "charset",
        HSLI,
        Arity::Exactly(1),
        |b, d| set(b, d, |raw| &mut raw.charset),
        "The character set that responses name; off: none.",
    ),
    row(
        "source_charset",
        HSLI,
        Arity::Exactly(1),
        |b, d| set(b, d, |raw| &mut raw.source),
        "The character set that responses are in.",
    ),
    row(
        "override_charset",
        HSLI,
        Arity::Flag,
        |b, d| flag(&mut b.location().charset.overrides, d),
        "Whether the character set that an upstream names is changed.",
    ),
    row(
        "charset_types",
        HSL,
        Arity::AtLeast(1),
        |b, d| media_types::add(b, d, |b| &mut b.location().charset.types.0),
        "The types of responses that name their character set, beside text/html.",
    ),
    block(
        "charset_map",
        HTTP,
        Arity::Exactly(2),
        charset_map,
        "How one character set becomes another one, and the other way round.",
    ),
];

/// `charset` and `source_charset`.
#[derive(Debug, Clone)]
pub enum Charset {
    Off,
    Named(Template),
}

crate::config::setting::settings! {
    charset: Charset = Charset::Off,
    source: Charset = Charset::Off,
    overrides: bool = false,
    types: MediaTypes = MediaTypes::of(&[
        b"text/html",
        b"text/xml",
        b"text/plain",
        b"text/vnd.wap.wml",
        b"application/javascript",
        b"application/rss+xml",
    ]),
}

/// The maps of a configuration.
pub type Maps = Vec<Arc<CharsetMap>>;

fn set(
    build: &mut Build<'_>,
    directive: &Directive,
    field: fn(&mut Raw) -> &mut Setting<Charset>,
) -> Outcome {
    let word = &directive.args[0];
    let charset = match &word[..] {
        b"off" => Charset::Off,
        name => {
            let template = Template::compile(name, &mut build.variables)?;
            match template.constant() {
                Some(name) => Charset::Named(Template::literal(known(build, &name))),
                None => Charset::Named(template),
            }
        }
    };
    field(&mut build.location().charset).set(charset)
}

/// The name as it was first written: nginx knows a character set by one spelling.
fn known(build: &mut Build<'_>, name: &[u8]) -> Bytes {
    let names = &mut build.http.charset_names;
    if let Some(name) = names.iter().find(|known| known.eq_ignore_ascii_case(name)) {
        return name.clone();
    }
    let name = Bytes::copy_from_slice(name);
    names.push(name.clone());
    name
}

fn charset_map(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let [from, to] = &directive.args[..] else {
        return Err("invalid number of arguments in \"charset_map\" directive".into());
    };
    if from.eq_ignore_ascii_case(to) {
        return Err(
            format!("\"charset_map\" between the same charsets \"{from}\" and \"{to}\"").into(),
        );
    }
    if find(&build.http.charset_maps, from, to).is_some() {
        return Err(format!("duplicate \"charset_map\" between \"{from}\" and \"{to}\"").into());
    }
    known(build, from);
    known(build, to);
    let mut map = CharsetMap::new(from, to);
    for item in directive.block.iter().flat_map(|block| &block.items) {
        let item = match item {
            Item::Directive(item) => item,
            Item::Error(error) => return Err(Complaint::bare(error.to_string())),
        };
        let wrong = |text: String| Complaint::bare(item.error(text).to_string());
        let [value] = &item.args[..] else {
            return Err(wrong("invalid parameters number".into()));
        };
        map.add(&item.name, value).map_err(|word| {
            wrong(format!(
                "invalid value \"{}\"",
                String::from_utf8_lossy(word)
            ))
        })?;
    }
    build.http.charset_maps.push(Arc::new(map));
    Ok(())
}

/// The map between two character sets, and whether it is used from the first to the second.
fn find<'m>(maps: &'m Maps, from: &[u8], to: &[u8]) -> Option<(&'m Arc<CharsetMap>, bool)> {
    maps.iter().find_map(|map| {
        let is = |name: &[u8], other: &[u8]| name.eq_ignore_ascii_case(other);
        match () {
            () if is(&map.from, from) && is(&map.to, to) => Some((map, true)),
            () if is(&map.from, to) && is(&map.to, from) => Some((map, false)),
            () => None,
        }
    })
}

impl Settings {
    /// Whether responses are left as they are, or all get the same name and no other bytes.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        let constant = |charset: &Charset| match charset {
            Charset::Off => true,
            Charset::Named(name) => name.constant().is_some(),
        };
        constant(&self.charset) && matches!(self.source, Charset::Off)
    }

    /// A change that no map describes; nginx finds it when all is read.
    pub fn check(&self, maps: &Maps) -> Result<(), String> {
        let (Charset::Named(to), Charset::Named(from)) = (&self.charset, &self.source) else {
            return Ok(());
        };
        match (from.constant(), to.constant()) {
            (Some(from), Some(to))
                if !from.eq_ignore_ascii_case(&to) && find(maps, &from, &to).is_none() =>
            {
                Err(missing(&from, &to))
            }
            _ => Ok(()),
        }
    }
}

fn missing(from: &[u8], to: &[u8]) -> String {
    let [from, to] = [from, to].map(String::from_utf8_lossy);
    format!("no \"charset_map\" between the charsets \"{from}\" and \"{to}\"")
}

/// The character set that the response shall be in; `None` leaves it as it is.
fn destination(request: &Request, response: &Response) -> Option<Bytes> {
    response.content_type.as_ref()?;
    // What the upstream asks for (X-Accel-Charset) counts whatever the settings say.
    if let Some(asked) = response
        .override_charset
        .as_ref()
        .filter(|name| !name.is_empty())
    {
        let names = &request.generation.config.http.charset_names;
        if names.iter().any(|name| name.eq_ignore_ascii_case(asked)) {
            return Some(asked.clone());
        }
        let name = String::from_utf8_lossy(asked);
        let message = format_args!("unknown charset \"{name}\" to override");
        write_request(request, Level::Error, message);
        return None;
    }
    let settings = &request.location().settings.charset;
    let Charset::Named(name) = &settings.charset else {
        return None;
    };
    let fits = match &response.charset {
        Some(_) => settings.overrides,
        None => settings.types.contains(response.content_type.as_deref()),
    };
    match fits {
        true => Some(name.evaluate(request)).filter(|name| !name.is_empty()),
        false => None,
    }
}

/// Whether characters of a response may be changed into those of another set.
#[must_use]
pub fn may_change(request: &Request, response: &Response) -> bool {
    let settings = &request.location().settings.charset;
    let has_source = response.charset.is_some() || !matches!(settings.source, Charset::Off);
    has_source
        && !request.generation.config.http.charset_maps.is_empty()
        && destination(request, response).is_some()
}

/// Names the character set, and changes the body into it.
pub fn apply(request: &Request, response: &mut Response) {
    let Some(to) = destination(request, response) else {
        return;
    };
    let settings = &request.location().settings.charset;
    let from = match (&response.charset, &settings.source) {
        (Some(named), _) => Some(named.clone()),
        (None, Charset::Named(name)) => Some(name.evaluate(request)),
        (None, Charset::Off) => None,
    };
    let change = match from.filter(|from| !from.is_empty() && !from.eq_ignore_ascii_case(&to)) {
        None => None,
        Some(from) => match find(&request.generation.config.http.charset_maps, &from, &to) {
            // Compressed bytes are no characters.
            Some(_) if response.headers.contains("Content-Encoding") => return,
            Some((map, forward)) => Some(Changing::new(map, forward)),
            None => {
                let message = missing(&from, &to);
                write_request(request, Level::Error, format_args!("{message}"));
                return;
            }
        },
    };
    // As in nginx, for the two redirects that HTTP/1.0 had: the page that they lead to names its own.
    response.charset = match response.status {
        301 | 302 => None,
        _ => Some(to),
    };
    if let Some(change) = change {
        if change.changes_length() {
            response.content_length = None;
        }
        response.file = None;
        response.forms = None;
        if !request.is_head() {
            let body = std::mem::take(&mut response.body);
            response.body = rewritten::body(body, change);
        }
    }
}
