//! Raw to resolved: inheritance, the tables of locations and hosts, the numbers of variables. Nothing is "unset" after it.

use super::Failure;
use super::build::{Build, Frame};
use super::inventory;
use super::listeners::listeners;
use super::model::{
    Child, Config, Http, Location, LocationId, LocationKind, LocationSettings, Server, ServerId,
    ServerSettings,
};
use crate::acme::Slot;
use crate::content::Content;
use crate::listen::options::{Addresses, Listen};
use crate::listen::{address, directive::Use};
use crate::pipeline::hot;
use crate::routing::hosts::{Hosts, NameError, ServerName};
use crate::routing::locations::Routes;
use crate::tls::context::Context;
use crate::upstream::secure::Identities;
use crate::upstream::settings::Family;
use crate::upstream::target::Groups;
use crate::variables::registry::Variables;
use crate::{image, log, precompress, rewrite};
use bytes::Bytes;
use conf::Error;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The `http` block under construction.
#[derive(Default)]
pub struct Resolver {
    pub locations: Vec<Location>,
    servers: Vec<Server>,
    addresses: Addresses,
    /// By address: the servers there.
    hosts: Vec<Option<Hosts>>,
    /// By address: the servers there in the order of the file.
    members: Vec<Vec<ServerId>>,
    /// By server: its names.
    names: Vec<Vec<ServerName>>,
    /// The locations made of `if` and `limit_except`.
    nested: HashSet<LocationId>,
    /// Locations that a pattern with named groups leads to: the path alone does not tell what the variables are.
    assigned: HashSet<LocationId>,
    /// How many such patterns stand around the location being resolved.
    assigning: usize,
    /// Some log's path or condition has `$1` … `$9` in it.
    captures_logged: bool,
    upstreams: Groups,
    /// Where `http` ends: what is wrong with a block as a whole is found there.
    http_end: Option<conf::Position>,
    warnings: Vec<Error>,
    /// `fastcgi_pass pool:NAME` is looked up here.
    pub pools: crate::pool::Pools,
    /// `proxy_cache` and `fastcgi_cache` are looked up here.
    caches: crate::cache::path::Zones,
}

/// Resolves what `build` has read.
pub fn resolve(mut build: Build<'_>) -> Result<Config, Failure> {
    let main = build.main.resolve(&Default::default());
    let mut logs = std::mem::take(&mut build.logs);
    let error_log = log::error::of_main(
        &build.frames()[0].location.error_log,
        &mut logs,
        &build.paths.error_log,
    );
    let mut resolver = Resolver {
        warnings: std::mem::take(&mut build.warnings),
        addresses: std::mem::take(&mut build.addresses),
        pools: crate::pool::Pools::new(std::mem::take(&mut build.pools)),
        ..Resolver::default()
    };
    let thread_pools = std::mem::take(&mut build.thread_pools);
    let zones = std::mem::take(&mut build.zones);
    let limits = std::mem::take(&mut build.http.limits);
    let charset_maps = std::mem::take(&mut build.http.charset_maps);
    let charset_names = std::mem::take(&mut build.http.charset_names);
    let copies = precompress::directive::built_in_directory(build.paths);
    let geoip2 = std::mem::take(&mut build.http.geoip2);
    let precompress = build.http.precompress.resolve(&copies);
    let image = (build.http.image).resolve(&image::directive::built_in_directory(build.paths));
    resolver.caches = std::mem::take(&mut build.http.caches).resolve();
    let read = resolver.http(build, &error_log, &mut logs, &charset_maps);
    let (resolver, variables) = match read {
        Ok(variables) => (resolver, variables),
        Err(error) => return Err(Failure::while_reading(error, resolver.warnings)),
    };
    let listens = listeners(resolver.addresses, resolver.hosts);
    let sockets = listens.iter().filter(|listener| listener.own_socket);
    let mut late_warnings = Vec::new();
    let settled = thread_pools
        .check()
        .and_then(|()| zones.check())
        .and_then(|()| main.check(sockets.count(), &mut late_warnings));
    if let Err(error) = settled {
        return Err(Failure {
            error,
            warnings: resolver.warnings,
            late: true,
        });
    }
    Ok(Config {
        main,
        http: Http {
            servers: resolver.servers,
            locations: resolver.locations,
            listens,
            variables,
            limits,
            charset_maps,
            charset_names,
            pools: resolver.pools,
            upstreams: resolver.upstreams,
            precompress,
            image,
            caches: resolver.caches,
            geoip2,
        },
        error_log: error_log.logs,
        logs,
        warnings: resolver.warnings,
        late_warnings,
    })
}

