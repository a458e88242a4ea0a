//! Who may have what: the access phase.

pub mod allow_deny;
pub mod auth_basic;
pub mod limit_except;
pub mod satisfy;
