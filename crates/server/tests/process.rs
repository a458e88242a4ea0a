//! The process layer with real processes, sockets and signals: a tiny server under the master, worker and reload of the
//! crate. This binary is both: with `serve` as its first argument it is the server, else it runs the tests.

mod process {
    pub mod cases; // the tests
    pub mod running; // a server under test: its directory, its processes, its clients
    pub mod toy; // the server: one line in, one line out
}

use libtest_mimic::{Arguments, Trial};

fn main() {
    let arguments: Vec<_> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|word| word == "serve") {
        std::process::exit(process::toy::main(arguments));
    }
    let mut options = Arguments::from_args();
    // Most of them wait for processes.
    options.test_threads.get_or_insert(4);
    let trials = process::cases::ALL.iter().map(|(name, case)| {
        Trial::test(*name, move || {
            case();
            Ok(())
        })
    });
    libtest_mimic::run(&options, trials.collect()).exit();
}
