//! `add_header`, `expires`, `add_trailer` and their inheritance.

crate::config::setting::settings! {
    placeholder: bool = false,
}

/// Applies the filter.
pub fn apply(_: &crate::http::Request, _: &mut crate::http::Response) {}
