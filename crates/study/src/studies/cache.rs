//! A cache before an application: off, cold, cold with a lock, warm, under users who think between their requests
//! (published in 2017 of a gallery in PHP, with Locust).

use crate::material;
use crate::results::{CPU, FAILED, MEAN, MEDIAN, P95, RATE, Results};
use crate::studies::php;
use crate::study::{Advice, Asked, Case, Findings, Load, Table};
use crate::workspace::Workspace;
use load::target::Target;

/// As published.
const USERS: usize = 100;
const THINK: &str = "300ms..1s";
/// Users come during this time.
const ARRIVAL: &str = "1s";
/// Pages of the application.
const PAGES: usize = 50;

const OFF: &str = "off";
const COLD: &str = "cold";
const LOCKED: &str = "cold, lock";
const WARM: &str = "warm";
/// Users do not think: what it can do at most.
const OFF_AT_ONCE: &str = "off, no think time";
const WARM_AT_ONCE: &str = "warm, no think time";
const WAYS: [&str; 6] = [OFF, COLD, LOCKED, WARM, OFF_AT_ONCE, WARM_AT_ONCE];

const PUBLISHED: &[&[&str]] = &[
    &["off", "4–6", "17–19", "over 10,000"],
    &["cold, then warm", "over 100", "0.53", "170, at the end 130"],
];

/// The words of the family: `fastcgi` before PHP, `proxy` before a site that runs.
fn directives(family: &str, way: &str) -> (String, String) {
    if way.starts_with(OFF) {
        return (String::new(), String::new());
    }
    let lock = if way == LOCKED { "on" } else { "off" };
    (
        format!(
            "{family}_cache_path %DIR%/cache levels=1:2 keys_zone=study:10m max_size=1g inactive=60m;"
        ),
        format!(
            "{family}_cache study; {family}_cache_valid 200 60m; {family}_cache_key $scheme$request_method$host$request_uri; \
             {family}_ignore_headers Cache-Control Expires Set-Cookie; {family}_cache_lock {lock};"
        ),
    )
}

/// The pages that are asked for.
fn pages(asked: &Asked) -> Vec<String> {
    let url = asked.site.url.as_deref();
    match url.and_then(|url| Target::parse(url).ok()) {
        Some(target) => vec![target.path],
        None => (1..=PAGES).map(|page| format!("/?page={page}")).collect(),
    }
}

pub fn cases(asked: &Asked, workspace: &Workspace) -> Result<Vec<Case>, String> {
    let origin = match &asked.site.url {
        Some(url) => {
            // Whether it is there is told before anything is measured.
            material::fetch(url)?;
            Some(Target::parse(url)?.endpoint)
        }
        None => None,
    };
    let root = match origin {
        Some(_) => None,
        None => Some(php::site(&asked.site, workspace)?),
    };
    let pages = pages(asked);
    let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
    let users = asked.users_or(USERS);
    // Children of PHP have begun, and compiled the script, before anything counts; what is kept of this is asked for by
    // nobody else.
    let awake = Load::new(6, &["/?page=0"]).with(&["-n", "30"]);
    let mut cases = Vec::new();
    for way in WAYS {
        if asked.is_short && [COLD, LOCKED].contains(&way) {
            continue;
        }
        let http = match (&root, &origin) {
            (Some(root), _) => {
                let (outside, inside) = directives("fastcgi", way);
                php::http(root, &outside, &inside)
            }
            (None, origin) => {
                let (outside, inside) = directives("proxy", way);
                let origin = origin.as_ref().map_or_else(String::new, |origin| {
                    let (scheme, authority) = (origin.scheme.as_str(), &origin.authority);
                    format!("proxy_set_header Host {authority}; proxy_pass {scheme}://{authority};")
                });
                format!(
                    "    {outside}\n    server {{ listen 127.0.0.1:%PORT%; location / {{ {inside} {origin} }} }}"
                )
            }
        };
        let load = Load::new(users, &pages);
        let load = match [OFF_AT_ONCE, WARM_AT_ONCE].contains(&way) {
            true => load,
            false => load.with(&["--think", THINK, "--ramp-up", ARRIVAL]),
        };
        let fill = Load::new(2, &pages).with(&["--in-turn", "-n", &pages.len().to_string()]);
        let pool = [("pm", "static"), ("pm.max_children", "6")];
        cases.push(Case {
            key: way.to_owned(),
            workers: asked.most_workers(),
            http,
            pool: root.as_ref().map(|_| php::pool(&pool)),
            before: Some(match way.starts_with(WARM) {
                true => fill,
                false => awake.clone(),
            }),
            load: load.lasting(asked.time),
            ..Case::default()
        });
    }
    Ok(cases)
}

pub fn findings(asked: &Asked, results: &Results) -> Findings {
    let labels: Vec<String> = WAYS.map(str::to_owned).to_vec();
    let rows: Vec<_> = labels
        .iter()
        .map(|label| (label.clone(), label.clone()))
        .collect();
    let users = asked.users_or(USERS);
    let line = [(String::new(), labels.clone())];
    Findings {
        tables: vec![
            results.table(
                &format!("{users} users"),
                "cache",
                &rows,
                &[RATE, FAILED, CPU],
            ),
            results.table("Latency", "cache", &rows, &[MEAN, MEDIAN, P95]),
            Table::published(
                "As published in 2017: a gallery that makes its thumbnails, PHP 7.1 and MySQL in a virtual machine",
                &["cache", "requests/s", "failed %", "mean ms"],
                PUBLISHED,
            ),
        ],
        charts: vec![
            results.chart("Requests per second", &labels, &line, &RATE),
            results.chart("Latency: half below, in ms", &labels, &line, &MEDIAN),
            results.chart(
                "CPU per request of server and PHP, in µs",
                &labels,
                &line,
                &CPU,
            ),
        ],
        advice: advice(asked, results),
        remarks: vec![format!(
            "{users} users think {THINK} between requests unless said otherwise, so that without any delay they would ask \
             {:.0} times a second; {} pages, one entry each.",
            users as f64 / 0.65,
            pages(asked).len()
        )],
    }
}

fn advice(asked: &Asked, results: &Results) -> Vec<Advice> {
    let family = if asked.site.url.is_some() {
        "proxy"
    } else {
        "fastcgi"
    };
    let (Some(off), Some(warm)) = (
        results.own(OFF_AT_ONCE, &RATE),
        results.own(WARM_AT_ONCE, &RATE),
    ) else {
        return Vec::new();
    };
    let median = |way: &str| results.own(way, &MEDIAN).unwrap_or(f64::NAN);
    let mut advice = vec![Advice::new(
        format!(
            "{family}_cache_path /var/cache/gannet keys_zone=site:10m; {family}_cache site; {family}_cache_valid 200 60m;"
        ),
        format!(
            "{warm:.0} requests/s from the cache instead of {off:.0} ({:.0} times); half of the requests within {:.1} ms \
             instead of {:.1} ms",
            warm / off,
            median(WARM),
            median(OFF)
        ),
    )];
    let p95 = |way: &str| results.own(way, &P95);
    if let (Some(cold), Some(locked)) = (p95(COLD), p95(LOCKED)) {
        let directive = match locked <= cold {
            true => "on",
            false => "off",
        };
        advice.push(Advice::new(
            format!("{family}_cache_lock {directive};"),
            format!(
                "while the cache fills, 95 % within {locked:.0} ms with it, {cold:.0} ms without"
            ),
        ));
    }
    advice
}
