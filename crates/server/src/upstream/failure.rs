//! How a try at an upstream fails: what the log says, what the client gets, and whether another server may be asked.

use super::settings::{Condition, Settings};
use crate::cache::settings::UseStale;
use crate::http::Request;
use crate::log::error::Level;
use std::io;
use sys::errno::Errno;
use wire::http1::Method;

/// What a try was doing when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Connecting,
    Handshake,
    Sending,
    ReadingHead,
}

impl Stage {
    /// nginx's words.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Stage::Connecting => "while connecting to upstream",
            Stage::Handshake => "while SSL handshaking to upstream",
            Stage::Sending => "while sending request to upstream",
            Stage::ReadingHead => "while reading response header from upstream",
        }
    }
}

/// Why a try failed.
#[derive(Debug)]
pub enum Failure {
    /// A system call at a stage.
    Call {
        call: String,
        error: io::Error,
        stage: Stage,
    },
    TimedOut(Stage),
    /// TLS does not come about, in nginx's words.
    Handshake(String),
    /// What upstreams are shown cannot be had; nothing is wrong with the upstream.
    Own(String),
    /// The upstream closed the connection before its response.
    Closed(Stage),
    /// The upstream says that it has not begun with the request.
    Refused(String),
    /// The head of the response cannot be read, in nginx's words.
    Invalid(String),
    /// A status that another server may do better than.
    Status(u16),
    /// The client went away meanwhile.
    ClientGone(Stage),
}

impl Failure {
    #[must_use]
    pub fn call(call: impl Into<String>, error: io::Error, stage: Stage) -> Failure {
        Failure::Call {
            call: call.into(),
            error,
            stage,
        }
    }

    /// The line for the error log; a status has none.
    #[must_use]
    pub fn message(&self) -> Option<(Level, String)> {
        Some(match self {
            Failure::Call { call, error, stage } => {
                let text = format!("{call} failed ({}) {}", Errno(error), stage.as_str());
                (level_of(error), text)
            }
            Failure::TimedOut(stage) => {
                let text = format!(
                    "upstream timed out (110: Connection timed out) {}",
                    stage.as_str()
                );
                (Level::Error, text)
            }
            Failure::Handshake(text) => {
                let text = format!("{text} {}", Stage::Handshake.as_str());
                (Level::Error, text)
            }
            Failure::Own(text) => {
                let text = format!("{text} {}", Stage::Connecting.as_str());
                (Level::Error, text)
            }
            Failure::Closed(stage) => {
                let text = format!("upstream prematurely closed connection {}", stage.as_str());
                (Level::Error, text)
            }
            Failure::Invalid(text) | Failure::Refused(text) => (
                Level::Error,
                format!("{text} {}", Stage::ReadingHead.as_str()),
            ),
            Failure::ClientGone(stage) => {
                let text = format!(
                    "epoll_wait() reported that client prematurely closed connection, so upstream connection is closed too {}",
                    stage.as_str()
                );
                (Level::Info, text)
            }
            Failure::Status(_) => return None,
        })
    }

    /// Whether a kept connection fails so that the upstream has closed meanwhile.
    #[must_use]
    pub fn is_of_connection(&self) -> bool {
        matches!(
            self,
            Failure::Call { .. } | Failure::Closed(_) | Failure::Refused(_)
        )
    }

    /// Whether the upstream has not begun with the request.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(self, Failure::Refused(_))
    }

    /// What the try was doing.
    #[must_use]
    pub fn stage(&self) -> Stage {
        match self {
            Failure::Call { stage, .. }
            | Failure::TimedOut(stage)
            | Failure::Closed(stage)
            | Failure::ClientGone(stage) => *stage,
            Failure::Handshake(_) => Stage::Handshake,
            Failure::Own(_) => Stage::Connecting,
            Failure::Invalid(_) | Failure::Refused(_) | Failure::Status(_) => Stage::ReadingHead,
        }
    }

    /// The status for the client.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Failure::TimedOut(_) => 504,
            Failure::Status(status) => *status,
            Failure::ClientGone(_) => 499,
            Failure::Own(_) => 500,
            _ => 502,
        }
    }

    /// What `$upstream_status` shows of the try; 0 if the upstream is not what failed.
    #[must_use]
    pub fn upstream_status(&self) -> u16 {
        match self {
            Failure::Own(_) | Failure::ClientGone(_) => 0,
            _ => self.status(),
        }
    }

    /// What `proxy_cache_use_stale` calls it; 0 for what nothing stands in for.
    #[must_use]
    pub fn stale_condition(&self) -> u16 {
        match self {
            Failure::TimedOut(_) => UseStale::TIMEOUT,
            Failure::Invalid(_) => UseStale::INVALID_HEADER,
            Failure::Call { .. }
            | Failure::Closed(_)
            | Failure::Refused(_)
            | Failure::Handshake(_) => UseStale::ERROR,
            Failure::Own(_) | Failure::Status(_) | Failure::ClientGone(_) => 0,
        }
    }

    /// Whether the settings let a failure of this kind be tried elsewhere.
    #[must_use]
    pub fn may_go_on(&self, settings: &Settings) -> bool {
        match self {
            Failure::TimedOut(_) => settings.next_upstream.contains(Condition::Timeout),
            Failure::Invalid(_) => settings.next_upstream.contains(Condition::InvalidHeader),
            Failure::Status(status) => settings.next_upstream.contains_status(*status),
            Failure::Own(_) | Failure::ClientGone(_) => false,
            Failure::Call { .. }
            | Failure::Closed(_)
            | Failure::Refused(_)
            | Failure::Handshake(_) => settings.next_upstream.contains(Condition::Error),
        }
    }
}

/// Whether a request may be sent again after an upstream has had it.
#[must_use]
pub fn may_repeat(request: &Request, settings: &Settings) -> bool {
    !matches!(request.method, Method::Post | Method::Lock | Method::Patch)
        || settings.next_upstream.contains(Condition::NonIdempotent)
}

/// As nginx: what happens every day is an error, what is wrong with the machine is critical.
fn level_of(error: &io::Error) -> Level {
    match error.kind() {
        io::ErrorKind::ConnectionRefused
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::NotConnected
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::TimedOut
        | io::ErrorKind::WouldBlock
        | io::ErrorKind::NetworkDown
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::HostUnreachable => Level::Error,
        _ => Level::Critical,
    }
}
