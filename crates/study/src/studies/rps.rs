//! Requests a second by number of workers and size of the body, over HTTP and HTTPS, on kept connections (published by
//! nginx's makers, and repeated in 2024).

use crate::material;
use crate::results::{CORES, CPU, Measure, RATE, Results};
use crate::study::{Advice, Asked, Case, Contender, Findings, Load, Table};
use crate::workspace::Workspace;

const USERS: usize = 50;
const SIZES: &[(&str, usize)] = &[
    ("0 KB", 0),
    ("1 KB", 1 << 10),
    ("10 KB", 10 << 10),
    ("100 KB", 100 << 10),
];
const SCHEMES: [&str; 2] = ["HTTP", "HTTPS"];
/// The column of the site's own files.
const SITE: &str = "site";

/// What one processor would do, if it did nothing else.
const A_PROCESSOR: Measure = Measure {
    name: "requests/s of a whole processor",
    of: |figures| 1e6 / figures.cpu_us_per_request,
    decimals: 0,
    is_compared: true,
};

const COLUMNS: &[&str] = &["CPUs", "0 KB", "1 KB", "10 KB", "100 KB"];
const PUBLISHED_HTTP: &[&[&str]] = &[
    &["1", "145551", "74091", "54684", "33125"],
    &["2", "249293", "131466", "102069", "62554"],
    &["4", "543061", "261269", "207848", "88691"],
    &["8", "1048421", "524745", "392151", "91640"],
    &["16", "2001846", "972382", "663921", "91623"],
    &["32", "3019182", "1316362", "774567", "91640"],
    &["36", "3298511", "1309358", "764744", "91655"],
];
const PUBLISHED_HTTPS: &[&[&str]] = &[
    &["1", "71561", "40207", "23308", "4830"],
    &["2", "151325", "85139", "48654", "9871"],
    &["4", "324654", "178395", "96808", "19355"],
    &["8", "647213", "359576", "198818", "38900"],
    &["16", "1262999", "690329", "383860", "77427"],
    &["32", "2197336", "1207959", "692804", "90430"],
    &["36", "2175945", "1239624", "733745", "89842"],
];

/// Names of the columns and what is asked for.
fn columns(asked: &Asked) -> Vec<(String, Vec<String>)> {
    let sizes = SIZES
        .iter()
        .filter(|(name, _)| !asked.is_short || *name == "1 KB");
    let mut columns: Vec<_> = sizes
        .map(|(name, size)| ((*name).to_owned(), vec![format!("/{size}.html")]))
        .collect();
    if let Some(root) = &asked.site.root {
        let files = material::files(
            root,
            &[
                "html", "htm", "css", "js", "jpg", "jpeg", "png", "svg", "txt",
            ],
        );
        if !files.is_empty() {
            let paths = files.iter().map(|path| format!("/site{path}"));
            columns.push((SITE.to_owned(), paths.collect()));
        }
    }
    columns
}

pub fn cases(asked: &Asked, workspace: &Workspace) -> Result<Vec<Case>, String> {
    for (_, size) in SIZES {
        material::sized(workspace, &[(&format!("{size}.html"), *size)])?;
    }
    let certificate = material::certificate(workspace, "rsa", material::RSA)?;
    let site = match &asked.site.root {
        Some(root) => format!("location /site/ {{ alias \"{}/\"; }}", root.display()),
        None => String::new(),
    };
    let http = format!(
        "    server {{ listen 127.0.0.1:%PORT%; listen 127.0.0.1:%TLS% ssl; {certificate} sendfile on; root {}; {site} }}",
        workspace.root().display()
    );
    let mut cases = Vec::new();
    for scheme in SCHEMES {
        for workers in &asked.workers {
            for (name, paths) in columns(asked) {
                let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
                let load = Load::new(asked.users_or(USERS), &paths).with(&["--in-turn"]);
                let load = if scheme == "HTTPS" {
                    load.secure()
                } else {
                    load
                };
                cases.push(Case {
                    key: key(scheme, &workers.to_string(), &name),
                    workers: *workers,
                    http: http.clone(),
                    load: load.lasting(asked.time),
                    ..Case::default()
                });
            }
        }
    }
    Ok(cases)
}

fn key(scheme: &str, workers: &str, size: &str) -> String {
    format!("{scheme}, {workers} workers, {size}")
}

pub fn findings(asked: &Asked, results: &Results) -> Findings {
    let mut findings = Findings::default();
    let workers: Vec<String> = asked.workers.iter().map(usize::to_string).collect();
    let names: Vec<String> = columns(asked).into_iter().map(|(name, _)| name).collect();
    for scheme in SCHEMES {
        let key = |row: &str, column: &str| key(scheme, row, column);
        let heading = format!("Requests per second, {scheme}");
        findings
            .tables
            .extend(results.matrix(&heading, "CPUs", &workers, &names, key, &RATE));
        let heading = format!("Requests per second of a whole processor, {scheme}");
        let one = results.matrix(&heading, "CPUs", &workers, &names, key, &A_PROCESSOR);
        findings.tables.extend(one);
        let lines: Vec<_> = workers
            .iter()
            .map(|row| {
                let keys = names.iter().map(|column| key(row, column)).collect();
                (format!("{row} workers"), keys)
            })
            .collect();
        let heading = format!("Requests per second by size, {scheme}");
        findings
            .charts
            .push(results.chart(&heading, &names, &lines, &RATE));
        let heading = format!("CPU per request by size in µs, {scheme}");
        findings
            .charts
            .push(results.chart(&heading, &names, &lines, &CPU));
    }
    for (scheme, rows) in [("HTTP", PUBLISHED_HTTP), ("HTTPS", PUBLISHED_HTTPS)] {
        let heading =
            format!("As published, {scheme}: nginx, Xeon E5-2699 v3, two 40 Gbit/s networks");
        findings
            .tables
            .push(Table::published(&heading, COLUMNS, rows));
    }
    findings.advice = advice(asked, results);
    findings.remarks = vec![
        "The load tester runs on the same machine and takes processors from the server; the published figures were \
         measured from another machine. What a whole processor does is computed from the server's processor time, \
         which the tester does not change."
            .to_owned(),
    ];
    findings
}

fn advice(asked: &Asked, results: &Results) -> Vec<Advice> {
    let size = match asked.site.root {
        Some(_) => SITE,
        None => "1 KB",
    };
    let of =
        |workers: usize, measure| results.own(&key("HTTP", &workers.to_string(), size), measure);
    let rates = asked
        .workers
        .iter()
        .filter_map(|workers| Some((*workers, of(*workers, &RATE)?)));
    let Some((workers, rate)) = rates.max_by(|a, b| a.1.total_cmp(&b.1)) else {
        return Vec::new();
    };
    let cores = of(workers, &CORES).unwrap_or_default();
    let cpu = of(workers, &CPU).unwrap_or_default();
    let whole = A_PROCESSOR;
    let secure = results.median(
        &key("HTTPS", &workers.to_string(), size),
        Contender::Gannet,
        &whole,
    );
    let mut reason = format!(
        "{rate:.0} requests/s ({size}), the most of the numbers tried; {cpu:.1} µs of processor a request, {cores:.2} \
         processors used beside the load tester"
    );
    if let Some(secure) = secure {
        reason.push_str(&format!(
            "; over TLS a processor does {secure:.0} requests/s"
        ));
    }
    vec![Advice::new(format!("worker_processes {workers};"), reason)]
}
