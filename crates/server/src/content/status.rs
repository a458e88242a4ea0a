//! `stub_status`: connection and request counters in nginx's form.

use super::Content;
use crate::config::build::Build;
use crate::config::directive::{Arity, Outcome, SL, Set, row};
use crate::http::counters::{self, Totals};
use crate::http::{Body, Interrupt, Phase, Request, Response};
use bytes::Bytes;
use conf::Directive;
use conf::table::Row;
use wire::http1::Method;

pub const DIRECTIVES: &[Row<Set>] = &[row(
    "stub_status",
    SL,
    Arity::Between(0, 1),
    stub_status,
    "Answer with the counters of connections and requests.",
)];

fn stub_status(build: &mut Build<'_>, _: &Directive) -> Outcome {
    build.frame().content = Some(Content::StubStatus);
    Ok(())
}

/// The counters as text.
pub fn respond(request: &Request) -> Phase<Response> {
    if !matches!(request.method, Method::Get | Method::Head) {
        return Err(Interrupt::Status(405));
    }
    let text = text(&counters::totals());
    let mut response = Response::new(200, Body::Memory(Bytes::from(text)));
    response.content_type = Some(Bytes::from_static(b"text/plain"));
    Ok(response)
}

/// nginx's page, spaces at the ends of lines included. Every accepted connection is handled.
fn text(totals: &Totals) -> String {
    format!(
        "Active connections: {} \nserver accepts handled requests\n {} {} {} \nReading: {} Writing: {} Waiting: {} \n",
        totals.active,
        totals.accepts,
        totals.accepts,
        totals.requests,
        totals.reading,
        totals.writing,
        totals.waiting()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_nginx_s_form() {
        let totals = Totals {
            accepts: 7,
            requests: 9,
            active: 4,
            reading: 1,
            writing: 2,
            ..Totals::default()
        };
        assert_eq!(
            text(&totals),
            "Active connections: 4 \nserver accepts handled requests\n 7 7 9 \nReading: 1 Writing: 2 Waiting: 1 \n"
        );
    }
}
