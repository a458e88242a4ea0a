//! `proxy_cookie_domain`, `proxy_cookie_path` and `proxy_cookie_flags`: Set-Cookie of an upstream's response, as the
//! client has to see it.

use super::redirect::{Rule, Rules, add, first};
use crate::config::build::Build;
use crate::config::directive::Outcome;
use crate::config::setting::Complaint;
use crate::http::{Phase, Request};
use crate::rewrite::given_up;
use crate::routing::directive::matcher;
use crate::routing::pattern::Matcher;
use crate::variables::Template;
use conf::Directive;
use std::borrow::Cow;
use std::sync::Arc;

/// One `proxy_cookie_flags`.
#[derive(Debug, Clone)]
pub struct Flags {
    cookie: Cookie,
    flags: Vec<Template>,
}

/// What the flags of one directive ask for.
#[derive(Debug, Default)]
struct Wanted {
    secure: Option<bool>,
    http_only: Option<bool>,
    same_site: Option<SameSite>,
}

#[derive(Debug, Clone)]
enum Cookie {
    /// `proxy_cookie_flags off`: no cookie at all.
    None,
    Named(Template),
    Matching(Matcher),
}

/// In the order in which one of several holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SameSite {
    Remove,
    None,
    Lax,
    Strict,
}

pub fn proxy_cookie_domain(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    add(
        build,
        directive,
        |raw| &mut raw.proxy.cookie_domains,
        |b, d| rule(b, d, true),
    )
}

pub fn proxy_cookie_path(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    add(
        build,
        directive,
        |raw| &mut raw.proxy.cookie_paths,
        |b, d| rule(b, d, false),
    )
}

fn rule(
    build: &mut Build<'_>,
    directive: &Directive,
    ignore_case: bool,
) -> Result<Rule, Complaint> {
    match &directive.args[..] {
        [word] => Err(format!("invalid parameter \"{word}\"").into()),
        _ => Rule::parse(build, directive, ignore_case),
    }
}

pub fn proxy_cookie_flags(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let is_off = |flags: &Flags| matches!(flags.cookie, Cookie::None);
    let word = &directive.args[0];
    let off = directive.args.len() == 1 && **word == *b"off";
    match &build.location().proxy.cookie_flags.0 {
        Some(Some(list)) if off || list.iter().any(is_off) => return Err("is duplicate".into()),
        _ if directive.args.len() == 1 && !off => {
            return Err(format!("invalid parameter \"{word}\"").into());
        }
        _ => {}
    }
    let cookie = match &word[..] {
        _ if off => Cookie::None,
        [b'~', pattern @ ..] => Cookie::Matching(matcher(build, pattern, true)?),
        name => Cookie::Named(Template::compile(name, &mut build.variables)?),
    };
    let mut flags = Vec::new();
    for word in &directive.args[1..] {
        flags.push(Template::compile(word, &mut build.variables)?);
    }
    let flags = Flags { cookie, flags };
    let list = build
        .location()
        .proxy
        .cookie_flags
        .0
        .get_or_insert_default();
    Arc::make_mut(list.get_or_insert_default()).push(flags);
    Ok(())
}

impl Flags {
    fn applies(&self, request: &Request, name: &[u8]) -> Phase<bool> {
        match &self.cookie {
            Cookie::None => Ok(false),
            Cookie::Named(template) => Ok(template.evaluate(request).eq_ignore_ascii_case(name)),
            Cookie::Matching(matcher) => {
                (matcher.matches(request, name)).map_err(|error| given_up(request, name, &error))
            }
        }
    }

    fn wanted(&self, request: &Request) -> Wanted {
        let mut wanted = Wanted::default();
        for flag in &self.flags {
            wanted.read(&flag.evaluate(request));
        }
        wanted
    }
}

impl Wanted {
    /// Takes a flag in; of two that contradict each other the one that gives holds. An unknown one is passed over.
    fn read(&mut self, word: &[u8]) {
        match &word.to_ascii_lowercase()[..] {
            b"secure" => self.secure = Some(true),
            b"nosecure" => self.secure = self.secure.or(Some(false)),
            b"httponly" => self.http_only = Some(true),
            b"nohttponly" => self.http_only = self.http_only.or(Some(false)),
            b"samesite=strict" => self.same_site = self.same_site.max(Some(SameSite::Strict)),
            b"samesite=lax" => self.same_site = self.same_site.max(Some(SameSite::Lax)),
            b"samesite=none" => self.same_site = self.same_site.max(Some(SameSite::None)),
            b"nosamesite" => self.same_site = self.same_site.max(Some(SameSite::Remove)),
            _ => {}
        }
    }

    /// Gives the cookie the flags it lacks, takes those it shall not have. The name of each is the first part.
    fn apply(&self, parts: &mut Vec<Part<'_>>) {
        set_flag(parts, "Secure", self.secure);
        set_flag(parts, "HttpOnly", self.http_only);
        let value: &[u8] = match self.same_site {
            None => return,
            Some(SameSite::Remove) => return remove(parts, "SameSite"),
            Some(SameSite::None) => b"None",
            Some(SameSite::Lax) => b"Lax",
            Some(SameSite::Strict) => b"Strict",
        };
        let part = Part {
            key: Cow::Borrowed(b"SameSite"),
            value: Some(Cow::Borrowed(value)),
        };
        match (parts.iter_mut().skip(1)).find(|part| part.is("SameSite")) {
            Some(first) => *first = part,
            None => parts.push(part),
        }
    }
}

