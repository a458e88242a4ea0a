//! Who may import whom (DESIGN §4, ARCHITECTURE.md): one table for the crates, one for the server's modules.

use crate::source::{File, line_number};
use std::path::Path;

/// Each of our crates and the crates of ours it may depend on. `testkit` and `house` are for tests only.
const CRATES: &[(&str, &[&str])] = &[
    (
        "gannet",
        &["server", "study", "load", "conf", "wire", "sys", "image"],
    ),
    ("server", &["conf", "wire", "sys", "image", "acme"]),
    ("study", &["load", "image", "sys"]),
    ("load", &["wire", "sys"]),
    ("conf", &[]),
    ("wire", &[]),
    ("sys", &[]),
    ("image", &["sys"]),
    ("acme", &[]),
    ("testkit", &[]),
    ("house", &[]),
    ("bench", &["sys", "wire", "load", "image"]),
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
        "image",
        "precompress",
        "pool",
        "tls",
        "acme",
    ],
    // Every feature may log; the access log's own directives make it a feature, its position does not.
    &["request_body"],
    &["log"],
    &["store", "background"],
    &["variables", "encoding", "routing"],
    &["http", "net"],
    &["version"],
];

/// The imports allowed within one row: importer, imported.
const WITHIN_A_ROW: &[(&str, &str)] = &[
    ("upstream", "cache"),
    ("upstream", "pool"),
    // What a client of TLS reads and offers is what a server of it does.
    ("upstream", "tls"),
    ("content", "precompress"),
    // A file whose text a filter reads is not answered with a compressed copy.
    ("content", "filter"),
    // A location's content is a `proxy_pass`, which says so when it is read.
    ("content", "upstream"),
    ("upstream", "content"),
    ("upstream", "limit"),
    ("upstream", "rewrite"),
    ("encoding", "routing"),
    ("content", "image"),
    // Copies made ahead are not sent where a filter changes the text.
    ("content", "filter"),
    // Preconditions are looked at before a picture is made, and a changed body is no longer what its fields say.
    ("image", "filter"),
    // What they make of a response that the cache keeps is kept there.
    ("image", "cache"),
    ("filter", "cache"),
    ("routing", "variables"),
    ("http", "net"),
    ("net", "http"),
];

/// The parts of `config` that are the language in which a feature declares itself: its rows in the table of directives,
/// its settings, and what it is told while a configuration is read. Any module may speak it; what is made of all
/// features together (`directives`, `resolve` and the rest) stands above them.
const LANGUAGE: &[&str] = &[
    "config::build",
    "config::defaults",
    "config::directive",
    "config::model",
    "config::setting",
    "config::zones",
];

/// Imports against the layers: importer, imported, why. An entry that nothing needs any more fails the test, and so
/// does a new import against the layers.
const DEPARTURES: &[(&str, &str, &str)] = &[
    (
        "config",
        "connection",
        "the model holds the settings of every module that has directives",
    ),
    ("config", "listen", "the model holds the listening sockets"),
    (
        "config",
        "pipeline",
        "the model holds the settings of error pages and the ready responses",
    ),
    (
        "config",
        "process",
        "a generation that is no longer used tells the process layer",
    ),
    (
        "connection",
        "listen",
        "a connection knows what its thread accepts for all of them",
    ),
    (
        "http",
        "config",
        "a request holds the configuration it is answered by",
    ),
    (
        "http",
        "cache",
        "a response tells where what is made of it is kept",
    ),
    (
        "http",
        "tls",
        "a connection keeps what its handshake has settled",
    ),
    (
        "http",
        "variables",
        "a request keeps the values of variables by their numbers",
    ),
    (
        "rewrite",
        "config",
        "the targets of `if` are settled when locations are",
    ),
    (
        "variables",
        "access",
        "$secure_link, $invalid_referer and kin are what the location's settings say",
    ),
    (
        "variables",
        "background",
        "`geoip2` reads its database again away from the network threads",
    ),
    (
        "variables",
        "content",
        "$document_root and $request_filename are what `root` and `alias` say",
    ),
    (
        "variables",
        "filter",
        "$uid_got and $uid_set are what the cookie's filter finds and gives",
    ),
    (
        "variables",
        "tls",
        "$ssl_cipher and $ssl_curve are named as the directives name them; names in clients' certificates",
    ),
    (
        "variables",
        "log",
        "$realpath_root says in the log why there is none",
    ),
    (
        "variables",
        "routing",
        "`map` matches patterns and host names as locations and servers do",
    ),
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
        let against = imported != module
            && other <= own
            && !WITHIN_A_ROW.contains(&(module, imported.as_str()));
        let departs = |(importer, name, _): &(&str, &str, &str)| {
            (*importer, *name) == (module, imported.as_str())
        };
        if against && !DEPARTURES.iter().any(departs) {
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
    let needed = |importer: &str, imported: &str| {
        let own = files
            .iter()
            .filter(|file| file.server_module() == Some(importer));
        own.flat_map(|file| imports(&file.shipped))
            .any(|(_, name)| name == imported)
    };
    let unused = DEPARTURES
        .iter()
        .filter(|(importer, imported, _)| !needed(importer, imported));
    unused
        .map(|(importer, imported, _)| {
            format!("`{importer}` no longer imports `{imported}`: strike it")
        })
        .collect()
}

/// The module after each `crate::`, with its place; a brace list gives each of its members. Leaves out the language that
/// all of them speak.
fn imports(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, prefix) in code.match_indices("crate::") {
        let rest = &code[at + prefix.len()..];
        if let Some(list) = rest.strip_prefix('{') {
            found.extend(brace_members(list).into_iter().map(|name| (at, name)));
        } else {
            found.push((at, path(rest)));
        }
    }
    let spoken = |path: &str| {
        LANGUAGE.iter().any(|part| {
            path.strip_prefix(part)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        })
    };
    found.retain(|(_, path)| !spoken(path));
    found
        .into_iter()
        .map(|(at, path)| (at, identifier(&path)))
        .collect()
}

/// As much of a path as stands before a brace, a space or its end.
fn path(text: &str) -> String {
    text.chars()
        .take_while(|c| c.is_alphanumeric() || matches!(c, '_' | ':'))
        .collect()
}

/// The leading paths of a `{a::B, c::{D, E}, f}` list whose opening brace is already read.
fn brace_members(list: &str) -> Vec<String> {
    let (mut depth, mut names, mut fresh) = (1, Vec::new(), true);
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            b',' if depth == 1 => fresh = true,
            byte if fresh && depth == 1 && !byte.is_ascii_whitespace() => {
                names.push(path(&list[at..]));
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
            let key = line.split(['.', ' ', '=']).next().unwrap_or_default();
            if CRATES.iter().any(|(own, _)| *own == key) && !allowed.contains(&key) {
                complaints.push(format!("crate `{name}` must not depend on `{key}`"));
            }
        }
    }
    complaints
}
