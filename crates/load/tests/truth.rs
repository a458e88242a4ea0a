//! The tester measures what is there: against a server whose delays are known.

use load::plan::{Checks, Pace, Plan, Stage, Step, Task};
use load::request::Request;
use load::target::Target;
use load::template::Template;
use load::{Control, Nobody, Report};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::responder::Responder;

const REPLY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
/// Others may use the machine: a run that they disturbed is repeated.
const ATTEMPTS: usize = 5;

fn plan(port: u16, users: usize, pace: Pace) -> Plan {
    let target = Target::parse(&format!("http://127.0.0.1:{port}/")).unwrap();
    let mut endpoint = target.endpoint;
    endpoint.resolve().unwrap();
    let mut request = Request::new(
        0,
        &endpoint.authority,
        "GET",
        Template::fixed("/"),
        &[],
        None,
    );
    request.prepare(false);
    let step = Step {
        label: 0,
        request,
        checks: Checks::default(),
        takes: Vec::new(),
        think: None,
    };
    Plan {
        endpoints: vec![endpoint],
        tasks: vec![Task {
            weight: 1,
            steps: vec![step],
        }],
        labels: vec!["/".into()],
        users,
        threads: 2,
        pace,
        ..Plan::default()
    }
}

fn run(plan: Plan) -> Report {
    load::run(&Arc::new(plan), &Arc::new(Control::default()), &mut Nobody).unwrap()
}

fn off(found: Duration, expected: Duration) -> f64 {
    (found.as_secs_f64() / expected.as_secs_f64() - 1.0).abs()
}

/// Repeats until it finds nothing wrong, some times.
fn undisturbed(attempt: impl Fn() -> Option<String>) {
    let mut complaint = None;
    for _ in 0..ATTEMPTS {
        complaint = attempt();
        if complaint.is_none() {
            return;
        }
    }
    assert_eq!(complaint, None);
}

#[test]
fn percentiles_are_those_of_the_server() {
    undisturbed(|| {
        let delay = |n: usize| Duration::from_millis(20 + (n as u64 * 37) % 101);
        let responder = Responder::start(move |n| {
            std::thread::sleep(delay(n));
            REPLY.to_vec()
        })
        .unwrap();
        let report = run(Plan {
            requests: Some(606),
            ..plan(responder.port(), 20, Pace::Closed(Vec::new()))
        });
        let took = responder.took();
        assert_eq!((report.total.requests, report.total.failures), (606, 0));
        assert_eq!((took.len(), responder.connections()), (606, 20));
        for percent in [1.0, 10.0, 50.0, 75.0, 90.0, 95.0, 99.0, 100.0] {
            let rank = (percent / 100.0 * took.len() as f64).ceil() as usize;
            let expected = took[rank.saturating_sub(1)];
            let found = report.total.total.percentile(percent);
            if off(found, expected) > 0.02 {
                return Some(format!("p{percent}: {found:?}, not {expected:?}"));
            }
        }
        None
    });
}

/// 200 requests a second for three seconds, and the server stands still during the second one. Those that were due
/// meanwhile waited for the rest of it, although there were only 8 connections to see it: a third of all requests, their
/// latencies spread evenly up to a second.
#[test]
fn a_stall_is_in_the_tail_of_the_open_model() {
    undisturbed(|| {
        let stall = Mutex::new(());
        let responder = Responder::start(move |n| {
            let held = stall.lock();
            if n == 200 {
                std::thread::sleep(Duration::from_secs(1));
            }
            drop(held);
            REPLY.to_vec()
        })
        .unwrap();
        let second = Duration::from_secs(1);
        let report = run(Plan {
            duration: Some(3 * second),
            ..plan(
                responder.port(),
                8,
                Pace::Open(vec![Stage {
                    duration: 3 * second,
                    from: 200.0,
                    to: 200.0,
                }]),
            )
        });
        assert_eq!((report.total.requests, report.total.failures), (600, 0));
        let times = &report.total.total;
        for (percent, ms) in [(75.0, 250), (83.333, 500), (95.0, 850), (99.0, 970)] {
            let (found, expected) = (times.percentile(percent), Duration::from_millis(ms));
            if found.abs_diff(expected) > Duration::from_millis(30) {
                return Some(format!("p{percent}: {found:?}, not {expected:?}"));
            }
        }
        let half = times.percentile(50.0);
        (half > Duration::from_millis(20)).then(|| format!("median {half:?}"))
    });
}
