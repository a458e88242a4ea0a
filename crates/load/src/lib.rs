//! The load tester: sends the requests of a plan, measures them, reports. The modules stand in the order of a run.

/// The parts of a plan while it is put together.
mod assembly;
/// A user's connections.
mod client;
/// `gannet load`: arguments and what they mean.
pub mod command;
/// Threads and the collector.
pub mod engine;
/// Why a request failed.
pub mod failure;
/// One URL after another, without measuring.
pub mod fetch;
/// Latencies.
pub mod histogram;
/// Connections that users share, a stream for each request.
mod http2;
/// Cookies of a user.
mod jar;
/// When users work and requests are due.
pub mod pace;
/// Wakes users on time.
mod pacer;
/// What is to be measured.
pub mod plan;
/// What is noted of a request.
pub mod record;
/// Access logs.
mod replay;
/// What a run came to.
pub mod report;
/// A request and its bytes.
pub mod request;
/// Thresholds.
pub mod require;
/// Responses, piece by piece.
mod response;
/// Scenario files.
mod scenario;
/// The run over time.
pub mod series;
/// A connection, with TLS or without.
mod stream;
/// URLs.
pub mod target;
/// Texts with places for values.
pub mod template;
/// Trust, names and sessions of TLS.
pub mod tls;
/// Durations, rates and sizes as people write them.
pub mod units;
/// A thread's users.
mod user;

/// Caches that are filled ahead: lists, sitemaps, a bounded rate.
pub mod warm;

pub use engine::{Control, Nobody, Observer, run};
pub use plan::Plan;
pub use report::Report;