impl Resolver {
    /// The `http` block.
    fn http(
        &mut self,
        mut build: Build<'_>,
        error_log: &log::error::Settings,
        logs: &mut log::files::LogFiles,
        charset_maps: &crate::filter::charset::Maps,
    ) -> Result<Variables, Error> {
        self.captures_logged = build.variables.captures_logged;
        let mut end = None;
        let (source, paths) = (build.source, build.paths);
        let issuers = std::mem::take(&mut build.http.acme);
        if let Some(frame) = build.http.frame.take() {
            end.clone_from(&frame.end);
            self.http_end.clone_from(&frame.end);
            let mut outer = LocationSettings {
                error_log: error_log.clone(),
                ..LocationSettings::default()
            };
            outer.static_files.root = crate::content::static_files::Root::built_in(build.paths);
            let mut settings = frame.location.resolve(&outer);
            self.upstreams = build.http.upstreams.resolve(&settings.resolver)?;
            let is_silent = |child: &Child| match child {
                Child::Server(server) => server.location.access_log.logs.0.is_none(),
                _ => false,
            };
            if settings.access_log.logs.is_unset() && frame.children.iter().any(is_silent) {
                settings.access_log.logs = log::access::AccessLogs::built_in(
                    build.paths.in_prefix(super::defaults::ACCESS_LOG),
                    logs,
                    &mut build.http.log_formats,
                    &mut build.variables,
                );
            }
            let server_settings = frame.server.resolve(&ServerSettings::default());
            for child in frame.children {
                if let Child::Server(server) = child {
                    // What is wrong with a server as a whole, nginx finds at the end of `http`.
                    let mut resolved = server.server.resolve(&server_settings);
                    (resolved.tls.compile_names(&mut build.variables))
                        .map_err(|complaint| Error::new(complaint.text, None))?;
                    (resolved.request_head.check())
                        .map_err(|message| Error::new(message, frame.end.clone()))?;
                    let tls = Context::new(&resolved.tls, source, paths)
                        .map_err(|message| Error::new(message, None))?;
                    let warnings = tls.iter().flat_map(|tls| &tls.warnings);
                    let warnings = warnings.map(|text| Error::new(text.clone(), None));
                    self.warnings.extend(warnings);
                    let acme = issuers.slot(&resolved.acme, &server.names);
                    let acme =
                        acme.map_err(|message| Error::new(message, server.position.clone()))?;
                    self.server(*server, &settings, resolved, (tls, acme))?;
                }
            }
            self.check_secured()?;
            self.settle_pools()?;
        }
        self.check_locations(end, charset_maps, Identities::new(source, paths))?;
        if let Some(name) = build.variables.undefined()
            && inventory::has_variable(name)
        {
            let name = String::from_utf8_lossy(name);
            let message = format!("\"{name}\" variable is not supported by gannet yet");
            return Err(Error::new(message, None));
        }
        let variables = build.variables.finish();
        let variables = variables.map_err(|complaint| Error::new(complaint.text, None))?;
        self.name_servers()?;
        Ok(variables)
    }

    fn server(
        &mut self,
        frame: Frame,
        http: &LocationSettings,
        settings_of_server: ServerSettings,
        (tls, acme): (Option<Arc<Context>>, Option<Arc<Slot>>),
    ) -> Result<(), Error> {
        let id = self.servers.len() as ServerId;
        let settings = frame.location.resolve(http);
        self.check(&settings)?;
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
        let program = rewrite::compile(frame.program, self, None)?;
        if program.is_empty() {
            self.mark_repeatable(base);
        }
        let name = frame.names.first();
        let name = name.map_or_else(Bytes::new, ServerName::shown);
        self.servers.push(Server {
            name,
            base,
            settings: settings_of_server,
            tls,
            acme,
            position: frame.position.clone(),
            program,
            named,
        });
        let mut listens = frame.listens;
        if listens.is_empty() {
            let plain = Listen::new(address::of_servers_without_one());
            let address = self.addresses.add(plain).map_err(|message| Error {
                message,
                position: frame.position.clone(),
            })?;
            listens.push(Use {
                address,
                default_server: false,
            });
        }
        for place in listens {
            self.listen(place, id);
        }
        self.names.push(frame.names);
        Ok(())
    }

