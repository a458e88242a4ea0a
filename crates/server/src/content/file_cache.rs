//! file_cache.

crate::config::setting::settings! {
    placeholder: bool = false,
}
