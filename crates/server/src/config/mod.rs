//! The configuration: tree to raw (`build`), raw to resolved (`resolve`), and the types that serve (`model`).

pub mod accepted;
pub mod affinity;
pub mod build;
pub mod defaults;
pub mod directive;
pub mod directives;
pub mod inventory;
mod listeners;
pub mod load_module;
pub mod main_settings;
pub mod model;
pub mod modules;
pub mod refused;
pub mod resolve;
pub mod setting;
pub mod zones;

pub use build::Paths;
pub use model::Config;

use crate::process::Notifier;
use conf::{Source, Tree};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A configuration in force on one thread; requests hold on to the one they began with.
pub struct Generation {
    /// Different for every configuration that was ever in force in this process.
    pub number: u64,
    pub config: Arc<Config>,
    pub in_force: Arc<InForce>,
}

/// Shared by all threads' holds on one configuration: tells when the last of them lets go of one that was replaced.
pub struct InForce {
    notifier: Notifier,
    retired: AtomicBool,
}

impl InForce {
    #[must_use]
    pub fn new(notifier: Notifier) -> InForce {
        InForce {
            notifier,
            retired: AtomicBool::new(false),
        }
    }

    /// Another configuration has taken this one's place.
    pub fn retire(self: Arc<Self>) {
        self.retired.store(true, Ordering::Release);
    }
}

impl Drop for InForce {
    fn drop(&mut self) {
        if *self.retired.get_mut() {
            self.notifier.drained();
        }
    }
}

/// What came of reading a configuration; the warnings of a good one stand in `Config`.
pub type Loaded = Result<Config, Failure>;

/// Why a configuration is not taken.
#[derive(Debug)]
pub struct Failure {
    /// The first error, as nginx has it.
    pub error: conf::Error,
    /// What was found before it.
    pub warnings: Vec<conf::Error>,
    /// All was read when it was found: nginx calls the syntax right before it tells of such an error.
    pub late: bool,
}

impl Failure {
    fn while_reading(error: conf::Error, warnings: Vec<conf::Error>) -> Failure {
        Failure {
            error,
            warnings,
            late: false,
        }
    }
}

/// Reads nginx.conf (and the text of `-g`) through `source`. Opens nothing.
pub fn load(source: &dyn Source, paths: &Paths, globals: &[u8]) -> (Loaded, Tree) {
    let globals = conf::parse_command_line(source, globals, &paths.conf_prefix);
    let mut tree = conf::parse(source, &paths.conf_file, &paths.conf_prefix);
    let loaded = read(source, paths, &globals, &tree);
    tree.files.splice(..0, globals.files);
    (loaded, tree)
}

fn read(source: &dyn Source, paths: &Paths, globals: &Tree, tree: &Tree) -> Loaded {
    let mut build = build::Build::new(source, paths);
    let globals = build.read_block(&globals.root);
    match globals.and_then(|()| build.read_block(&tree.root)) {
        Ok(()) => resolve::resolve(build),
        Err(error) => Err(Failure::while_reading(error, build.warnings)),
    }
}
