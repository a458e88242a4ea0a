//! Who may have what: the access phase.

pub mod allow_deny;
pub mod auth_basic;
pub mod auth_request;
pub mod browser;
pub mod limit_except;
pub mod real_ip;
pub mod referer;
pub mod satisfy;
pub mod secure_link;
