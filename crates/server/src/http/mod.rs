//! What a request and a response are, independent of the protocol that carried them and of the features that act on them.

pub mod body;
pub mod body_reader;
pub mod cached;
pub mod client_stream;
pub mod counters;
pub mod credentials;
pub mod file;
pub mod forwarded;
pub mod includes;
pub mod interrupt;
pub mod media_types;
pub mod mime;
pub mod network;
pub mod places;
pub mod request;
pub mod response;
pub mod sent;
pub mod sliced;
pub mod status;
pub mod temp_file;
pub mod thread;
pub mod trace;
pub mod user_agent;

pub use body::Body;
pub use interrupt::{Interrupt, Phase};
pub use request::Request;
pub use response::Response;
