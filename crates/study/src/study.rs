//! What a study is made of, and what it tells.

use crate::material::Site;
use serde::Serialize;
use std::time::Duration;

/// A server that takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Contender {
    Gannet,
    Nginx,
}

impl Contender {
    pub fn as_str(self) -> &'static str {
        match self {
            Contender::Gannet => "gannet",
            Contender::Nginx => "nginx",
        }
    }
}

/// What a study is asked for.
pub struct Asked {
    pub contenders: Vec<Contender>,
    /// How long a measurement lasts.
    pub time: Duration,
    pub rounds: usize,
    /// Instead of the number that was published.
    pub users: Option<usize>,
    /// Numbers of workers to compare, ascending.
    pub workers: Vec<usize>,
    pub site: Site,
    /// Fewer cases: those that decide about a directive.
    pub is_short: bool,
}

impl Asked {
    pub fn users_or(&self, published: usize) -> usize {
        self.users.unwrap_or(published)
    }

    /// The greatest number of workers.
    pub fn most_workers(&self) -> usize {
        self.workers.last().copied().unwrap_or(1)
    }
}

/// A configuration, and a load for it.
#[derive(Clone, Debug, Default)]
pub struct Case {
    /// Its name within the study.
    pub key: String,
    pub workers: usize,
    /// Only this server can do it.
    pub only: Option<Contender>,
    /// Modules of nginx that it needs, as directives.
    pub modules: String,
    /// What stands in the http block. `%PORT%`, `%TLS%` and `%ORIGIN%` are free ports, `%DIR%` is the directory of the
    /// study, `%PHP%` what `fastcgi_pass` is given.
    pub http: String,
    /// The same for nginx where it has other words.
    pub nginx: Option<String>,
    /// Needed beside the server.
    pub pool: Option<Pool>,
    /// What comes before the measurement, and is not measured.
    pub before: Option<Load>,
    pub load: Load,
}

/// How many children PHP has, in words and values that php-fpm and Gannet share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool(pub Vec<(String, String)>);

/// Arguments of `gannet load`.
#[derive(Clone, Debug, Default)]
pub struct Load {
    pub words: Vec<String>,
    pub paths: Vec<String>,
    pub is_secure: bool,
}

impl Load {
    pub fn new(users: usize, paths: &[&str]) -> Load {
        Load {
            words: vec!["-c".to_owned(), users.to_string()],
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
            is_secure: false,
        }
    }

    pub fn with(mut self, words: &[&str]) -> Load {
        self.words
            .extend(words.iter().map(|word| (*word).to_owned()));
        self
    }

    /// Ends after so long.
    pub fn lasting(self, time: Duration) -> Load {
        self.with(&["-d", &format!("{}s", time.as_secs_f64())])
    }

    pub fn secure(mut self) -> Load {
        self.is_secure = true;
        self.with(&["-k"])
    }
}

/// What a study found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Findings {
    pub tables: Vec<Table>,
    pub charts: Vec<Chart>,
    pub advice: Vec<Advice>,
    /// What must be known to read the tables.
    pub remarks: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Table {
    pub heading: String,
    pub columns: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table that was published; the first column of a row is its name.
    pub fn published(heading: &str, columns: &[&str], rows: &[&[&str]]) -> Table {
        let owned = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect();
        Table {
            heading: heading.to_owned(),
            columns: owned(columns),
            rows: rows.iter().map(|row| owned(row)).collect(),
        }
    }
}

/// Lines or bars over names.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Chart {
    pub heading: String,
    pub labels: Vec<String>,
    pub series: Vec<Line>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Line {
    pub label: String,
    /// Parallel to the chart's labels.
    pub values: Vec<Option<f64>>,
}

/// A directive, and the figure that speaks for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advice {
    pub directive: String,
    pub reason: String,
}

impl Advice {
    pub fn new(directive: impl Into<String>, reason: impl Into<String>) -> Advice {
        Advice {
            directive: directive.into(),
            reason: reason.into(),
        }
    }
}

/// The whole report of a study.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub name: String,
    pub title: String,
    pub machine: Vec<(String, String)>,
    pub commands: Vec<String>,
    pub findings: Findings,
    pub was_interrupted: bool,
}
