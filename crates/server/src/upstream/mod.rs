//! Requests that other servers answer: the directive families, who the servers are, which of them is next and what is
//! known of their health, what is sent and what comes back.

pub mod address; // a host as it is written
pub mod balance; // the balancing methods
pub mod directive; // upstream { … }
pub mod fastcgi; // fastcgi_pass: what a FastCGI program is told
pub mod group; // the servers of a group, and a request's way through them
pub mod proxy; // proxy_pass: what is asked by HTTP, and how the answer is changed
pub mod settings; // what every protocol's relay is told
pub mod target; // where a location passes requests
pub mod written; // groups as they were read, and what becomes of them
