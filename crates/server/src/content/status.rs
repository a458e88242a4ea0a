//! `stub_status`: connection and request counters in nginx's form.

use crate::http::{Interrupt, Phase, Request, Response};

/// The counters as text.
pub fn respond(_: &Request) -> Phase<Response> {
    Err(Interrupt::Status(404))
}