    /// Every address where TLS is spoken has a certificate to show, or turns clients away on purpose.
    fn check_secured(&self) -> Result<(), Error> {
        let spoken = |(place, _): &(usize, _)| self.addresses.listen(*place).ssl;
        for (place, hosts) in self.hosts.iter().enumerate().filter(spoken) {
            let Some(hosts) = hosts else { continue };
            let default = &self.servers[hosts.default as usize];
            let without = match &default.tls {
                None => Some(default),
                Some(context) if !context.rejects => None,
                Some(_) => (self.members[place].iter())
                    .map(|&server| &self.servers[server as usize])
                    .find(|server| server.tls.is_none()),
            };
            if let Some(server) = without {
                return Err(Error {
                    message:
                        "no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive"
                            .to_owned(),
                    position: server.position.clone(),
                });
            }
        }
        Ok(())
    }

    /// What is wrong with the settings of a location as a whole; nginx finds it at the end of `http`.
    fn check_locations(
        &mut self,
        end: Option<conf::Position>,
        charset_maps: &crate::filter::charset::Maps,
        mut identities: Identities<'_>,
    ) -> Result<(), Error> {
        for location in &mut self.locations {
            let settings = &mut location.settings;
            (settings.charset.check(charset_maps)).map_err(|message| Error::new(message, None))?;
            if matches!(&location.content, Content::Proxy(pass) if pass.may_be_secure()) {
                let completed = settings.proxy_tls.complete(&mut identities);
                completed.map_err(|message| Error::new(message, None))?;
            }
            (settings.referer.check()).map_err(|message| Error::new(message, None))?;
            (settings.secure_link.check()).map_err(|message| Error::new(message, end.clone()))?;
        }
        Ok(())
    }

    /// Notes which of a server's locations, those from `base` on, serve files by path alone.
    fn mark_repeatable(&mut self, base: LocationId) {
        let locations = self.locations.iter_mut().enumerate().skip(base as usize);
        for (id, location) in locations {
            // What leads into `if` and `limit_except` is more than the path.
            if location.program.is_empty()
                && location.limit_except.is_none()
                && !self.nested.contains(&(id as LocationId))
                && !self.assigned.contains(&(id as LocationId))
                && !self.captures_logged
            {
                location.repeat = hot::repeat(&location.settings, &location.content);
            }
        }
    }

    /// Joins a server to the other servers of an address.
    fn listen(&mut self, place: Use, server: ServerId) {
        if self.hosts.len() <= place.address {
            self.hosts.resize_with(place.address + 1, || None);
            self.members.resize_with(place.address + 1, Vec::new);
        }
        let hosts = self.hosts[place.address].get_or_insert_with(|| Hosts::of_default(server));
        if place.default_server {
            hosts.default = server;
        }
        self.members[place.address].push(server);
    }

