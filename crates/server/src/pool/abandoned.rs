//! Requests that were given up: their children learn of it by their connection, and are of use again when they have taken
//! up the next one that was made for them.

use super::Pool;
use super::child::{ChildId, Doing};
use super::keeper::{Keeper, TICK};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a child may take to notice, unless it has more time for a request anyway.
const NOTICE_MAX: Duration = Duration::from_secs(60);
/// The least and the most between two looks; the kernel has no event for what is looked at.
const LOOKS: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(200));

/// A request that was given up while its child was at work.
pub struct Abandoned {
    pool: Arc<Pool>,
    pub child: ChildId,
    since: Instant,
    next_look: Instant,
    until: Instant,
}

impl Keeper {
    pub(super) fn abandon(&mut self, pool: Arc<Pool>, child: ChildId) {
        let now = Instant::now();
        let terminate = {
            let mut state = pool.state();
            let Some(one) = state.children.get_mut(&child) else {
                return;
            };
            one.doing = Doing::Abandoned;
            state.defined.settings.request_terminate_timeout
        };
        // With a limit of its own it is killed by that.
        let limit = match terminate {
            0 => NOTICE_MAX,
            seconds => Duration::from_secs(seconds) + TICK,
        };
        self.abandoned.push(Abandoned {
            pool,
            child,
            since: now,
            next_look: now + LOOKS.0,
            until: now + limit,
        });
    }

    /// When to look again.
    pub(super) fn abandoned_deadline(&self) -> Option<Instant> {
        self.abandoned.iter().map(|one| one.next_look).min()
    }

    /// Children that have moved on are free again; those that never do, go.
    pub(super) fn look_at_abandoned(&mut self, now: Instant) {
        let all = std::mem::take(&mut self.abandoned);
        for mut one in all {
            if one.next_look > now {
                self.abandoned.push(one);
                continue;
            }
            let (pool, child) = (Arc::clone(&one.pool), one.child);
            let mut state = pool.state();
            let has_moved_on = state.has_moved_on(child);
            if has_moved_on && state.reconnect(child) {
                let dismissed = state.release(&pool, child, now);
                drop(state);
                if let Some(dismissed) = dismissed {
                    self.retire(dismissed);
                }
                continue;
            }
            let has_spares = state
                .children
                .get(&child)
                .is_some_and(|child| !child.spares.is_empty());
            if !has_moved_on && has_spares && one.until > now {
                let age = now.saturating_duration_since(one.since);
                one.next_look = now + (age / 4).clamp(LOOKS.0, LOOKS.1);
                self.abandoned.push(one);
                continue;
            }
            let dismissed = state.dismiss(child);
            drop(state);
            if let Some(dismissed) = dismissed {
                self.retire(dismissed);
            }
        }
    }
}
