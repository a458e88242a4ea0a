//! The filters in their order, over one response.

use super::{redirect, subrequest};
use crate::filter::{
    addition, charset, compress, dictionary, gunzip, headers, not_modified, range, ssi, sub, userid,
};
use crate::http::{Body, Phase, Request, Response, sent};

/// How pages have others asked.
const ASKING: ssi::Asking = ssi::Asking {
    twin: subrequest::twin,
    ask: subrequest::ask,
};

/// Applies every filter; one that does not apply leaves the response untouched. An interrupt (412, 416) takes the
/// response's place and passes the filters once more, as its own page.
pub fn apply(request: &Request, response: &mut Response) -> Phase {
    if request.depth == 0 {
        // As in nginx the page of a 412 has none of the fields that phases had for the response.
        not_modified::apply(request, response)
            .inspect_err(|_| request.fields.borrow_mut().clear())?;
    }
    request.sent.status.set(response.status);
    if request.generation.config.http.variables.uses_sent {
        sent::record(request, response, false);
    }
    take_fields(request, response);
    if request.depth == 0 && !response.is_bare {
        headers::apply(request, response);
        userid::apply(request, response);
    }
    gunzip::apply(request, response);
    sub::apply(request, response);
    charset::apply(request, response);
    ssi::apply(request, response, ASKING);
    // What is added has passed its own filters.
    addition::apply(request, response, subrequest::body);
    if request.depth == 0 {
        dictionary::apply(request, response);
        compress::apply(request, response);
        range::apply(request, response)?;
        redirect::apply(request, response);
    }
    if response.status == 204 && response.status_line.is_none() {
        drop_content(response);
    }
    if !matches!(response.status, 200 | 206 | 304) {
        response.last_modified = None;
    }
    Ok(())
}

/// Gives the response the fields that phases had for it, before all others.
fn take_fields(request: &Request, response: &mut Response) {
    if let Some(kind) = &request.content_type
        && !response.is_error_page
    {
        response.set_content_type(kind.clone());
    }
    let mut fields = request.fields.borrow_mut();
    if fields.is_empty() {
        return;
    }
    let mut fields = std::mem::take(&mut *fields);
    response.etag_place += fields.len();
    for field in std::mem::take(&mut response.headers).iter() {
        fields.push(field.name.clone(), field.value.clone());
    }
    response.headers = fields;
}

/// A 204 has no content, whatever it was made of.
fn drop_content(response: &mut Response) {
    response.body = Body::Empty;
    response.content_length = None;
    response.content_type = None;
}
