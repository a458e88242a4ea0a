//! The upkeep of pools, each second and more often while requests wait: what takes too long is ended, and how many children
//! there are is decided anew.

use super::auto::Machine;
use super::child::{Child, Doing};
use super::keeper::{Keeper, TICK, WATCHFUL_TICK};
use super::{Pool, overdue};
use std::sync::Arc;
use std::time::Instant;

impl Keeper {
    pub(super) fn tick(&mut self, now: Instant) {
        let due: Vec<Arc<Pool>> = self
            .pools
            .iter()
            .filter(|kept| kept.next_tick <= now)
            .map(|kept| Arc::clone(&kept.pool))
            .collect();
        for pool in due {
            let found = overdue::look(&pool, now);
            for pid in found.late {
                self.nursery.signal(pid, true);
            }
            for entry in found.entries {
                self.begin_slow(entry);
            }
            let machine = self.measured(&pool, now);
            let since = self.machine.since_start(now);
            let (decision, next) = {
                let mut state = pool.state();
                let settings = Arc::clone(&state.defined.settings);
                let census = state.census(now);
                let waits = census.waiting > 0;
                let upkeep = now.saturating_duration_since(state.upkeep_at) >= TICK;
                let decision = match (state.closed, upkeep) {
                    (true, _) => None,
                    (false, true) => {
                        state.upkeep_at = now;
                        state.scaler.tick(&settings, &census, &machine, since)
                    }
                    (false, false) if waits => state
                        .scaler
                        .request_waits(&settings, &census, &machine, since),
                    (false, false) => None,
                };
                let next = if waits {
                    WATCHFUL_TICK
                } else {
                    overdue::heartbeat(&settings).min(TICK)
                };
                (decision, next)
            };
            self.carry_out(&pool, decision, now);
            let ended = pool.state().closed && pool.state().children.is_empty();
            self.pools.retain_mut(|kept| {
                if !Arc::ptr_eq(&kept.pool, &pool) {
                    return true;
                }
                kept.next_tick = now + next;
                !ended
            });
        }
    }

    /// The machine, with what a child of this pool needs at most.
    pub(super) fn measured(&mut self, pool: &Arc<Pool>, now: Instant) -> Machine {
        let pids: Vec<i32> = {
            let state = pool.state();
            let measures = state.defined.settings.pm == super::Pm::Auto
                && now.saturating_duration_since(state.upkeep_at) >= TICK;
            match measures {
                true => state.children.values().map(|child| child.pid).collect(),
                false => Vec::new(),
            }
        };
        let largest = pids
            .into_iter()
            .filter_map(super::child::memory)
            .map(|memory| memory.own)
            .max();
        let mut state = pool.state();
        if let Some(largest) = largest {
            state.child_memory = largest;
        }
        let mut machine = self.machine.look(now);
        machine.child_memory = state.child_memory;
        if state.defined.settings.pm == super::Pm::Auto && !state.waiting.is_empty() {
            let busy = |child: &&Child| child.doing == Doing::Busy;
            let busy: Vec<i32> = state
                .children
                .values()
                .filter(busy)
                .map(|child| child.pid)
                .collect();
            drop(state);
            let asleep = busy
                .iter()
                .filter(|pid| super::child::is_asleep(**pid))
                .count();
            machine.sleeping_share = asleep as f64 / busy.len().max(1) as f64;
        }
        machine
    }
}
