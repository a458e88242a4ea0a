//! OpenSSL's command: certificates as it makes them, and a client that is not ours.

use crate::site::Site;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a command of OpenSSL's in a directory.
pub fn run(at: &Path, arguments: &str) {
    let output = Command::new("openssl")
        .args(arguments.split(' '))
        .current_dir(at)
        .output()
        .expect("openssl is installed");
    assert!(output.status.success(), "{arguments}: {output:?}");
}

/// What its client says of a connection on which it sends `request`, until the server closes.
pub fn s_client(at: &Path, port: u16, arguments: &str, request: &str) -> String {
    let mut command = Command::new("openssl");
    command
        .args(["s_client", "-connect", &format!("127.0.0.1:{port}")])
        .args(arguments.split_whitespace())
        .current_dir(at)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if !request.is_empty() || arguments.contains("-early_data") {
        command.arg("-ign_eof");
    }
    let mut child = command.spawn().expect("openssl is installed");
    if let Some(mut input) = child.stdin.take() {
        // It may have ended before it was asked.
        let _gone = input.write_all(request.as_bytes());
    }
    let output = child.wait_with_output().expect("our child");
    let texts = [output.stdout, output.stderr];
    texts
        .map(|text| String::from_utf8_lossy(&text).into_owned())
        .concat()
}

/// The site's error log so far.
pub fn error_log(site: &Site) -> String {
    std::fs::read_to_string(site.file("error.log")).unwrap_or_default()
}
