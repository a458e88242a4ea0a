//! Variables: names are numbered while the configuration is read, templates are compiled then; serving a request looks
//! up no name.

pub mod builtin;
pub mod geo;
pub mod geoip2;
pub mod map;
pub mod registry;
pub mod split_clients;
pub mod template;

pub use registry::VariableId;
pub use template::Template;
