//! The rules about one file: unsafe, header, unwrap, lengths, words, names; and the one about ARCHITECTURE.md.

use crate::source::{File, item_end, line_number, words};
use std::path::Path;

/// The most code lines of a file, tests, tables, comments and blank lines apart. The aim is 400.
pub const FILE_LINES: usize = 500;
/// The most lines of a function from its `fn` to its closing brace. The aim is 70.
pub const FUNCTION_LINES: usize = 80;
/// How many lines above `unsafe` its reason may begin.
const REASON_LINES: usize = 8;

/// `unsafe` outside crates/sys, or there without its reason.
pub fn unsafe_code(file: &File) -> Vec<String> {
    let sys = file.path.starts_with("crates/sys/");
    let lines: Vec<&str> = file.text.lines().collect();
    let mut complaints = Vec::new();
    for at in words(&file.code, "unsafe") {
        let line = line_number(&file.text, at);
        let from = line.saturating_sub(REASON_LINES + 1);
        let argued = lines[from..line]
            .iter()
            .any(|text| text.contains("// SAFETY:") || text.contains("# Safety"));
        if !sys {
            complaints.push(format!(
                "{}:{line}: `unsafe` belongs in crates/sys",
                file.path
            ));
        } else if !argued {
            complaints.push(format!(
                "{}:{line}: `unsafe` without a `// SAFETY:` above it",
                file.path
            ));
        }
    }
    complaints
}

/// A file that does not say what it is for.
pub fn header(file: &File) -> Vec<String> {
    let opens = file
        .text
        .trim_start_matches("#![no_main]")
        .trim_start()
        .starts_with("//! ");
    if opens {
        Vec::new()
    } else {
        vec![format!("{}: opens with no `//!` header", file.path)]
    }
}

/// `.unwrap()` in shipped code.
pub fn unwrap(file: &File) -> Vec<String> {
    let place = |(at, _)| {
        format!(
            "{}:{}: `unwrap()` outside tests",
            file.path,
            line_number(&file.text, at)
        )
    };
    file.shipped.match_indices(".unwrap()").map(place).collect()
}

/// A file or function that is too long.
pub fn lengths(file: &File) -> Vec<String> {
    let mut complaints = Vec::new();
    let without_tables = blank_tables(&file.shipped);
    let count = without_tables
        .lines()
        .filter(|line| !line.trim().is_empty())
        .count();
    if count > FILE_LINES {
        complaints.push(format!(
            "{}: {count} code lines, at most {FILE_LINES}",
            file.path
        ));
    }
    for at in words(&without_tables, "fn") {
        let name = without_tables[at + 2..].trim_start();
        if !name.starts_with(|c: char| c.is_alphabetic() || c == '_') {
            continue;
        }
        let body = &without_tables[at..item_end(&without_tables, at)];
        let count = body.lines().count();
        if count > FUNCTION_LINES {
            let name: String = name
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            let line = line_number(&file.text, at);
            complaints.push(format!(
                "{}:{line}: `{name}` has {count} lines, at most {FUNCTION_LINES}",
                file.path
            ));
        }
    }
    complaints
}

/// Drops the lines of constants and statics that span several lines.
fn blank_tables(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    let mut closing: Option<String> = None;
    for line in code.lines() {
        let bare = line.trim_start();
        let indent = &line[..line.len() - bare.len()];
        let starts = [
            "const ",
            "static ",
            "pub const ",
            "pub static ",
            "pub(crate) const ",
            "pub(super) const ",
        ];
        if let Some(close) = &closing {
            if line.starts_with(close.as_str()) && line.trim_end().ends_with(';') {
                closing = None;
            }
        } else if starts.iter().any(|s| bare.starts_with(s))
            && !bare.contains(" fn ")
            && !bare.trim_end().ends_with(';')
        {
            closing = Some(
                indent.to_string()
                    + if bare.trim_end().ends_with('{') {
                        "}"
                    } else {
                        "]"
                    },
            );
        } else {
            out.push_str(line);
        }
        out.push('\n');
    }
    out
}

/// Work put off.
pub fn left_for_later(file: &File) -> Vec<String> {
    let marks = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("X", "XX"),
        concat!("HA", "CK"),
    ];
    let mut complaints = Vec::new();
    for mark in marks {
        for at in words(&file.text, mark) {
            complaints.push(format!(
                "{}:{}: {mark} left",
                file.path,
                line_number(&file.text, at)
            ));
        }
    }
    for macro_name in [concat!("to", "do!"), concat!("unimpl", "emented!")] {
        for (at, _) in file.code.match_indices(macro_name) {
            complaints.push(format!(
                "{}:{}: {macro_name} left",
                file.path,
                line_number(&file.text, at)
            ));
        }
    }
    complaints
}

/// A module whose name says nothing.
pub fn module_name(file: &File) -> Vec<String> {
    const EMPTY: &[&str] = &[
        "util", "utils", "common", "helper", "helpers", "manager", "misc", "shared", "core",
    ];
    file.path
        .split('/')
        .map(|part| part.trim_end_matches(".rs"))
        .filter(|part| EMPTY.contains(part))
        .map(|part| format!("{}: `{part}` names no task", file.path))
        .collect()
}

/// Crates and server modules that ARCHITECTURE.md does not mention.
pub fn architecture(root: &Path) -> Vec<String> {
    let Ok(page) = std::fs::read_to_string(root.join("ARCHITECTURE.md")) else {
        return vec!["ARCHITECTURE.md is missing".to_string()];
    };
    let mut complaints = Vec::new();
    for folder in ["crates", "crates/server/src"] {
        for entry in std::fs::read_dir(root.join(folder))
            .into_iter()
            .flatten()
            .flatten()
        {
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.path().is_dir() && !page.contains(&format!("{name}/")) {
                complaints.push(format!("ARCHITECTURE.md does not mention {folder}/{name}/"));
            }
        }
    }
    complaints
}
