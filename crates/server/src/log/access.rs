//! access.

crate::config::setting::settings! {
    placeholder: bool = false,
}
