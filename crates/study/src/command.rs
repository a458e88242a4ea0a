//! `gannet study NAME` and `gannet tune`: from arguments to what is measured, and from that to what is printed.

use crate::measure::Interruption;
use crate::results::Results;
use crate::rounds::{self, Progress};
use crate::server;
use crate::studies::Study;
use crate::study::{Asked, Case, Contender, Report};
use crate::workspace::Workspace;
use crate::{machine, report, tune};
use arguments::{StudyArguments, TuneArguments};
use clap::Parser;
use clap::error::ErrorKind;
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

/// What may be written.
mod arguments;

/// It did not come to a measurement, or was broken off.
const NOT_RUN: u8 = 2;
const INTERRUPTED: u8 = 130;

/// Runs `gannet study` with what stands after it; gives the exit code.
pub fn study(arguments: &[OsString]) -> u8 {
    settle(
        StudyArguments::try_parse_from(named("gannet study", arguments)),
        run_study,
    )
}

/// Runs `gannet tune`.
pub fn tune(arguments: &[OsString]) -> u8 {
    settle(
        TuneArguments::try_parse_from(named("gannet tune", arguments)),
        run_tune,
    )
}

fn named(name: &str, arguments: &[OsString]) -> Vec<OsString> {
    std::iter::once(OsString::from(name))
        .chain(arguments.iter().cloned())
        .collect()
}

fn settle<A>(parsed: Result<A, clap::Error>, run: fn(&A) -> Result<u8, String>) -> u8 {
    match parsed {
        Ok(arguments) => run(&arguments).unwrap_or_else(|complaint| {
            complain(&complaint);
            NOT_RUN
        }),
        Err(error)
            if error.use_stderr()
                && error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand =>
        {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            complain(line.trim_start_matches("error: "));
            NOT_RUN
        }
        Err(error) => {
            print(&error.to_string());
            0
        }
    }
}

fn run_study(arguments: &StudyArguments) -> Result<u8, String> {
    let asked = arguments.asked()?;
    let study = arguments.name;
    let page = arguments.html.clone();
    let page = page.unwrap_or_else(|| format!("gannet-study-{}.html", study.as_str()).into());
    // Told now, not after minutes.
    for path in std::iter::once(&page)
        .chain(&arguments.markdown)
        .chain(&arguments.json)
    {
        writable(path)?;
    }
    let (told, results) = {
        let mut interruption = Interruption::new()?;
        let progress = Progress::new(arguments.common.quiet)?;
        let measured = measure(study, &asked, &mut interruption, &progress);
        progress.end();
        measured?
    };
    if results.is_empty() {
        return Ok(INTERRUPTED);
    }
    print(&report::text(&told));
    write(
        &page,
        &report::page(&told.title, &[&told], &told.findings.advice),
    )?;
    print(&format!("\nWith charts: {}\n", page.display()));
    if let Some(path) = &arguments.markdown {
        write(path, &report::markdown(&told))?;
    }
    let was_interrupted = told.was_interrupted;
    if let Some(path) = &arguments.json {
        write(path, &report::json(&[(told, results)]))?;
    }
    Ok(if was_interrupted { INTERRUPTED } else { 0 })
}

/// Carries a study out.
pub fn measure(
    study: Study,
    asked: &Asked,
    interruption: &mut Interruption,
    progress: &Progress,
) -> Result<(Report, Results), String> {
    let workspace = Workspace::create()?;
    let mut facts = machine::describe();
    for contender in &asked.contenders {
        server::program(*contender)?;
        facts.push((contender.as_str().to_owned(), server::version(*contender)));
    }
    let rounds = format!(
        "{} rounds, {} s a measurement; medians",
        asked.rounds,
        asked.time.as_secs_f64()
    );
    facts.push(("Measured".to_owned(), rounds));
    let cases = study.cases(asked, &workspace)?;
    let results = rounds::run(
        study.as_str(),
        &cases,
        asked,
        &workspace,
        interruption,
        progress,
    )?;
    let mut findings = study.findings(asked, &results);
    findings.remarks.extend(results.failures());
    let report = Report {
        name: study.as_str().to_owned(),
        title: study.title().to_owned(),
        machine: facts,
        commands: cases.iter().map(command).collect(),
        findings,
        was_interrupted: results.was_interrupted,
    };
    Ok((report, results))
}

/// The load of a case as one would type it.
fn command(case: &Case) -> String {
    let quoted = |word: &String| match word.contains([' ', '(', '&', '?', ';']) {
        true => format!("'{word}'"),
        false => word.clone(),
    };
    let scheme = if case.load.is_secure { "https" } else { "http" };
    let words: Vec<String> = case.load.words.iter().map(quoted).collect();
    let (first, rest) = match case.load.paths.split_first() {
        Some((first, rest)) => (quoted(&format!("{scheme}://SERVER{first}")), rest.len()),
        None => (String::new(), 0),
    };
    let more = if rest > 0 {
        format!(" and {rest} more")
    } else {
        String::new()
    };
    format!(
        "{}: gannet load {} {first}{more}",
        case.key,
        words.join(" ")
    )
}

fn run_tune(arguments: &TuneArguments) -> Result<u8, String> {
    let page = &arguments.html;
    if let Some(page) = page {
        writable(page)?;
    }
    let mut interruption = Interruption::new()?;
    let progress = Progress::new(arguments.common.quiet)?;
    let tuned = tune::run(&arguments.asked()?, &mut interruption, &progress);
    progress.end();
    let tuned = tuned?;
    print(&tune::text(&tuned));
    if let Some(page) = page {
        let reports: Vec<&Report> = tuned.reports.iter().collect();
        write(page, &report::page(tune::TITLE, &reports, &tuned.advice))?;
    }
    Ok(if interruption.came() { INTERRUPTED } else { 0 })
}

/// Whether a report can be written there.
fn writable(path: &Path) -> Result<(), String> {
    let failed = |why: String| format!("cannot write \"{}\": {why}", path.display());
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    };
    if path.is_dir() || !folder.is_dir() {
        return Err(failed("it is no place for a file".to_owned()));
    }
    match std::fs::OpenOptions::new().append(true).open(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(failed(error.to_string()))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text)
        .map_err(|error| format!("cannot write \"{}\": {error}", path.display()))
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

/// The servers that take part.
fn contenders(against: Option<Contender>) -> Vec<Contender> {
    std::iter::once(Contender::Gannet).chain(against).collect()
}
