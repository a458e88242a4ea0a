//! Locust: the one that is installed, or one that pip puts into a directory of this run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The file of one user who asks without a pause.
pub const SCRIPT: &str = "\
from locust import FastHttpUser, task
import os

class User(FastHttpUser):
    @task
    def ask(self):
        self.client.get(os.environ['GANNET_BENCH_PATH'])
";

/// Where it is. `GANNET_BENCH_LOCUST` names another one.
pub fn find(dir: &Path) -> Option<PathBuf> {
    let given = std::env::var_os("GANNET_BENCH_LOCUST").map(PathBuf::from);
    let candidates = given.into_iter().chain([PathBuf::from("locust")]);
    let runs = |program: &PathBuf| quiet(Command::new(program).arg("--version"));
    if let Some(found) = candidates.into_iter().find(runs) {
        return Some(found);
    }
    eprintln!("installing Locust for this run");
    let environment = dir.join("locust");
    let made = quiet(
        Command::new("python3")
            .args(["-m", "venv"])
            .arg(&environment),
    );
    let pip = environment.join("bin/pip");
    let installed = made && quiet(Command::new(pip).args(["install", "-q", "locust"]));
    installed.then(|| environment.join("bin/locust"))
}

fn quiet(command: &mut Command) -> bool {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null());
    command
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
