//! The `gannet` binary: from the command line to the process layer.

mod command_line;
mod load;
mod precompress;
mod serve;
mod study;
mod warm;

use command_line::{CommandLine, Switches};
use server::config::{Paths, defaults};
use server::process::{self, Action, ErrorTarget, Invocation, Program};
use server::site::Site;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match command_line::parse(&arguments) {
        Ok(CommandLine::Nginx(switches)) => run_nginx(*switches),
        Ok(CommandLine::Serve { directory, listen }) => run_serve(&directory, &listen),
        Ok(CommandLine::Load(arguments)) => load::run(&arguments),
        Ok(CommandLine::Ab(arguments)) => load::run_ab(&arguments),
        Ok(CommandLine::Precompress(arguments)) => precompress::run(&arguments),
        Ok(CommandLine::Study(arguments)) => study::run(&arguments),
        Ok(CommandLine::Warm(arguments)) => warm::run(&arguments),
        Ok(CommandLine::Tune(arguments)) => study::run_tune(&arguments),
        Ok(CommandLine::PictureHelper(arguments)) => server::image::codec_process::run(&arguments),
        Err(complaint) => {
            print(&[b"nginx: ", complaint.as_slice(), b"\n"].concat());
            ExitCode::FAILURE
        }
    }
}

fn run_nginx(switches: Switches) -> ExitCode {
    let about = command_line::about(&switches);
    print(about.as_bytes());
    let action = action(&switches);
    // As nginx: a version or help is all, unless the configuration is to be tested as well.
    if !about.is_empty() && !matches!(action, Action::Test { .. }) {
        return ExitCode::SUCCESS;
    }
    let prefix = switches.prefix.unwrap_or_else(|| defaults::PREFIX.into());
    let configuration = switches
        .configuration
        .unwrap_or_else(|| defaults::CONF_PATH.into());
    let conf_file = prefix.join(configuration);
    let conf_prefix = conf_file.parent().unwrap_or(&prefix).to_path_buf();
    let error_log = switches
        .error_log
        .unwrap_or_else(|| defaults::ERROR_LOG.into());
    let (target, error_log) = match error_log.to_str() {
        Some("stderr" | "") => (ErrorTarget::Stderr, "stderr".into()),
        _ => {
            let path = prefix.join(error_log);
            (ErrorTarget::File(path.clone()), path)
        }
    };
    let paths = Paths {
        prefix,
        conf_prefix,
        conf_file,
        error_log,
    };
    let conf_file = paths.conf_file.clone();
    let site = Site {
        paths,
        globals: switches.globals.unwrap_or_default(),
    };
    run(&site, conf_file, target, action)
}

fn action(switches: &Switches) -> Action {
    match switches.signal {
        _ if switches.test || switches.dump => Action::Test {
            quiet: switches.quiet,
            dump: switches.dump,
        },
        Some(signal) => Action::Signal(signal),
        None => Action::Serve,
    }
}

fn run_serve(directory: &Path, listen: &str) -> ExitCode {
    match serve::Directory::new(directory, listen) {
        Ok(site) => {
            let root = site.paths().prefix.display();
            print(format!("serving {root} at {listen}, end with Ctrl-C\n").as_bytes());
            let conf_file = site.paths().conf_file.clone();
            run(&site, conf_file, ErrorTarget::Stderr, Action::Serve)
        }
        Err(complaint) => {
            print(format!("gannet: {complaint}\n").as_bytes());
            ExitCode::FAILURE
        }
    }
}

fn run<P: Program>(
    program: &P,
    configuration: PathBuf,
    error_log: ErrorTarget,
    action: Action,
) -> ExitCode {
    let invocation = Invocation {
        configuration,
        error_log,
        action,
        version: concat!("gannet/", env!("CARGO_PKG_VERSION")),
        arguments: std::env::args_os().collect(),
    };
    let code = process::run(program, &invocation);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

fn print(text: &[u8]) {
    // Nobody is left to tell that standard error is closed.
    let _closed = std::io::stderr().write_all(text);
}
