//! Documentation that is written by the code. A test whose name ends in `docs_are_current` calls `check`;
//! `./dev docs` runs those tests with UPDATE=docs, which rewrites the pages.

use std::path::Path;

/// Compares the page at `path` with `text`, or rewrites it under UPDATE=docs.
pub fn check(path: &Path, text: &str) {
    if std::env::var("UPDATE").is_ok_and(|value| value == "docs") {
        std::fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        return;
    }
    let current = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        current == text,
        "{} is not current: run ./dev docs",
        path.display()
    );
}
