//! What was measured, by case and server: medians, ratios with their spread, and tables of them.

use crate::study::{Chart, Contender, Line, Table};
use serde::Serialize;
use std::collections::BTreeMap;

/// One measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    pub requests: u64,
    pub failures: u64,
    pub requests_per_second: f64,
    /// Requests that were answered well.
    pub good_per_second: f64,
    /// With heads and framing.
    pub bytes_per_second: f64,
    /// Of a body as it was sent.
    pub body_bytes: f64,
    pub mean_ms: f64,
    pub min_ms: f64,
    pub median_ms: f64,
    pub p90_ms: f64,
    pub p95_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
    /// Of the server with all its processes.
    pub cpu_us_per_request: f64,
    /// Processors that the server kept busy.
    pub cores: f64,
    /// The most processes of PHP, and the most memory of all processes.
    pub children: f64,
    pub memory_bytes: f64,
}

impl Figures {
    pub fn failure_share(&self) -> f64 {
        100.0 * self.failures as f64 / self.requests.max(1) as f64
    }
}

/// A column: what is shown of a measurement.
#[derive(Clone, Copy)]
pub struct Measure {
    pub name: &'static str,
    pub of: fn(&Figures) -> f64,
    pub decimals: usize,
    /// The servers' ratio is shown beside it.
    pub is_compared: bool,
}

pub const RATE: Measure = Measure {
    name: "requests/s",
    of: |figures| figures.requests_per_second,
    decimals: 0,
    is_compared: true,
};
pub const CPU: Measure = Measure {
    name: "CPU µs/request",
    of: |figures| figures.cpu_us_per_request,
    decimals: 1,
    is_compared: true,
};
pub const CORES: Measure = Measure {
    name: "processors used",
    of: |figures| figures.cores,
    decimals: 2,
    is_compared: false,
};
pub const BODY: Measure = Measure {
    name: "body KB",
    of: |figures| figures.body_bytes / 1024.0,
    decimals: 1,
    is_compared: false,
};
/// Requests that were answered well.
pub const GOOD: Measure = Measure {
    name: "good/s",
    of: |figures| figures.good_per_second,
    decimals: 1,
    is_compared: true,
};
pub const FAILED: Measure = Measure {
    name: "failed %",
    of: |figures| figures.failure_share(),
    decimals: 2,
    is_compared: false,
};
pub const MEAN: Measure = Measure {
    name: "mean ms",
    of: |figures| figures.mean_ms,
    decimals: 1,
    is_compared: false,
};
pub const MEDIAN: Measure = Measure {
    name: "median ms",
    of: |figures| figures.median_ms,
    decimals: 1,
    is_compared: false,
};
pub const P95: Measure = Measure {
    name: "95 % ms",
    of: |figures| figures.p95_ms,
    decimals: 1,
    is_compared: false,
};
pub const CHILDREN: Measure = Measure {
    name: "PHP processes",
    of: |figures| figures.children,
    decimals: 0,
    is_compared: false,
};
pub const MEMORY: Measure = Measure {
    name: "MB",
    of: |figures| figures.memory_bytes / (1 << 20) as f64,
    decimals: 0,
    is_compared: false,
};
/// JMeter's columns, times in milliseconds.
pub const SAMPLES: Measure = Measure {
    name: "#Samples",
    of: |figures| figures.requests as f64,
    decimals: 0,
    is_compared: false,
};
pub const AVERAGE: Measure = Measure {
    name: "Average",
    of: |figures| figures.mean_ms,
    decimals: 0,
    is_compared: false,
};
pub const MIDDLE: Measure = Measure {
    name: "Median",
    of: |figures| figures.median_ms,
    decimals: 0,
    is_compared: false,
};
pub const P90: Measure = Measure {
    name: "90% line",
    of: |figures| figures.p90_ms,
    decimals: 0,
    is_compared: false,
};
pub const MIN: Measure = Measure {
    name: "Min",
    of: |figures| figures.min_ms,
    decimals: 0,
    is_compared: false,
};
pub const MAX: Measure = Measure {
    name: "Max",
    of: |figures| figures.max_ms,
    decimals: 0,
    is_compared: false,
};
pub const ERRORS: Measure = Measure {
    name: "Error %",
    of: |figures| figures.failure_share(),
    decimals: 1,
    is_compared: false,
};
pub const THROUGHPUT: Measure = Measure {
    name: "Throughput",
    of: |figures| figures.requests_per_second,
    decimals: 2,
    is_compared: true,
};
pub const KBYTES: Measure = Measure {
    name: "KB/sec",
    of: |figures| figures.bytes_per_second / 1024.0,
    decimals: 1,
    is_compared: false,
};

