//! The bench: Gannet, nginx and a bare epoll loop under the same load, one after the other, on one core.
//! `static` measures and prints the table, `profile` says where the time goes, `floor` is the bare loop itself.

mod cases;
mod check;
mod floor;
mod idle;
mod json;
mod machine;
mod options;
mod profile;
mod report;
mod server;
mod side_by_side;
mod targets;
mod usage;
mod verdict;
mod wrk;

use anyhow::{Result, bail};

const USAGE: &str = "\
usage: gannet-bench static  [OPTIONS]        the comparison
       gannet-bench profile CASE [OPTIONS]   hot symbols (perf) and system calls per request (strace)
       gannet-bench floor PORT FILE [close]  the bare loop, for use by hand

  --only CASES          among 0b,1k,10k,100k,1m,10m,close,log,log-buffered,idle
  --servers NAMES       among nginx,gannet,floor and those given by --server (default: nginx,gannet,floor)
  --server NAME=COMMAND another server, or another command for a known one; {conf} and {dir} are filled in
  --quick               1 s and 3 rounds instead of 3 s and 5 rounds
  --seconds N           seconds per measurement
  --rounds N            rounds, the servers alternating within each
  --cores S,L           core of the server, core of the load (default 0,1)
  --idle N              idle connections for the memory figure (default 10000)
  --markdown            the machine, the commands and the configuration around the table
  --json FILE           every sample, for machines";

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("static") => side_by_side::run(&options::parse(arguments)?),
        Some("profile") => {
            let Some(case) = arguments.next() else {
                bail!("profile: which case?\n{USAGE}")
            };
            profile::run(&case, &options::parse(arguments)?)
        }
        Some("floor") => floor::run(arguments),
        _ => bail!("{USAGE}"),
    }
}
