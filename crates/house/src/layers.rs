//! Who may import whom (DESIGN §4, ARCHITECTURE.md): one table for the crates, one for the server's modules.

use crate::source::{File, line_number};
use std::path::Path;

/// Each of our crates and the crates of ours it may depend on. `testkit` and `house` are for tests only.
const CRATES: &[(&str, &[&str])] = &[
    (
        "gannet",
        &["server", "load", "conf", "wire", "sys", "image"],
    ),
    ("server", &["conf", "wire", "sys", "image"]),
    ("load", &["wire", "sys"]),
    ("conf", &[]),
    ("wire", &[]),
    ("sys", &[]),
    ("image", &[]),
    ("testkit", &[]),
    ("house", &[]),
    ("bench", &["sys", "wire", "load"]),
];

/// The server's modules from the top down: a module may import from any row below its own.
const LAYERS: &[&[&str]] = &[
    // What `process` runs through its `Program` trait: a site, and the body of a network thread.
    &["site"],
    &["worker"],
    &["process"],
    &["listen"],
    &["connection"],
    &["pipeline"],
    &["config"],
    &[
        "rewrite",
        "access",
        "limit",
        "content",
        "upstream",
        "cache",
        "filter",
        "precompress",
        "pool",
    ],
    // Every feature may log; the access log's own directives make it a feature, its position does not.
    &["log"],
    &["store"],
    &["variables", "encoding", "routing"],
    &["http"],
    &["version"],
];

/// The imports allowed within one row: importer, imported.
const WITHIN_A_ROW: &[(&str, &str)] = &[
    ("upstream", "cache"),
    ("upstream", "pool"),
    ("content", "precompress"),
    ("routing", "variables"),
];

/// Imports against the layers that the code has today. The list may only shrink: an entry that nothing needs any more
/// fails the test, and so does a new import against the layers.
const DEPARTURES: &[(&str, &str)] = &[
    ("access", "config"),
    ("config", "connection"),
    ("config", "listen"),
    ("config", "pipeline"),
    ("config", "process"),
    ("connection", "listen"),
    ("content", "config"),
    ("content", "pipeline"),
    ("filter", "config"),
    ("http", "config"),
    ("http", "variables"),
    ("limit", "config"),
    ("log", "config"),
    ("rewrite", "config"),
    ("routing", "config"),
    ("variables", "config"),
    ("variables", "content"),
    ("variables", "log"),
    ("variables", "routing"),
];

fn row(module: &str) -> Option<usize> {
    LAYERS.iter().position(|row| row.contains(&module))
}

/// Imports of the server's shipped code that point up or sideways.
pub fn server_imports(file: &File) -> Vec<String> {
    let Some(module) = file.server_module() else {
        return Vec::new();
    };
    let Some(own) = row(module) else {
        return vec![format!(
            "{}: module `{module}` has no row in crates/house/src/layers.rs",
            file.path
        )];
    };
    let mut complaints = Vec::new();
    for (at, imported) in imports(&file.shipped) {
        // A name that is no module is an item of lib.rs, which re-exports nothing of the layers.
        let Some(other) = row(&imported) else {
            continue;
        };
        let pair = (module, imported.as_str());
        let against = imported != module && other <= own && !WITHIN_A_ROW.contains(&pair);
        if against && !DEPARTURES.contains(&pair) {
            let line = line_number(&file.text, at);
            complaints.push(format!(
                "{}:{line}: `{module}` must not import `{imported}`",
                file.path
            ));
        }
    }
    complaints
}

/// Departures that no file needs any more.
pub fn departures_unused(files: &[File]) -> Vec<String> {
    let needed = |(importer, imported): &(&str, &str)| {
        let own = files
            .iter()
            .filter(|file| file.server_module() == Some(importer));
        own.flat_map(|file| imports(&file.shipped))
            .any(|(_, name)| name == *imported)
    };
    let unused = DEPARTURES.iter().filter(|pair| !needed(pair));
    unused
        .map(|(importer, imported)| {
            format!("`{importer}` no longer imports `{imported}`: strike it")
        })
        .collect()
}

/// The first path segment after each `crate::`, with its place; a brace list gives each of its members.
fn imports(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, prefix) in code.match_indices("crate::") {
        let rest = &code[at + prefix.len()..];
        if let Some(list) = rest.strip_prefix('{') {
            found.extend(brace_members(list).into_iter().map(|name| (at, name)));
        } else {
            found.push((at, identifier(rest)));
        }
    }
    found
}

/// The leading names of a `{a::B, c::{D, E}, f}` list whose opening brace is already read.
fn brace_members(list: &str) -> Vec<String> {
    let (mut depth, mut names, mut fresh) = (1, Vec::new(), true);
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            b',' if depth == 1 => fresh = true,
            byte if fresh && depth == 1 && !byte.is_ascii_whitespace() => {
                names.push(identifier(&list[at..]));
                fresh = false;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    names
}

fn identifier(text: &str) -> String {
    text.chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect()
}

/// The manifests' dependencies among our own crates.
pub fn crate_dependencies(root: &Path) -> Vec<String> {
    let mut manifests = vec![("gannet".to_string(), root.join("Cargo.toml"))];
    for entry in std::fs::read_dir(root.join("crates"))
        .into_iter()
        .flatten()
        .flatten()
    {
        manifests.push((
            entry.file_name().to_string_lossy().into_owned(),
            entry.path().join("Cargo.toml"),
        ));
    }
    manifests.push(("bench".to_string(), root.join("bench/Cargo.toml")));
    manifests
        .iter()
        .filter_map(|(name, path)| Some((name, std::fs::read_to_string(path).ok()?)))
        .flat_map(|(name, text)| dependencies_of(name, &text))
        .collect()
}

/// The complaints about one crate's manifest.
pub fn dependencies_of(name: &str, manifest: &str) -> Vec<String> {
    let Some((_, allowed)) = CRATES.iter().find(|(own, _)| *own == name) else {
        return vec![format!(
            "crate `{name}` has no row in crates/house/src/layers.rs"
        )];
    };
    let mut section = "";
    let mut complaints = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        } else if matches!(section, "[dependencies]" | "[build-dependencies]") {
            let key = identifier(line);
            if CRATES.iter().any(|(own, _)| *own == key) && !allowed.contains(&key.as_str()) {
                complaints.push(format!("crate `{name}` must not depend on `{key}`"));
            }
        }
    }
    complaints
}
