//! What is to be measured: the whole of a run, settled before its first request.

use crate::request::Request;
use crate::require::Requirement;
use crate::target::Endpoint;
use crate::tls::Tls;
use regex::bytes::Regex;
use std::time::Duration;

/// Users and threads that may be asked for.
pub const USERS_MAX: usize = 1_000_000;
pub const THREADS_MAX: usize = 1024;
/// Rows of the report; requests beyond them are counted in the last one.
pub const LABELS_MAX: usize = 200;
/// Requests whose times are kept one by one; of further ones only the sums are.
pub const KEPT_MAX: usize = 1_000_000;
/// Users that may share a connection.
pub const STREAMS_MAX: usize = 10_000;

/// A run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub endpoints: Vec<Endpoint>,
    pub tasks: Vec<Task>,
    /// What each user does once, before the first task.
    pub start: Vec<Step>,
    /// Values that users begin with.
    pub given: Vec<Given>,
    pub order: Order,
    /// The names of the report's rows; steps hold their numbers.
    pub labels: Vec<String>,
    /// How many values the steps of a user may set.
    pub values: usize,
    /// In a closed model the users, each of whom has one request under way at most; in an open model the connections.
    pub users: usize,
    pub threads: usize,
    pub pace: Pace,
    /// After each task.
    pub think: Option<Think>,
    /// Ends after so many requests.
    pub requests: Option<u64>,
    /// Ends after so long; requests under way are waited for.
    pub duration: Option<Duration>,
    pub client: ClientOptions,
    /// Needed if an endpoint speaks HTTPS.
    pub tls: Option<Tls>,
    /// A body of another length than the first one is a failure.
    pub same_length: bool,
    /// The times of each request are kept.
    pub keeps_times: bool,
    pub requirements: Vec<Requirement>,
    /// Of the random choices; the same seed gives the same choices for each user.
    pub seed: u64,
}

/// What makes a user begin a task.
#[derive(Clone, Debug, PartialEq)]
pub enum Pace {
    /// The end of the one before. The number of users follows the stages, if there are any.
    Closed(Vec<Stage>),
    /// The clock, whether or not earlier ones have ended.
    Open(Vec<Stage>),
    /// The times at which the requests of a log came, relative to the first.
    Recorded(Vec<Duration>),
}

/// A stretch of time in which users or rate go from one value to another, evenly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    pub duration: Duration,
    pub from: f64,
    pub to: f64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// By weight, at random.
    Weighted,
    /// The numbers of tasks, one after the other over all users, from the start again after the last.
    InTurn(Vec<u32>),
}

/// A pause of a length chosen evenly between two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Think {
    pub from: Duration,
    pub to: Duration,
}

/// Steps that a user does in sequence; one that fails ends the task.
#[derive(Clone, Debug)]
pub struct Task {
    pub weight: u32,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub struct Step {
    pub label: usize,
    pub request: Request,
    pub checks: Checks,
    pub takes: Vec<Take>,
    pub think: Option<Think>,
}

/// What a response must be to count as a success.
#[derive(Clone, Debug, Default)]
pub struct Checks {
    /// Ranges of status codes; empty: any below 400.
    pub statuses: Vec<(u16, u16)>,
    /// A pattern that must stand in the body.
    pub body: Option<Regex>,
    /// The length of the body in bytes.
    pub length: Option<u64>,
}

impl Checks {
    pub fn allows(&self, status: u16) -> bool {
        match self.statuses.as_slice() {
            [] => status < 400,
            ranges => ranges
                .iter()
                .any(|(from, to)| (*from..=*to).contains(&status)),
        }
    }
}

/// A value taken out of a response: the first group of the pattern, or all of its match.
#[derive(Clone, Debug)]
pub struct Take {
    pub value: usize,
    pub name: String,
    pub pattern: Regex,
    /// In the head instead of the body.
    pub from_head: bool,
}

/// Values that users begin with: the first user with the first, and so on, from the start again after the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    pub value: usize,
    pub lines: Vec<Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// A connection for each request instead of one for each user.
    pub new_connection: bool,
    /// From the start of a request to the last byte of its response.
    pub timeout: Duration,
    /// Bytes of a body that patterns look at.
    pub keep_body: usize,
    /// HTTP/2, and only it.
    pub http2: bool,
    /// Users that share a connection of HTTP/2; 1 otherwise.
    pub streams: usize,
    /// Each user keeps the cookies it is given.
    pub cookies: bool,
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions {
            new_connection: false,
            timeout: Duration::from_secs(30),
            keep_body: 1 << 20,
            http2: false,
            streams: 1,
            cookies: false,
        }
    }
}

impl Step {
    /// How much of the response is to be kept for checks and values.
    pub fn keep(&self, options: &ClientOptions) -> usize {
        if self.checks.body.is_some() || !self.takes.is_empty() {
            options.keep_body
        } else {
            0
        }
    }
}

impl Default for Plan {
    /// One user and no task yet.
    fn default() -> Plan {
        Plan {
            endpoints: Vec::new(),
            tasks: Vec::new(),
            start: Vec::new(),
            given: Vec::new(),
            order: Order::Weighted,
            labels: Vec::new(),
            values: 0,
            users: 1,
            threads: 1,
            pace: Pace::Closed(Vec::new()),
            think: None,
            requests: None,
            duration: None,
            client: ClientOptions::default(),
            tls: None,
            same_length: false,
            keeps_times: false,
            requirements: Vec::new(),
            seed: 1,
        }
    }
}

impl Plan {
    /// All steps, in the order of the plan.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        let tasks = self.tasks.iter().flat_map(|task| &task.steps);
        self.start.iter().chain(tasks)
    }

    pub fn steps_mut(&mut self) -> impl Iterator<Item = &mut Step> {
        let tasks = self.tasks.iter_mut().flat_map(|task| &mut task.steps);
        self.start.iter_mut().chain(tasks)
    }

    /// How long the run is meant to last, if its time is known beforehand.
    pub fn expected(&self) -> Option<Duration> {
        self.duration
    }
}
