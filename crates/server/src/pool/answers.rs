//! What a pool answers itself, without a child: its status, its ping, and scripts that no child may run. The answers are
//! CGI responses, as a child would have given them.

use super::Pool;
use super::facts::Facts;
use super::settings::Settings;
use super::state::State;
use super::status::{self, Format};
use crate::log::error::{self, Level};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The status page or the ping, if the request is for one.
pub fn answer(state: &State, facts: &Facts, now: Instant) -> Option<Vec<u8>> {
    let settings = &state.defined.settings;
    let is = |path: &Option<String>| {
        let path = path.as_ref();
        path.is_some_and(|path| path.as_bytes() == facts.script_name)
    };
    if is(&settings.ping_path) {
        let content_type = Format::Text.content_type();
        return Some(respond(content_type, &settings.ping_response, facts));
    }
    if !is(&settings.status_path) {
        return None;
    }
    let query = String::from_utf8_lossy(&facts.query);
    let format = Format::of_query(&query);
    let full = query.contains("full");
    let text = status::write(state, format, full, now);
    Some(respond(format.content_type(), &text, facts))
}

fn respond(content_type: &str, text: &str, facts: &Facts) -> Vec<u8> {
    let mut out = format!(
        "Content-type: {content_type}\r\nExpires: Thu, 01 Jan 1970 00:00:00 GMT\r\nCache-Control: no-cache, no-store, must-revalidate, max-age=0\r\n\r\n"
    )
    .into_bytes();
    if facts.method != b"HEAD" {
        out.extend_from_slice(text.as_bytes());
    }
    out
}

/// `security.limit_extensions`: PHP runs the longest existing part of the script's path, whatever its name. So that part
/// is looked for here, too, before a child gets the request.
pub fn check_script(pool: &Pool, facts: &Facts) -> Option<Vec<u8>> {
    let settings = std::sync::Arc::clone(&pool.state().defined.settings);
    if settings.limit_extensions.is_empty() || facts.script_filename.is_empty() {
        return None;
    }
    let written = Path::new(OsStr::from_bytes(&facts.script_filename));
    let refuse = |status: &str, text: &str| {
        let head =
            format!("Status: {status}\r\nContent-type: text/html; charset=UTF-8\r\n\r\n{text}");
        Some(head.into_bytes())
    };
    match find_script(&settings, written) {
        Script::Allowed | Script::Unknown => None,
        Script::Denied => {
            let shown = written.display();
            error::write(
                Level::Error,
                format_args!(
                    "[pool {}] Access to the script '{shown}' has been denied (see security.limit_extensions)",
                    settings.name
                ),
            );
            refuse("403 Forbidden", "Access denied.\n")
        }
        Script::Missing => {
            let name = &settings.name;
            error::write(
                Level::Error,
                format_args!(
                    "[pool {name}] Primary script unknown: '{}'",
                    written.display()
                ),
            );
            refuse("404 Not Found", "File not found.\n")
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Script {
    Allowed,
    Denied,
    Missing,
    /// The worker may not look; the child may.
    Unknown,
}

fn find_script(settings: &Settings, written: &Path) -> Script {
    let real = |path: &Path| match &settings.process.chroot {
        Some(root) => root.join(path.strip_prefix("/").unwrap_or(path)),
        None => path.to_owned(),
    };
    let mut path: PathBuf = written.to_owned();
    loop {
        match std::fs::metadata(real(&path)) {
            Ok(found) if found.is_file() => return judge(settings, &path),
            Ok(_) => return Script::Missing,
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                // Every part of the path could be the script.
                let all = written
                    .ancestors()
                    .filter(|part| part.extension().is_some());
                let denied = all
                    .into_iter()
                    .any(|part| judge(settings, part) == Script::Denied);
                return if denied {
                    Script::Denied
                } else {
                    Script::Unknown
                };
            }
            Err(_) => {}
        }
        if !path.pop() || path.as_os_str().len() <= 1 {
            return Script::Missing;
        }
    }
}

fn judge(settings: &Settings, path: &Path) -> Script {
    let path = path.as_os_str().as_bytes();
    let mut extensions = settings.limit_extensions.iter();
    match extensions.any(|extension| path.ends_with(extension.as_bytes())) {
        true => Script::Allowed,
        false => Script::Denied,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::settings::{Pm, Reading};

    #[test]
    fn the_script_is_the_longest_part_that_exists() {
        let directory = std::env::temp_dir().join(format!("gannet-script-{}", std::process::id()));
        std::fs::create_dir_all(directory.join("dir")).unwrap();
        for name in ["a.php", "evil.jpg", "b.phtml"] {
            std::fs::write(directory.join(name), "").unwrap();
        }
        let settings = Reading::new("www").finish(Some(Pm::Auto)).unwrap();
        for (path, expected) in [
            ("a.php", Script::Allowed),
            ("a.php/more/path", Script::Allowed),
            ("evil.jpg", Script::Denied),
            ("evil.jpg/x.php", Script::Denied),
            ("b.phtml", Script::Denied),
            ("none.php", Script::Missing),
            ("dir", Script::Missing),
            ("dir/x.php", Script::Missing),
        ] {
            assert_eq!(
                find_script(&settings, &directory.join(path)),
                expected,
                "{path}"
            );
        }
        let mut rooted = settings.clone();
        rooted.process.chroot = Some(directory.clone());
        assert_eq!(find_script(&rooted, Path::new("/a.php")), Script::Allowed);
        assert_eq!(
            find_script(&rooted, &directory.join("a.php")),
            Script::Missing
        );
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
