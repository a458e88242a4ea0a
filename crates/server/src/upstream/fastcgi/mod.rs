//! `fastcgi_pass`: requests that FastCGI programs answer, those of a pool among them. The relay does the talking; here is
//! what they are told.

pub mod params; // what is sent
pub mod settings; // the directives

pub use settings::{DIRECTIVES, Raw, Settings};

use super::address::{Behind, Place};
use super::group::GroupId;
use super::target::Target;
use crate::config::build::Build;
use crate::config::directive::Outcome;
use crate::content::Content;
use crate::http::{Interrupt, Phase, Request};
use crate::log::error::{Level, write_request};
use crate::pool::{PoolId, Pools};
use crate::variables::Template;
use conf::{Directive, Position};
use std::sync::{Arc, OnceLock};

/// Before the name of a pool, where a host would stand.
const POOL: &[u8] = b"pool:";

/// A `fastcgi_pass`.
#[derive(Debug)]
pub struct Pass {
    to: To,
}

#[derive(Debug)]
enum To {
    Group(GroupId),
    /// The pool may be defined later in the file: its number is known when all was read.
    Pool {
        name: Box<[u8]>,
        position: Position,
        id: OnceLock<PoolId>,
    },
    Variable(Template),
}

/// Where one request goes.
#[derive(Debug)]
pub enum Destination {
    Group(GroupId),
    Pool(PoolId),
    /// What variables made: `target::find` knows the servers.
    Place(Box<Place>),
}

impl Pass {
    /// `fastcgi_pass ADDRESS`, or `pool:NAME`.
    pub fn set(build: &mut Build<'_>, directive: &Directive) -> Outcome {
        if matches!(build.frame().content, Some(Content::FastCgi(_))) {
            return Err("is duplicate".into());
        }
        let word = &directive.args[0];
        let to = if word.contains(&b'$') {
            To::Variable(Template::compile(word, &mut build.variables)?)
        } else if let Some(name) = word.strip_prefix(POOL) {
            To::Pool {
                name: name.into(),
                position: directive.position.clone(),
                id: OnceLock::new(),
            }
        } else {
            let place = Place::parse(word, 0, Behind::Nothing)
                .map_err(|error| format!("{error} in upstream \"{word}\""))?;
            match Target::of(build, directive, &place)? {
                Target::Group(group) => To::Group(group),
                Target::Variable => return Err("invalid value".into()),
            }
        };
        build.frame().content = Some(Content::FastCgi(Arc::new(Pass { to })));
        Ok(())
    }

    /// Finds the pool that was named, when all of them are known.
    pub fn settle(&self, pools: &Pools) -> Result<(), conf::Error> {
        let To::Pool { name, position, id } = &self.to else {
            return Ok(());
        };
        let found = pools.find(name).ok_or_else(|| {
            let name = String::from_utf8_lossy(name);
            conf::Error::at(position, format!("pool \"{name}\" is not defined"))
        })?;
        let _same_as_before = id.set(found);
        Ok(())
    }

    /// Where a request goes.
    pub fn destination(&self, request: &Request) -> Phase<Destination> {
        let template = match &self.to {
            To::Group(group) => return Ok(Destination::Group(*group)),
            To::Pool { name, id, .. } => {
                return match id.get() {
                    Some(id) => Ok(Destination::Pool(*id)),
                    None => Err(no_pool(request, name)),
                };
            }
            To::Variable(template) => template,
        };
        let value = template.evaluate(request);
        if let Some(name) = value.strip_prefix(POOL) {
            let found = request.generation.config.http.pools.find(name);
            return match found {
                Some(id) => Ok(Destination::Pool(id)),
                None => Err(no_pool(request, name)),
            };
        }
        match Place::parse(&value, 0, Behind::Nothing) {
            Ok(place) => Ok(Destination::Place(Box::new(place))),
            Err(error) => {
                let value = String::from_utf8_lossy(&value);
                let message = format_args!("{error} in upstream \"{value}\"");
                write_request(request, Level::Error, message);
                Err(Interrupt::Status(500))
            }
        }
    }
}

fn no_pool(request: &Request, name: &[u8]) -> Interrupt {
    let name = String::from_utf8_lossy(name);
    write_request(
        request,
        Level::Error,
        format_args!("pool \"{name}\" is not defined"),
    );
    Interrupt::Status(500)
}
