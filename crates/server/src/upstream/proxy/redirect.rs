//! `proxy_redirect`: Location and Refresh of an upstream's response, as the client has to see them; and the rules that
//! it shares with `proxy_cookie_domain` and `proxy_cookie_path`.

use crate::config::build::Build;
use crate::config::directive::Outcome;
use crate::config::model::RawLocation;
use crate::config::setting::{Complaint, Setting};
use crate::content::Content;
use crate::http::{Phase, Request};
use crate::rewrite::given_up;
use crate::routing::directive::matcher;
use crate::routing::pattern::Matcher;
use crate::variables::Template;
use bytes::Bytes;
use conf::Directive;
use std::sync::Arc;

/// What `proxy_redirect` and its kin say in one block.
#[derive(Debug, Clone, Default)]
pub enum Rules {
    /// Nothing.
    #[default]
    Unset,
    Off,
    /// The first that matches holds.
    List(Arc<Vec<Rule>>),
}

/// What is replaced, and by what.
#[derive(Debug)]
pub struct Rule {
    pattern: Pattern,
    replacement: Template,
}

#[derive(Debug)]
enum Pattern {
    /// How the value begins.
    Start(Template),
    /// The whole value.
    Matches(Matcher),
}

impl Rule {
    /// A rule of two words; `ignore_case` is for patterns that begin with `~`.
    pub fn parse(
        build: &mut Build<'_>,
        directive: &Directive,
        ignore_case: bool,
    ) -> Result<Rule, Complaint> {
        let word = &directive.args[0][..];
        let pattern = match word {
            [b'~', b'*', pattern @ ..] => Pattern::Matches(matcher(build, pattern, true)?),
            [b'~', pattern @ ..] => Pattern::Matches(matcher(build, pattern, ignore_case)?),
            text => Pattern::Start(Template::compile(text, &mut build.variables)?),
        };
        let replacement = Template::compile(&directive.args[1], &mut build.variables)?;
        Ok(Rule {
            pattern,
            replacement,
        })
    }

    fn plain(pattern: &Bytes, replacement: &Bytes) -> Rule {
        Rule {
            pattern: Pattern::Start(Template::literal(pattern.clone())),
            replacement: Template::literal(replacement.clone()),
        }
    }

    /// The value with its beginning, or what the pattern says, replaced; `None` if the rule does not apply.
    pub fn apply(&self, request: &Request, value: &[u8]) -> Phase<Option<Vec<u8>>> {
        let rest = match &self.pattern {
            Pattern::Matches(matcher) => match matches(request, matcher, value)? {
                true => &[],
                false => return Ok(None),
            },
            Pattern::Start(start) => match value.strip_prefix(&start.evaluate(request)[..]) {
                Some(rest) => rest,
                None => return Ok(None),
            },
        };
        let mut replaced = Vec::with_capacity(value.len() + 32);
        self.replacement.append(request, &mut replaced);
        replaced.extend_from_slice(rest);
        Ok(Some(replaced))
    }

    /// The same for a domain, which is replaced as a whole: in any case, and whether or not there are dots before it.
    pub fn apply_to_domain(&self, request: &Request, value: &[u8]) -> Phase<Option<Vec<u8>>> {
        let Pattern::Start(domain) = &self.pattern else {
            return self.apply(request, value);
        };
        let domain = domain.evaluate(request);
        let (dot, name) = match value.strip_prefix(b".") {
            Some(name) => (&b"."[..], name),
            None => (&[][..], value),
        };
        if !name.eq_ignore_ascii_case(domain.strip_prefix(b".").unwrap_or(&domain)) {
            return Ok(None);
        }
        let mut replaced = dot.to_vec();
        self.replacement.append(request, &mut replaced);
        Ok(Some(replaced))
    }
}

fn matches(request: &Request, matcher: &Matcher, value: &[u8]) -> Phase<bool> {
    (matcher.matches(request, value)).map_err(|error| given_up(request, value, &error))
}

/// Adds a rule to those of the block, or turns them off.
pub fn add(
    build: &mut Build<'_>,
    directive: &Directive,
    rules: fn(&mut RawLocation) -> &mut Setting<Rules>,
    parse: fn(&mut Build<'_>, &Directive) -> Result<Rule, Complaint>,
) -> Outcome {
    let is_off = directive.args.len() == 1 && directive.args[0][..] == *b"off";
    match (&rules(build.location()).0, is_off) {
        (Some(Rules::Off), _) | (Some(_), true) => return Err("is duplicate".into()),
        (None, true) => return rules(build.location()).set(Rules::Off),
        (_, false) => {}
    }
    let rule = parse(build, directive)?;
    let rules = rules(build.location()).0.get_or_insert_default();
    if let Rules::Unset = rules {
        *rules = Rules::List(Arc::default());
    }
    if let Rules::List(list) = rules
        && let Some(list) = Arc::get_mut(list)
    {
        list.push(rule);
    }
    Ok(())
}

/// `proxy_redirect off | default | PATTERN REPLACEMENT`.
pub fn proxy_redirect(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    add(
        build,
        directive,
        |raw| &mut raw.proxy.redirects,
        |build, directive| match &directive.args[..] {
            [word] if **word == *b"default" => default_rule(build),
            [word] => Err(format!("invalid parameter \"{word}\"").into()),
            _ => Rule::parse(build, directive, false),
        },
    )
}

fn default_rule(build: &mut Build<'_>) -> Result<Rule, Complaint> {
    let Some(Content::Proxy(pass)) = &build.frame().content else {
        return Err(
            "\"proxy_redirect default\" should be placed after the \"proxy_pass\" directive".into(),
        );
    };
    match &pass.default_redirect {
        Some((pattern, replacement)) => Ok(Rule::plain(pattern, replacement)),
        None => Err("\"proxy_redirect default\" cannot be used with \"proxy_pass\" directive with variables".into()),
    }
}

/// The Location for the client; `None`: as the upstream gave it.
pub fn location(request: &Request, pass: &super::Pass, value: &[u8]) -> Phase<Option<Vec<u8>>> {
    match &request.location().settings.proxy.redirects {
        Rules::Off => Ok(None),
        Rules::Unset => Ok(pass
            .default_redirect
            .as_ref()
            .and_then(|(start, replacement)| {
                let rest = value.strip_prefix(&start[..])?;
                Some([replacement, rest].concat())
            })),
        Rules::List(list) => first(list, |rule| rule.apply(request, value)),
    }
}

/// The Refresh for the client: what stands behind its `url=`.
pub fn refresh(request: &Request, pass: &super::Pass, value: &[u8]) -> Phase<Option<Vec<u8>>> {
    const MARK: &[u8] = b"url=";
    let found = (value.windows(MARK.len())).position(|window| window.eq_ignore_ascii_case(MARK));
    let Some(found) = found else {
        return Ok(None);
    };
    let (before, url) = value.split_at(found + MARK.len());
    let url = location(request, pass, url)?;
    Ok(url.map(|url| [before, &url].concat()))
}

/// What the first rule that applies makes.
pub fn first(
    rules: &[Rule],
    mut apply: impl FnMut(&Rule) -> Phase<Option<Vec<u8>>>,
) -> Phase<Option<Vec<u8>>> {
    for rule in rules {
        if let Some(replaced) = apply(rule)? {
            return Ok(Some(replaced));
        }
    }
    Ok(None)
}
