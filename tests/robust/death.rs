//! The worker dies, or a request panics: others hardly notice.

use crate::site::{Site, children, kill, wait_for};
use std::time::{Duration, Instant};
use testkit::client::Client;

/// From the death of a worker to the first answer of the next.
const REPLACED_WITHIN: Duration = Duration::from_secs(1);
const DEATHS: usize = 3;

#[test]
fn a_killed_worker_is_replaced_within_a_second() {
    let site = Site::start("");
    let mut workers = vec![site.worker()];
    for death in 1..=DEATHS {
        // Its clients wait, read and are about to ask.
        let clients: Vec<Client> = (0..20).map(|_| site.connect()).collect();
        let worker = workers[workers.len() - 1];
        kill("KILL", worker);
        let killed = Instant::now();
        let mut refused = 0;
        wait_for("an answer", || match Client::connect(site.port) {
            Ok(_) => site
                .try_ask("/small.txt")
                .filter(|reply| reply.status() == 200),
            Err(_) => {
                refused += 1;
                None
            }
        });
        assert!(killed.elapsed() < REPLACED_WITHIN, "{:?}", killed.elapsed());
        // The sockets stayed open throughout.
        assert_eq!(refused, 0);
        drop(clients);
        site.wait_for_log(&format!("worker process {worker} exited on signal 9"), 1);
        workers.push(wait_for("the next worker", || {
            children(site.master())
                .into_iter()
                .find(|pid| !workers.contains(pid))
        }));
        assert_eq!(site.log().matches("exited on signal 9").count(), death);
    }
}
