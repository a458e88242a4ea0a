//! The published measurements: for each its cases, and what its figures say.

use crate::results::Results;
use crate::study::{Asked, Case, Findings};
use crate::workspace::Workspace;
use clap::ValueEnum;

/// New connections per second.
mod connections;
/// gzip by level, and copies made ahead.
mod gzip;
/// Requests per second by workers and body.
mod rps;
/// Gigabits per second by workers and body.
mod throughput;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Study {
    /// gzip levels 1 to 9, off, copies made ahead
    Gzip,
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
            Study::Rps => "rps",
            Study::Connections => "connections",
            Study::Throughput => "throughput",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Study::Gzip => "Compression: requests a second by gzip level",
            Study::Rps => "Requests a second by workers and size",
            Study::Connections => "New connections a second by workers",
            Study::Throughput => "Throughput by workers and size",
        }
    }

    /// What is to be measured.
    pub fn cases(self, asked: &Asked, workspace: &Workspace) -> Result<Vec<Case>, String> {
        match self {
            Study::Gzip => gzip::cases(asked, workspace),
            Study::Rps => rps::cases(asked, workspace),
            Study::Connections => connections::cases(asked, workspace),
            Study::Throughput => throughput::cases(asked, workspace),
        }
    }

    /// What it says.
    pub fn findings(self, asked: &Asked, results: &Results) -> Findings {
        match self {
            Study::Gzip => gzip::findings(asked, results),
            Study::Rps => rps::findings(asked, results),
            Study::Connections => connections::findings(asked, results),
            Study::Throughput => throughput::findings(asked, results),
        }
    }
}
