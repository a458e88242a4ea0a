//! What the command line asked for, read once into one value.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::server::Contender;

/// Idle connections held open for the memory figure.
const IDLE_CONNECTIONS: usize = 10_000;

/// What one benchmark knows: the words of its command line, and how long it measures.
pub struct Bench {
    pub name: &'static str,
    /// What `--only` chooses from.
    pub cases: &'static [&'static str],
    /// What `--servers` chooses from, and the order in which they take turns.
    pub servers: &'static [&'static str],
    pub seconds: u64,
    pub rounds: usize,
    /// With `--quick`: seconds and rounds.
    pub quick: (u64, usize),
}

/// One invocation, fully decided.
#[derive(Clone)]
pub struct Options {
    /// The benchmark's name.
    pub bench: &'static str,
    pub cases: Vec<String>,
    pub idle_connections: usize,
    /// The names of those that take turns, in their order.
    pub servers: Vec<String>,
    /// The programs that can be started.
    known: Vec<Contender>,
    pub seconds: u64,
    pub rounds: usize,
    pub server_core: usize,
    pub load_core: usize,
    pub markdown: bool,
    pub json: Option<PathBuf>,
    /// As typed, for the report.
    pub command: String,
}

impl Options {
    pub fn duration(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    pub fn case(&self, name: &str) -> bool {
        self.cases.iter().any(|case| case == name)
    }

    pub fn contender(&self, name: &str) -> Result<&Contender> {
        let found = self.known.iter().find(|contender| contender.name == name);
        found.with_context(|| format!("no server named {name}"))
    }

    /// The programs of the servers that take part, for benchmarks whose servers are programs.
    pub fn contenders(&self) -> Result<Vec<&Contender>> {
        self.servers
            .iter()
            .map(|name| self.contender(name))
            .collect()
    }
}

/// Reads the switches after the subcommand.
pub fn parse(bench: &Bench, arguments: impl Iterator<Item = String>) -> Result<Options> {
    let arguments: Vec<String> = arguments.collect();
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let mut options = Options {
        bench: bench.name,
        cases: names(bench.cases),
        idle_connections: IDLE_CONNECTIONS,
        servers: names(bench.servers),
        known: Contender::defaults()?,
        seconds: bench.seconds,
        rounds: bench.rounds,
        server_core: 0,
        load_core: 1,
        markdown: false,
        json: None,
        command: arguments.join(" "),
    };
    let mut rest = arguments.into_iter();
    while let Some(switch) = rest.next() {
        match switch.as_str() {
            "--quick" => (options.seconds, options.rounds) = bench.quick,
            "--markdown" => options.markdown = true,
            "--json" => options.json = Some(PathBuf::from(value(&switch, &mut rest)?)),
            "--seconds" => options.seconds = positive(&switch, &mut rest)?,
            "--rounds" => options.rounds = positive(&switch, &mut rest)? as usize,
            "--idle" => options.idle_connections = positive(&switch, &mut rest)? as usize,
            "--cores" => {
                (options.server_core, options.load_core) = cores(&value(&switch, &mut rest)?)?
            }
            "--only" => options.cases = list(&value(&switch, &mut rest)?),
            "--servers" => options.servers = list(&value(&switch, &mut rest)?),
            "--server" => {
                let contender = Contender::parse(&value(&switch, &mut rest)?)?;
                let known = &mut options.known;
                known.retain(|other| other.name != contender.name);
                known.push(contender);
            }
            other => bail!("unknown option {other}\n{}", crate::USAGE),
        }
    }
    let knows = |known: &[&str], name: &String| known.contains(&name.as_str());
    if let Some(name) = options.cases.iter().find(|name| !knows(bench.cases, name)) {
        bail!("no case named {name}\n{}", crate::USAGE);
    }
    if options.json.is_some() && bench.name != "static" {
        bail!("--json is for static");
    }
    for name in &options.servers {
        if !knows(bench.servers, name) {
            options.contender(name)?;
        }
    }
    Ok(options)
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(String::from).collect()
}

fn value(switch: &str, rest: &mut impl Iterator<Item = String>) -> Result<String> {
    rest.next()
        .with_context(|| format!("{switch} needs a value"))
}

fn positive(switch: &str, rest: &mut impl Iterator<Item = String>) -> Result<u64> {
    let text = value(switch, rest)?;
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => bail!("{switch}: {text} is not a positive number"),
    }
}

fn cores(text: &str) -> Result<(usize, usize)> {
    let (server, load) = text
        .split_once(',')
        .context("--cores needs two numbers, as in 0,1")?;
    Ok((
        server.parse().context("--cores")?,
        load.parse().context("--cores")?,
    ))
}
