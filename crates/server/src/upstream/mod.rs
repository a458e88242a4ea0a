//! Requests that other servers answer: the directive families, who the servers are, which of them is next and what is
//! known of their health, what is sent and what comes back.

pub mod address; // a host as it is written
pub mod answer; // the client's response, made of an upstream's
pub mod balance; // the balancing methods
pub mod body; // a response's body on its way to the client
pub mod cached; // the cache before it all
pub mod connect; // opening connections
pub mod directive; // upstream { … }
pub mod early_hints; // 103
pub mod failure; // how a try fails
pub mod fastcgi; // fastcgi_pass: what a FastCGI program is told
pub mod group; // the servers of a group, and a request's way through them
pub mod http2; // proxy_http_version 2
pub mod idle; // connections kept for further requests
pub mod line; // a connection that carries an exchange
pub mod pooled; // requests for the children of a pool
pub mod proxy; // proxy_pass: what is asked by HTTP, and how the answer is changed
pub mod receive; // reading the head of a response
pub mod relay; // the way through all of it
pub mod resolver; // names at run time
pub mod response_head; // what becomes of the fields
pub mod secure; // TLS to upstreams
pub mod send; // sending a request
pub mod settings; // what every protocol's relay is told
pub mod sticky; // clients that keep their server
pub mod store_file; // responses that are kept as files
pub mod target; // where a location passes requests
pub mod written; // groups as they were read, and what becomes of them
