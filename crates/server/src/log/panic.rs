//! What becomes of a panic. One in a request ends that request's connection, because the runtime catches it there; it is
//! logged as an alert with its place. One in what all connections of a thread need ends the process, which the master then
//! replaces.

use super::error::{self, Level};
use std::panic::PanicHookInfo;

/// Sends the panics of this process to the error log.
pub fn log_panics() {
    std::panic::set_hook(Box::new(report));
}

fn report(panic: &PanicHookInfo<'_>) {
    let payload = panic.payload();
    let literal = payload.downcast_ref::<&str>().copied();
    let formatted = || payload.downcast_ref::<String>().map(String::as_str);
    let message = literal
        .or_else(formatted)
        .unwrap_or("a panic without words");
    match panic.location() {
        Some(place) => error::write(
            Level::Alert,
            format_args!("panic at {}:{}: {message}", place.file(), place.line()),
        ),
        None => error::write(Level::Alert, format_args!("panic: {message}")),
    }
}

/// Held by a task that its thread cannot do without.
pub struct Vital;

impl Drop for Vital {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::error::{ErrorLog, ErrorLogs, Target};
    use crate::log::files::LogFiles;

    #[test]
    fn a_panic_ends_its_task_only_and_is_logged_with_its_place() {
        let path = std::env::temp_dir().join(format!("gannet-panic-{}", sys::process::own_pid()));
        let mut files = LogFiles::default();
        let log = ErrorLog {
            level: Level::Error,
            target: Target::File(files.file(path.clone())),
        };
        files.open_all().unwrap();
        error::set_process_logs(ErrorLogs::from_iter([log]));
        log_panics();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let line = line!() + 3;
        let local = tokio::task::LocalSet::new();
        let ends = local.block_on(&runtime, async {
            let panics = tokio::task::spawn_local(async { panic!("no {}", "way") });
            let other = tokio::task::spawn_local(async {
                tokio::task::yield_now().await;
                "served"
            });
            (panics.await.is_err(), other.await.ok())
        });
        let _default = std::panic::take_hook();
        assert_eq!(ends, (true, Some("served")));
        let text = std::fs::read_to_string(&path).unwrap();
        let place = format!("{}:{line}: no way", file!());
        assert!(text.contains("[alert]") && text.contains(&place), "{text}");
        std::fs::remove_file(path).unwrap();
    }
}
