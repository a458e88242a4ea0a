//! docs/rules.md, written from the case folders: how often each rule and filter is tried on Gannet and on nginx, and where
//! the two differ.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

const PREFACE: &str = "# Rules, side by side with nginx

How often `tests/cases` tries what stands around content: access, limits, tables, changed bodies, logs. Each case is a
request whose response, or a configuration whose check, must be the same from Debian's nginx and from Gannet, byte by byte
(tests/README.md). `./dev docs` writes this page from the folders, `./dev cases FOLDER/` runs them.

| what | cases | on nginx, too | folders |
| --- | --- | --- | --- |
";

/// What is tried, and the folders where.
const FEATURES: &[(&str, &[&str])] = &[
    (
        "`allow`, `deny`, `limit_except`, `internal`",
        &[
            "access/allow_deny",
            "access/limit_except",
            "access/internal",
            "access/methods",
        ],
    ),
    (
        "`auth_basic` with each form of password",
        &[
            "access/auth_basic",
            "access/auth_forms",
            "access/limit_except_auth",
        ],
    ),
    (
        "`auth_request`, `auth_request_set`",
        &["access/auth_request"],
    ),
    (
        "`satisfy` with all of them",
        &["access/satisfy", "access/rules"],
    ),
    (
        "`real_ip`, `listen … proxy_protocol`",
        &["access/real_ip", "listen/proxy_protocol"],
    ),
    ("`valid_referers`", &["access/referer"]),
    ("`secure_link`", &["access/secure_link"]),
    ("`modern_browser`, `ancient_browser`", &["access/browser"]),
    ("`mirror`, `post_action`", &["access/mirror"]),
    (
        "what their configuration says wrongly",
        &["access/errors", "access/more_errors"],
    ),
    ("`disable_symlinks`", &["static/disable_symlinks"]),
    ("`limit_req`, `limit_conn`, `limit_rate`", &["limits/*"]),
    ("`map`, `geo`, `split_clients`", &["map/*"]),
    ("`geoip2`", &["geoip2/*"]),
    ("`sub_filter`, `addition`", &["filter/*"]),
    ("`charset`, `charset_map`", &["charset/*"]),
    ("`ssi`", &["ssi/*"]),
    ("`dav`", &["dav/*"]),
    (
        "`userid`, `add_header`, `add_trailer`, `expires`",
        &["headers/*"],
    ),
    ("`mp4`, `flv`", &["static/mp4", "static/flv"]),
    (
        "`empty_gif`, `random_index`",
        &["static/empty_gif", "static/random_index"],
    ),
    ("logs", &["log/*"]),
];

/// The least that must be tried on both.
const LEAST: usize = 300;

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases")
}

/// The folders that a pattern means, as FEATURE/NAME.
fn folders(pattern: &str) -> Vec<String> {
    let Some(feature) = pattern.strip_suffix("/*") else {
        return vec![pattern.to_owned()];
    };
    let entries = fs::read_dir(cases().join(feature)).expect("a folder of cases");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut folders: Vec<String> = names
        .map(|name| format!("{feature}/{}", name.to_string_lossy()))
        .collect();
    folders.sort();
    folders
}

/// Blocks that are sent, or checked.
fn count(folder: &str) -> usize {
    let texts = ["requests", "configs"].map(|name| {
        let file = cases().join(folder).join(name);
        fs::read_to_string(file).unwrap_or_default()
    });
    let lines = texts.iter().flat_map(|text| text.lines());
    lines.filter(|line| line.starts_with("=== ")).count()
}

/// Why Gannet differs in a folder.
fn reasons(folder: &str) -> Vec<String> {
    let files =
        ["expected.gannet", "access.log.gannet"].map(|name| cases().join(folder).join(name));
    let texts = files
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok());
    let firsts = texts.filter_map(|text| {
        let line = text.lines().next()?.strip_prefix("# reason: ")?.to_owned();
        Some(line)
    });
    firsts.collect()
}

fn text() -> String {
    let mut page = String::from(PREFACE);
    let (mut all, mut on_nginx) = (0, 0);
    let mut differences = String::new();
    for (what, patterns) in FEATURES {
        let (mut here, mut both) = (0, 0);
        for folder in patterns.iter().flat_map(|pattern| folders(pattern)) {
            let count = count(&folder);
            assert!(count > 0, "{folder} has no cases");
            here += count;
            let skipped = fs::read_to_string(cases().join(&folder).join("skip.nginx"));
            match &skipped {
                Err(_) => both += count,
                Ok(reason) => {
                    let _ = writeln!(
                        differences,
                        "- `{folder}` does not run on nginx: {}",
                        reason.trim()
                    );
                }
            }
            for reason in reasons(&folder) {
                let _ = writeln!(differences, "- `{folder}`: {reason}");
            }
        }
        let _ = writeln!(
            page,
            "| {what} | {here} | {both} | {} |",
            patterns.join(", ")
        );
        all += here;
        on_nginx += both;
    }
    assert!(on_nginx >= LEAST, "{on_nginx} cases on nginx");
    let _ = writeln!(page, "| all | {all} | {on_nginx} | |");
    page + "\n## Where Gannet differs\n\nFor these reasons, which stand in the folders (`expected.gannet`, `skip.nginx`):\n\n"
        + &differences
}

#[test]
fn rules_docs_are_current() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/rules.md");
    testkit::generated::check(&page, &text());
}
