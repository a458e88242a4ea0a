//! Master, worker, signals: the life of the processes, and the only place that opens listening sockets. What is served, and
//! how, is a `Program`'s matter; this layer reads its `Plan`, opens what it names, and moves it between processes.

// In the order of a start:
mod channel; // messages between master and worker
mod children; // programs that the worker has started for it
mod daemon; // into the background
mod journal; // nginx's lines in the error log and on stderr
mod listeners; // listening sockets: opened, kept over a reload, inherited over an upgrade
mod locked_ini; // settings that PHP's scripts cannot change
mod log_files; // log files: opened and reopened
mod master; // the loop that looks after the worker
mod messages;
mod nursery; // the master's side of those programs
mod php_stack; // the calls of a PHP script, for the slow log
mod php_symbols; // where PHP's variables are
mod pid_file;
mod plan; // what a configuration asks of this layer
mod program; // what this layer asks of the server
mod reload; // SIGHUP, in the master
mod resources; // sockets and logs of one configuration, opened whole or not at all
mod respawn; // when a dead worker is replaced
mod signal_process; // `-s`
mod single;
mod start; // from the command line to the master's loop; `-t`
mod tracing; // children looked at for that
mod upgrade; // SIGUSR2: a new binary takes over
mod watched; // files whose change is a reason to reload
mod worker; // the worker's main thread // `master_process off`

pub use children::{ChildEvent, ChildRequest, ChildSpec, Started};
pub use journal::{Diagnostic, ErrorLog, ErrorTarget, Journal, Level};
pub use listeners::{ListenSpec, Listener};
pub use log_files::LogFiles;
pub use plan::Plan;
pub use program::{Loaded, Notifier, Program, Service, Spawn};
pub use resources::Resources;
pub use signal_process::SignalCommand;
pub use start::{Action, Invocation, run};
