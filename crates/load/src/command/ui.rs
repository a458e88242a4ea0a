//! `gannet load --ui`: a page from which runs are started, watched and stopped, in the manner of Locust's. Ctrl-C ends it.

use super::arguments::Arguments;
use super::planning;
use super::{NOT_HELD, print, shown, write_files};
use crate::report::html::live::Form;
use crate::report::title;
use crate::target::plain;
use board::Board;
use rustix::event::{PollFd, PollFlags, poll};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use sys::signal::{Signal, SignalReader};

/// The runs, one at a time.
mod board;
/// Requests for the page and the state of the run.
mod http;

/// Where the page is unless told otherwise: Locust's port.
const PORT: u16 = 8089;

/// What stands after `--ui`: an address, or, where none was meant, the first URL.
pub fn settle(arguments: &mut Arguments) -> Option<SocketAddr> {
    let text = arguments.ui.take()?;
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    if let Ok(port) = text.parse::<u16>() {
        return Some((Ipv4Addr::LOCALHOST, port).into());
    }
    if !text.is_empty() {
        arguments.urls.insert(0, text);
    }
    Some((Ipv4Addr::LOCALHOST, PORT).into())
}

/// Serves the page until a signal comes, then reports the last run.
pub fn serve(arguments: &Arguments, address: SocketAddr) -> Result<u8, String> {
    // What is wrong with the arguments is told now, not on the page.
    let (plan, remark) = planning::plan(arguments)?;
    if let Some(remark) = remark {
        super::complain(&remark);
    }
    // Before there are threads: they inherit that the signals are read here.
    let signals = SignalReader::new(&[Signal::Int, Signal::Term])
        .map_err(|error| format!("cannot read signals: {error}"))?;
    let failed = |error| format!("cannot listen on {address}: {}", plain(&error));
    let listener = TcpListener::bind(address).map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    let form = Form {
        users: arguments
            .users
            .map_or_else(String::new, |users| users.to_string()),
        rate: arguments
            .rate
            .map_or_else(String::new, |rate| rate.to_string()),
        duration: arguments
            .duration
            .map_or_else(String::new, |time| format!("{}s", time.as_secs_f64())),
    };
    let board = Arc::new(Board::new(arguments.clone()));
    let page = crate::report::html::live::page(&title(&plan.endpoints, &plan.labels), &form);
    let site = Arc::new(http::Site::new(page, bound, Arc::clone(&board)));
    std::thread::Builder::new()
        .name("page".to_owned())
        .spawn(move || http::accept(&listener, &site))
        .map_err(|error| format!("cannot start a thread: {error}"))?;
    print(&format!("http://{bound}/\n"));
    wait(&signals);
    match board.end() {
        None => Ok(0),
        Some(report) => {
            print(&shown(&report, arguments.format));
            write_files(&report, arguments)?;
            Ok(if report.holds() { 0 } else { NOT_HELD })
        }
    }
}

/// Returns when a signal came.
fn wait(signals: &SignalReader) {
    loop {
        // Interrupted or not, what counts is whether there is a signal.
        let _woken = poll(&mut [PollFd::new(signals, PollFlags::IN)], None);
        if let Ok(Some(_)) | Err(_) = signals.read() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn an_address_is_told_from_a_url() {
        for (words, address, urls) in [
            (&["--ui"][..], "127.0.0.1:8089", &[][..]),
            (&["http://a/", "--ui"], "127.0.0.1:8089", &["http://a/"]),
            (&["--ui", "http://a/"], "127.0.0.1:8089", &["http://a/"]),
            (&["--ui", "a", "b"], "127.0.0.1:8089", &["a", "b"]),
            (&["--ui", "90", "b"], "127.0.0.1:90", &["b"]),
            (&["--ui=0.0.0.0:90", "b"], "0.0.0.0:90", &["b"]),
            (&["--ui", "[::1]:90", "b"], "[::1]:90", &["b"]),
        ] {
            let mut arguments =
                Arguments::try_parse_from([&["gannet load"], words].concat()).unwrap();
            let found = settle(&mut arguments).unwrap();
            assert_eq!(found, address.parse().unwrap(), "{words:?}");
            assert_eq!(arguments.urls, urls, "{words:?}");
        }
    }
}
