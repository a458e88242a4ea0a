//! The published measurements: for each its cases, and what its figures say.

use crate::results::Results;
use crate::study::{Asked, Case, Findings};
use crate::workspace::Workspace;
use clap::ValueEnum;

/// A cache before an application.
mod cache;
/// New connections per second.
mod connections;
/// gzip by level, and copies made ahead.
mod gzip;
/// Pictures in another size.
mod images;
/// A site in PHP.
mod php;
/// PHP by the way its pool has children.
mod pool;
/// Requests per second by workers and body.
mod rps;
/// Gigabits per second by workers and body.
mod throughput;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Study {
    /// gzip levels 1 to 9, off, copies made ahead
    Gzip,
    /// PHP with dynamic, ondemand, static and automatic pools, under users who think
    Pool,
    /// A cache before PHP, or before a site that runs: off, cold, warm
    Cache,
    /// Pictures resized: engines, jpeghint, workers, cache
    Images,
    /// Requests a second by workers and size of the body, HTTP and HTTPS
    Rps,
    /// New connections a second, HTTP, RSA and ECDSA
    Connections,
    /// Gbit/s by workers and size of the body
    Throughput,
}

impl Study {
    pub fn as_str(self) -> &'static str {
        match self {
            Study::Gzip => "gzip",
            Study::Pool => "pool",
            Study::Cache => "cache",
            Study::Images => "images",
            Study::Rps => "rps",
            Study::Connections => "connections",
            Study::Throughput => "throughput",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Study::Gzip => "Compression: requests a second by gzip level",
            Study::Pool => "PHP by the pool's children",
            Study::Cache => "A cache before an application",
            Study::Images => "Pictures in another size",
            Study::Rps => "Requests a second by workers and size",
            Study::Connections => "New connections a second by workers",
            Study::Throughput => "Throughput by workers and size",
        }
    }

    /// How long a measurement lasts, in seconds, unless told otherwise: users who think need time to come.
    pub fn usual_seconds(self) -> f64 {
        match self {
            Study::Pool | Study::Cache | Study::Images => 10.0,
            Study::Gzip | Study::Rps | Study::Connections | Study::Throughput => 3.0,
        }
    }

    /// What is to be measured.
    pub fn cases(self, asked: &Asked, workspace: &Workspace) -> Result<Vec<Case>, String> {
        match self {
            Study::Gzip => gzip::cases(asked, workspace),
            Study::Pool => pool::cases(asked, workspace),
            Study::Cache => cache::cases(asked, workspace),
            Study::Images => images::cases(asked, workspace),
            Study::Rps => rps::cases(asked, workspace),
            Study::Connections => connections::cases(asked, workspace),
            Study::Throughput => throughput::cases(asked, workspace),
        }
    }

    /// What it says.
    pub fn findings(self, asked: &Asked, results: &Results) -> Findings {
        match self {
            Study::Gzip => gzip::findings(asked, results),
            Study::Pool => pool::findings(asked, results),
            Study::Cache => cache::findings(asked, results),
            Study::Images => images::findings(asked, results),
            Study::Rps => rps::findings(asked, results),
            Study::Connections => connections::findings(asked, results),
            Study::Throughput => throughput::findings(asked, results),
        }
    }
}

#[cfg(test)]
pub mod testing {
    //! A study that is asked for.

    use super::*;
    use crate::material::Site;
    use crate::study::Contender;
    use std::time::Duration;

    pub fn asked() -> Asked {
        Asked {
            contenders: vec![Contender::Gannet],
            time: Duration::from_secs(1),
            rounds: 1,
            users: None,
            workers: vec![1, 2],
            site: Site::default(),
            is_short: false,
        }
    }
}
