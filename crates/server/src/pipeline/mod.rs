//! The order of things: phases, filters, error pages (step 3 and 5 of a request's path).

pub mod error_pages;
pub mod filters;
pub mod hot;
pub mod mirror;
pub mod phases;
pub mod redirect;
pub mod subrequest;
