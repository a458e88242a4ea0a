//! One request whose body is kept: for programs that want to look at what they will load.

use super::planned;
use crate::client::{Client, scratch};
use crate::failure::Failure;
use std::time::Instant;
use tokio::task::LocalSet;

/// A longer body is refused.
const BODY_MAX: usize = 64 << 20;

/// A whole response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    pub status: u16,
    pub body: Vec<u8>,
}

/// Asks for a URL, whatever its certificate. The complaint is one line.
pub fn fetch(url: &str) -> Result<Fetched, String> {
    let plan = planned(&["-k".into(), "-n".into(), "1".into(), url.into()])?;
    let failed = |why: String| format!("cannot fetch {url}: {why}");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| failed(error.to_string()))?;
    LocalSet::new().block_on(&runtime, async {
        let step = plan.steps().next();
        let (Some(step), Some(endpoint)) = (step, plan.endpoints.first()) else {
            return Err(failed("no request".to_owned()));
        };
        let mut client = Client::new(&plan, scratch(), None);
        let now = Instant::now();
        // One byte more tells that there is too much.
        let exchange = client.exchange(endpoint, step, &[], now, now, BODY_MAX + 1);
        let (sample, _) = exchange.await;
        if let Some(failure) = sample
            .failure
            .filter(|failure| !Failure::is_answered(failure))
        {
            return Err(failed(failure.to_string()));
        }
        let body = client.reader().kept.body.clone();
        match body.len() > BODY_MAX {
            true => Err(failed("the body is too long".to_owned())),
            false => Ok(Fetched {
                status: sample.status,
                body,
            }),
        }
    })
}
