//! The ways a phase can end a request early: `Err(Interrupt)` and `?` are the phase engine.

use super::Response;
use bytes::Bytes;

/// What ends the phases before the content is reached.
#[derive(Debug)]
pub enum Interrupt {
    /// Answer with this status; `error_page` and the built-in pages apply.
    Status(u16),
    /// Answer with this response as it stands (`return 200 "text"`); `error_page` applies from status 300 on as in nginx.
    Respond(Box<Response>),
    /// Go to another URI or named location inside the server.
    Redirect(Target),
    /// Close the connection without an answer (nginx's 444).
    Hangup,
}

/// Where an internal redirect leads.
#[derive(Debug, Clone)]
pub enum Target {
    /// A normalised path with its arguments (without `?`).
    Uri { path: Bytes, args: Option<Bytes> },
    /// `@name`; the URI stays.
    Named(Bytes),
}

pub type Phase<T = ()> = Result<T, Interrupt>;
