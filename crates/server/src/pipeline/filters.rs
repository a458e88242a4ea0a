//! The filters in their order, over one response.

use super::redirect;
use crate::filter::{headers, not_modified, range};
use crate::http::{Request, Response, sent};

/// Applies every filter; one that does not apply leaves the response untouched.
pub fn apply(request: &Request, response: &mut Response) {
    not_modified::apply(request, response);
    if request.generation.config.http.variables.uses_sent {
        sent::record(request, response, false);
    }
    headers::apply(request, response);
    range::apply(request, response);
    redirect::apply(request, response);
}
