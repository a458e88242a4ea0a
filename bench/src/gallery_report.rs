//! The gallery's table: requests/s, errors, latencies and children by `pm`, and whether the targets are met.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::gallery::{GALLERIES, PICTURES, Row, SWEEP, Sample, USERS};
use crate::options::Options;
use crate::report::{self, Spread, Table};
use crate::targets::{AUTO_OF_BEST, GALLERY_P95, SUBJECT};

/// So many counts of children are shown of each load.
const COUNTS_SHOWN: usize = 10;

/// One load in a line.
pub fn line(sample: &Sample) -> String {
    let seen = &sample.seen;
    let mut line = format!(
        "{:.1} requests/s, {} of {} failed, p50 {:.0} ms, p95 {:.0} ms, children {}",
        seen.rate,
        seen.failed(),
        seen.requests,
        seen.p50_ms,
        seen.p95_ms,
        over_time(&sample.children)
    );
    for (error, count) in &seen.errors {
        line.push_str(&format!("; {count} × {error}"));
    }
    line
}

pub fn print(options: &Options, rows: &[Row]) -> Result<()> {
    if options.markdown {
        let names = options.servers.iter();
        let programs: Result<Vec<_>> = names.map(|name| options.contender(name)).collect();
        report::print_machine(options, &programs?);
        println!(
            "- {USERS} users, 0.3–1 s of thought between an answer and the next request, {} s each, {} round(s), the servers \
             alternating; index, gallery and picture with the same chance; {GALLERIES} galleries of {PICTURES} pictures, \
             every thumbnail made anew.",
            options.seconds, options.rounds
        );
        println!(
            "- nginx with php-fpm, Gannet with the same settings in a `php_pool`; both read examples/gallery/nginx.conf, \
             which gives PHP's address as php-fpm's socket or as `pool:www`.\n"
        );
    }
    table(rows).print();
    for row in rows {
        for (error, count) in errors(row) {
            println!(
                "- {} {}: {count} × {error}",
                row.server,
                row.pool.describe()
            );
        }
    }
    println!();
    let verdicts = verdicts(rows);
    if verdicts.0.len() > 1 {
        verdicts.print();
    }
    Ok(())
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&[
        "pm",
        "pool",
        "server",
        "requests/s",
        "min–max",
        "failed",
        "p50 ms",
        "p95 ms",
        "min–max",
        "children over time",
    ]);
    for row in rows {
        let rate = spread(row, |sample| sample.seen.rate);
        let p95 = spread(row, p95_ms);
        let failed: u64 = row.samples.iter().map(|sample| sample.seen.failed()).sum();
        let asked: u64 = row.samples.iter().map(|sample| sample.seen.requests).sum();
        table.0.push(vec![
            row.case.to_owned(),
            row.pool.describe(),
            row.server.clone(),
            format!("{:.1}", rate.median),
            rate.range(1),
            format!("{failed} of {asked}"),
            format!("{:.0}", spread(row, |sample| sample.seen.p50_ms).median),
            format!("{:.0}", p95.median),
            p95.range(0),
            row.samples
                .last()
                .map_or_else(String::new, |sample| over_time(&sample.children)),
        ]);
    }
    table
}

fn p95_ms(sample: &Sample) -> f64 {
    sample.seen.p95_ms
}

fn spread(row: &Row, value: impl Fn(&Sample) -> f64) -> Spread {
    Spread::of(row.samples.iter().map(value))
}

fn errors(row: &Row) -> BTreeMap<&str, u64> {
    let mut errors = BTreeMap::new();
    for (error, count) in row.samples.iter().flat_map(|sample| &sample.seen.errors) {
        *errors.entry(error.as_str()).or_default() += count;
    }
    errors
}

