//! `set_real_ip_from` and kin: the client's address as a trusted proxy tells it takes the place of the proxy's, for the
//! request it was told with.

use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, Outcome, Set, flag, row};
use crate::http::Request;
use crate::http::forwarded::{self, Trusted};
use crate::http::network::Network;
use bytes::Bytes;
use conf::Directive;
use conf::table::Row;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use sys::address::SocketAddress;
use wire::http1::Known;

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "set_real_ip_from",
        HSL,
        Arity::Exactly(1),
        set_real_ip_from,
        "A proxy that is believed: an address, a network, a name or unix:.",
    ),
    row(
        "real_ip_header",
        HSL,
        Arity::Exactly(1),
        real_ip_header,
        "The field that tells the client's address, or proxy_protocol.",
    ),
    row(
        "real_ip_recursive",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().real_ip.recursive, d),
        "Whether addresses of trusted proxies in the field are passed over.",
    ),
];

/// Where the address is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    XRealIp,
    XForwardedFor,
    ProxyProtocol,
    Field(Bytes),
}

crate::config::setting::settings! {
    trusted: Arc<Trusted> = Arc::default(),
    source: Source = Source::XRealIp,
    recursive: bool = false,
}

fn set_real_ip_from(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let word = &directive.args[0];
    let mut more = Trusted::default();
    if word[..] == *b"unix:" {
        more.unix = true;
    } else if let Some((network, exact)) = Network::parse(word) {
        if !exact {
            build.warn(
                directive,
                format!("low address bits of {word} are meaningless"),
            );
        }
        more.networks.push(network);
    } else {
        let missing = || format!("host not found in set_real_ip_from \"{word}\"");
        let name = word.as_str().ok_or_else(missing)?;
        let found = (name, 0).to_socket_addrs().map_err(|_| missing())?;
        let networks = found.filter_map(|address| Network::of(address.ip(), None));
        more.networks.extend(networks);
    }
    let trusted = &mut build.location().real_ip.trusted.0;
    let trusted = Arc::make_mut(trusted.get_or_insert_default());
    trusted.unix |= more.unix;
    trusted.networks.extend(more.networks);
    Ok(())
}

fn real_ip_header(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let word = &directive.args[0];
    let source = match &word[..] {
        b"X-Real-IP" => Source::XRealIp,
        b"X-Forwarded-For" => Source::XForwardedFor,
        b"proxy_protocol" => Source::ProxyProtocol,
        name => Source::Field(Bytes::copy_from_slice(name)),
    };
    build.location().real_ip.source.set(source)
}

impl Settings {
    /// Whether every client has the address of its connection.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.trusted.is_empty()
    }
}

/// Gives the request the address that its proxy tells. It happens once: first with the server's settings, then, where
/// that changed nothing, with the location's.
pub fn apply(request: &mut Request) {
    let settings = &request.location().settings.real_ip;
    if settings.trusted.is_empty() || request.real_remote.is_some() {
        return;
    }
    if let Some(client) = client(request, settings) {
        request.real_remote = Some(SocketAddress::Ip(client));
    }
}

fn client(request: &Request, settings: &Settings) -> Option<SocketAddr> {
    let peer = request.remote().ip();
    let one = |value: Option<&[u8]>| {
        let values = value.into_iter();
        forwarded::client(peer, values, &settings.trusted, settings.recursive)
    };
    match &settings.source {
        Source::XForwardedFor => {
            let values = request.fields_known(Known::XForwardedFor);
            forwarded::client(peer, values, &settings.trusted, settings.recursive)
        }
        Source::XRealIp => one(request.fields_named(b"X-Real-IP").next()),
        Source::Field(name) => one(request.fields_named(name).next()),
        Source::ProxyProtocol => {
            let told = request.connection.proxied.get()?;
            let mut client = one(Some(told.address.as_bytes()))?;
            client.set_port(told.port);
            Some(client)
        }
    }
}
