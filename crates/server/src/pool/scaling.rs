//! How many children a pool has: php-fpm's arithmetic for `static`, `dynamic` and `ondemand`, and the policy of `auto`.
//! Nothing here starts or ends anything or asks the time: numbers in, decisions out.

use super::auto::{Auto, Machine};
use super::settings::{Pm, Settings};
use std::time::Duration;

/// The children and requests of a pool at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Asked for, but not there yet.
    pub starting: usize,
    pub idle: usize,
    pub busy: usize,
    /// Requests without a child.
    pub waiting: usize,
    /// How long the child has been idle that has been for the longest.
    pub longest_idle: Duration,
    /// How long the first of the waiting requests has waited.
    pub longest_wait: Duration,
}

impl Census {
    pub fn total(&self) -> usize {
        self.starting + self.idle + self.busy
    }
}

/// What is to be done, with the line for the log where there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Spawn {
        count: usize,
        why: Option<String>,
    },
    /// Ends children that are idle, those first that have been for the longest.
    Retire {
        count: usize,
        why: Option<String>,
    },
    Warn(String),
}

/// The state of a pool's process manager.
#[derive(Debug)]
pub struct Scaler {
    /// php-fpm doubles this with every second in which there were too few idle children.
    spawn_rate: usize,
    warned: bool,
    auto: Auto,
}

/// php-fpm speaks of a busy pool from this rate on.
const BUSY_RATE: usize = 8;

impl Default for Scaler {
    fn default() -> Scaler {
        Scaler {
            spawn_rate: 1,
            warned: false,
            auto: Auto::default(),
        }
    }
}

impl Scaler {
    /// Children at the start.
    pub fn initial(settings: &Settings, machine: &Machine) -> usize {
        match settings.pm {
            Pm::Static => settings.max_children,
            Pm::Dynamic => settings.start_servers,
            Pm::Ondemand => 0,
            Pm::Auto => machine.processors.clamp(1, settings.max_children),
        }
    }

    /// Once a second: php-fpm's upkeep.
    pub fn tick(
        &mut self,
        settings: &Settings,
        census: &Census,
        machine: &Machine,
        now: Duration,
    ) -> Option<Decision> {
        match settings.pm {
            Pm::Static => self.fill(settings, census),
            Pm::Dynamic => self.dynamic(settings, census),
            Pm::Ondemand => self.ondemand(settings, census),
            Pm::Auto => self.auto.shrink(settings, census, machine, now),
        }
    }

    /// At once when a request waits.
    pub fn request_waits(
        &mut self,
        settings: &Settings,
        census: &Census,
        machine: &Machine,
        now: Duration,
    ) -> Option<Decision> {
        match settings.pm {
            Pm::Auto => self.auto.grow(settings, census, machine, now),
            Pm::Ondemand => self.demand(settings, census),
            // The upkeep of each second would come too late for these only when nobody is there at all.
            Pm::Static | Pm::Dynamic if census.total() == 0 => Some(spawn(1)),
            Pm::Static => None,
            Pm::Dynamic => {
                if census.total() >= settings.max_children {
                    return self.warn_of_the_limit(settings);
                }
                None
            }
        }
    }

    /// The busiest moment counts even if it lies between two looks.
    pub fn note_busy(&mut self, busy: usize) {
        self.auto.note_busy(busy);
    }

    /// At once when a child has ended that was not retired; `census` is without it.
    pub fn child_ended(&mut self, settings: &Settings, census: &Census) -> Option<Decision> {
        let wanted = match settings.pm {
            Pm::Static | Pm::Dynamic => census.total() < settings.max_children,
            Pm::Ondemand | Pm::Auto => census.waiting > census.idle + census.starting,
        };
        wanted.then(|| spawn(1))
    }

    fn fill(&mut self, settings: &Settings, census: &Census) -> Option<Decision> {
        let total = census.total();
        if total > settings.max_children {
            let count = (total - settings.max_children).min(census.idle);
            return (count > 0).then_some(Decision::Retire { count, why: None });
        }
        let missing = settings.max_children - total;
        (missing > 0).then(|| spawn(missing))
    }

    fn dynamic(&mut self, settings: &Settings, census: &Census) -> Option<Decision> {
        // A child of php-fpm is there as soon as it is asked for.
        let idle = census.idle + census.starting;
        let total = census.total();
        if idle > settings.max_spare_servers && census.idle > 0 {
            self.spawn_rate = 1;
            return Some(Decision::Retire {
                count: 1,
                why: None,
            });
        }
        if idle >= settings.min_spare_servers {
            self.spawn_rate = 1;
            return None;
        }
        if total >= settings.max_children {
            self.spawn_rate = 1;
            return self.warn_of_the_limit(settings);
        }
        let count = self
            .spawn_rate
            .min(settings.min_spare_servers - idle)
            .min(settings.max_children - total);
        let why = (self.spawn_rate >= BUSY_RATE).then(|| {
            format!(
                "seems busy (you may need to increase pm.start_servers, or pm.min/max_spare_servers), spawning {count} children, there are {idle} idle, and {total} total children"
            )
        });
        self.warned = false;
        if self.spawn_rate < settings.max_spawn_rate {
            self.spawn_rate *= 2;
        }
        Some(Decision::Spawn { count, why })
    }

