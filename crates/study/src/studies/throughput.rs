//! Throughput in Gbit/s by number of workers and size of the body (published by nginx's makers).

use crate::material;
use crate::results::{Measure, Results};
use crate::study::{Advice, Asked, Case, Findings, Load, Table};
use crate::workspace::Workspace;

const USERS: usize = 50;
const SIZES: [(&str, usize); 3] = [
    ("100 KB", 100 << 10),
    ("1 MB", 1 << 20),
    ("10 MB", 10 << 20),
];
/// How files get to the socket.
const WAYS: [(&str, &str); 2] = [
    ("sendfile", "sendfile on;"),
    ("read and write", "sendfile off;"),
];

const GBITS: Measure = Measure {
    name: "Gbit/s",
    of: |figures| figures.bytes_per_second * 8.0 / 1e9,
    decimals: 2,
    is_compared: true,
};
const PER_PROCESSOR: Measure = Measure {
    name: "Gbit/s of a whole processor",
    of: |figures| figures.bytes_per_second * 8.0 / 1e9 / figures.cores,
    decimals: 2,
    is_compared: true,
};

const PUBLISHED: &[&[&str]] = &[
    &["1", "13", "48", "68"],
    &["2", "20", "69", "71"],
    &["4", "45", "67", "71"],
    &["8", "50", "68", "72"],
    &["16", "48", "66", "71"],
    &["32", "48", "66", "71"],
    &["36", "48", "66", "71"],
];

pub fn cases(asked: &Asked, workspace: &Workspace) -> Result<Vec<Case>, String> {
    for (_, size) in SIZES {
        material::sized(workspace, &[(&format!("{size}.html"), size)])?;
    }
    let mut cases = Vec::new();
    for (way, directive) in WAYS {
        for workers in &asked.workers {
            for (name, size) in SIZES {
                if asked.is_short && (name != "1 MB" || *workers != asked.most_workers()) {
                    continue;
                }
                let path = format!("/{size}.html");
                cases.push(Case {
                    key: key(way, &workers.to_string(), name),
                    workers: *workers,
                    http: format!(
                        "    server {{ listen 127.0.0.1:%PORT%; {directive} root {}; }}",
                        workspace.root().display()
                    ),
                    load: Load::new(asked.users_or(USERS), &[&path]).lasting(asked.time),
                    ..Case::default()
                });
            }
        }
    }
    Ok(cases)
}

fn key(way: &str, workers: &str, size: &str) -> String {
    format!("{way}, {workers} workers, {size}")
}

pub fn findings(asked: &Asked, results: &Results) -> Findings {
    let workers: Vec<String> = asked.workers.iter().map(usize::to_string).collect();
    let sizes = SIZES.map(|(name, _)| name.to_owned());
    let mut findings = Findings::default();
    for (way, _) in WAYS {
        let key = |row: &str, column: &str| key(way, row, column);
        for (heading, measure) in [
            ("Gbit/s", &GBITS),
            ("Gbit/s of a whole processor", &PER_PROCESSOR),
        ] {
            let heading = format!("{heading}, {way}");
            findings
                .tables
                .extend(results.matrix(&heading, "CPUs", &workers, &sizes, key, measure));
        }
        let lines: Vec<_> = workers
            .iter()
            .map(|row| {
                let keys = sizes.iter().map(|size| key(row, size)).collect();
                (format!("{row} workers"), keys)
            })
            .collect();
        let heading = format!("Gbit/s by size, {way}");
        findings
            .charts
            .push(results.chart(&heading, &sizes, &lines, &GBITS));
    }
    findings.tables.push(Table::published(
        "As published: nginx, Xeon E5-2699 v3, two networks of 40 Gbit/s, runs of 180 s",
        &["CPUs", "100 KB", "1 MB", "10 MB"],
        PUBLISHED,
    ));
    findings.advice = advice(asked, results);
    findings.remarks = vec![
        "Server and tester are on one machine: bytes go through the loopback device, which no network limits, and the \
         tester's reading takes as many processors as the server's sending."
            .to_owned(),
    ];
    findings
}

fn advice(asked: &Asked, results: &Results) -> Vec<Advice> {
    let workers = asked.most_workers().to_string();
    let of = |way: &str| results.own(&key(way, &workers, "1 MB"), &PER_PROCESSOR);
    let [(sendfile, on), (copied, off)] = WAYS;
    let (Some(with), Some(without)) = (of(sendfile), of(copied)) else {
        return Vec::new();
    };
    let (directive, better, worse) = match with >= without {
        true => (on, with, without),
        false => (off, without, with),
    };
    vec![Advice::new(
        directive,
        format!(
            "1 MB: {better:.1} Gbit/s of a whole processor, {worse:.1} the other way ({:.2} times)",
            better / worse
        ),
    )]
}
