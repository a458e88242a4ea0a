//! The filters in their order, over one response.

use super::redirect;
use crate::filter::{headers, not_modified, range};
use crate::http::{Request, Response};

/// Applies every filter; one that does not apply leaves the response untouched.
pub fn apply(request: &Request, response: &mut Response) {
    not_modified::apply(request, response);
    headers::apply(request, response);
    range::apply(request, response);
    redirect::apply(request, response);
}
