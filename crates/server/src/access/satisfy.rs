//! `satisfy` and `auth_delay`: what the answers of several checks together mean for a request (the access phase).

use crate::config::directive::{Arity, HSL, Set, keyword, msec, row};
use crate::http::{Interrupt, Phase, Request};
use crate::log::error::{Level, write_request};
use conf::table::Row;
use std::time::Duration;

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "satisfy",
        HSL,
        Arity::Exactly(1),
        |b, d| {
            keyword(
                &mut b.location().satisfy.satisfy,
                d,
                &[("all", Satisfy::All), ("any", Satisfy::Any)],
            )
        },
        "Whether all checks of access have to pass, or any of them.",
    ),
    row(
        "auth_delay",
        HSL,
        Arity::Exactly(1),
        |b, d| msec(&mut b.location().satisfy.delay_ms, d),
        "How long a client waits that is not let in without a password.",
    ),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Satisfy {
    All,
    Any,
}

crate::config::setting::settings! {
    satisfy: Satisfy = Satisfy::All,
    delay_ms: u64 = 0,
}

/// What a check says of a request that it does not refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The location does not have it.
    NotAsked,
    Pass,
}

/// The answers so far.
#[derive(Debug, Default)]
pub struct Verdict {
    /// With `any`: a check let the request in, so that no other is asked.
    settled: bool,
    /// With `any`: the refusal that holds if no check lets the request in.
    refused: Option<u16>,
}

impl Verdict {
    /// Whether the checks that are left need not be asked.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// Takes a check's answer. With `all` a refusal is final.
    pub async fn take(&mut self, request: &Request, answer: Phase<Answer>) -> Phase {
        let any = request.location().settings.satisfy.satisfy == Satisfy::Any;
        match answer {
            Ok(Answer::NotAsked) => Ok(()),
            Ok(Answer::Pass) => {
                self.settled = any;
                // The client need not be told how to enter any more.
                if any {
                    request.fields.borrow_mut().remove("WWW-Authenticate");
                }
                Ok(())
            }
            // Asking for a password goes before turning away.
            Err(Interrupt::Status(code @ (401 | 403))) if any => {
                if self.refused != Some(401) {
                    self.refused = Some(code);
                }
                Ok(())
            }
            Err(Interrupt::Status(401)) => Err(unauthorized(request).await),
            Err(interrupt) => Err(interrupt),
        }
    }

    /// What holds when all checks were asked.
    pub async fn conclude(self, request: &Request) -> Phase {
        match self.refused {
            Some(code) if !self.settled => {
                if code == 401 {
                    return Err(unauthorized(request).await);
                }
                write_request(
                    request,
                    Level::Error,
                    format_args!("access forbidden by rule"),
                );
                Err(Interrupt::Status(code))
            }
            _ => Ok(()),
        }
    }
}

/// 401, after the delay that makes guessing slow.
async fn unauthorized(request: &Request) -> Interrupt {
    let delay_ms = request.location().settings.satisfy.delay_ms;
    if delay_ms > 0 {
        write_request(
            request,
            Level::Info,
            format_args!("delaying unauthorized request"),
        );
        tokio::time::sleep(Duration::from_millis(delay_ms)).await;
    }
    Interrupt::Status(401)
}