/// The middle of several values and their ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl Spread {
    pub fn of(mut values: Vec<f64>) -> Option<Spread> {
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let upper = *values.get(middle)?;
        let median = match values.len() % 2 {
            0 => (upper + values.get(middle.checked_sub(1)?)?) / 2.0,
            _ => upper,
        };
        Some(Spread { median, low, high })
    }
}

/// Everything that was measured.
#[derive(Debug, Default)]
pub struct Results {
    pub contenders: Vec<Contender>,
    measured: BTreeMap<(String, Contender), Vec<Figures>>,
    /// The runs were broken off.
    pub was_interrupted: bool,
}

impl Results {
    pub fn new(contenders: &[Contender]) -> Results {
        Results {
            contenders: contenders.to_vec(),
            ..Results::default()
        }
    }

    pub fn add(&mut self, key: &str, contender: Contender, figures: Figures) {
        let samples = self.measured.entry((key.to_owned(), contender));
        samples.or_default().push(figures);
    }

    pub fn is_empty(&self) -> bool {
        self.measured.is_empty()
    }

    /// Every measurement, for machines.
    pub fn samples(&self) -> impl Iterator<Item = (&str, Contender, &[Figures])> {
        let all = self.measured.iter();
        all.map(|((key, contender), samples)| (key.as_str(), *contender, samples.as_slice()))
    }

    /// The cases with failed requests, in words.
    pub fn failures(&self) -> Vec<String> {
        let all = self.samples().flat_map(|(key, contender, samples)| {
            let failed: u64 = samples.iter().map(|figures| figures.failures).sum();
            let requests: u64 = samples.iter().map(|figures| figures.requests).sum();
            let name = contender.as_str();
            (failed > 0).then(|| format!("{key} on {name}: {failed} of {requests} requests failed"))
        });
        all.collect()
    }

    pub fn spread(&self, key: &str, contender: Contender, measure: &Measure) -> Option<Spread> {
        let samples = self.measured.get(&(key.to_owned(), contender))?;
        Spread::of(samples.iter().map(measure.of).collect())
    }

    pub fn median(&self, key: &str, contender: Contender, measure: &Measure) -> Option<f64> {
        Some(self.spread(key, contender, measure)?.median)
    }

    /// The median of Gannet.
    pub fn own(&self, key: &str, measure: &Measure) -> Option<f64> {
        self.median(key, Contender::Gannet, measure)
    }

    /// Gannet's figure over nginx's, round by round.
    pub fn ratio(&self, key: &str, measure: &Measure) -> Option<Spread> {
        let of = |contender| self.measured.get(&(key.to_owned(), contender));
        let pairs = of(Contender::Gannet)?.iter().zip(of(Contender::Nginx)?);
        Spread::of(
            pairs
                .map(|(gannet, nginx)| (measure.of)(gannet) / (measure.of)(nginx))
                .collect(),
        )
    }

    /// What one server did.
    pub fn of_one(&self, contender: Contender) -> Results {
        let all = self.measured.iter();
        let own = all.filter(|((_, other), _)| *other == contender);
        Results {
            contenders: vec![contender],
            measured: own
                .map(|(key, figures)| (key.clone(), figures.clone()))
                .collect(),
            was_interrupted: self.was_interrupted,
        }
    }

    fn is_compared(&self) -> bool {
        self.contenders.contains(&Contender::Nginx)
    }

    /// A row for each label and key, with the measures of each server.
    pub fn table(
        &self,
        heading: &str,
        first: &str,
        rows: &[(String, String)],
        measures: &[Measure],
    ) -> Table {
        let mut columns = vec![first.to_owned()];
        for measure in measures {
            columns.extend(
                self.contenders
                    .iter()
                    .map(|contender| match self.is_compared() {
                        true => format!("{} {}", contender.as_str(), measure.name),
                        false => measure.name.to_owned(),
                    }),
            );
            if measure.is_compared && self.is_compared() {
                columns.push("ratio".to_owned());
            }
        }
        let row = |(label, key): &(String, String)| {
            let mut cells = vec![label.clone()];
            for measure in measures {
                let servers = self.contenders.iter();
                cells.extend(servers.map(|contender| {
                    shown(self.median(key, *contender, measure), measure.decimals)
                }));
                if measure.is_compared && self.is_compared() {
                    cells.push(ratio_text(self.ratio(key, measure)));
                }
            }
            cells
        };
        Table {
            heading: heading.to_owned(),
            columns,
            rows: rows.iter().map(row).collect(),
        }
    }