    /// Makes the tables of names, when all servers of each address are known.
    fn name_servers(&mut self) -> Result<(), Error> {
        for (address, hosts) in self.hosts.iter_mut().enumerate() {
            let Some(hosts) = hosts else { continue };
            let servers: Vec<(ServerId, &[ServerName])> = self.members[address]
                .iter()
                .map(|&server| (server, &self.names[server as usize][..]))
                .collect();
            let mut errors = Vec::new();
            *hosts = Hosts::new(hosts.default, &servers, &mut errors);
            for error in errors {
                let (before, name, after) = match &error {
                    NameError::Conflict(name) => ("conflicting server name", name, ", ignored"),
                    NameError::Invalid(name) => ("invalid server name or wildcard", name, ""),
                };
                let name = String::from_utf8_lossy(name);
                let place = self.addresses.address(address);
                let complaint = Error::new(format!("{before} \"{name}\" on {place}{after}"), None);
                match error {
                    NameError::Conflict(_) => self.warnings.push(complaint),
                    NameError::Invalid(_) => return Err(complaint),
                }
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
            if let LocationKind::Exact(path) | LocationKind::Prefix { path, .. } = &location.kind
                && location.content.is_relay()
            {
                routes.add_relay(path, id);
            }
            let added = match &location.kind {
                LocationKind::Exact(path) => routes.add_exact(path.clone(), id),
                LocationKind::Prefix { path, no_regex } => {
                    routes.add_prefix(path.clone(), *no_regex, id)
                }
                // Of several with one name nginx takes the first.
                LocationKind::Named(name) => {
                    named.entry(name.clone()).or_insert(id);
                    true
                }
                LocationKind::Regex(matcher) => {
                    routes.add_pattern(matcher.clone(), id);
                    true
                }
                LocationKind::None | LocationKind::If | LocationKind::LimitExcept => true,
            };
            if !added {
                return Err(duplicate());
            }
        }
        routes.finish();
        Ok(routes)
    }

    /// Finds the pools that are passed requests.
    fn settle_pools(&self) -> Result<(), Error> {
        for location in &self.locations {
            if let Content::FastCgi(pass) = &location.content {
                pass.settle(&self.pools)?;
            }
        }
        Ok(())
    }

    /// What settings ask of each other.
    fn check(&mut self, settings: &LocationSettings) -> Result<(), Error> {
        let relays = [
            (&settings.proxy_relay, Family::Proxy),
            (&settings.fastcgi_relay, Family::FastCgi),
        ];
        for (relay, family) in relays {
            (relay.check(family)).map_err(|message| Error::new(message, self.http_end.clone()))?;
        }
        for (cache, family) in [
            (
                &settings.proxy_cache,
                &crate::cache::directive::PROXY_FAMILY,
            ),
            (
                &settings.fastcgi_cache,
                &crate::cache::directive::FASTCGI_FAMILY,
            ),
        ] {
            let warning = cache.settle(&self.caches, family);
            let warning = warning.map_err(|message| Error::new(message, self.http_end.clone()))?;
            let warning = warning.map(|message| Error::new(message, self.http_end.clone()));
            self.warnings.extend(warning);
        }
        Ok(())
    }

    fn location(
        &mut self,
        frame: Frame,
        parent: &LocationSettings,
        named: &mut HashMap<Bytes, LocationId>,
    ) -> Result<LocationId, Error> {
        let settings = frame.location.resolve(parent);
        self.check(&settings)?;
        let name = match &frame.kind {
            LocationKind::Prefix { path, .. }
            | LocationKind::Exact(path)
            | LocationKind::Named(path) => path.clone(),
            LocationKind::Regex(matcher) => matcher.pattern.text.clone(),
            LocationKind::None | LocationKind::If | LocationKind::LimitExcept => Bytes::new(),
        };
        let id = self.push(
            name,
            frame.kind,
            settings.clone(),
            frame.content.unwrap_or_default(),
        );
        let assigns = matches!(&self.locations[id as usize].kind, LocationKind::Regex(matcher) if !matcher.groups.is_empty());
        self.assigning += usize::from(assigns);
        if self.assigning > 0 {
            self.assigned.insert(id);
        }
        let mut inner = Vec::new();
        for child in frame.children {
            match child {
                Child::LimitExcept(methods, block) => {
                    let other = self.nested(*block, id)?;
                    self.locations[id as usize].limit_except = Some((methods, other));
                }
                child => inner.push(child),
            }
        }
        let routes = self.children(inner, &settings, named)?;
        self.assigning -= usize::from(assigns);
        self.locations[id as usize].routes = routes;
        let program = rewrite::compile(frame.program, self, Some(id))?;
        self.locations[id as usize].program = program;
        Ok(id)
    }

    /// A block inside a location that changes its settings (`if`, `limit_except`): a location that keeps the outer
    /// one's name, kind and content where it sets none of its own.
    pub fn nested(&mut self, frame: Frame, outer: LocationId) -> Result<LocationId, Error> {
        let settings = frame
            .location
            .resolve(&self.locations[outer as usize].settings);
        self.check(&settings)?;
        let location = &self.locations[outer as usize];
        let content = frame.content.unwrap_or_else(|| location.content.clone());
        let (name, kind) = (location.name.clone(), location.kind.clone());
        let id = self.push(name, kind, settings, content);
        self.nested.insert(id);
        Ok(id)
    }
}