/// A few of the counts, evenly spread, the first and the last among them.
fn over_time(children: &[usize]) -> String {
    let last = children.len().saturating_sub(1);
    let shown = COUNTS_SHOWN.min(children.len());
    let pick = |index: usize| children[index * last / shown.saturating_sub(1).max(1)].to_string();
    (0..shown).map(pick).collect::<Vec<_>>().join(" ")
}

fn verdicts(rows: &[Row]) -> Table {
    let mut table = Table::new(&["pm", "target", "measured", "met"]);
    let mut judge = |case: &str, target: String, measured: String, met: bool| {
        let met = if met { "yes" } else { "NO" };
        table
            .0
            .push(vec![case.to_owned(), target, measured, met.to_owned()]);
    };
    let own = rows
        .iter()
        .filter(|row| row.server == SUBJECT && row.case != SWEEP);
    for row in own {
        let failed: u64 = row.samples.iter().map(|sample| sample.seen.failed()).sum();
        judge(
            row.case,
            "no request fails".to_owned(),
            failed.to_string(),
            failed == 0,
        );
        let nginx = rows
            .iter()
            .find(|other| other.case == row.case && other.server == "nginx");
        if let Some(nginx) = nginx {
            let ratio = spread(row, p95_ms).median / spread(nginx, p95_ms).median;
            judge(
                row.case,
                format!("p95 at most {GALLERY_P95:.2} × nginx with php-fpm"),
                format!("{ratio:.2}"),
                ratio <= GALLERY_P95,
            );
        }
    }
    if let (Some(auto), Some((best, pool))) = (rate_of(rows, "auto"), best(rows)) {
        let share = auto / best;
        judge(
            "auto",
            format!("requests/s at least {AUTO_OF_BEST:.2} × the best of the sweep ({pool})"),
            format!("{share:.2}"),
            share >= AUTO_OF_BEST,
        );
    }
    table
}

fn rate_of(rows: &[Row], case: &str) -> Option<f64> {
    let row = rows
        .iter()
        .find(|row| row.case == case && row.server == SUBJECT)?;
    Some(spread(row, |sample| sample.seen.rate).median)
}

/// The best number of children that was tried by hand.
fn best(rows: &[Row]) -> Option<(f64, String)> {
    let tried = rows.iter().filter(|row| row.case == SWEEP);
    let rates = tried.map(|row| (spread(row, |sample| sample.seen.rate).median, row));
    let (rate, row) = rates.max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some((rate, row.pool.describe()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::php::Pool;
    use crate::users::Seen;

    fn row(case: &'static str, server: &str, pool: Pool, p95_ms: f64, rate: f64) -> Row {
        let seen = Seen {
            rate,
            p95_ms,
            ..Seen::default()
        };
        Row {
            case,
            pool,
            server: server.to_owned(),
            samples: vec![Sample {
                seen,
                children: vec![1, 2, 3],
            }],
        }
    }

    #[test]
    fn auto_is_judged_by_the_best_of_the_sweep() {
        let rows = [
            row("static", "nginx", Pool::of_static(6), 20.0, 100.0),
            row("static", SUBJECT, Pool::of_static(6), 25.0, 100.0),
            row("auto", SUBJECT, Pool::auto(), 20.0, 95.0),
            row(SWEEP, SUBJECT, Pool::of_static(1), 20.0, 60.0),
            row(SWEEP, SUBJECT, Pool::of_static(4), 20.0, 100.0),
        ];
        let met: Vec<String> = verdicts(&rows).0[1..]
            .iter()
            .map(|line| format!("{} {}", line[0], line[3]))
            .collect();
        assert_eq!(met, ["static yes", "static NO", "auto yes", "auto yes"]);
        assert_eq!(table(&rows).0.len(), 6);
    }

    #[test]
    fn counts_are_spread_over_the_time() {
        let many: Vec<usize> = (0..100).collect();
        assert_eq!(over_time(&many), "0 11 22 33 44 55 66 77 88 99");
        assert_eq!(over_time(&[3]), "3");
        assert_eq!(over_time(&[]), "");
    }
}
