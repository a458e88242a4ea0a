//! What an idle keep-alive connection costs in server memory, after it has done one request.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::cases::{self, Case};
use crate::check::Client;
use crate::options::Options;
use crate::server::{Contender, Running};
use crate::usage;

/// Descriptors besides those of the connections, in the server and here.
const SPARE_DESCRIPTORS: u64 = 512;
/// Every so many connections one is used again at the end, to show that they are still open.
const REUSED_EVERY: usize = 10;
/// Time for the server to put its buffers away.
const SETTLE: Duration = Duration::from_millis(300);

/// Memory of one server in bytes: PSS of all its processes, after a warming request.
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    pub connections: usize,
    /// Configured for few connections, none open.
    pub bare: u64,
    /// Configured for many, none open: what is set aside in advance is in here already.
    pub before: u64,
    /// With all connections idle.
    pub during: u64,
}

impl Idle {
    /// Bytes one more connection cost.
    pub fn per_connection(&self) -> f64 {
        self.during.saturating_sub(self.before) as f64 / self.connections as f64
    }

    /// The same, with its share of what the server set aside in advance.
    pub fn per_connection_whole(&self) -> f64 {
        self.during.saturating_sub(self.bare) as f64 / self.connections as f64
    }
}

/// Opens the connections, each fetching 1 KB once, and weighs the server before and with them.
pub fn measure(contender: &Contender, options: &Options, dir: &Path) -> Result<Idle> {
    let connections = options.idle_connections;
    raise_descriptor_limit(connections)?;
    let mut all = cases::all().into_iter();
    let mut case = all
        .find(|case| case.size == cases::IDLE_SIZE)
        .context("no such case")?;
    let bare_case = Case {
        worker_connections: cases::FEW_WORKER_CONNECTIONS,
        ..case.clone()
    };
    let bare = usage::memory(&start(contender, &bare_case, options, dir)?.processes)?;
    case.worker_connections = case
        .worker_connections
        .max(connections + cases::FEW_WORKER_CONNECTIONS);
    let running = start(contender, &case, options, dir)?;
    let before = usage::memory(&running.processes)?;
    let body = cases::body(case.size);
    let mut clients = Vec::with_capacity(connections);
    for _ in 0..connections {
        let mut client = Client::connect(running.address)?;
        client.fetch(&body, false)?;
        clients.push(client);
    }
    sleep(SETTLE);
    let during = usage::memory(&running.processes)?;
    for client in clients.iter_mut().step_by(REUSED_EVERY) {
        client
            .fetch(&body, false)
            .context("an idle connection was closed")?;
    }
    Ok(Idle {
        connections,
        bare,
        before,
        during,
    })
}

fn start(contender: &Contender, case: &Case, options: &Options, dir: &Path) -> Result<Running> {
    let mut running = Running::start(contender, case, dir, options.server_core)?;
    Client::connect(running.address)?.fetch(&cases::body(case.size), false)?;
    running.note_processes()?;
    sleep(SETTLE);
    Ok(running)
}

/// The server inherits the limit, so that its own configuration needs to say nothing.
pub fn raise_descriptor_limit(connections: usize) -> Result<()> {
    let needed = connections as u64 + SPARE_DESCRIPTORS;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let maximum = limit.maximum.map(|maximum| maximum.max(needed));
    let raised = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(needed),
            maximum,
        },
    );
    ensure!(
        raised.is_ok(),
        "{connections} connections need a limit of {needed} open files; try a smaller --idle"
    );
    Ok(())
}
