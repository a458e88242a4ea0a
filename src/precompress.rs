//! `gannet precompress`: compressed copies beside the files of a folder, made, checked or removed.

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use server::encoding::best::Effort;
use server::encoding::negotiate::{Coding, Offers};
use server::precompress::offline::{
    EXTENSIONS, Options, Report, Task, collect, run as run_offline,
};
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Makes compressed copies beside the files of a folder, with their times, as gzip_static, brotli_static and zstd_static
/// serve them. Only what is missing or stale is made; it may be interrupted at any time.
#[derive(Parser)]
#[command(name = "gannet precompress", version, disable_version_flag = true)]
struct Arguments {
    /// The folders
    #[arg(required = true, value_name = "DIRECTORY")]
    directories: Vec<PathBuf>,
    /// How much effort a copy is worth: fast, best or max
    #[arg(long, default_value = "best", value_parser = effort)]
    level: Effort,
    /// How many files are compressed at a time [default: the processors]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Extensions or types of the files, separated by commas [default: what shrinks]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    types: Vec<String>,
    /// The codings, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "gzip,br,zstd", value_parser = coding)]
    codings: Vec<Coding>,
    /// Smaller files have no copies
    #[arg(long, value_name = "BYTES", default_value_t = 256)]
    min_length: u64,
    /// Remove the copies instead
    #[arg(long, conflicts_with = "check")]
    remove: bool,
    /// Only look: exit with 1 if a copy is stale
    #[arg(long)]
    check: bool,
    /// Also replace stale copies that were not made by gannet
    #[arg(long, conflicts_with_all = ["check", "remove"])]
    force: bool,
}

/// Larger files are left out: each is held in memory.
const LENGTH_MAX: u64 = 1 << 30;

fn effort(text: &str) -> Result<Effort, String> {
    let named = Effort::ALL
        .into_iter()
        .find(|effort| effort.as_str() == text);
    named.ok_or_else(|| String::from("it is fast, best or max"))
}

fn coding(text: &str) -> Result<Coding, String> {
    Coding::of(text.as_bytes()).ok_or_else(|| String::from("it is gzip, br or zstd"))
}

/// The extensions that a list of extensions and types means.
fn extensions(types: &[String]) -> HashSet<String> {
    let all = EXTENSIONS
        .iter()
        .map(|(extension, _)| String::from(*extension));
    if types.is_empty() {
        return all.collect();
    }
    let mut chosen = HashSet::new();
    for word in types {
        let word = word.trim().trim_start_matches('.').to_ascii_lowercase();
        match word.contains('/') {
            true => chosen.extend(
                EXTENSIONS
                    .iter()
                    .filter(|(_, kind)| *kind == word)
                    .map(|(extension, _)| String::from(*extension)),
            ),
            false => drop(chosen.insert(word)),
        }
    }
    chosen
}

impl Arguments {
    fn options(&self) -> Options {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Options {
            task: match (self.check, self.remove) {
                (true, _) => Task::Check,
                (_, true) => Task::Remove,
                _ => Task::Make { force: self.force },
            },
            effort: self.level,
            codings: self
                .codings
                .iter()
                .fold(Offers::NONE, |all, coding| all.with(*coding)),
            extensions: extensions(&self.types),
            min_length: self.min_length,
            max_length: LENGTH_MAX,
            jobs: self.jobs.map_or(processors, usize::from),
        }
    }
}

/// Runs it with the arguments after its name.
pub fn run(arguments: &[OsString]) -> ExitCode {
    let name = OsString::from("gannet precompress");
    let arguments =
        match Arguments::try_parse_from(std::iter::once(name).chain(arguments.iter().cloned())) {
            Ok(arguments) => arguments,
            Err(error) => {
                // Nobody is left to tell that standard error is closed.
                let _closed = error.print();
                return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1));
            }
        };
    let options = arguments.options();
    let mut files = Vec::new();
    for directory in &arguments.directories {
        match collect(directory, &options) {
            Ok(found) => files.extend(found),
            Err(error) => {
                eprintln!("gannet: {}: {error}", directory.display());
                return ExitCode::FAILURE;
            }
        }
    }
    // It draws on standard error, and nothing where that is no terminal.
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} files, {eta} left");
    let bar = ProgressBar::new(files.len() as u64)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let report = run_offline(&files, &options, &|| bar.inc(1));
    bar.finish_and_clear();
    print!("{}", table(&report, options.task));
    for line in &report.lines {
        eprintln!("{line}");
    }
    let stale: u64 = report.codings.iter().map(|tally| tally.stale).sum();
    match report.failed > 0 || (options.task == Task::Check && stale > 0) {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

/// What was done, a line for each coding.
fn table(report: &Report, task: Task) -> String {
    let columns = match task {
        Task::Make { .. } => ["made", "fresh", "useless", "stale"],
        Task::Check => ["stale", "fresh", "missing", ""],
        Task::Remove => ["removed", "", "", ""],
    };
    let mut text = format!("{} files", report.files);
    if report.failed > 0 {
        text.push_str(&format!(", {} failed", report.failed));
    }
    text.push_str("\n      ");
    columns
        .iter()
        .filter(|column| !column.is_empty())
        .for_each(|column| text.push_str(&format!(" {column:>8}")));
    let sums = task != Task::Remove;
    text.push_str(if sums {
        "      files' size     copies' size    saved\n"
    } else {
        "\n"
    });
    for coding in Coding::ALL {
        let tally = report.codings[coding as usize];
        text.push_str(&format!("{:<6}", coding.as_str()));
        for column in columns.iter().filter(|column| !column.is_empty()) {
            let number = match *column {
                "made" => tally.made,
                "fresh" => tally.fresh,
                "useless" => tally.useless,
                "stale" => tally.stale,
                "missing" => tally.missing,
                _ => tally.removed,
            };
            text.push_str(&format!(" {number:>8}"));
        }
        if sums {
            let (source, copy) = (tally.source_bytes, tally.copy_bytes);
            let saved = 100.0 - 100.0 * copy as f64 / source.max(1) as f64;
            let saved = if source > 0 { saved } else { 0.0 };
            text.push_str(&format!(" {source:>16} {copy:>16} {saved:>6.1} %"));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(line: &str) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from(
            std::iter::once("gannet precompress").chain(line.split_whitespace()),
        )
    }

    #[test]
    fn arguments_are_read() {
        Arguments::command().debug_assert();
        let options = parse("/srv --level max --jobs 3 --types css,.JS,image/svg+xml --codings br")
            .unwrap()
            .options();
        assert_eq!((options.effort, options.jobs), (Effort::Max, 3));
        let mut names: Vec<String> = options.extensions.into_iter().collect();
        names.sort();
        assert_eq!(names, ["css", "js", "svg"]);
        assert_eq!(options.codings, Offers::NONE.with(Coding::Brotli));
        assert_eq!(parse("/srv --check").unwrap().options().task, Task::Check);
        assert_eq!(parse("/srv --remove").unwrap().options().task, Task::Remove);
        for line in [
            "",
            "/srv --level 9",
            "/srv --jobs 0",
            "/srv --check --remove",
            "/srv --codings deflate",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