    fn ondemand(&mut self, settings: &Settings, census: &Census) -> Option<Decision> {
        let timeout = Duration::from_secs(settings.process_idle_timeout);
        let expired = census.idle > 0 && census.longest_idle >= timeout && census.waiting == 0;
        expired.then_some(Decision::Retire {
            count: 1,
            why: None,
        })
    }

    fn demand(&mut self, settings: &Settings, census: &Census) -> Option<Decision> {
        let lacking = census.waiting.saturating_sub(census.idle + census.starting);
        if lacking == 0 {
            return None;
        }
        let room = settings.max_children.saturating_sub(census.total());
        if room == 0 {
            return self.warn_of_the_limit(settings);
        }
        self.warned = false;
        Some(spawn(lacking.min(room)))
    }

    fn warn_of_the_limit(&mut self, settings: &Settings) -> Option<Decision> {
        if std::mem::replace(&mut self.warned, true) {
            return None;
        }
        let limit = settings.max_children;
        Some(Decision::Warn(format!(
            "server reached pm.max_children setting ({limit}), consider raising it"
        )))
    }
}

fn spawn(count: usize) -> Decision {
    Decision::Spawn { count, why: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::settings::Reading;

    fn settings(text: &str) -> Settings {
        let mut reading = Reading::new("www");
        for word in text.split_ascii_whitespace() {
            let (name, value) = word.split_once('=').unwrap();
            reading.entry(name, value).unwrap();
        }
        reading.finish(None).unwrap()
    }

    fn census(starting: usize, idle: usize, busy: usize, waiting: usize) -> Census {
        Census {
            starting,
            idle,
            busy,
            waiting,
            ..Census::default()
        }
    }

    const DYNAMIC: &str = "pm=dynamic pm.max_children=40 pm.min_spare_servers=20 pm.max_spare_servers=30 pm.start_servers=20 pm.max_spawn_rate=4";

    fn tick(scaler: &mut Scaler, settings: &Settings, census: Census) -> Option<Decision> {
        scaler.tick(settings, &census, &Machine::default(), Duration::ZERO)
    }

    #[test]
    fn dynamic_doubles_its_rate_each_second_up_to_the_limit() {
        let settings = settings(DYNAMIC);
        let mut scaler = Scaler::default();
        let mut busy = 20;
        let mut spawned = Vec::new();
        for _ in 0..6 {
            let decision = tick(&mut scaler, &settings, census(0, 0, busy, 5));
            let Some(Decision::Spawn { count, .. }) = decision else {
                panic!("{decision:?}");
            };
            spawned.push(count);
            busy += count;
        }
        assert_eq!(spawned, [1, 2, 4, 4, 4, 4]);
        let last = tick(&mut scaler, &settings, census(0, 0, 39, 5));
        assert_eq!(last, Some(spawn(1)));
        let warning = tick(&mut scaler, &settings, census(0, 0, 40, 5));
        assert!(matches!(warning, Some(Decision::Warn(text)) if text.contains("(40)")));
        assert_eq!(tick(&mut scaler, &settings, census(0, 0, 40, 5)), None);
    }

    #[test]
    fn dynamic_retires_one_a_second_beyond_its_spare_ones() {
        let settings = settings(DYNAMIC);
        let mut scaler = Scaler::default();
        let retire = Some(Decision::Retire {
            count: 1,
            why: None,
        });
        assert_eq!(tick(&mut scaler, &settings, census(0, 31, 0, 0)), retire);
        assert_eq!(tick(&mut scaler, &settings, census(0, 30, 0, 0)), None);
        assert_eq!(tick(&mut scaler, &settings, census(5, 15, 0, 0)), None);
    }

    #[test]
    fn ondemand_starts_what_waits_and_ends_what_is_idle_for_long() {
        let settings = settings("pm=ondemand pm.max_children=3 pm.process_idle_timeout=7");
        let (mut scaler, machine) = (Scaler::default(), Machine::default());
        let mut waits =
            |census: Census| scaler.request_waits(&settings, &census, &machine, Duration::ZERO);
        assert_eq!(waits(census(0, 0, 0, 1)), Some(spawn(1)));
        assert_eq!(waits(census(1, 0, 0, 1)), None);
        assert_eq!(waits(census(1, 0, 0, 9)), Some(spawn(2)));
        assert!(matches!(waits(census(0, 0, 3, 1)), Some(Decision::Warn(_))));
        let mut idle = census(0, 2, 0, 0);
        idle.longest_idle = Duration::from_millis(6999);
        assert_eq!(tick(&mut scaler, &settings, idle), None);
        idle.longest_idle = Duration::from_secs(7);
        assert!(matches!(
            tick(&mut scaler, &settings, idle),
            Some(Decision::Retire { count: 1, .. })
        ));
    }

    #[test]
    fn static_is_always_full() {
        let settings = settings("pm=static pm.max_children=4");
        let mut scaler = Scaler::default();
        assert_eq!(Scaler::initial(&settings, &Machine::default()), 4);
        assert_eq!(
            tick(&mut scaler, &settings, census(1, 1, 0, 0)),
            Some(spawn(2))
        );
        assert_eq!(
            scaler.child_ended(&settings, &census(0, 3, 0, 0)),
            Some(spawn(1))
        );
        let retire = Some(Decision::Retire {
            count: 2,
            why: None,
        });
        assert_eq!(tick(&mut scaler, &settings, census(0, 3, 3, 0)), retire);
    }
}
