//! The directives of `proxy_…` that shape requests and responses; those that every family has stand in
//! `upstream::settings`.

use super::cookie::Flags;
use super::redirect::{self, Rules};
use super::request_head::{Fields, HttpVersion, SetField};
use super::{Pass, cookie};
use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, Outcome, Set, flag, row};
use crate::config::setting::Setting;
use crate::variables::Template;
use conf::Directive;
use conf::table::{Contexts, Row};
use std::sync::Arc;

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "proxy_pass",
        Contexts::LOCATION
            .or(Contexts::LOCATION_IF)
            .or(Contexts::LIMIT_EXCEPT),
        Arity::Exactly(1),
        Pass::set,
        "The server that answers here.",
    ),
    row(
        "proxy_set_header",
        HSL,
        Arity::Exactly(2),
        set_header,
        "A field of requests to upstreams; an empty value drops the client's.",
    ),
    row(
        "proxy_http_version",
        HSL,
        Arity::Exactly(1),
        http_version,
        "The version of HTTP that upstreams are asked in.",
    ),
    row(
        "proxy_method",
        HSL,
        Arity::Exactly(1),
        |b, d| template(b, d, |raw| &mut raw.method),
        "The method of requests to upstreams, in place of the client's.",
    ),
    row(
        "proxy_set_body",
        HSL,
        Arity::Exactly(1),
        |b, d| template(b, d, |raw| &mut raw.body),
        "The body of requests to upstreams, in place of the client's.",
    ),
    row(
        "proxy_redirect",
        HSL,
        Arity::Between(1, 2),
        redirect::proxy_redirect,
        "How Location and Refresh of responses are changed.",
    ),
    row(
        "proxy_cookie_domain",
        HSL,
        Arity::Between(1, 2),
        cookie::proxy_cookie_domain,
        "How the domain of cookies that upstreams set is changed.",
    ),
    row(
        "proxy_cookie_path",
        HSL,
        Arity::Between(1, 2),
        cookie::proxy_cookie_path,
        "How the path of cookies that upstreams set is changed.",
    ),
    row(
        "proxy_cookie_flags",
        HSL,
        Arity::Between(1, 4),
        cookie::proxy_cookie_flags,
        "Flags that cookies of upstreams are given or lose.",
    ),
    row(
        "proxy_pass_trailers",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().proxy_relay.pass_trailers, d),
        "Whether the trailer fields of responses are passed on.",
    ),
];

/// What was written in one block.
#[derive(Debug, Clone, Default)]
pub struct Raw {
    pub set_headers: Setting<Arc<Vec<SetField>>>,
    pub http_version: Setting<HttpVersion>,
    pub method: Setting<Option<Arc<Template>>>,
    pub body: Setting<Option<Arc<Template>>>,
    pub redirects: Setting<Rules>,
    pub cookie_domains: Setting<Rules>,
    pub cookie_paths: Setting<Rules>,
    pub cookie_flags: Setting<Option<Arc<Vec<Flags>>>>,
}

/// What holds in one block.
#[derive(Debug, Clone)]
pub struct Settings {
    set_headers: Arc<Vec<SetField>>,
    /// The fields of a request, made of `set_headers` and the default ones.
    pub fields: Arc<Fields>,
    /// The same where the response may be kept.
    pub fetch_fields: Arc<Fields>,
    pub http_version: HttpVersion,
    pub method: Option<Arc<Template>>,
    pub body: Option<Arc<Template>>,
    pub redirects: Rules,
    pub cookie_domains: Rules,
    pub cookie_paths: Rules,
    pub cookie_flags: Option<Arc<Vec<Flags>>>,
}

impl Default for Settings {
    fn default() -> Settings {
        let http_version = HttpVersion::default();
        Settings {
            set_headers: Arc::default(),
            fields: Arc::new(Fields::compile(&[], http_version, false)),
            fetch_fields: Arc::new(Fields::compile(&[], http_version, true)),
            http_version,
            method: None,
            body: None,
            redirects: Rules::Unset,
            cookie_domains: Rules::Unset,
            cookie_paths: Rules::Unset,
            cookie_flags: None,
        }
    }
}

impl Raw {
    /// What holds in a block inside one with the settings `parent`. Fields are inherited all or not at all.
    #[must_use]
    pub fn resolve(&self, parent: &Settings) -> Settings {
        let set_headers = self.set_headers.or(&parent.set_headers);
        let http_version = self.http_version.or(&parent.http_version);
        let is_parent_s =
            Arc::ptr_eq(&set_headers, &parent.set_headers) && http_version == parent.http_version;
        let compile = |fetches| Arc::new(Fields::compile(&set_headers, http_version, fetches));
        let (fields, fetch_fields) = match is_parent_s {
            true => (Arc::clone(&parent.fields), Arc::clone(&parent.fetch_fields)),
            false => (compile(false), compile(true)),
        };
        Settings {
            set_headers,
            fields,
            fetch_fields,
            http_version,
            method: self.method.or(&parent.method),
            body: self.body.or(&parent.body),
            redirects: self.redirects.or(&parent.redirects),
            cookie_domains: self.cookie_domains.or(&parent.cookie_domains),
            cookie_paths: self.cookie_paths.or(&parent.cookie_paths),
            cookie_flags: self.cookie_flags.or(&parent.cookie_flags),
        }
    }
}

fn set_header(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let field = SetField {
        name: directive.args[0].bytes.clone().into(),
        value: Template::compile(&directive.args[1], &mut build.variables)?,
    };
    let fields = build.location().proxy.set_headers.0.get_or_insert_default();
    Arc::make_mut(fields).push(field);
    Ok(())
}

fn http_version(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let setting = build.location().proxy.http_version.vacant()?;
    setting.set(match &directive.args[0][..] {
        b"1.0" => HttpVersion::Http10,
        b"1.1" => HttpVersion::Http11,
        b"2" => HttpVersion::Http2,
        _ => return Err(format!("invalid value \"{}\"", directive.args[0]).into()),
    })
}

fn template(
    build: &mut Build<'_>,
    directive: &Directive,
    field: fn(&mut Raw) -> &mut Setting<Option<Arc<Template>>>,
) -> Outcome {
    field(&mut build.location().proxy).vacant()?;
    let template = Template::compile(&directive.args[0], &mut build.variables)?;
    field(&mut build.location().proxy).set(Some(Arc::new(template)))
}
