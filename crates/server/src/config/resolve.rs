//! Raw to resolved: inheritance, the tables of locations and hosts, the numbers of variables. Nothing is "unset" after it.

use super::build::{Build, Frame};
use super::inventory;
use super::model::{
    Child, Config, Http, Listener, Location, LocationId, LocationKind, LocationSettings, Server,
    ServerId, ServerSettings,
};
use super::setting::Complaint;
use crate::listen::directive::Listen;
use crate::pipeline::hot;
use crate::routing::hosts::{Hosts, ServerName};
use crate::routing::locations::Routes;
use crate::{log, rewrite};
use bytes::Bytes;
use conf::Error;
use std::collections::HashMap;

/// The `http` block under construction.
#[derive(Default)]
pub struct Resolver {
    pub locations: Vec<Location>,
    servers: Vec<Server>,
    listens: Vec<Listener>,
    warnings: Vec<Error>,
}

/// Resolves what `build` has read.
pub fn resolve(mut build: Build<'_>) -> Result<Config, Error> {
    let bare = |complaint: Complaint| Error {
        message: complaint.text,
        position: None,
    };
    let main = build.main.resolve(&Default::default());
    let mut logs = std::mem::take(&mut build.logs);
    let error_log = log::error::of_main(
        &build.frames()[0].location.error_log,
        &mut logs,
        &build.paths.error_log,
    );
    if !main.events_seen {
        return Err(Error {
            message: "no \"events\" section in configuration".to_owned(),
            position: None,
        });
    }
    build.thread_pools.check()?;
    let mut resolver = Resolver {
        warnings: build.warnings,
        ..Resolver::default()
    };
    if let Some(frame) = build.http.frame {
        let mut outer = LocationSettings {
            error_log: error_log.clone(),
            ..LocationSettings::default()
        };
        outer.static_files.root = crate::content::static_files::Root::built_in(build.paths);
        let mut settings = frame.location.resolve(&outer);
        let is_silent = |child: &Child| match child {
            Child::Server(server) => server.location.access_log.logs.0.is_none(),
            _ => false,
        };
        if settings.access_log.logs.is_unset() && frame.children.iter().any(is_silent) {
            settings.access_log.logs = log::access::AccessLogs::built_in(
                build.paths.in_prefix(super::defaults::ACCESS_LOG),
                &mut logs,
                &mut build.http.log_formats,
                &mut build.variables,
            );
        }
        let server_settings = frame.server.resolve(&ServerSettings::default());
        for child in frame.children {
            if let Child::Server(server) = child {
                resolver.server(*server, &settings, &server_settings)?;
            }
        }
    }
    main.check(resolver.listens.len(), &mut resolver.warnings)?;
    if let Some(name) = build.variables.undefined()
        && inventory::has_variable(name)
    {
        let name = String::from_utf8_lossy(name);
        return Err(Error {
            message: format!("\"{name}\" variable is not supported by gannet yet"),
            position: None,
        });
    }
    resolver.mark_repeatable();
    let variables = build.variables.finish().map_err(bare)?;
    Ok(Config {
        main,
        http: Http {
            servers: resolver.servers,
            locations: resolver.locations,
            listens: resolver.listens,
            variables,
        },
        error_log: error_log.logs,
        logs,
        warnings: resolver.warnings,
    })
}

impl Resolver {
    fn server(
        &mut self,
        frame: Frame,
        http: &LocationSettings,
        http_server: &ServerSettings,
    ) -> Result<(), Error> {
        let id = self.servers.len() as ServerId;
        let settings = frame.location.resolve(http);
        let server_settings = frame.server.resolve(http_server);
        let base = self.push(
            Bytes::new(),
            LocationKind::None,
            settings.clone(),
            Default::default(),
        );
        let mut named = HashMap::new();
        let routes = self.children(frame.children, &settings, &mut named)?;
        self.locations[base as usize].routes = routes;
        if let Some(content) = frame.content {
            self.locations[base as usize].content = content;
        }
        let program = rewrite::compile(frame.program, self, base)?;
        let name = frame.names.first().map_or_else(Bytes::new, display_name);
        self.servers.push(Server {
            name,
            base,
            settings: server_settings,
            program,
            named,
        });
        let listens = match frame.listens.is_empty() {
            true => vec![Listen::new(Listen::default_address())],
            false => frame.listens,
        };
        for listen in listens {
            self.listen(listen, id, &frame.names, frame.position.as_ref())?;
        }
        Ok(())
    }

    /// Notes which locations serve files by path alone.
    fn mark_repeatable(&mut self) {
        let no_server_programs = self.servers.iter().all(|server| server.program.is_empty());
        for location in &mut self.locations {
            if no_server_programs && location.program.is_empty() && location.limit_except.is_none()
            {
                location.repeat = hot::repeat(&location.settings, &location.content);
            }
        }
    }

