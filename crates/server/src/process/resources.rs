//! What is open for one configuration: sockets and logs, opened whole or not at all.

use std::sync::Arc;

use super::journal::Journal;
use super::listeners::{self, Listener, NotOpened};
use super::log_files::LogFiles;
use super::plan::Plan;

#[derive(Clone, Debug, Default)]
pub struct Resources {
    pub listeners: Vec<Arc<Listener>>,
    pub logs: LogFiles,
}

impl Resources {
    /// Opens the logs anew, and the sockets that `current` lacks. The journal in the result writes to the new error logs,
    /// and so do the complaints about sockets, as with nginx.
    pub fn open(
        plan: &Plan,
        current: &[Arc<Listener>],
        journal: &Journal,
    ) -> Result<(Resources, Journal), NotOpened> {
        let (logs, journal) = Resources::open_logs(plan, journal)?;
        plan.make_directories();
        let listeners = listeners::open(&plan.listen, plan.threads, current, &journal)?;
        Ok((Resources { listeners, logs }, journal))
    }

    /// For `-t`: opens the logs, tries the sockets, and keeps neither.
    pub fn probe(plan: &Plan, journal: &Journal) -> Result<(), NotOpened> {
        let (_logs, journal) = Resources::open_logs(plan, journal)?;
        listeners::probe(&plan.listen, &journal)
    }

    fn open_logs(plan: &Plan, journal: &Journal) -> Result<(LogFiles, Journal), NotOpened> {
        let logs = LogFiles::open(plan.log_paths()).map_err(|error| {
            journal.emergency(error);
            NotOpened
        })?;
        let journal = Journal::for_logs(&plan.error_logs, &logs, journal);
        Ok((logs, journal))
    }

    /// The configuration of `self` is in force and `former`'s is not: kept sockets get its options, and the files of UNIX
    /// sockets that it no longer names go.
    pub fn succeed(&self, former: &Resources, journal: &Journal) {
        listeners::configure_kept(&self.listeners, &former.listeners, journal);
        self.remove_files_of_others(former, journal);
    }

    /// The configuration of `self` will not come into force: the files of UNIX sockets that only it names go.
    pub fn give_up(self, current: &Resources, journal: &Journal) {
        current.remove_files_of_others(&self, journal);
    }

    fn remove_files_of_others(&self, others: &Resources, journal: &Journal) {
        for listener in &others.listeners {
            if !self
                .listeners
                .iter()
                .any(|own| own.is_same_place(&listener.spec))
            {
                listener.remove_file(journal);
            }
        }
    }
}
