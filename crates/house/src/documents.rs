//! What the pages name must exist: paths between backticks and in links, names of constants, and the files of the tree in
//! ARCHITECTURE.md.

use std::path::{Path, PathBuf};

/// Where a path in a page may begin, beside the page's own folder.
const ROOTS: &[&str] = &["", "crates/server/src"];
/// What ends a path that is meant as a file.
const ENDINGS: &[&str] = &[".rs", ".md", ".toml", ".conf", ".tsv"];
/// Pages that name files elsewhere: STYLE.md those of other projects.
const APART: &[&str] = &["STYLE.md"];

/// The names in all pages that lead nowhere.
pub fn names(root: &Path, sources: &[String]) -> Vec<String> {
    let mut complaints = Vec::new();
    for page in pages(root) {
        let Ok(text) = std::fs::read_to_string(root.join(&page)) else {
            complaints.push(format!("{}: cannot be read", page.display()));
            continue;
        };
        let folder = page.parent().unwrap_or(Path::new(""));
        let exists = |path: &str| {
            let own = root.join(folder).join(path).exists();
            own || ROOTS
                .iter()
                .any(|start| root.join(start).join(path).exists())
        };
        let missing_paths = paths(&text).into_iter().filter(|path| !exists(path));
        let missing_links = links(&text)
            .into_iter()
            .filter(|link| !root.join(folder).join(link).exists());
        let unknown = constants(&text)
            .into_iter()
            .filter(|name| !sources.iter().any(|source| source.contains(name.as_str())));
        let missing: Vec<String> = missing_paths.chain(missing_links).chain(unknown).collect();
        complaints.extend(
            missing
                .iter()
                .map(|name| format!("{}: there is no {name}", page.display())),
        );
        complaints.extend(
            tree(&text)
                .iter()
                .filter(|path| !root.join(path).exists())
                .map(|path| format!("{}: the tree has no {path}", page.display())),
        );
    }
    complaints
}

/// The pages about this tree. tests/README.md is about the files of a case.
fn pages(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in ["", "docs", "bench", "examples"] {
        let entries = std::fs::read_dir(root.join(folder)).into_iter().flatten();
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(".md") && !APART.contains(&name.as_str()) {
                found.push(Path::new(folder).join(name));
            }
        }
    }
    found.sort();
    found
}

/// The text outside of fenced blocks, line by line.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter(move |line| {
        let fence = line.starts_with("```");
        fenced ^= fence;
        !fenced && !fence && !line.starts_with("    ")
    })
}

/// What stands between backticks in the prose.
fn spans(text: &str) -> Vec<&str> {
    prose(text)
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .collect()
}

/// The paths among the spans: those with the ending of a file, or a slash at the end of a folder of the tree. A word in
/// capitals is a placeholder.
fn paths(text: &str) -> Vec<String> {
    let is_placeholder =
        |part: &str| part.chars().all(|c| c.is_ascii_uppercase()) && !part.is_empty();
    spans(text)
        .into_iter()
        .filter(|span| {
            span.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte))
        })
        .filter(|span| !span.starts_with('/') && !span.split('/').any(is_placeholder))
        .filter(|span| {
            let file = ENDINGS.iter().any(|ending| span.ends_with(ending));
            let folder = span.ends_with('/') || span.starts_with("crates/");
            (file && span.contains('/')) || folder
        })
        .map(str::to_owned)
        .collect()
}

/// The targets of links inside the repository, without their anchors.
fn links(text: &str) -> Vec<String> {
    prose(text)
        .flat_map(|line| line.split("](").skip(1))
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.split('#').next().unwrap_or_default())
        .filter(|target| !target.is_empty() && !target.contains("://"))
        .map(str::to_owned)
        .collect()
}

/// The spans that are names of constants: `IN_CAPITALS`, with an underscore.
fn constants(text: &str) -> Vec<String> {
    let environment = ["GANNET_BIN", "CARGO_TARGET_DIR"];
    spans(text)
        .into_iter()
        .filter(|span| span.contains('_') && !environment.contains(span))
        .filter(|span| {
            span.bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
        })
        .map(str::to_owned)
        .collect()
}

/// The paths of a fenced block whose lines are names, indented by two blanks for each folder they stand in, and then, after
/// more than one blank, words about them.
fn tree(text: &str) -> Vec<String> {
    let mut folders: Vec<String> = Vec::new();
    let (mut found, mut fenced) = (Vec::new(), false);
    for line in text.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
            continue;
        }
        let bare = line.trim_start();
        let names = bare.split("  ").next().unwrap_or_default();
        if !fenced || !names.split(' ').all(is_file_name) {
            continue;
        }
        folders.truncate((line.len() - bare.len()) / 2);
        for name in names.split(' ') {
            found.push(format!("{}{name}", folders.concat()));
        }
        if names.ends_with('/') && !names.contains(' ') {
            folders.push(names.to_owned());
        }
    }
    found
}

fn is_file_name(word: &str) -> bool {
    word.ends_with('/') || ENDINGS.iter().any(|ending| word.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_links_and_constants_are_found() {
        let text = "See `http/body.rs`, `crates/sys`, [x](docs/a.md#b) and `LINE_MAX`.\n\
                    Not `text/html`, `/etc/x.conf`, `cases/NAME/x.md`, `a b.rs`, [y](https://example.org/).\n\
                    ```\n`no/such.rs`\n```\n";
        assert_eq!(paths(text), ["http/body.rs", "crates/sys"]);
        assert_eq!(links(text), ["docs/a.md"]);
        assert_eq!(constants(text), ["LINE_MAX"]);
    }

    #[test]
    fn a_tree_is_read_by_its_indentation() {
        let text = "```\nsrc/   the binary\n  main.rs  first\ncrates/\n  a/src/  one\n    x.rs y.rs z/   two\n    w.rs\n  b/\n```\n";
        let expected = [
            "src/",
            "src/main.rs",
            "crates/",
            "crates/a/src/",
            "crates/a/src/x.rs",
            "crates/a/src/y.rs",
            "crates/a/src/z/",
            "crates/a/src/w.rs",
            "crates/b/",
        ];
        assert_eq!(tree(text), expected);
    }
}
