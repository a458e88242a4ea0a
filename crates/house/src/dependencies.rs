//! The rules about other people's code: each crate argued for in the workspace's manifest, locked, under a permissive
//! licence.

use std::path::Path;
use std::process::Command;

/// Licences that ask for no more than their text to be kept.
const PERMISSIVE: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "NCSA",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Dependencies of this manifest that no comment argues for; our own crates need none.
pub fn argued(path: &str, manifest: &str) -> Vec<String> {
    let (mut section, mut above) = ("", "");
    let mut complaints = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        } else if section.ends_with("dependencies]") && line.contains('=') {
            let ours = line.contains("path = ") || line.contains(".workspace = true");
            if !ours && !above.starts_with("# ") {
                complaints.push(format!("{path}: `{line}` says not what it is for"));
            }
        }
        above = line;
    }
    complaints
}

/// What is wrong with the crates that this manifest's lock file names: the file is out of date, or a licence asks for more.
pub fn locked_and_permissive(root: &Path, manifest: &str) -> Vec<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--workspace", "--locked", "--prefix", "none"])
        .args(["--format", "{p}|{l}", "--manifest-path"])
        .arg(root.join(manifest))
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => return vec![format!("{manifest}: cargo does not run: {error}")],
    };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let mend = format!("`cargo tree --manifest-path {manifest}` brings it up to date");
        return vec![format!(
            "{manifest}: {said}(a lock file that is behind: {mend})"
        )];
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut complaints: Vec<String> = text.lines().filter_map(licence).collect();
    complaints.sort();
    complaints.dedup();
    complaints
}

/// The complaint about a line `NAME VERSION…|LICENCE`. Every licence that is named has to be permissive, even where
/// there is a choice.
pub fn licence(line: &str) -> Option<String> {
    let (name, licence) = line.split_once('|')?;
    let named = licence
        .split([' ', '/', '(', ')'])
        .filter(|word| !matches!(*word, "" | "AND" | "OR" | "WITH" | "LLVM-exception"));
    // A line `(*)` repeats a crate shown above.
    let mut named = named.filter(|word| *word != "*").peekable();
    let none = named.peek().is_none();
    let bad = named.find(|word| !PERMISSIVE.contains(word));
    match bad {
        None if none => Some(format!("{name}: no licence")),
        None => None,
        Some(bad) => Some(format!("{name}: the licence {bad} is not permissive")),
    }
}
