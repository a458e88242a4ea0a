//! `limit_except METHODS { … }`: other settings for all methods but those named.

/// The methods that the block does not apply to.
#[derive(Debug, Clone, Default)]
pub struct Methods {
    pub names: Vec<Box<[u8]>>,
}

/// The settings for methods that `limit_except` does not name.
#[must_use]
pub fn other_settings(request: &crate::http::Request) -> Option<crate::config::model::LocationId> {
    let (methods, other) = request.location().limit_except.as_ref()?;
    let method = request.text(request.head.method_span);
    (!methods.names.iter().any(|name| &name[..] == method)).then_some(*other)
}
