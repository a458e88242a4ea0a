//! How a response is put on the wire: sendfile, packet building, chunking and the Server field.

use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, HSLI, Outcome, Set, flag, keyword, msec, row, size};
use conf::Directive;
use conf::table::Row;

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "sendfile",
        HSLI,
        Arity::Flag,
        |b, d| flag(&mut b.location().transmission.sendfile, d),
        "Let the kernel copy file bodies to the socket.",
    ),
    row(
        "sendfile_max_chunk",
        HSL,
        Arity::Exactly(1),
        |b, d| size(&mut b.location().transmission.sendfile_max_chunk, d),
        "The most one sendfile call transfers.",
    ),
    row(
        "tcp_nopush",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().transmission.tcp_nopush, d),
        "Accepted: The head and the start of a file always share a packet.",
    ),
    row(
        "tcp_nodelay",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().transmission.tcp_nodelay, d),
        "Send small packets at once on kept connections.",
    ),
    row(
        "send_timeout",
        HSL,
        Arity::Exactly(1),
        |b, d| msec(&mut b.location().transmission.send_timeout_ms, d),
        "The longest wait between two writes.",
    ),
    row(
        "postpone_output",
        HSL,
        Arity::Exactly(1),
        |b, d| size(&mut b.location().transmission.postpone_output, d),
        "Accepted: What is there goes out with one write, and nothing is held back for more to come.",
    ),
    row(
        "chunked_transfer_encoding",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().transmission.chunked, d),
        "Whether HTTP/1.1 responses of unknown length are chunked.",
    ),
    row(
        "server_tokens",
        HSL,
        Arity::Exactly(1),
        server_tokens,
        "What the Server field and the error pages tell.",
    ),
];

/// `server_tokens`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerTokens {
    On,
    Off,
    Build,
}

impl ServerTokens {
    /// The Server field's value, also shown at the foot of error pages.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            ServerTokens::On => crate::version::SERVER,
            ServerTokens::Off => "nginx",
            ServerTokens::Build => crate::version::SERVER_BUILD,
        }
    }
}

crate::config::setting::settings! {
    sendfile: bool = false,
    sendfile_max_chunk: u64 = 2 * 1024 * 1024,
    tcp_nopush: bool = false,
    tcp_nodelay: bool = true,
    send_timeout_ms: u64 = 60_000,
    postpone_output: u64 = 1460,
    chunked: bool = true,
    server_tokens: ServerTokens = ServerTokens::On,
}

fn server_tokens(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let words = &[
        ("on", ServerTokens::On),
        ("off", ServerTokens::Off),
        ("build", ServerTokens::Build),
    ];
    keyword(
        &mut build.location().transmission.server_tokens,
        directive,
        words,
    )
}
