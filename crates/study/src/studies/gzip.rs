//! gzip in nginx: requests a second, processor time and bytes by `gzip_comp_level`, beside no compression and copies made
//! ahead (two published measurements, of 2010 and 2015).

use crate::material;
use crate::results::{BODY, CPU, RATE, Results, shown};
use crate::study::{Advice, Asked, Case, Contender, Findings, Load, Table};
use crate::workspace::Workspace;

/// As in the measurement of 2015.
const USERS: usize = 100;
const LEVELS: std::ops::RangeInclusive<u8> = 1..=9;
/// The levels that decide.
const FEW: &[u8] = &[1, 2, 4, 6, 9];
/// A level is too dear that serves less than this share of level 1's requests.
const WORTH: f64 = 0.5;
/// A level that saves less than this share of bytes over the one before is not worth it.
const SAVES: f64 = 0.01;

/// The table of 2010: 170 KB, two processors of 1.8 GHz, nginx 0.8.45.
const PUBLISHED: &[&[&str]] = &[
    &["1", "370", "51.7"],
    &["2", "350", "48.9"],
    &["3", "294", "45.7"],
    &["4", "242", "44.2"],
    &["5", "181", "41.3"],
    &["6", "134", "39.7"],
    &["7", "115", "39.5"],
    &["8", "103", "39.4"],
    &["9", "102", "39.4"],
];

/// Label, and the directives of Gannet and nginx.
type Row = (String, String, String);

fn rows(asked: &Asked) -> Vec<Row> {
    let levels: Vec<u8> = match asked.is_short {
        true => FEW.to_vec(),
        false => LEVELS.collect(),
    };
    let mut rows = vec![("off".to_owned(), String::new(), String::new())];
    for level in levels {
        let on = format!("gzip on; gzip_comp_level {level};");
        // Each response is compressed anew, as nginx does it.
        let own = format!("{on} compression_cache off;");
        rows.push((level.to_string(), own, on));
    }
    rows.push((
        KEPT.to_owned(),
        "gzip on; gzip_comp_level 6;".to_owned(),
        String::new(),
    ));
    rows.push((
        AHEAD.to_owned(),
        "gzip_static on;".to_owned(),
        "gzip_static on;".to_owned(),
    ));
    rows
}

/// Gannet as it is without `compression_cache off`: bodies that come again are not compressed again.
const KEPT: &str = "6, kept";
const AHEAD: &str = "gzip_static";

pub fn cases(asked: &Asked, workspace: &Workspace) -> Result<Vec<Case>, String> {
    let (root, paths) = material::pages(&asked.site, workspace)?;
    let copies = material::compressed(workspace, &root, &paths)?;
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let load = Load::new(asked.users_or(USERS), &paths).with(&[
        "--in-turn",
        "-H",
        "Accept-Encoding: gzip,deflate",
    ]);
    let mut cases = Vec::new();
    for workers in &asked.workers {
        for (label, own, nginx) in rows(asked) {
            let root = if label == AHEAD { &copies } else { &root };
            let http = |directives: &str| {
                format!(
                    "    gzip_types *;\n    {directives}\n    server {{ listen 127.0.0.1:%PORT%; sendfile on; root \"{}\"; }}",
                    root.display()
                )
            };
            cases.push(Case {
                key: key(*workers, &label),
                workers: *workers,
                only: (label == KEPT).then_some(Contender::Gannet),
                http: http(&own),
                nginx: Some(http(&nginx)),
                load: load.clone().lasting(asked.time),
                ..Case::default()
            });
        }
    }
    Ok(cases)
}

fn key(workers: usize, label: &str) -> String {
    format!("{workers} workers, {label}")
}

