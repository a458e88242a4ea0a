//! The cache of what upstreams answer: `proxy_cache`, `fastcgi_cache`. Zones keep responses on the disk and small ones in
//! memory, too; a request is looked up by its key, and what it fetches may be kept and shared while it comes.

pub mod bans; // what was purged
pub mod directive; // proxy_cache_… and fastcgi_cache_…
pub mod entry; // a response that is kept
pub mod fill; // one that is coming, for all who want it
pub mod flight; // who fetches what, and who waits for it
pub mod forms; // what was made of one, such as its body in gzip
pub mod freshness; // how long it may be kept
pub mod lookup; // what becomes of a request
pub mod path; // proxy_cache_path
pub mod purge; // proxy_cache_purge
pub mod rfc9111; // the same as the standard has it
pub mod settings; // what holds in a location
pub mod tags; // by which responses are purged together
pub mod upkeep; // what goes without being asked
pub mod zone; // the responses of a keys_zone

pub use settings::{Raw, Settings};
