//! The server, in the order a request meets its parts.

pub mod version;

pub mod process; // master, worker, signals, reload, upgrade

pub mod connection; // 2, 6: reading requests, writing responses
pub mod listen; // 1: sockets and accepting
pub mod pipeline; // 3, 5: the order of phases and filters

pub mod background; // work that no request waits for
pub mod config; // how all of it is set up
pub mod encoding; // content codings
pub mod http; // what a request and a response are
pub mod net; // sockets and deadlines of a thread
pub mod routing; // servers and locations
pub mod store; // what is made of files and responses, kept on the disk
pub mod variables; // values with variables in them

pub mod access;
pub mod acme;
pub mod cache; // what upstreams answered, kept
pub mod content; // 4: what answers
pub mod filter;
pub mod image; // pictures in other sizes and forms
pub mod limit;
pub mod log; // 7: logs
pub mod pool; // workers of FastCGI: PHP
pub mod precompress; // compressed copies of files, made in the background
pub mod request_body; // what features read of a request's body
pub mod rewrite;
pub mod tls; // certificates, and on which terms connections are secured
pub mod upstream; // 4: requests that other servers answer

pub mod site; // what the process layer runs
pub mod worker; // a network thread
