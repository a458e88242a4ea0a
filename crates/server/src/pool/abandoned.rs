//! Requests that were given up: their children learn of it by their connection, and are of use again when they have closed
//! their side of it.

use super::Pool;
use super::child::{ChildId, Doing};
use super::keeper::{Keeper, TICK};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a child may take to notice that its request was given up, unless it has more time for a request anyway.
const ABANDONED_MAX: Duration = Duration::from_secs(60);

/// A request that was given up while its child was at work.
pub struct Abandoned {
    pub pool: Arc<Pool>,
    pub child: ChildId,
    pub connection: Arc<OwnedFd>,
    pub drain: bool,
    pub until: Instant,
}

impl Keeper {
    pub(super) fn abandon(&mut self, pool: Arc<Pool>, child: ChildId, drain: bool) {
        let now = Instant::now();
        let connection = {
            let mut state = pool.state();
            let own = state.defined.settings.request_terminate_timeout;
            let Some(one) = state.children.get_mut(&child) else {
                return;
            };
            one.doing = Doing::Abandoned;
            (Arc::clone(&one.connection), own)
        };
        let (connection, terminate) = connection;
        // With a limit of its own it is killed by that.
        let limit = if terminate > 0 {
            Duration::from_secs(terminate) + TICK
        } else {
            ABANDONED_MAX
        };
        self.abandoned.push(Abandoned {
            pool,
            child,
            connection,
            drain,
            until: now + limit,
        });
    }

    pub(super) fn abandoned_watches(&self) -> impl Iterator<Item = sys::io::Watch<'_>> {
        self.abandoned.iter().map(|one| sys::io::Watch {
            descriptor: one.connection.as_fd(),
            read: one.drain,
            write: false,
        })
    }

    /// Children that have closed the connection of a request that was given up are free again.
    pub(super) fn look_at_abandoned(&mut self, now: Instant) {
        let all = std::mem::take(&mut self.abandoned);
        for one in all {
            let closed = match one.drain {
                true => is_drained(&one.connection),
                false => is_broken(&one.connection),
            };
            if !closed && one.until > now {
                self.abandoned.push(one);
                continue;
            }
            let Abandoned { pool, child, .. } = one;
            let mut state = pool.state();
            if closed && state.reconnect(child) && is_open(&state, child) {
                state.release(&pool, child, now);
                continue;
            }
            let dismissed = state.dismiss(child);
            drop(state);
            if let Some(dismissed) = dismissed {
                self.farewell(dismissed);
                if !closed
                    && let Some(living) = self.living.values_mut().find(|one| one.child == child)
                {
                    living.killed_at = Some(now);
                }
                self.kill_late(now);
            }
            self.serve_waiting(&pool);
        }
    }
}

/// Whether the other side has closed after what it said, which is dropped.
fn is_drained(connection: &Arc<OwnedFd>) -> bool {
    let mut buffer = [0; 16 << 10];
    for _ in 0..DRAIN_READS {
        match sys::io::receive(connection, &mut buffer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != std::io::ErrorKind::WouldBlock,
        }
    }
    false
}

/// Others get their turn between so many reads.
const DRAIN_READS: usize = 16;

/// Whether the other side has closed, or has ended before it took up the connection.
fn is_broken(connection: &Arc<OwnedFd>) -> bool {
    let watch = sys::io::Watch {
        descriptor: connection.as_fd(),
        read: false,
        write: false,
    };
    let ready = sys::io::wait(&[watch], Some(Duration::ZERO));
    ready.is_ok_and(|ready| ready.first().is_some_and(|ready| ready.read))
}

/// The spare connection of a process that has ended is broken.
fn is_open(state: &super::state::State, child: ChildId) -> bool {
    let connection = state.children.get(&child).map(|child| &child.connection);
    connection.is_some_and(|connection| !is_broken(connection))
}
