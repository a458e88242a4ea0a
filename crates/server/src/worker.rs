//! One network thread: a current-thread runtime whose passes over its tasks are the turns of `http::thread`.

use crate::config::{Config, Generation};
use crate::http::thread;
use crate::listen::accept::{self, Shared, ThreadState};
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use sys::address::SocketAddress;
use tokio::task::LocalSet;

/// Serves `sockets` with `config` on this thread.
pub fn run(config: Arc<Config>, sockets: Vec<(SocketAddress, OwnedFd)>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let local = LocalSet::new();
    let state = Rc::new(ThreadState::new(Rc::new(Generation { config })));
    thread::begin_turn();
    for (address, socket) in sockets {
        let shared = Rc::new(Shared {
            thread: Rc::clone(&state),
            address,
        });
        local.spawn_local(accept::run(socket, shared));
    }
    let mut local = pin!(local);
    runtime.block_on(std::future::poll_fn(|context| {
        thread::begin_turn();
        local.as_mut().poll(context)
    }));
    Ok(())
}
