//! A case of one of the repository's `examples`: the site as it stands there, moved to free ports and a directory of the
//! run. The case's file `example` names it.

use regex::Regex;
use std::path::{Path, PathBuf};

/// The example's folder, if the case is of one.
pub fn of(case: &Path) -> Option<PathBuf> {
    let name = std::fs::read_to_string(case.join("example")).ok()?;
    // tests/cases/FEATURE/NAME
    let repository = case.ancestors().nth(4)?;
    Some(repository.join("examples").join(name.trim()))
}

/// The example's nginx.conf as a case's: its ports are the run's, and what the run sets itself is left out.
pub fn configuration(text: &str) -> String {
    let own =
        Regex::new(r"(?m)^(pid|error_log|daemon)\s[^;]*;").expect("the pattern is written here");
    own.replace_all(text, "")
        .replace("127.0.0.1:8080", "127.0.0.1:%PORT%")
        .replace("127.0.0.1:8081", "127.0.0.1:%PORT2%")
}

/// Puts the run's values into the files that nginx.conf includes.
pub fn fill_included(
    directory: &Path,
    fill: impl Fn(&str) -> String + Copy,
) -> std::io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            fill_included(&path, fill)?;
        } else if path
            .extension()
            .is_some_and(|extension| extension == "conf")
        {
            let text = std::fs::read_to_string(&path)?;
            std::fs::write(&path, fill(&configuration(&text)))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::configuration;

    #[test]
    fn an_example_is_moved() {
        assert_eq!(
            configuration("pid a;\nhttp {\n  error_log b;\n  listen 127.0.0.1:8080;\n}\n"),
            "\nhttp {\n  error_log b;\n  listen 127.0.0.1:%PORT%;\n}\n"
        );
    }
}
