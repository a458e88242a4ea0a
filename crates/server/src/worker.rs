//! The network threads of the worker process. Each is a current-thread runtime whose passes over its tasks are the turns of
//! `http::thread`; a connection lives and dies on one of them.

use crate::config::{Config, Generation, InForce};
use crate::http::thread;
use crate::listen::accept::{self, Shared, ThreadState};
use crate::log;
use crate::net::timers;
use crate::process::Listener;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, LocalSet};

/// Threads for cold disk reads, beside each network thread.
const BLOCKING_THREADS: usize = 8;

/// What a thread is told.
pub enum Command {
    /// Serve this from now on.
    Replace {
        number: u64,
        config: Arc<Config>,
        in_force: Arc<InForce>,
        listeners: Vec<Arc<Listener>>,
    },
    /// Accept nothing new and end with the last connection.
    Quit { finished: Box<dyn FnOnce() + Send> },
    /// End now.
    Stop,
}

/// A network thread, seen from the worker's main thread.
pub struct Worker {
    commands: UnboundedSender<Command>,
    thread: JoinHandle<()>,
}

/// What a thread begins with.
pub struct Begin {
    /// Its number, from 0, and how many there are.
    pub index: usize,
    pub count: usize,
    /// The processors it keeps to; all, if there are none here.
    pub processors: Vec<usize>,
    /// `Generation::number` of the configuration.
    pub number: u64,
    pub config: Arc<Config>,
    pub in_force: Arc<InForce>,
    pub listeners: Vec<Arc<Listener>>,
}

impl Worker {
    /// Starts a thread; it accepts when this returns.
    pub fn spawn(begin: Begin) -> io::Result<Worker> {
        let (commands, receiver) = unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(BLOCKING_THREADS)
            .build()?;
        let name = format!("worker {}", begin.index);
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            keep_to(&begin.processors);
            let local = LocalSet::new();
            thread::begin_turn();
            // Not until the last task: what is left when `serve` ends is dropped.
            let mut serving = pin!(local.run_until(serve(begin, receiver)));
            runtime.block_on(std::future::poll_fn(|context| {
                thread::begin_turn();
                serving.as_mut().poll(context)
            }));
            runtime.shutdown_background();
        })?;
        Ok(Worker { commands, thread })
    }

    /// Tells the thread something; one that has ended needs no telling.
    pub fn tell(&self, command: Command) {
        let _ended = self.commands.send(command);
    }

    /// Waits for the thread's end.
    pub fn join(self) {
        let _panicked = self.thread.join();
    }
}

/// `worker_cpu_affinity`: a mask that the machine cannot honour is logged, and the thread runs anywhere.
fn keep_to(processors: &[usize]) {
    if processors.is_empty() {
        return;
    }
    if let Err(error) = sys::process::set_affinity(processors) {
        log::error::write(
            log::error::Level::Alert,
            format_args!("sched_setaffinity() failed ({})", sys::errno::Errno(&error)),
        );
    }
}

/// A listening socket of this thread, while its accept loop runs.
struct Accepting {
    listener: Arc<Listener>,
    loops: Vec<AbortHandle>,
}

/// The sockets that a thread accepts from.
struct Doors {
    index: usize,
    count: usize,
    state: Rc<ThreadState>,
    accepting: Vec<Accepting>,
}

impl Doors {
    /// Accepts from these listeners and no others; what was open already stays as it is.
    fn set(&mut self, listeners: Vec<Arc<Listener>>) {
        self.accepting.retain(|open| {
            let stays = listeners
                .iter()
                .any(|listener| Arc::ptr_eq(listener, &open.listener));
            if !stays {
                open.loops.iter().for_each(AbortHandle::abort);
            }
            stays
        });
        for listener in listeners {
            if self
                .accepting
                .iter()
                .any(|open| Arc::ptr_eq(&open.listener, &listener))
            {
                continue;
            }
            let sockets = listener.for_thread(self.index, self.count);
            let loops = sockets.into_iter().filter_map(|socket| {
                let socket = socket.try_clone_to_owned().ok()?;
                let shared = Rc::new(Shared {
                    thread: Rc::clone(&self.state),
                    address: listener.spec.address.clone(),
                });
                Some(tokio::task::spawn_local(accept::run(socket, shared)).abort_handle())
            });
            let loops = loops.collect();
            self.accepting.push(Accepting { listener, loops });
        }
    }
}

async fn serve(begin: Begin, mut commands: UnboundedReceiver<Command>) {
    let _vital = log::panic::Vital;
    if begin.index == 0 {
        begin.config.http.upstreams.watch();
    }
    let generation = Generation {
        number: begin.number,
        config: begin.config,
        in_force: begin.in_force,
    };
    let state = Rc::new(ThreadState::new(Rc::new(generation)));
    let mut doors = Doors {
        index: begin.index,
        count: begin.count,
        state: Rc::clone(&state),
        accepting: Vec::new(),
    };
    tokio::task::spawn_local(async {
        let _vital = log::panic::Vital;
        timers::sweep().await;
    });
    doors.set(begin.listeners);
    while let Some(command) = commands.recv().await {
        match command {
            Command::Replace {
                number,
                config,
                in_force,
                listeners,
            } => {
                if doors.index == 0 {
                    config.http.upstreams.watch();
                }
                doors.set(listeners);
                state.replace(Rc::new(Generation {
                    number,
                    config,
                    in_force,
                }));
            }
            Command::Quit { finished } => {
                doors.set(Vec::new());
                state.shut_down();
                // Not awaited here: Stop may come before the last connection's end.
                let state = Rc::clone(&state);
                tokio::task::spawn_local(async move {
                    state.all_ended().await;
                    finished();
                });
            }
            Command::Stop => break,
        }
    }
}
