//! `gannet load`: from arguments to a run, and from its report to what is printed.

use crate::engine::{Control, run};
use crate::plan::Plan;
use crate::report::{Report, csv, html, jmeter, json, locust, text};
use crate::target::plain;
pub use ab::ab;
use arguments::{Arguments, Format};
use clap::Parser;
pub use fetch::fetch;
use progress::Progress;
use std::ffi::OsString;
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// `gannet ab`.
mod ab;
/// What may be written.
mod arguments;
/// One request whose body is kept.
mod fetch;
/// From arguments to a plan.
mod planning;
/// The live view.
mod progress;
/// Where requests come from.
mod sources;
/// The page from which runs are started.
mod ui;

/// The requirements do not hold.
const NOT_HELD: u8 = 1;
/// It did not come to a run.
const NOT_RUN: u8 = 2;
/// How long a server may take to accept the connection that looks whether it is there.
const PROBE_MAX: Duration = Duration::from_secs(10);

/// Runs `gannet load` with what stands after it; gives the exit code.
pub fn load(arguments: &[OsString]) -> u8 {
    let name = std::iter::once(OsString::from("gannet load"));
    let mut arguments = match Arguments::try_parse_from(name.chain(arguments.iter().cloned())) {
        Ok(arguments) => arguments,
        Err(error) => return refused(&error),
    };
    let done = match ui::settle(&mut arguments) {
        Some(address) => ui::serve(&arguments, address),
        None => carry_out(&arguments),
    };
    match done {
        Ok(code) => code,
        Err(complaint) => {
            complain(&complaint);
            NOT_RUN
        }
    }
}

/// The plan of a run with these arguments, its servers found, for programs that run it themselves.
pub fn planned(arguments: &[OsString]) -> Result<Plan, String> {
    let name = std::iter::once(OsString::from("gannet load"));
    let arguments = Arguments::try_parse_from(name.chain(arguments.iter().cloned()))
        .map_err(|error| error.to_string())?;
    let (mut plan, _) = planning::plan(&arguments)?;
    reach(&mut plan)?;
    Ok(plan)
}

/// What the argument parser has to say: the help, or one line about what is wrong.
fn refused(error: &clap::Error) -> u8 {
    if error.use_stderr() {
        complain(&first_words(&error.to_string()));
        NOT_RUN
    } else {
        print(&error.to_string());
        0
    }
}

/// The first paragraph in one line: names of arguments that are missing stand below the complaint.
fn first_words(text: &str) -> String {
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = paragraph.split_whitespace().collect();
    words.join(" ").trim_start_matches("error: ").to_owned()
}

fn carry_out(arguments: &Arguments) -> Result<u8, String> {
    let (mut plan, remark) = planning::plan(arguments)?;
    if let Some(remark) = remark {
        complain(&remark);
    }
    reach(&mut plan)?;
    let report = measure(plan, arguments.quiet)?;
    print(&shown(&report, arguments.format));
    write_files(&report, arguments)?;
    Ok(if report.holds() { 0 } else { NOT_HELD })
}

/// Finds the servers and looks whether they are there.
pub fn reach(plan: &mut Plan) -> Result<(), String> {
    for endpoint in &mut plan.endpoints {
        endpoint.resolve()?;
        let (mut last, mut connection) = (None, None);
        let reached = endpoint.addresses.iter().position(|address| {
            match TcpStream::connect_timeout(address, PROBE_MAX) {
                Ok(stream) => connection = Some(stream),
                Err(error) => last = Some(plain(&error)),
            }
            connection.is_some()
        });
        let Some(reached) = reached else {
            let why = last.unwrap_or_default();
            return Err(format!(
                "cannot connect to {}:{}: {why}",
                endpoint.host, endpoint.port
            ));
        };
        // The address that answered comes first from now on.
        endpoint.addresses.swap(0, reached);
        if let (Some(tls), Some(connection)) = (&plan.tls, connection) {
            tls.probe(endpoint, connection)?;
        }
    }
    Ok(())
}

/// Runs the plan; Ctrl-C ends it early, and what was measured is reported.
fn measure(plan: Plan, quiet: bool) -> Result<Report, String> {
    let control = Arc::new(Control::default());
    let plan = Arc::new(plan);
    let mut progress = Progress::new(&plan, quiet)?;
    let report = run(&plan, &control, &mut progress);
    progress.end();
    report
}

fn shown(report: &Report, format: Format) -> String {
    match format {
        Format::Text => text::summary(report),
        Format::Json => json::text(report),
        Format::Csv => csv::rows(report),
        Format::Ab => crate::report::ab::text(report, false),
        Format::Locust => locust::text(report),
        Format::Jmeter => jmeter::text(report),
    }
}

fn write_files(report: &Report, arguments: &Arguments) -> Result<(), String> {
    let files = [
        (&arguments.json, json::text as fn(&Report) -> String),
        (&arguments.csv, csv::rows),
        (&arguments.csv_series, csv::series),
        (&arguments.html, html::page),
    ];
    for (path, form) in files {
        if let Some(path) = path {
            write(path, &form(report))?;
        }
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text)
        .map_err(|error| format!("cannot write \"{}\": {}", path.display(), plain(&error)))
}

fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody is left to tell that standard output is closed.
    let _closed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn complain(text: &str) {
    // Nobody is left to tell that standard error is closed.
    let _closed = writeln!(std::io::stderr(), "gannet: {text}");
}
