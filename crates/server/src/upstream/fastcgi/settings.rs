//! The directives of `fastcgi_…` that shape requests; those that every family has stand in `upstream::settings`.

use super::Pass;
use super::params::{Param, Params};
use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, Outcome, Set, flag, row};
use crate::config::setting::Setting;
use crate::http::Request;
use crate::http::request::Captures;
use crate::rewrite::given_up;
use crate::routing::directive::compile;
use crate::routing::pattern::Pattern;
use crate::variables::Template;
use conf::Directive;
use conf::table::{Contexts, Row};
use std::cell::RefCell;
use std::sync::Arc;

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "fastcgi_pass",
        Contexts::LOCATION.or(Contexts::LOCATION_IF),
        Arity::Exactly(1),
        Pass::set,
        "The FastCGI program, or with pool:NAME the pool, that answers here.",
    ),
    row(
        "fastcgi_param",
        HSL,
        Arity::Between(2, 3),
        param,
        "A parameter that programs are told.",
    ),
    row(
        "fastcgi_index",
        HSL,
        Arity::Exactly(1),
        index,
        "What $fastcgi_script_name ends with where the path ends in a slash.",
    ),
    row(
        "fastcgi_split_path_info",
        HSL,
        Arity::Exactly(1),
        split_path_info,
        "A pattern that tells $fastcgi_script_name and $fastcgi_path_info apart.",
    ),
    row(
        "fastcgi_keep_conn",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().fastcgi.keep_conn, d),
        "Ask programs to keep connections open. A pool's always are.",
    ),
    row(
        "fastcgi_catch_stderr",
        HSL,
        Arity::Exactly(1),
        catch_stderr,
        "A text in a program's error output that makes its response invalid.",
    ),
];

/// What was written in one block.
#[derive(Debug, Clone, Default)]
pub struct Raw {
    pub params: Setting<Arc<Vec<Param>>>,
    pub index: Setting<Arc<[u8]>>,
    pub split: Setting<Option<Pattern>>,
    pub keep_conn: Setting<bool>,
    pub catch_stderr: Setting<Arc<Vec<Box<[u8]>>>>,
}

/// What holds in one block.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    written: Arc<Vec<Param>>,
    pub params: Arc<Params>,
    index: Arc<[u8]>,
    split: Option<Pattern>,
    pub keep_conn: bool,
    catch_stderr: Arc<Vec<Box<[u8]>>>,
}

impl Raw {
    /// What holds in a block inside one with the settings `parent`. Parameters are inherited all or not at all.
    #[must_use]
    pub fn resolve(&self, parent: &Settings) -> Settings {
        let written = self.params.or(&parent.written);
        let params = match Arc::ptr_eq(&written, &parent.written) {
            true => Arc::clone(&parent.params),
            false => Arc::new(Params::compile(&written)),
        };
        Settings {
            written,
            params,
            index: self.index.or(&parent.index),
            split: self.split.or(&parent.split),
            keep_conn: self.keep_conn.or(&parent.keep_conn),
            catch_stderr: self.catch_stderr.or(&parent.catch_stderr),
        }
    }
}

thread_local! {
    /// The groups of the last split. `$1` and its kin stay what they were.
    static SPLIT: RefCell<Captures> = RefCell::default();
}

impl Settings {
    /// Whether what a program wrote to its error output makes the response invalid.
    #[must_use]
    pub fn catches(&self, stderr: &[u8]) -> bool {
        (self.catch_stderr.iter()).any(|text| memchr::memmem::find(stderr, text).is_some())
    }

    /// Appends `$fastcgi_script_name`: the path, or the part of it that the pattern says, and the index behind a slash.
    pub fn append_script_name(&self, request: &Request, out: &mut Vec<u8>) {
        let start = out.len();
        if !self.split_group(request, 1, out) {
            out.extend_from_slice(&request.uri);
        }
        if out.len() > start && out.last() == Some(&b'/') {
            out.extend_from_slice(&self.index);
        }
    }

    /// Appends `$fastcgi_path_info`: empty where there is no pattern, or it does not match.
    pub fn append_path_info(&self, request: &Request, out: &mut Vec<u8>) {
        self.split_group(request, 2, out);
    }

    /// Appends a group of the pattern; false if it does not match.
    fn split_group(&self, request: &Request, group: usize, out: &mut Vec<u8>) -> bool {
        let Some(pattern) = &self.split else {
            return false;
        };
        SPLIT.with_borrow_mut(
            |captures| match pattern.try_capture(&request.uri, captures) {
                Ok(true) => {
                    if let Some(&[start, end]) = captures.positions.get(group * 2..group * 2 + 2)
                        && let Some(text) = request.uri.get(start as usize..end as usize)
                    {
                        out.extend_from_slice(text);
                    }
                    true
                }
                Ok(false) => false,
                Err(error) => {
                    given_up(request, &request.uri, &error);
                    false
                }
            },
        )
    }
}

fn param(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let if_not_empty = match directive.args.get(2) {
        None => false,
        Some(word) if **word == *b"if_not_empty" => true,
        Some(word) => return Err(format!("invalid parameter \"{word}\"").into()),
    };
    let param = Param {
        name: directive.args[0].bytes.clone().into(),
        value: Template::compile(&directive.args[1], &mut build.variables)?,
        if_not_empty,
    };
    let params = build.location().fastcgi.params.0.get_or_insert_default();
    Arc::make_mut(params).push(param);
    Ok(())
}

fn index(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let index = &mut build.location().fastcgi.index;
    index.set(directive.args[0].bytes.as_slice().into())
}

fn split_path_info(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let word = &directive.args[0];
    let pattern = compile(word, false)?;
    if pattern.groups() != 2 {
        return Err(format!("pattern \"{word}\" must have 2 captures").into());
    }
    // As in nginx a later one takes the place of an earlier one.
    build.location().fastcgi.split.0 = Some(Some(pattern));
    Ok(())
}

fn catch_stderr(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let texts = (build.location().fastcgi.catch_stderr.0).get_or_insert_default();
    Arc::make_mut(texts).push(directive.args[0].bytes.clone().into());
    Ok(())
}
