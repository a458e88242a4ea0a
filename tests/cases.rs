//! Runs each folder of `tests/cases` on Gannet and on nginx, one test for each pair. nginx must give what is recorded,
//! so that the record stays true; Gannet must give the same, or what its own file gives a reason for.
//! SERVERS=nginx or SERVERS=gannet runs one of them only.

use libtest_mimic::{Arguments, Trial};
use std::path::Path;
use testkit::case::Case;
use testkit::server::{Kind, Program};

/// Cases mostly wait for processes, so more run at once than there are cores.
const AT_ONCE: usize = 6;

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_ONCE);
    let chosen = std::env::var("SERVERS").unwrap_or_else(|_| "gannet nginx".to_string());
    let cases = Case::all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases"));
    let mut trials = Vec::new();
    for kind in [Kind::Gannet, Kind::Nginx] {
        if chosen.contains(kind.as_str()) {
            let program = match kind {
                Kind::Gannet => Program::gannet(Some(env!("CARGO_BIN_EXE_gannet"))),
                Kind::Nginx => Program::nginx(),
            };
            trials.extend(cases.iter().map(|case| trial(case, kind, program.clone())));
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}

/// One case on one server; one that cannot run is shown as ignored with the reason before its name.
fn trial(case: &Case, kind: Kind, program: Option<Program>) -> Trial {
    let name = format!("{}/{}", kind.as_str(), case.name);
    let case = case.clone();
    let Some(program) = program else {
        let reason = format!("{} is not installed", kind.as_str());
        return Trial::test(name, || Ok(()))
            .with_kind(reason)
            .with_ignored_flag(true);
    };
    match case.skip_reason(kind) {
        Some(reason) if kind == Kind::Nginx || case.is_refused(&program) == Ok(true) => {
            Trial::test(name, || Ok(()))
                .with_kind(reason)
                .with_ignored_flag(true)
        }
        Some(_) => Trial::test(name, || {
            Err("Gannet takes the configuration: remove skip.gannet".into())
        }),
        None => Trial::test(name, move || case.run(&program).map_err(Into::into)),
    }
}
