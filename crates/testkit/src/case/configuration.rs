//! What every case's nginx.conf needs and no case is about: foreground, pid, log and temporary paths.
//! All is put on existing lines, so that line numbers in messages are those of the case's file.

use crate::server::Kind;
use regex::Regex;

/// For a configuration that is tested exactly as it is written: given with `-g`.
pub const BARE_GLOBALS: &str = "pid %DIR%/pid;";

/// Where nginx was built to keep these belongs to root, and it makes them all at its start.
const NGINX_TEMPORARY: &str = "proxy_temp_path %DIR%/proxy; fastcgi_temp_path %DIR%/fastcgi; \
    uwsgi_temp_path %DIR%/uwsgi; scgi_temp_path %DIR%/scgi; ";

/// Adds to a configuration what it lacks; one without an `http` block is taken as the inside of one.
pub fn complete(text: &str, kind: Kind) -> String {
    let has = |pattern: &str| {
        Regex::new(pattern)
            .expect("the pattern is written here")
            .is_match(text)
    };
    let mut main = "daemon off; pid %DIR%/pid; ".to_string();
    if !has(r"\berror_log\b") {
        main.push_str("error_log %DIR%/error.log info; ");
    }
    if !has(r"\bworker_processes\b") {
        main.push_str("worker_processes 1; ");
    }
    if !has(r"\bevents\b") {
        main.push_str("events {} ");
    }
    let mut http = "client_body_temp_path %DIR%/body; ".to_string();
    if kind == Kind::Nginx {
        http.push_str(NGINX_TEMPORARY);
    }
    if !has(r"\baccess_log\b") {
        http.push_str("access_log off; ");
    }
    let block = Regex::new(r"(^|[\s;}])http\s*\{").expect("the pattern is written here");
    match block.find(text) {
        Some(found) => format!(
            "{main}{} {http}{}",
            &text[..found.end()],
            &text[found.end()..]
        ),
        None => format!("{main}http {{ {http}{text}}}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::complete;
    use crate::server::Kind;

    #[test]
    fn lines_stay_where_they_are() {
        assert_eq!(complete("server {\n}\n", Kind::Nginx).lines().count(), 3);
        let whole = complete("events {\n}\nhttp {\n}\n", Kind::Gannet);
        assert_eq!(whole.matches("events").count(), 1);
        assert_eq!(whole.matches("http {").count(), 1);
    }
}
