//! Who may have what: the access phase.

pub mod allow_deny;
pub mod limit_except;
