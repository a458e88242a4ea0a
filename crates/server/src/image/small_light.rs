//! small_light: pictures by parameters in the URL. Its directives, and what a request asks for.

pub mod geometry;
pub mod parameters;
pub mod plan;
pub mod wish;

use crate::config::build::Build;
use crate::config::directive::{
    Arity, HS, HSL, Outcome, SERVER, Set, flag, number as whole_number, row, size,
};
use crate::config::setting::Setting;
use crate::http::Request;
use conf::Directive;
use conf::table::Row;
use parameters::Parameters;
use std::path::PathBuf;
use std::sync::Arc;
use wish::Wish;

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "small_light",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().small_light.on, d),
        "Whether URLs may ask for pictures in other sizes and forms.",
    ),
    row(
        "small_light_getparam_mode",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().small_light.arguments, d),
        "Whether the parameters are arguments, in place of small_light(…) in the path.",
    ),
    row(
        "small_light_pattern_define",
        SERVER,
        Arity::Exactly(2),
        pattern,
        "A name for a list of parameters: p=NAME.",
    ),
    row(
        "small_light_material_dir",
        SERVER,
        Arity::Exactly(1),
        material,
        "The directory of the pictures that embedicon may lay over others.",
    ),
    row(
        "small_light_buffer",
        HS,
        Arity::Exactly(1),
        |b, d| size(&mut b.location().small_light.buffer, d),
        "The most that a picture whose length is not announced may have as a file; more is 415.",
    ),
    row(
        "small_light_radius_max",
        HSL,
        Arity::Exactly(1),
        |b, d| whole_number(&mut b.location().small_light.radius_max, d),
        "Effects with a larger radius are left out.",
    ),
    row(
        "small_light_sigma_max",
        HSL,
        Arity::Exactly(1),
        |b, d| whole_number(&mut b.location().small_light.sigma_max, d),
        "Effects with a larger sigma are left out.",
    ),
    row(
        "small_light_imlib2_temp_dir",
        SERVER,
        Arity::Between(1, 4),
        |b, _| b.location().small_light.temp_dir.set(()),
        "Accepted: Pictures are made in memory.",
    ),
];

/// Patterns by their names.
pub type Patterns = Arc<Vec<(Box<[u8]>, Box<[u8]>)>>;

crate::config::setting::settings! {
    on: bool = false,
    arguments: bool = false,
    patterns: Patterns = Patterns::default(),
    material: Option<PathBuf> = None,
    buffer: u64 = 1 << 20,
    radius_max: u64 = 10,
    sigma_max: u64 = 10,
    temp_dir: () = (),
}

fn pattern(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let [name, list] = &directive.args[..] else {
        return Err("invalid value".into());
    };
    let Setting(patterns) = &mut build.location().small_light.patterns;
    let patterns = Arc::make_mut(patterns.get_or_insert_default());
    if patterns.iter().any(|(other, _)| **other == **name) {
        return Err(format!("pattern \"{name}\" is defined twice").into());
    }
    patterns.push((name.to_vec().into(), list.to_vec().into()));
    Ok(())
}

fn material(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let name = directive.args[0].as_str().ok_or("invalid value")?;
    let path = build.paths.in_prefix(name);
    let setting = build.location().small_light.material.vacant()?;
    if !path.is_dir() {
        return Err(format!("\"{}\" is not a directory", path.display()).into());
    }
    setting.set(Some(path))
}

/// What a request asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked {
    /// Nothing: the response is none of small_light's business.
    Nothing,
    /// A pattern that is not defined.
    UnknownPattern(Box<[u8]>),
    /// The list is too long.
    TooLong,
    Picture(Box<Wish>),
}

/// What the target of a request, as it was sent, asks for.
#[must_use]
pub fn asked(request: &Request, settings: &Settings) -> Asked {
    let target = request.raw_target();
    match settings.arguments {
        true => {
            let mark = memchr::memchr(b'?', target);
            let query = mark.map_or(&b""[..], |mark| &target[mark + 1..]);
            ask(settings, query, Parameters::add_arguments)
        }
        false => match parameters::list(target) {
            Some(list) => ask(settings, list, Parameters::add_list),
            None => Asked::Nothing,
        },
    }
}

fn ask<'t>(
    settings: &Settings,
    text: &'t [u8],
    add: fn(&mut Parameters, &'t [u8]) -> Option<&'t [u8]>,
) -> Asked {
    if text.len() > parameters::LIST_MAX {
        return Asked::TooLong;
    }
    let mut parameters = Parameters::default();
    if let Some(name) = add(&mut parameters, text) {
        let pattern = settings.patterns.iter().find(|(other, _)| **other == *name);
        let Some((_, list)) = pattern else {
            return Asked::UnknownPattern(name.into());
        };
        // A pattern has no patterns of its own.
        let _none = parameters.add_list(list);
    }
    Asked::Picture(Box::new(Wish::new(&parameters)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_found_by_name() {
        let settings = Settings {
            patterns: Arc::new(vec![
                (b"s"[..].into(), b"dw=120,q=95"[..].into()),
                (b"m"[..].into(), b"p=s,dw=500"[..].into()),
            ]),
            ..Settings::default()
        };
        let width = |list: &'static str| match ask(&settings, list.as_bytes(), Parameters::add_list)
        {
            Asked::Picture(wish) => wish.width.of(1.0).unwrap_or(0.0),
            _ => -1.0,
        };
        for (list, expected) in [
            ("p=s", 120.0),
            ("p=s,dw=60", 60.0),
            ("dw=60,p=s", 60.0),
            ("p=m", 500.0),
            ("p=none", -1.0),
            ("", 0.0),
        ] {
            assert_eq!(width(list), expected, "{list}");
        }
    }
}
