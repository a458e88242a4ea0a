//! What this layer asks of the server: to build a configuration, and to serve it. The master only ever calls `load`; the
//! rest happens in the worker process, on its main thread, which serves no request itself.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use super::children::{ChildEvent, ChildRequest};
use super::journal::{Diagnostic, Journal};
use super::plan::Plan;
use super::resources::Resources;

/// A configuration that was read and found right.
pub struct Loaded<C> {
    pub plan: Plan,
    pub configuration: C,
    /// To be logged; the configuration serves nevertheless.
    pub warnings: Vec<Diagnostic>,
    /// The texts in the order of reading, each once: `-T`.
    pub files: Vec<(PathBuf, Arc<[u8]>)>,
}

pub trait Program {
    /// Built by the master before it forks, inherited by the worker: plain data, behind an `Arc` or the like.
    type Configuration: Clone;
    type Service: Service<Self::Configuration>;

    /// Reads, checks and builds everything that can go wrong without a socket or log. It must start no thread: the master
    /// forks after it. On failure the last diagnostic is the reason.
    fn load(
        &self,
        source: &dyn conf::Source,
    ) -> Result<Loaded<Self::Configuration>, Vec<Diagnostic>>;

    /// Begins to serve, in the worker process.
    fn start(
        &self,
        spawn: Spawn<'_>,
        configuration: Self::Configuration,
    ) -> Result<Self::Service, String>;
}

/// What a service is born with.
pub struct Spawn<'a> {
    pub plan: &'a Plan,
    pub resources: &'a Resources,
    pub journal: &'a Journal,
    pub notifier: Notifier,
}

/// A server at work. Dropping it without `stop` is never done.
pub trait Service<C> {
    /// Serves the new configuration from now on; what is in flight ends on the old one, after which the service says
    /// `Notifier::drained`. On failure nothing has changed.
    fn replace(
        &mut self,
        plan: &Plan,
        configuration: C,
        resources: &Resources,
    ) -> Result<(), String>;

    /// The logs are about to be opened anew: what is buffered belongs into the old files.
    fn flush_logs(&mut self);

    /// Accepts nothing new, ends idle connections, and says `Notifier::finished` when the last one has ended.
    fn quit(&mut self);

    /// What became of a program that was asked for by `Notifier::child`.
    fn child(&mut self, _: ChildEvent) {}

    /// The end, now. The process exits when this returns.
    fn stop(self);
}

/// What the service's threads tell the worker's main thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The last request of a replaced configuration has ended.
    Drained,
    /// After `quit`: the last connection has ended.
    Finished,
    /// A program is to be started or signalled.
    Child(ChildRequest),
}

/// Passes notices from any thread to the main one.
#[derive(Clone)]
pub struct Notifier {
    notices: Sender<Notice>,
    wake: Arc<UnixStream>,
}

impl Notifier {
    pub(super) fn new(notices: Sender<Notice>, wake: UnixStream) -> Notifier {
        Notifier {
            notices,
            wake: Arc::new(wake),
        }
    }

    pub fn drained(&self) {
        self.send(Notice::Drained);
    }

    pub fn finished(&self) {
        self.send(Notice::Finished);
    }

    /// The answer comes by `Service::child`.
    pub fn child(&self, request: ChildRequest) {
        self.send(Notice::Child(request));
    }

    fn send(&self, notice: Notice) {
        // Either fails only when the main thread has ended, and the process with it. A full pipe wakes just as well.
        let _gone = self.notices.send(notice);
        let _full = (&*self.wake).write(&[0]);
    }
}
