//! `Use-As-Dictionary` (RFC 9842), and the reading of dictionaries in the background: when a configuration comes into
//! force, and when a client names one that is not known.

use crate::background::{self, Urgency};
use crate::config::model::Config;
use crate::encoding::dictionary::{Dictionaries, named};
use crate::http::{Request, Response};
use std::sync::Arc;
use std::time::Instant;
use wire::http1::Method;

/// Has the dictionaries of a configuration read.
pub fn start(config: &Config) {
    let mut started: Vec<*const Dictionaries> = Vec::new();
    for location in &config.http.locations {
        // Locations inherit them from one another.
        if let Some(dictionaries) = &location.settings.dictionary.dictionaries
            && !started.contains(&Arc::as_ptr(dictionaries))
        {
            started.push(Arc::as_ptr(dictionaries));
            scan(dictionaries, Urgency::Idle);
        }
    }
}

fn scan(dictionaries: &Arc<Dictionaries>, urgency: Urgency) {
    if dictionaries.wants_scan(Instant::now()) {
        let dictionaries = Arc::clone(dictionaries);
        // With a full queue they stay unknown until a client names one again.
        let _full = background::pool().submit(urgency, move || dictionaries.scan());
    }
}

/// Adds the field, and looks for what the client has.
pub fn apply(request: &Request, response: &mut Response) {
    let settings = &request.location().settings.dictionary;
    if settings.is_off() || response.status != 200 {
        return;
    }
    if let Some(value) = &settings.use_as
        && matches!(request.method, Method::Get | Method::Head)
    {
        response.headers.push("Use-As-Dictionary", value.clone());
    }
    if let Some(dictionaries) = &settings.dictionaries
        && let Some(hash) = named(request)
        && dictionaries.find(&hash).is_none()
    {
        scan(dictionaries, Urgency::Asked);
    }
}
