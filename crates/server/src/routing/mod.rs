//! Which server and which location a request belongs to (step 3 of a request's path).

pub mod directive;
pub mod hosts;
pub mod locations;
pub mod pattern;
