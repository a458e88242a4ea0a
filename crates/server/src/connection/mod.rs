//! A connection's life: reading request heads and bodies, and writing responses (steps 2 and 6 of a request's path).

mod complaints;
mod discard;
pub mod http1;
pub mod http2;
pub mod keepalive;
pub mod request_head;
mod secured;
pub mod transmission;
pub mod writer;
