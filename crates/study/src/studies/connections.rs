//! New connections a second, each for one request of no bytes, over HTTP and over TLS with full handshakes (published by
//! nginx's makers with RSA certificates; ECDSA stands beside it here).

use crate::material;
use crate::results::{CPU, Measure, Results};
use crate::study::{Advice, Asked, Case, Findings, Load, Table};
use crate::workspace::Workspace;

const USERS: usize = 50;

/// Each request opens its own.
const RATE: Measure = Measure {
    name: "connections/s",
    of: |figures| figures.good_per_second,
    decimals: 0,
    is_compared: true,
};

/// What one processor would do, if it did nothing else.
const A_PROCESSOR: Measure = Measure {
    name: "connections/s of a whole processor",
    of: |figures| 1e6 / figures.cpu_us_per_request,
    decimals: 0,
    is_compared: true,
};

const HTTP: &str = "HTTP";
const RSA: &str = "HTTPS RSA 2048";
const ECDSA: &str = "HTTPS ECDSA P-256";
/// Clients that come again.
const RESUMED: &str = "HTTPS resumed";
const KINDS: [&str; 4] = [HTTP, RSA, ECDSA, RESUMED];

const PUBLISHED: &[&[&str]] = &[
    &["1", "34344", "428"],
    &["2", "54368", "869"],
    &["4", "123164", "1735"],
    &["8", "194967", "3399"],
    &["16", "255032", "6676"],
    &["24", "–", "10274"],
    &["32", "261033", "–"],
    &["36", "257277", "10067"],
];

pub fn cases(asked: &Asked, workspace: &Workspace) -> Result<Vec<Case>, String> {
    material::sized(workspace, &[("0.html", 0)])?;
    let rsa = material::certificate(workspace, "rsa", material::RSA)?;
    let ecdsa = material::certificate(workspace, "ecdsa", material::ECDSA)?;
    let root = workspace.root();
    let workers = asked
        .workers
        .iter()
        .filter(|workers| !asked.is_short || **workers == asked.most_workers());
    let mut cases = Vec::new();
    for workers in workers {
        for kind in KINDS {
            let certificate = if kind == RSA { &rsa } else { &ecdsa };
            let load = Load::new(asked.users_or(USERS), &["/0.html"]).with(&["--new-connection"]);
            let load = match kind {
                HTTP => load,
                RESUMED => load.secure(),
                _ => load.secure().with(&["--no-resumption"]),
            };
            cases.push(Case {
                key: key(&workers.to_string(), kind),
                workers: *workers,
                http: format!(
                    "    ssl_session_cache shared:study:1m;\n    server {{ listen 127.0.0.1:%PORT%; \
                     listen 127.0.0.1:%TLS% ssl; {certificate} root {}; }}",
                    root.display()
                ),
                load: load.lasting(asked.time),
                ..Case::default()
            });
        }
    }
    Ok(cases)
}

fn key(workers: &str, kind: &str) -> String {
    format!("{workers} workers, {kind}")
}

pub fn findings(asked: &Asked, results: &Results) -> Findings {
    let workers: Vec<String> = asked.workers.iter().map(usize::to_string).collect();
    let kinds = KINDS.map(str::to_owned);
    let mut findings = Findings::default();
    for (heading, measure) in [
        ("New connections per second", &RATE),
        (
            "New connections per second of a whole processor",
            &A_PROCESSOR,
        ),
    ] {
        findings
            .tables
            .extend(results.matrix(heading, "CPUs", &workers, &kinds, key, measure));
    }
    findings.tables.push(Table::published(
        "As published: nginx with OpenSSL 1.0.1, RSA 2048, Xeon E5-2699 v3",
        &["CPUs", "HTTP", "HTTPS"],
        PUBLISHED,
    ));
    let lines: Vec<_> = workers
        .iter()
        .map(|row| {
            let keys = kinds.iter().map(|kind| key(row, kind)).collect();
            (format!("{row} workers"), keys)
        })
        .collect();
    findings.charts = vec![
        results.chart("New connections per second", &kinds, &lines, &RATE),
        results.chart("CPU per connection in µs", &kinds, &lines, &CPU),
    ];
    findings.advice = advice(asked, results);
    findings.remarks = vec![
        "The tester shakes hands on the same machine, and each handshake costs it about as much as the server; what a \
         whole processor does is computed from the server's processor time."
            .to_owned(),
    ];
    findings
}

fn advice(asked: &Asked, results: &Results) -> Vec<Advice> {
    let workers = asked.most_workers().to_string();
    let of = |kind: &str| results.own(&key(&workers, kind), &A_PROCESSOR);
    let mut advice = Vec::new();
    if let (Some(rsa), Some(ecdsa)) = (of(RSA), of(ECDSA)) {
        let (better, worse, name) = match ecdsa >= rsa {
            true => (ecdsa, rsa, "an ECDSA certificate (P-256)"),
            false => (rsa, ecdsa, "an RSA certificate"),
        };
        advice.push(Advice::new(
            format!("ssl_certificate …; # {name}"),
            format!(
                "a processor shakes {better:.0} hands a second with it, {:.1} times as many as with the other",
                better / worse
            ),
        ));
    }
    if let (Some(full), Some(resumed)) = (of(ECDSA), of(RESUMED)) {
        advice.push(Advice::new(
            "ssl_session_cache shared:tls:10m; ssl_session_timeout 1d;",
            format!(
                "clients that come again: {resumed:.0} a second and processor instead of {full:.0}"
            ),
        ));
    }
    if let (Some(http), Some(ecdsa)) = (of(HTTP), of(ECDSA)) {
        let kept = "keepalive_timeout 65; keepalive_requests 1000;";
        let saved = (1e6 / ecdsa, 1e6 / http);
        advice.push(Advice::new(
            kept,
            format!(
                "a request on a kept connection saves {:.0} µs of processor over TLS, {:.0} µs without",
                saved.0, saved.1
            ),
        ));
    }
    advice
}