fn set_flag(parts: &mut Vec<Part<'_>>, name: &'static str, wanted: Option<bool>) {
    match wanted {
        Some(true) if !parts.iter().skip(1).any(|part| part.is(name)) => parts.push(Part {
            key: Cow::Borrowed(name.as_bytes()),
            value: None,
        }),
        Some(false) => remove(parts, name),
        Some(true) | None => {}
    }
}

fn remove(parts: &mut Vec<Part<'_>>, name: &str) {
    let mut is_first = true;
    parts.retain(|part| std::mem::take(&mut is_first) || !part.is(name));
}

/// `key` or `key=value` between the semicolons of a cookie.
#[derive(Debug)]
struct Part<'c> {
    key: Cow<'c, [u8]>,
    value: Option<Cow<'c, [u8]>>,
}

impl Part<'_> {
    fn is(&self, name: &str) -> bool {
        self.key.eq_ignore_ascii_case(name.as_bytes())
    }
}

fn parts(cookie: &[u8]) -> Vec<Part<'_>> {
    let trim = |text: &'_ [u8]| -> std::ops::Range<usize> {
        let start = text.iter().take_while(|&&byte| byte == b' ').count();
        let end = text.iter().rev().take_while(|&&byte| byte == b' ').count();
        start..(text.len() - end).max(start)
    };
    cookie
        .split(|&byte| byte == b';')
        .map(|part| {
            let (key, value) = match memchr::memchr(b'=', part) {
                Some(equals) => (&part[..equals], Some(&part[equals + 1..])),
                None => (part, None),
            };
            Part {
                key: Cow::Borrowed(&key[trim(key)]),
                value: value.map(|value| Cow::Borrowed(&value[trim(value)])),
            }
        })
        .collect()
}

/// The Set-Cookie for the client; `None`: as the upstream gave it.
pub fn set_cookie(request: &Request, cookie: &[u8]) -> Phase<Option<Vec<u8>>> {
    let settings = &request.location().settings.proxy;
    let list = |rules: &'_ Rules| match rules {
        Rules::List(list) => Some(Arc::clone(list)),
        Rules::Unset | Rules::Off => None,
    };
    let (domains, paths) = (list(&settings.cookie_domains), list(&settings.cookie_paths));
    if domains.is_none() && paths.is_none() && settings.cookie_flags.is_none() {
        return Ok(None);
    }
    let mut parts = parts(cookie);
    // What has no value is no cookie.
    if parts.first().is_none_or(|first| first.value.is_none()) {
        return Ok(None);
    }
    let mut changed = false;
    for part in parts.iter_mut().skip(1) {
        let Some(value) = &part.value else { continue };
        let new = match (&domains, &paths) {
            (Some(rules), _) if part.is("domain") => {
                first(rules, |rule| rule.apply_to_domain(request, value))?
            }
            (_, Some(rules)) if part.is("path") => first(rules, |rule| rule.apply(request, value))?,
            _ => None,
        };
        if let Some(new) = new {
            part.value = Some(Cow::Owned(new));
            changed = true;
        }
    }
    for flags in settings.cookie_flags.iter().flat_map(|list| list.iter()) {
        if flags.applies(request, &parts[0].key)? {
            flags.wanted(request).apply(&mut parts);
            changed = true;
            break;
        }
    }
    Ok(changed.then(|| joined(&parts)))
}

fn joined(parts: &[Part<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            out.extend_from_slice(b"; ");
        }
        out.extend_from_slice(&part.key);
        if let Some(value) = &part.value {
            out.push(b'=');
            out.extend_from_slice(value);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(words: &[&str]) -> Wanted {
        let mut wanted = Wanted::default();
        for word in words {
            wanted.read(word.as_bytes());
        }
        wanted
    }

    /// Each row was seen of nginx 1.22.
    #[test]
    fn flags_are_given_and_taken() {
        for (cookie, words, expected) in [
            (
                "one=1",
                &["httponly", "secure"][..],
                "one=1; Secure; HttpOnly",
            ),
            (
                "one=1; Secure; HttpOnly",
                &["secure", "httponly"],
                "one=1; Secure; HttpOnly",
            ),
            (
                "one=1; secure; path=/",
                &["httponly", "secure"],
                "one=1; secure; path=/; HttpOnly",
            ),
            (
                "two=1; secure; SameSite=None; path=/",
                &["nosecure", "samesite=strict"],
                "two=1; SameSite=Strict; path=/",
            ),
            (
                "four=1;secure",
                &["SameSite=Lax"],
                "four=1; secure; SameSite=Lax",
            ),
            (
                "x=y; samesite=foo; a",
                &["samesite=lax"],
                "x=y; SameSite=Lax; a",
            ),
            (
                "two=2;secure;secure;samesite;samesite=strict",
                &["nosecure", "samesite=strict"],
                "two=2; SameSite=Strict; samesite=strict",
            ),
            (
                "one=1",
                &["secure", "nosecure", "samesite=lax", "foo"],
                "one=1; Secure; SameSite=Lax",
            ),
            ("secure=1; secure", &["nosecure", "nosamesite"], "secure=1"),
        ] {
            let mut parts = parts(cookie.as_bytes());
            wanted(words).apply(&mut parts);
            assert_eq!(
                String::from_utf8_lossy(&joined(&parts)),
                expected,
                "{cookie}"
            );
        }
    }

    #[test]
    fn cookies_are_taken_apart_and_joined_as_nginx_does() {
        for (cookie, expected) in [
            ("  a = b ; domain = a.com", "a=b; domain=a.com"),
            ("a=b=c; ; x;;y=", "a=b=c; ; x; ; y="),
            ("a=b; domain=", "a=b; domain="),
            ("", ""),
        ] {
            let parts = parts(cookie.as_bytes());
            assert_eq!(String::from_utf8_lossy(&joined(&parts)), expected);
        }
    }
}
