//! The arguments of `gannet study` and `gannet tune`.

use super::contenders;
use crate::material::Site;
use crate::studies::Study;
use crate::study::{Asked, Contender};
use clap::{Args, Parser, ValueEnum};
use load::plan::USERS_MAX;
use std::path::PathBuf;
use std::time::Duration;

/// Workers that may be asked for.
const WORKERS_MAX: usize = 1024;
/// How often a measurement is repeated unless told otherwise.
const ROUNDS: u16 = 3;
/// How long one of `tune` lasts.
const TUNE_SECONDS: f64 = 1.0;

/// Repeat a published measurement on this machine: its table, a page with charts, and what they speak for.
#[derive(Debug, Parser)]
#[command(name = "gannet study", disable_version_flag = true)]
pub struct StudyArguments {
    /// Which one
    #[arg(value_name = "NAME")]
    pub name: Study,
    /// Measure another server in turn with gannet
    #[arg(long, value_name = "SERVER")]
    pub against: Option<Against>,
    #[command(flatten)]
    pub common: Common,
    /// Times that each measurement is repeated; medians are shown
    #[arg(long, value_name = "N", default_value_t = ROUNDS, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub rounds: u16,
    /// How long a measurement lasts, in seconds [default: 3; pool, cache, images: 10]
    #[arg(long, value_name = "N", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Where the page with charts is written [default: gannet-study-NAME.html]
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the tables and recommendations as Markdown
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Write every measurement as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// The short form of all studies: the directives that they speak for, each with its figure.
#[derive(Debug, Parser)]
#[command(name = "gannet tune", disable_version_flag = true)]
pub struct TuneArguments {
    #[command(flatten)]
    pub common: Common,
    /// How long a measurement lasts, in seconds
    #[arg(long, value_name = "N", default_value_t = TUNE_SECONDS, value_parser = seconds)]
    pub seconds: f64,
    /// Write one page with the tables and charts of all studies
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// What both take.
#[derive(Debug, Args)]
pub struct Common {
    /// The folder of a site, in place of drawn pages, pictures and scripts
    #[arg(long, value_name = "DIRECTORY")]
    pub root: Option<PathBuf>,
    /// A page of a site that runs, in place of drawn ones
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Users of the load tester, in place of the published number
    #[arg(long, value_name = "N", value_parser = users)]
    pub users: Option<usize>,
    /// Numbers of worker processes to compare, such as 1,2,4 [default: 1, 2, 4 … up to the processors]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = workers)]
    pub workers: Vec<usize>,
    /// Show nothing while it runs
    #[arg(short = 'q', long)]
    pub quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Against {
    Nginx,
}

impl StudyArguments {
    pub fn asked(&self) -> Result<Asked, String> {
        let against = self.against.map(|Against::Nginx| Contender::Nginx);
        let mut asked = self
            .common
            .asked(self.seconds.unwrap_or(self.name.usual_seconds()))?;
        asked.contenders = contenders(against);
        asked.rounds = usize::from(self.rounds);
        Ok(asked)
    }
}

impl TuneArguments {
    pub fn asked(&self) -> Result<Asked, String> {
        let mut asked = self.common.asked(self.seconds)?;
        asked.is_short = true;
        Ok(asked)
    }
}

impl Common {
    fn asked(&self, seconds: f64) -> Result<Asked, String> {
        let root = match &self.root {
            None => None,
            Some(root) => {
                let failed = |error| format!("--root {}: {error}", root.display());
                let whole = root.canonicalize().map_err(failed)?;
                let is_plain = |text: &str| !text.contains(['"', '\\', '$', '\n']);
                if !whole.is_dir() || !whole.to_str().is_some_and(is_plain) {
                    return Err(format!(
                        "--root {}: it is no directory whose name a configuration can hold",
                        root.display()
                    ));
                }
                Some(whole)
            }
        };
        if let Some(url) = &self.url {
            load::target::Target::parse(url)?;
        }
        let mut workers = match self.workers.as_slice() {
            [] => usual_workers(sys::machine::cpu_count()),
            given => given.to_vec(),
        };
        workers.sort_unstable();
        workers.dedup();
        Ok(Asked {
            contenders: contenders(None),
            time: Duration::from_secs_f64(seconds),
            rounds: 1,
            users: self.users,
            workers,
            site: Site {
                root,
                url: self.url.clone(),
            },
            is_short: false,
        })
    }
}

/// 1, 2, 4 … and the number of processors.
fn usual_workers(processors: usize) -> Vec<usize> {
    let powers = std::iter::successors(Some(1), |power| Some(power * 2));
    powers
        .take_while(|power| *power < processors)
        .chain([processors.max(1)])
        .collect()
}

fn seconds(text: &str) -> Result<f64, String> {
    let value = text.trim_end_matches('s').parse::<f64>().ok();
    value
        .filter(|seconds| (0.05..=86_400.0).contains(seconds))
        .ok_or_else(|| "it must be between 0.05 and 86400".to_owned())
}

fn users(text: &str) -> Result<usize, String> {
    let value = text.parse::<usize>().ok();
    value
        .filter(|users| (1..=USERS_MAX).contains(users))
        .ok_or_else(|| format!("it must be between 1 and {USERS_MAX}"))
}

fn workers(text: &str) -> Result<usize, String> {
    let value = text.trim().parse::<usize>().ok();
    value
        .filter(|workers| (1..=WORKERS_MAX).contains(workers))
        .ok_or_else(|| format!("it must be between 1 and {WORKERS_MAX}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Result<Asked, String> {
        let words = std::iter::once("gannet study").chain(line.split(' '));
        StudyArguments::try_parse_from(words)
            .map_err(|error| error.to_string())?
            .asked()
    }

    #[test]
    fn arguments_are_read() {
        let asked = asked("rps --against nginx --workers 4,1,4 --seconds 0.5 --rounds 2 --users 7")
            .unwrap();
        assert_eq!(asked.contenders, [Contender::Gannet, Contender::Nginx]);
        assert_eq!((asked.workers.as_slice(), asked.rounds), (&[1, 4][..], 2));
        assert_eq!(
            (asked.users_or(3), asked.time),
            (7, Duration::from_millis(500))
        );
        assert_eq!(usual_workers(1), [1]);
        assert_eq!(usual_workers(6), [1, 2, 4, 6]);
        assert_eq!(usual_workers(8), [1, 2, 4, 8]);
    }

    #[test]
    fn others_are_refused() {
        for line in [
            "nothing",
            "rps --against apache",
            "rps --workers 0",
            "rps --workers 1,x",
            "rps --seconds 0",
            "rps --rounds 0",
            "rps --users 0",
            "rps --root /does/not/exist",
            "rps --url ftp://a/",
        ] {
            assert!(asked(line).is_err(), "{line}");
        }
    }
}