pub fn findings(asked: &Asked, results: &Results) -> Findings {
    let labels: Vec<String> = rows(asked).into_iter().map(|(label, ..)| label).collect();
    let mut findings = Findings::default();
    for workers in &asked.workers {
        let rows: Vec<_> = labels
            .iter()
            .map(|label| (label.clone(), key(*workers, label)))
            .collect();
        findings.tables.push(results.table(
            &format!("By gzip_comp_level, worker_processes {workers}"),
            "level",
            &rows,
            &[RATE, BODY, CPU],
        ));
    }
    findings.tables.push(Table::published(
        "As published in 2010: a page of 170 KB, nginx 0.8.45, two processors of 1.8 GHz",
        &["level", "requests/s", "KB"],
        PUBLISHED,
    ));
    let lines: Vec<_> = asked
        .workers
        .iter()
        .map(|workers| {
            let keys = labels.iter().map(|label| key(*workers, label)).collect();
            (format!("{workers} workers"), keys)
        })
        .collect();
    findings
        .charts
        .push(results.chart("Requests per second by level", &labels, &lines, &RATE));
    let (last, levels) = (
        lines.last().cloned().into_iter().collect::<Vec<_>>(),
        &labels,
    );
    findings
        .charts
        .push(results.chart("Body as sent, in KB", levels, &last, &BODY));
    findings
        .charts
        .push(results.chart("CPU per request, in µs", levels, &last, &CPU));
    findings.advice = advice(asked, results, &labels);
    findings.remarks = vec![
        "Levels are measured with compression_cache off: each response is compressed anew, as in nginx. The row \
         \"6, kept\" is Gannet without this directive: bodies that come again are not compressed again."
            .to_owned(),
        "The measurement of 2015 published its figures as drawings only: level 9 had about 2.5 times fewer requests \
         than level 1; it recommends gzip_static on; gzip_comp_level 2;."
            .to_owned(),
    ];
    findings
}

fn advice(asked: &Asked, results: &Results, labels: &[String]) -> Vec<Advice> {
    let workers = asked.most_workers();
    let of = |label: &str, measure| results.own(&key(workers, label), measure);
    let mut advice = Vec::new();
    let levels = labels.iter().filter(|label| label.parse::<u8>().is_ok());
    let figures: Vec<(&str, f64, f64)> = levels
        .filter_map(|level| Some((level.as_str(), of(level, &RATE)?, of(level, &BODY)?)))
        .collect();
    if let (Some(first), Some(chosen)) = (figures.first(), best(&figures)) {
        advice.push(Advice::new(
            format!("gzip on; gzip_comp_level {};", chosen.0),
            format!(
                "{:.0} requests/s at {:.1} KB a page, level 1 {:.0} at {:.1} KB, none {} at {} KB: the strongest \
                 level with at least half of level 1's requests",
                chosen.1,
                chosen.2,
                first.1,
                first.2,
                shown(of("off", &RATE), 0),
                shown(of("off", &BODY), 1),
            ),
        ));
        if let Some(ahead) = of(AHEAD, &RATE) {
            advice.push(Advice::new(
                "gzip_static on; precompress on;",
                format!(
                    "copies made ahead: {ahead:.0} requests/s at {} KB, {:.1} times those of level {}",
                    shown(of(AHEAD, &BODY), 1),
                    ahead / chosen.1,
                    chosen.0
                ),
            ));
        }
        if let (Some(one), true) = (results.own(&key(1, chosen.0), &RATE), workers > 1) {
            advice.push(Advice::new(
                format!("worker_processes {workers};"),
                format!(
                    "{:.0} requests/s at level {}, {:.2} times those of one worker ({one:.0}); the load tester uses the \
                     same processors",
                    chosen.1,
                    chosen.0,
                    chosen.1 / one
                ),
            ));
        }
    }
    advice
}

/// The strongest level that still serves its share of level 1's requests, and saves enough over the one chosen before.
fn best<'a>(levels: &[(&'a str, f64, f64)]) -> Option<(&'a str, f64, f64)> {
    let first = *levels.first()?;
    Some(levels.iter().fold(first, |chosen, level| {
        let is_fast = level.1 >= WORTH * first.1;
        let saves = level.2 <= (1.0 - SAVES) * chosen.2;
        if is_fast && saves { *level } else { chosen }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_figures_speak_for_level_4() {
        let number = |text: &&str| text.parse::<f64>().unwrap();
        let levels: Vec<_> = PUBLISHED
            .iter()
            .map(|row| (row[0], number(&row[1]), number(&row[2])))
            .collect();
        assert_eq!(best(&levels).map(|level| level.0), Some("4"));
        assert_eq!(best(&[]), None);
    }
}
