//! Pictures in another size: engines and `jpeghint` of ngx_small_light, workers, a cache (published in 2015, with JMeter);
//! beside them nginx's image_filter at the same size.

use crate::material;
use crate::results::{
    AVERAGE, CPU, ERRORS, KBYTES, MAX, MIDDLE, MIN, Measure, P90, Results, SAMPLES, THROUGHPUT,
};
use crate::study::{Advice, Asked, Case, Contender, Findings, Load, Table};
use crate::workspace::Workspace;
use std::path::Path;

/// As published: 10 threads, 50 loops, all begun within a second.
const USERS: usize = 10;
const LOOPS: usize = 50;
const ARRIVAL: &str = "1s";
/// Where Debian has the module.
const MODULE: &str = "/usr/lib/nginx/modules/ngx_http_image_filter_module.so";

/// Mode, as published, and the parameters of its URL.
const MODES: [(&str, &str); 5] = [
    (
        "imagemagick,jpeghint=n",
        "dw=250,dh=250,da=l,q=95,e=imagemagick,jpeghint=n",
    ),
    (HINTED, "dw=250,dh=250,da=l,q=95,e=imagemagick,jpeghint=y"),
    ("GD", "dw=250,dh=250,da=l,q=95,e=gd"),
    (
        "imlib2,jpeghint=n",
        "dw=250,dh=250,da=l,q=95,e=imlib2,jpeghint=n",
    ),
    (
        "imlib2,jpeghint=y",
        "dw=250,dh=250,da=l,q=95,e=imlib2,jpeghint=y",
    ),
];
const HINTED: &str = "imagemagick,jpeghint=y";
/// More workers are worth a word when they make so many times the pictures.
const WORTH: f64 = 1.05;
const CACHE: &str = "cache";
const FILTER: &str = "image_filter";
/// The same where Gannet keeps a smaller form of the source, as it does unless told otherwise.
const MASTERS: &str = "image_filter, masters kept";
/// Each picture is made of its source, every time.
const ANEW: &str = "off; image_master off";

const JMETER: [Measure; 9] = [
    SAMPLES, AVERAGE, MIDDLE, P90, MIN, MAX, ERRORS, THROUGHPUT, KBYTES,
];

const PUBLISHED: &[&[&str]] = &[
    &[
        "imagemagick,jpeghint=n",
        "500",
        "7023",
        "6337",
        "12907",
        "772",
        "47427",
        "0.0",
        "1.26",
        "955.5",
    ],
    &[
        "imagemagick,jpeghint=y",
        "500",
        "440",
        "403",
        "804",
        "53",
        "2897",
        "0.0",
        "19.70",
        "867.4",
    ],
    &[
        "GD", "500", "3336", "3070", "6198", "393", "24536", "0.0", "2.58", "235.2",
    ],
    &[
        "imlib2,jpeghint=n",
        "500",
        "1740",
        "1605",
        "3248",
        "202",
        "12546",
        "0.0",
        "4.94",
        "172.0",
    ],
    &[
        "imlib2,jpeghint=y",
        "500",
        "1135",
        "203",
        "208",
        "200",
        "91277",
        "0.0",
        "4.89",
        "271.3",
    ],
    &[
        "OMP_NUM_THREADS=1",
        "500",
        "540",
        "491",
        "986",
        "62",
        "3434",
        "0.0",
        "16.23",
        "714.3",
    ],
    &[
        "two workers",
        "500",
        "293",
        "273",
        "557",
        "57",
        "1210",
        "0.0",
        "26.14",
        "1150.5",
    ],
    &[
        "cache", "500", "0", "0", "1", "0", "2", "0.0", "530.22", "23340.7",
    ],
];

pub fn cases(asked: &Asked, workspace: &Workspace) -> Result<Vec<Case>, String> {
    material::picture(&asked.site, workspace)?;
    let requests = (asked.users_or(USERS) * LOOPS).to_string();
    let load = |path: &str| {
        let load = Load::new(asked.users_or(USERS), &[path]).with(&[
            "-n",
            &requests,
            "--ramp-up",
            ARRIVAL,
        ]);
        // The published number of requests, or as many as there is time for.
        load.lasting(asked.time)
    };
    let most = asked.most_workers();
    let case = |key: &str, workers: usize, path: &str, server: &str| Case {
        key: key.to_owned(),
        workers,
        http: http(workspace, "image_queue 10000;", server),
        only: Some(Contender::Gannet),
        // What a file of that size costs that is read for the first time is not what is compared.
        before: Some(Load::new(1, &[path]).with(&["-n", "1"])),
        load: load(path),
        ..Case::default()
    };
    let path = |parameters: &str| format!("/small_light({parameters})/picture.jpg");
    let hinted = path(MODES[1].1);
    let small_light = |store: &str| format!("small_light on; image_store {store}; {REWRITE}");
    let first = asked.workers.first().copied().unwrap_or(1);
    let mut cases: Vec<Case> = MODES
        .iter()
        .filter(|(mode, _)| !asked.is_short || *mode == HINTED || *mode == MODES[0].0)
        .map(|(mode, parameters)| case(mode, first, &path(parameters), &small_light(ANEW)))
        .collect();
    for workers in asked.workers.iter().skip(1) {
        let key = workers_key(*workers);
        cases.push(case(&key, *workers, &hinted, &small_light(ANEW)));
    }
    cases.push(case(CACHE, most, &hinted, &small_light("%DIR%/cache")));
    let kept = format!("image_store off; {RESIZED}");
    cases.push(case(MASTERS, most, "/picture.jpg", &kept));
    let store = format!("image_store {ANEW}; {RESIZED}");
    let mut filtered = case(FILTER, most, "/picture.jpg", &store);
    // nginx takes part where it has the module.
    if Path::new(MODULE).exists() {
        filtered.only = None;
        filtered.modules = format!("load_module {MODULE};");
        filtered.nginx = Some(http(workspace, "", RESIZED));
    }
    cases.push(filtered);
    Ok(cases)
}

