//! The arguments of `gannet load`.

use crate::tls::Version;
use crate::units;
use clap::{Parser, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// Load a server and measure what it does.
#[derive(Clone, Debug, Parser)]
#[command(name = "gannet load", disable_version_flag = true)]
pub struct Arguments {
    /// What to ask for; `3:URL` weighs three times as much as the others
    #[arg(value_name = "URL")]
    pub urls: Vec<String>,
    /// A file of URLs, one a line, chosen at random by their weights; paths belong to the URL given beside it
    #[arg(long, value_name = "FILE")]
    pub list: Option<PathBuf>,
    /// Take URLs one after the other instead of at random
    #[arg(long)]
    pub in_turn: bool,
    /// Send the GET and HEAD requests of an access log again, in their order, to the server of the URL
    #[arg(long, value_name = "FILE")]
    pub replay: Option<PathBuf>,
    /// With --replay: keep to the times of the log, so many times as fast; else as fast as the users are
    #[arg(long, value_name = "FACTOR", value_parser = units::factor)]
    pub speed: Option<f64>,
    /// What users do, from a file: weighted tasks of several steps, values from responses, checks (docs/load.md)
    #[arg(long, value_name = "FILE")]
    pub scenario: Option<PathBuf>,

    /// Users, each with a connection of its own and one request at a time; with --rate, connections at most
    #[arg(
        short = 'c',
        long = "users",
        visible_alias = "connections",
        value_name = "N"
    )]
    pub users: Option<usize>,
    /// End after so many requests
    #[arg(short = 'n', long = "requests", value_name = "N")]
    pub requests: Option<u64>,
    /// End after so long; 10s unless something else ends the run
    #[arg(short = 'd', long = "duration", value_name = "TIME", value_parser = units::duration)]
    pub duration: Option<Duration>,
    /// Threads of the tester; as many as there are processors
    #[arg(short = 't', long = "threads", value_name = "N")]
    pub threads: Option<usize>,
    /// Open model: begin so many requests a second, whether or not earlier ones have ended; latencies count from the
    /// moment at which a request was due
    #[arg(long, value_name = "RATE", value_parser = units::rate)]
    pub rate: Option<f64>,
    /// Let users, or the rate, rise evenly from 0 during this time
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub ramp_up: Option<Duration>,
    /// Stretches of the run, such as `10s:100,1m:100,10s:0`: how long, and how many users, or requests a second, at
    /// its end; with --rate (its value is not used then) they are rates
    #[arg(long, value_name = "TIME:VALUE,…")]
    pub stages: Option<String>,
    /// Users pause between requests, such as `1s` or `300ms..1s`
    #[arg(long, value_name = "TIME[..TIME]", value_parser = units::duration_range)]
    pub think: Option<(Duration, Duration)>,

    /// Speak HTTP/2, agreed on in TLS
    #[arg(long)]
    pub http2: bool,
    /// Speak HTTP/2 without TLS, too, to servers that are known to
    #[arg(long)]
    pub http2_prior_knowledge: bool,
    /// With HTTP/2: users that share a connection, each with a stream
    #[arg(long, value_name = "N")]
    pub streams: Option<usize>,
    /// Use a connection for each request
    #[arg(long)]
    pub new_connection: bool,
    /// Trust any server's certificate
    #[arg(short = 'k', long)]
    pub insecure: bool,
    /// The name to ask for in TLS, and that the certificate must have
    #[arg(long, value_name = "NAME")]
    pub sni: Option<String>,
    /// A full TLS handshake for every connection
    #[arg(long)]
    pub no_resumption: bool,
    /// Speak this version of TLS and no other
    #[arg(long, value_name = "VERSION")]
    pub tls_version: Option<Version>,
    /// A certificate in PEM to show to servers that ask for one, with those that lead to its issuer
    #[arg(long, value_name = "FILE")]
    pub cert: Option<PathBuf>,
    /// Its key; in the file of the certificate unless told
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Users keep the cookies that they are given, each its own
    #[arg(long)]
    pub cookies: bool,
    /// Ask again on a new connection, whatever the method, when the server has closed a kept one; POST, PATCH and unknown
    /// methods are not asked twice otherwise
    #[arg(long)]
    pub repeat_any: bool,
    /// A header line `Name: value`
    #[arg(short = 'H', long = "header", value_name = "LINE")]
    pub headers: Vec<String>,
    /// The method; GET, or POST if there is a body
    #[arg(short = 'X', long = "method", value_name = "METHOD")]
    pub method: Option<String>,
    /// The body
    #[arg(long, value_name = "TEXT", conflicts_with = "body_file")]
    pub body: Option<String>,
    /// The file that holds the body
    #[arg(long, value_name = "FILE")]
    pub body_file: Option<PathBuf>,
    /// A request that takes longer has failed
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "30s")]
    pub timeout: Duration,

    /// Statuses that are right, such as `200,300-399`; any below 400
    #[arg(long, value_name = "STATUS,…")]
    pub expect_status: Option<String>,
    /// A regular expression that must be found in the body
    #[arg(long, value_name = "REGEX")]
    pub expect_body: Option<String>,
    /// The length that the body must have
    #[arg(long, value_name = "BYTES")]
    pub expect_length: Option<u64>,
    /// A threshold, such as `p95<200ms` or `errors<1%`; the exit code is 1 if one does not hold
    #[arg(long, value_name = "THRESHOLD")]
    pub require: Vec<String>,

    /// What to print
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: Format,
    /// Write everything as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the table as CSV
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write the course of the run as CSV
    #[arg(long, value_name = "FILE")]
    pub csv_series: Option<PathBuf>,
    /// Write one page with tables and charts, which needs nothing else
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Serve a page from which runs are started, watched and stopped; at an IP address with a port, or a port of
    /// 127.0.0.1. Ctrl-C ends it and prints the last report
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "")]
    pub ui: Option<String>,
    /// Show nothing while it runs
    #[arg(short = 'q', long)]
    pub quiet: bool,
    /// Of the random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Text,
    Json,
    Csv,
    /// The report of ApacheBench
    Ab,
    /// Locust's tables
    Locust,
    /// JMeter's aggregate report
    Jmeter,
}
