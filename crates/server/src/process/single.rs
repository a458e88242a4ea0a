//! `master_process off`: everything in one process, for debugging. It keeps its user and reads its configuration itself.

use super::journal::Journal;
use super::master::Generation;
use super::pid_file;
use super::program::Program;
use super::worker::Worker;

/// Until the end; returns the exit code. `started` is called when the service is at work.
pub fn run<P: Program>(
    program: &P,
    generation: Generation<P::Configuration>,
    journal: Journal,
    started: impl FnOnce(),
) -> i32 {
    let pid = generation.plan.pid.clone();
    let worker = match Worker::start(program, generation, journal.clone(), None) {
        Ok(worker) => worker,
        Err(error) => {
            journal.emergency(error);
            pid_file::remove(&pid, &journal);
            return 1;
        }
    };
    started();
    worker.run_alone()
}
