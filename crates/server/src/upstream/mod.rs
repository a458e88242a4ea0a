//! Requests that other servers answer: the directive families, what is sent and what comes back.

pub mod settings; // what every protocol's relay is told