/// The module's own way from such a URL to the file, as published.
const REWRITE: &str = "location ~ small_light[^/]*/(.+)$ { set $file $1; rewrite ^ /$file; }";
/// The same size by nginx's module.
const RESIZED: &str = "location / { image_filter resize 250 250; image_filter_jpeg_quality 95; image_filter_buffer 64m; }";

fn http(workspace: &Workspace, outside: &str, server: &str) -> String {
    let root = workspace.root();
    let root = root.display();
    format!("    {outside}\n    server {{ listen 127.0.0.1:%PORT%; root {root}; {server} }}")
}

fn workers_key(workers: usize) -> String {
    format!("{HINTED}, {workers} workers")
}

fn labels(asked: &Asked) -> Vec<String> {
    let modes = MODES.iter().map(|(mode, _)| (*mode).to_owned());
    let workers = asked
        .workers
        .iter()
        .skip(1)
        .map(|workers| workers_key(*workers));
    modes.chain(workers).chain([CACHE.to_owned()]).collect()
}

pub fn findings(asked: &Asked, results: &Results) -> Findings {
    let labels = labels(asked);
    let rows: Vec<_> = labels
        .iter()
        .map(|label| (label.clone(), label.clone()))
        .collect();
    let own = results.of_one(Contender::Gannet);
    let filter = [FILTER, MASTERS].map(|row| (row.to_owned(), row.to_owned()));
    // Beside the cache the others would be flat.
    let made: Vec<String> = labels
        .iter()
        .filter(|label| *label != CACHE)
        .cloned()
        .collect();
    let line = [(String::new(), made.clone())];
    Findings {
        tables: vec![
            own.table("As JMeter tells it, gannet", "mode", &rows, &JMETER),
            own.table("CPU", "mode", &rows, &[CPU]),
            results.table("image_filter at the same size", "mode", &filter, &[THROUGHPUT, CPU, MIDDLE]),
            Table::published(
                "As published in 2015: nginx 1.2 with ngx_small_light, one worker",
                &["mode", "#Sample", "Average", "Median", "90% line", "Min", "Max", "Error %", "Throughput", "KB/sec"],
                PUBLISHED,
            ),
        ],
        charts: vec![
            own.chart("Pictures per second", &made, &line, &THROUGHPUT),
            own.chart("Half within, in ms", &made, &line, &MIDDLE),
            own.chart("CPU per picture, in µs", &made, &line, &CPU),
        ],
        advice: advice(asked, results),
        remarks: vec![
            "Gannet makes pictures on threads of their own, one a processor, whatever the number of workers. The tester \
             asks 50 times for each user, or as often as there is time for. Each picture is made of its source anew but for \
             the rows \"cache\" and \"masters kept\"."
                .to_owned(),
        ],
    }
}

fn advice(asked: &Asked, results: &Results) -> Vec<Advice> {
    let of = |mode: &str| results.own(mode, &THROUGHPUT);
    let mut advice = Vec::new();
    let modes = MODES
        .iter()
        .filter_map(|(mode, parameters)| Some((*mode, *parameters, of(mode)?)));
    let best = modes.clone().max_by(|a, b| a.2.total_cmp(&b.2));
    let worst = modes.min_by(|a, b| a.2.total_cmp(&b.2));
    if let (Some(best), Some(worst)) = (best, worst) {
        advice.push(Advice::new(
            format!("small_light_pattern_define thumbnail {};", best.1),
            format!(
                "{}: {:.1} pictures/s; {}: {:.1}",
                best.0, best.2, worst.0, worst.2
            ),
        ));
    }
    if let (Some(kept), Some(made)) = (of(CACHE), of(HINTED)) {
        advice.push(Advice::new(
            "image_store /var/cache/gannet/images;",
            format!(
                "{kept:.0} pictures/s that were made before, {made:.1} that are made ({:.0} times)",
                kept / made
            ),
        ));
    }
    let many = asked.most_workers();
    if let (Some(made), Some(one), true) = (of(&workers_key(many)), of(HINTED), many > 1)
        && made > WORTH * one
    {
        advice.push(Advice::new(
            format!("worker_processes {many};"),
            format!("pictures: {made:.1}/s with {many} workers, {one:.1}/s with one"),
        ));
    }
    advice
}