    /// A table of one measure over two names, for each server, and one of their ratios.
    pub fn matrix(
        &self,
        heading: &str,
        corner: &str,
        rows: &[String],
        columns: &[String],
        key: impl Fn(&str, &str) -> String,
        measure: &Measure,
    ) -> Vec<Table> {
        let build = |name: &str, cell: &dyn Fn(&str) -> String| Table {
            heading: format!("{heading}, {name}"),
            columns: [&[corner.to_owned()], columns].concat(),
            rows: rows
                .iter()
                .map(|row| {
                    let cells = columns.iter().map(|column| cell(&key(row, column)));
                    std::iter::once(row.clone()).chain(cells).collect()
                })
                .collect(),
        };
        let mut tables: Vec<_> = self
            .contenders
            .iter()
            .map(|contender| {
                build(contender.as_str(), &|key| {
                    shown(self.median(key, *contender, measure), measure.decimals)
                })
            })
            .collect();
        if self.is_compared() {
            tables.push(build("gannet / nginx", &|key| {
                ratio_text(self.ratio(key, measure))
            }));
        }
        tables
    }

    /// A chart with a line for each server and each named list of keys.
    pub fn chart(
        &self,
        heading: &str,
        labels: &[String],
        lines: &[(String, Vec<String>)],
        measure: &Measure,
    ) -> Chart {
        let mut series = Vec::new();
        for (name, keys) in lines {
            for contender in &self.contenders {
                let value = |key: &String| self.median(key, *contender, measure);
                let values: Vec<_> = keys.iter().map(value).collect();
                if values.iter().any(Option::is_some) {
                    let label = match (self.is_compared(), name.is_empty()) {
                        (true, false) => format!("{} {name}", contender.as_str()),
                        (true, true) => contender.as_str().to_owned(),
                        (false, _) => name.clone(),
                    };
                    series.push(Line { label, values });
                }
            }
        }
        Chart {
            heading: heading.to_owned(),
            labels: labels.to_vec(),
            series,
        }
    }
}

pub fn shown(value: Option<f64>, decimals: usize) -> String {
    match value {
        Some(value) if value.is_finite() => format!("{value:.decimals$}"),
        Some(_) | None => "–".to_owned(),
    }
}

fn ratio_text(ratio: Option<Spread>) -> String {
    ratio.map_or_else(
        || "–".to_owned(),
        |ratio| format!("{:.2} ({:.2}–{:.2})", ratio.median, ratio.low, ratio.high),
    )
}

#[cfg(test)]
pub mod testing {
    //! Results that are known.

    use super::*;

    /// Each key with Gannet's requests per second; nginx's are half of them where it takes part.
    pub fn results(contenders: &[Contender], rates: &[(&str, f64)]) -> Results {
        let mut results = Results::new(contenders);
        for (key, rate) in rates {
            for contender in contenders {
                let share = match contender {
                    Contender::Gannet => 1.0,
                    Contender::Nginx => 0.5,
                };
                let figures = Figures {
                    requests: 1000,
                    requests_per_second: rate * share,
                    good_per_second: rate * share,
                    ..Figures::default()
                };
                results.add(key, *contender, figures);
            }
        }
        results
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_ends_are_found() {
        let spread =
            |values: &[f64]| Spread::of(values.to_vec()).map(|s| (s.median, s.low, s.high));
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Some((2.0, 1.0, 3.0)));
        assert_eq!(spread(&[4.0, 1.0]), Some((2.5, 1.0, 4.0)));
        assert_eq!(spread(&[f64::NAN, 1.0]), Some((1.0, 1.0, 1.0)));
        assert_eq!(spread(&[]), None);
    }

    #[test]
    fn servers_stand_side_by_side() {
        let both = [Contender::Gannet, Contender::Nginx];
        let results = testing::results(&both, &[("a", 10.0), ("b", 20.0)]);
        let rows = [("A", "a"), ("B", "b"), ("C", "c")].map(|(l, k)| (l.to_owned(), k.to_owned()));
        let table = results.table("t", "case", &rows, &[RATE, FAILED]);
        assert_eq!(
            table.columns,
            [
                "case",
                "gannet requests/s",
                "nginx requests/s",
                "ratio",
                "gannet failed %",
                "nginx failed %"
            ]
        );
        assert_eq!(
            table.rows[1],
            ["B", "20", "10", "2.00 (2.00–2.00)", "0.00", "0.00"]
        );
        assert_eq!(table.rows[2], ["C", "–", "–", "–", "–", "–"]);
        let names = ["a".to_owned(), "b".to_owned()];
        let tables = results.matrix("m", "n", &names, &names, |row, _| row.to_owned(), &RATE);
        assert_eq!(tables.len(), 3);
        assert_eq!(tables[0].rows[1], ["b", "20", "20"]);
        let chart = results.chart("c", &names, &[("x".to_owned(), names.to_vec())], &RATE);
        assert_eq!(chart.series[1].label, "nginx x");
        assert_eq!(chart.series[1].values, [Some(5.0), Some(10.0)]);
    }
}
