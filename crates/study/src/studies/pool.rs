//! PHP by the way its pool has children: dynamic, ondemand, static, and Gannet's auto, under users who think between their
//! requests (published in 2017 of a gallery, with Locust).

use crate::results::{CHILDREN, CPU, FAILED, GOOD, MEDIAN, MEMORY, P95, Results};
use crate::studies::php;
use crate::study::{Advice, Asked, Case, Contender, Findings, Load, Pool, Table};
use crate::workspace::Workspace;

/// As published.
const USERS: usize = 100;
const THINK: &str = "300ms..1s";
/// Users come during this time.
const ARRIVAL: &str = "1s";
/// A smaller pool is better unless it does less than this share.
const ENOUGH: f64 = 0.97;

const PUBLISHED: &[&[&str]] = &[
    &["dynamic", "about 5", "17–19", "over 10 s"],
    &[
        "ondemand",
        "4–6",
        "the same",
        "the same; more failures at first",
    ],
    &["static", "a fifth more", "still many", "–"],
];

/// Label and words; the numbers are the published ones.
fn pools(asked: &Asked) -> Vec<(String, Pool)> {
    let dynamic = [
        ("pm", "dynamic"),
        ("pm.max_children", "6"),
        ("pm.start_servers", "3"),
        ("pm.min_spare_servers", "2"),
        ("pm.max_spare_servers", "4"),
    ];
    let ondemand = [
        ("pm", "ondemand"),
        ("pm.max_children", "6"),
        ("pm.process_idle_timeout", "20s"),
    ];
    let mut pools = vec![
        ("dynamic, 6".to_owned(), php::pool(&dynamic)),
        ("ondemand, 6".to_owned(), php::pool(&ondemand)),
    ];
    // As published, and what the processors suggest.
    let processors = sys::machine::cpu_count();
    let mut counts = vec![processors, 6, 4 * processors];
    if asked.is_short {
        counts = vec![6];
    }
    counts.sort_unstable();
    counts.dedup();
    for count in counts {
        let count = count.to_string();
        let words = [("pm", "static"), ("pm.max_children", count.as_str())];
        pools.push((format!("static, {count}"), php::pool(&words)));
    }
    pools.push((AUTO.to_owned(), php::pool(&[("pm", "auto")])));
    pools
}

/// Only Gannet has it.
const AUTO: &str = "auto";

pub fn cases(asked: &Asked, workspace: &Workspace) -> Result<Vec<Case>, String> {
    let root = php::site(&asked.site, workspace)?;
    let load = Load::new(asked.users_or(USERS), &["/"])
        .with(&["--think", THINK, "--ramp-up", ARRIVAL])
        .lasting(asked.time);
    let case = |(label, pool): (String, Pool)| Case {
        only: (label == AUTO).then_some(Contender::Gannet),
        key: label,
        workers: asked.most_workers(),
        http: php::http(&root, "", ""),
        pool: Some(pool),
        load: load.clone(),
        ..Case::default()
    };
    Ok(pools(asked).into_iter().map(case).collect())
}

pub fn findings(asked: &Asked, results: &Results) -> Findings {
    let labels: Vec<String> = pools(asked).into_iter().map(|(label, _)| label).collect();
    let rows: Vec<_> = labels
        .iter()
        .map(|label| (label.clone(), label.clone()))
        .collect();
    let users = asked.users_or(USERS);
    let line = [(String::new(), labels.clone())];
    Findings {
        tables: vec![
            results.table(
                &format!("{users} users, requests answered well"),
                "pm, children",
                &rows,
                &[GOOD, FAILED, MEDIAN, P95],
            ),
            results.table(
                "What it takes",
                "pm, children",
                &rows,
                &[CHILDREN, MEMORY, CPU],
            ),
            Table::published(
                "As published in 2017: a gallery that makes its thumbnails, PHP 7.1 and MySQL in a virtual machine",
                &["pm", "requests/s", "failed %", "latency"],
                PUBLISHED,
            ),
        ],
        charts: vec![
            results.chart("Requests answered well, per second", &labels, &line, &GOOD),
            results.chart("Latency: 95 % below, in ms", &labels, &line, &P95),
            results.chart("Memory of all processes, in MB", &labels, &line, &MEMORY),
        ],
        advice: advice(asked, results),
        remarks: vec![format!(
            "{users} users think {THINK} between requests, so that without any delay they would ask {:.0} times a \
             second. Memory is the proportional share of all processes of server and PHP, children the most that there were.",
            users as f64 / 0.65
        )],
    }
}

/// The pool with the least memory among those that do about as much as the best.
fn advice(asked: &Asked, results: &Results) -> Vec<Advice> {
    let all: Vec<(String, Pool, f64, f64)> = pools(asked)
        .into_iter()
        .filter_map(|(label, pool)| {
            let (good, memory) = (results.own(&label, &GOOD)?, results.own(&label, &MEMORY)?);
            Some((label, pool, good, memory))
        })
        .collect();
    let most = all.iter().map(|one| one.2).fold(0.0, f64::max);
    let enough = all.iter().filter(|one| one.2 >= ENOUGH * most);
    let Some((label, pool, good, memory)) = enough.min_by(|a, b| a.3.total_cmp(&b.3)) else {
        return Vec::new();
    };
    let words: Vec<String> = pool
        .0
        .iter()
        .map(|(name, value)| format!("{name} {value};"))
        .collect();
    let others: Vec<String> = all
        .iter()
        .filter(|one| one.0 != *label)
        .map(|one| format!("{} {:.1}/s with {:.0} MB", one.0, one.2, one.3))
        .collect();
    vec![Advice::new(
        format!("php_pool www {{ {} }}", words.join(" ")),
        format!(
            "{good:.1} requests/s answered well with {memory:.0} MB; {}",
            others.join(", ")
        ),
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::testing::results;
    use crate::studies::testing::asked;

    #[test]
    fn the_best_pool_is_recommended() {
        let asked = asked();
        let labels: Vec<String> = pools(&asked).into_iter().map(|(label, _)| label).collect();
        let rates: Vec<(&str, f64)> = labels
            .iter()
            .map(|label| (label.as_str(), if label == AUTO { 20.0 } else { 10.0 }))
            .collect();
        let advice = advice(&asked, &results(&[Contender::Gannet], &rates));
        assert_eq!(advice[0].directive, "php_pool www { pm auto; }");
        assert!(
            advice[0].reason.starts_with("20.0 requests/s"),
            "{}",
            advice[0].reason
        );
    }
}
