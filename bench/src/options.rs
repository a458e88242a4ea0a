//! What the command line asked for, read once into one value.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::cases::{self, Case};
use crate::server::Contender;

/// Idle connections held open for the memory figure.
const IDLE_CONNECTIONS: usize = 10_000;

/// One invocation, fully decided.
pub struct Options {
    pub cases: Vec<Case>,
    /// Whether the memory of idle connections is measured too.
    pub idle: bool,
    pub idle_connections: usize,
    /// In the order in which they take turns.
    pub contenders: Vec<Contender>,
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

    /// The named contender; profile measures one.
    pub fn contender(&self, name: &str) -> Option<&Contender> {
        self.contenders
            .iter()
            .find(|contender| contender.name == name)
    }
}

/// Reads the switches after the subcommand.
pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Options> {
    let arguments: Vec<String> = arguments.collect();
    let mut options = Options {
        cases: cases::all(),
        idle: true,
        idle_connections: IDLE_CONNECTIONS,
        contenders: Vec::new(),
        seconds: 3,
        rounds: 5,
        server_core: 0,
        load_core: 1,
        markdown: false,
        json: None,
        command: arguments.join(" "),
    };
    let mut names: Vec<String> = ["nginx", "gannet", "floor"].map(String::from).to_vec();
    let mut known = Contender::defaults()?;
    let mut rest = arguments.into_iter();
    while let Some(switch) = rest.next() {
        match switch.as_str() {
            "--quick" => (options.seconds, options.rounds) = (1, 3),
            "--markdown" => options.markdown = true,
            "--json" => options.json = Some(PathBuf::from(value(&switch, &mut rest)?)),
            "--seconds" => options.seconds = positive(&switch, &mut rest)?,
            "--rounds" => options.rounds = positive(&switch, &mut rest)? as usize,
            "--idle" => options.idle_connections = positive(&switch, &mut rest)? as usize,
            "--cores" => {
                (options.server_core, options.load_core) = cores(&value(&switch, &mut rest)?)?
            }
            "--only" => select_cases(&mut options, &value(&switch, &mut rest)?)?,
            "--servers" => {
                names = value(&switch, &mut rest)?
                    .split(',')
                    .map(String::from)
                    .collect()
            }
            "--server" => {
                let contender = Contender::parse(&value(&switch, &mut rest)?)?;
                known.retain(|other| other.name != contender.name);
                known.push(contender);
            }
            other => bail!("unknown option {other}\n{}", crate::USAGE),
        }
    }
    for name in names {
        let found = known.iter().find(|contender| contender.name == name);
        options.contenders.push(
            found
                .with_context(|| format!("no server named {name}"))?
                .clone(),
        );
    }
    Ok(options)
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

fn select_cases(options: &mut Options, text: &str) -> Result<()> {
    let wanted: Vec<&str> = text.split(',').collect();
    let all = cases::all();
    for name in &wanted {
        if *name != cases::IDLE && !all.iter().any(|case| case.name == *name) {
            bail!("no case named {name}\n{}", crate::USAGE);
        }
    }
    options.idle = wanted.contains(&cases::IDLE);
    options.cases = all
        .into_iter()
        .filter(|case| wanted.contains(&case.name))
        .collect();
    Ok(())
}
