//! Filters over a response, one file each; their order is one list in `pipeline::filters`.

pub mod addition;
pub mod charset;
pub mod compress;
pub mod dictionary;
pub mod expires;
pub mod gunzip;
pub mod headers;
pub mod not_modified;
pub mod range;
pub mod rewritten;
pub mod slice;
pub mod ssi;
pub mod sub;
pub mod userid;

use crate::http::{Request, Response};

/// Whether a filter reads a response's text, to change it: it must not be compressed before.
#[must_use]
pub fn read_text(request: &Request, response: &Response) -> bool {
    sub::applies(request, response)
        || ssi::applies(request, response)
        || addition::applies(request, response)
        || charset::may_change(request, response)
}
