//! `listen`: the addresses of a server and the options of their sockets.

use super::address::{self, Written};
use super::options::{self, Listen};
use crate::config::build::Build;
use crate::config::directive::{Arity, Outcome, SERVER, Set, row};
use conf::Directive;
use conf::table::Row;

pub const DIRECTIVES: &[Row<Set>] = &[row(
    "listen",
    SERVER,
    Arity::AtLeast(1),
    listen,
    "An address and port, or a UNIX socket, to accept connections on.",
)];

/// A server's place at one of the configuration's addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    /// The address's place in the configuration's list.
    pub address: usize,
    pub default_server: bool,
}

fn listen(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let word = &directive.args[0];
    let wrong = |message: &str| format!("{message} in \"{word}\" of the \"listen\" directive");
    let text = word.as_str().ok_or_else(|| wrong("invalid host"))?;
    let Written { addresses, inet } = address::parse(text).map_err(wrong)?;
    let options = options::parse(&directive.args[1..], inet)?;
    if options.http2 {
        build.warn(
            directive,
            "the \"listen ... http2\" directive is deprecated, use the \"http2\" directive instead",
        );
    }
    for word in &directive.args[1..] {
        if word.starts_with(b"accept_filter=") {
            // nginx calls it an emergency, and goes on.
            build.warn(
                directive,
                format!("accept filters \"{word}\" are not supported on this platform, ignored"),
            );
        }
    }
    for address in addresses {
        let known = build.addresses.find(&address);
        let used = &build.frame().listens;
        if known.is_some_and(|index| used.iter().any(|other| other.address == index)) {
            return Err(format!("a duplicate listen {address}").into());
        }
        let index = build.addresses.add(Listen {
            address,
            ..options.clone()
        })?;
        build.frame().listens.push(Use {
            address: index,
            default_server: options.default_server,
        });
    }
    Ok(())
}
