//! Sockets of clients and upstreams as one thread's runtime sees them, and that thread's deadlines.

pub mod stream;
pub mod timers;
pub mod tls;
pub mod tunnel;

pub use stream::Stream;
pub use timers::Timer;
