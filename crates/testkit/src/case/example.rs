//! A case of one of the repository's `examples`: the site as it stands there, moved to free ports and a directory of the
//! run. The case's file `example` names it.

use regex::Regex;
use std::path::{Path, PathBuf};

/// Where the examples' applications listen, and PHP as Debian starts it: the toy servers take their places.
const APPLICATION: &str = "127.0.0.1:3000";
const PHP: &str = "unix:/run/php/php8.2-fpm.sock";
/// Folders of documents, which nothing includes.
const DOCUMENTS: &[&str] = &["html", "public"];

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
        .replace(APPLICATION, "%ORIGIN%")
        .replace(PHP, "%FASTCGI%")
}

/// Puts the run's values into the files that nginx.conf includes.
pub fn fill_included(
    directory: &Path,
    fill: impl Fn(&str) -> String + Copy,
) -> std::io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let documents = DOCUMENTS.iter().any(|name| path.ends_with(name));
        if path.is_dir() && !documents {
            fill_included(&path, fill)?;
        } else if path.is_file() {
            let text = std::fs::read_to_string(&path)?;
            let filled = fill(&configuration(&text));
            // A file left alone keeps its time.
            if filled != text {
                std::fs::write(&path, filled)?;
            }
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
        assert_eq!(
            configuration(
                "proxy_pass http://127.0.0.1:3000/; fastcgi_pass unix:/run/php/php8.2-fpm.sock;"
            ),
            "proxy_pass http://%ORIGIN%/; fastcgi_pass %FASTCGI%;"
        );
    }
}
