//! Responses that are made to grow without end: they end in an error or come piece by piece, and never fill the memory.

use crate::site::{Site, request};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// The most that the worker may ever have had, in bytes.
const MEMORY_MAX: u64 = 256 * 1024 * 1024;

fn peak(site: &Site) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", site.worker()));
    let status = status.expect("the worker runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.expect("a number") * 1024
}

/// A byte of the file becomes what a field of the request says: three gigabytes, of which the client reads a part.
#[test]
fn a_substitution_that_grows_is_sent_piece_by_piece() {
    let site = Site::start_with(
        "",
        "large_client_header_buffers 4 64k;",
        "location / { sub_filter x $http_long; sub_filter_once off; sub_filter_types *; }",
    );
    std::fs::write(site.file("html/x.html"), vec![b'x'; 100_000]).expect("written");
    let head = format!(
        "GET /x.html HTTP/1.1\r\nHost: a\r\nLong: {}\r\n\r\n",
        "y".repeat(32_000)
    );
    let mut stream = TcpStream::connect(("127.0.0.1", site.port)).expect("it listens");
    let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
    stream.write_all(head.as_bytes()).expect("sent");
    let mut buffer = vec![0; 4 * 1024 * 1024];
    stream.read_exact(&mut buffer).expect("the response comes");
    assert!(peak(&site) < MEMORY_MAX, "{} bytes", peak(&site));
    drop(stream);
    assert!(site.try_ask("/small.txt").is_some());
}

/// A page that includes itself twice would be 2^51 pages.
#[test]
fn pages_that_include_themselves_end() {
    let site = Site::start("location / { ssi on; }");
    let page = "<!--#include virtual=\"/loop.html\" -->".repeat(2);
    std::fs::write(site.file("html/loop.html"), page).expect("written");
    let mut client = site.connect();
    client.send(request("/loop.html", "close").as_bytes());
    assert!(client.read_reply("GET").is_some(), "{}", site.log());
    assert!(peak(&site) < MEMORY_MAX, "{} bytes", peak(&site));
}

/// The same with a variable that doubles.
#[test]
fn variables_that_double_end() {
    let site = Site::start("location / { ssi on; ssi_value_length 65535; }");
    let double = "<!--#set var=\"a\" value=\"$a$a\" -->".repeat(40);
    let page =
        format!("<!--#set var=\"a\" value=\"0123456789\" -->{double}<!--#echo var=\"a\" -->");
    std::fs::write(site.file("html/double.html"), page).expect("written");
    let mut client = site.connect();
    client.send(request("/double.html", "close").as_bytes());
    let reply = client.read_reply("GET").expect("an answer");
    assert!(reply.body.len() < 70_000, "{} bytes", reply.body.len());
    assert!(peak(&site) < MEMORY_MAX, "{} bytes", peak(&site));
}