    /// Joins a server to the other servers of an address.
    fn listen(
        &mut self,
        listen: Listen,
        server: ServerId,
        names: &[ServerName],
        position: Option<&conf::Position>,
    ) -> Result<(), Error> {
        let text = listen.to_string();
        let error = |message: String| Error {
            message,
            position: position.cloned(),
        };
        let index = match self
            .listens
            .iter()
            .position(|other| other.listen.address == listen.address)
        {
            Some(index) => {
                let known = &mut self.listens[index];
                if listen.options_set && known.listen.options_set {
                    return Err(error(format!("duplicate listen options for {text}")));
                }
                if listen.default_server && known.listen.default_server {
                    return Err(error(format!("a duplicate default server for {text}")));
                }
                let default_server = known.listen.default_server || listen.default_server;
                if listen.default_server {
                    known.hosts.default = server;
                }
                if listen.options_set {
                    known.listen = listen;
                }
                known.listen.default_server = default_server;
                index
            }
            None => {
                self.listens.push(Listener {
                    listen,
                    hosts: Hosts::new(server),
                });
                self.listens.len() - 1
            }
        };
        let empty = [ServerName::Exact(Bytes::new())];
        let names = if names.is_empty() { &empty[..] } else { names };
        for name in names {
            if !self.listens[index].hosts.add(name, server) {
                self.warnings.push(Error {
                    message: format!(
                        "conflicting server name \"{}\" on {text}, ignored",
                        String::from_utf8_lossy(&display_name(name))
                    ),
                    position: None,
                });
            }
        }
        Ok(())
    }

    fn push(
        &mut self,
        name: Bytes,
        kind: LocationKind,
        settings: LocationSettings,
        content: crate::content::Content,
    ) -> LocationId {
        let id = self.locations.len() as LocationId;
        self.locations.push(Location {
            name,
            kind,
            settings,
            content,
            program: Default::default(),
            routes: Routes::default(),
            limit_except: None,
            repeat: Default::default(),
        });
        id
    }

    /// Resolves the locations inside a server or location.
    fn children(
        &mut self,
        children: Vec<Child>,
        parent: &LocationSettings,
        named: &mut HashMap<Bytes, LocationId>,
    ) -> Result<Routes, Error> {
        let mut routes = Routes::default();
        for child in children {
            let Child::Location(frame) = child else {
                continue;
            };
            let position = frame.position.clone();
            let id = self.location(*frame, parent, named)?;
            let location = &self.locations[id as usize];
            let name = location.name.clone();
            let duplicate = || Error {
                message: format!("duplicate location \"{}\"", String::from_utf8_lossy(&name)),
                position: position.clone(),
            };
            let added = match &location.kind {
                LocationKind::Exact(path) => routes.add_exact(path.clone(), id),
                LocationKind::Prefix { path, no_regex } => {
                    routes.add_prefix(path.clone(), *no_regex, id)
                }
                LocationKind::Named(name) => named.insert(name.clone(), id).is_none(),
                LocationKind::Regex { pattern, groups } => {
                    routes.add_pattern(pattern.clone(), groups.clone(), id);
                    true
                }
                LocationKind::None | LocationKind::If | LocationKind::LimitExcept(_) => true,
            };
            if !added {
                return Err(duplicate());
            }
        }
        routes.finish();
        Ok(routes)
    }

    fn location(
        &mut self,
        frame: Frame,
        parent: &LocationSettings,
        named: &mut HashMap<Bytes, LocationId>,
    ) -> Result<LocationId, Error> {
        let settings = frame.location.resolve(parent);
        let name = match &frame.kind {
            LocationKind::Prefix { path, .. }
            | LocationKind::Exact(path)
            | LocationKind::Named(path) => path.clone(),
            LocationKind::Regex { pattern, .. } => Bytes::from(pattern.text.clone()),
            LocationKind::None | LocationKind::If | LocationKind::LimitExcept(_) => Bytes::new(),
        };
        let id = self.push(
            name,
            frame.kind,
            settings.clone(),
            frame.content.unwrap_or_default(),
        );
        let mut inner = Vec::new();
        for child in frame.children {
            match child {
                Child::LimitExcept(block) => {
                    let other = self.nested(*block, id)?;
                    let LocationKind::LimitExcept(methods) = &self.locations[other as usize].kind
                    else {
                        continue;
                    };
                    self.locations[id as usize].limit_except = Some((methods.clone(), other));
                }
                child => inner.push(child),
            }
        }
        let routes = self.children(inner, &settings, named)?;
        self.locations[id as usize].routes = routes;
        let program = rewrite::compile(frame.program, self, id)?;
        self.locations[id as usize].program = program;
        Ok(id)
    }

    /// A block inside a location that changes its settings (`if`, `limit_except`): a location that keeps the outer
    /// one's name, kind and content where it sets none of its own.
    pub fn nested(&mut self, frame: Frame, outer: LocationId) -> Result<LocationId, Error> {
        let location = &self.locations[outer as usize];
        let settings = frame.location.resolve(&location.settings);
        let (name, content) = (
            location.name.clone(),
            frame.content.unwrap_or_else(|| location.content.clone()),
        );
        Ok(self.push(name, frame.kind, settings, content))
    }
}

/// A name as it was written.
fn display_name(name: &ServerName) -> Bytes {
    let with =
        |before: &[u8], text: &[u8], after: &[u8]| Bytes::from([before, text, after].concat());
    match name {
        ServerName::Exact(text) => text.clone(),
        ServerName::LeadingWildcard(text) => with(b"*.", text, b""),
        ServerName::TrailingWildcard(text) => with(b"", text, b".*"),
        ServerName::Regex(pattern) => with(b"~", pattern.pattern.text.as_bytes(), b""),
    }
}
