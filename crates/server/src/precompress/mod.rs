//! `precompress`: compressed copies of static files, made in the background and served from then on. The first request for
//! a file queues it; the copies are kept in a store or beside the files (`place`), each under the identity of the file it
//! was made of. A request looks for copies of the file as it is at that moment, so that none is stale: a changed file has
//! another identity, and the copies of its former states are never found again. `watch` drops them early.

mod beside;
pub mod counts;
pub mod directive;
mod job;
mod local;
mod mark;
pub mod offline;
mod place;
mod rate;
mod trouble;
pub mod watch;

use crate::background::Urgency;
use crate::config::model::Config;
use crate::encoding::negotiate::Coding;
use crate::encoding::{dictionary, permission};
use crate::http::file::{Copied, Entry};
use crate::http::{Request, Response};
use crate::store::Reading;
use directive::Place;
use job::Job;
use local::{State, Variants};
use place::Home;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The directories that copies are kept in, each once.
#[must_use]
pub fn directories(config: &Config) -> Vec<PathBuf> {
    let locations = config
        .http
        .locations
        .iter()
        .map(|location| &location.settings.precompress);
    let mut directories: Vec<PathBuf> = locations
        .filter(|settings| settings.on)
        .filter_map(|settings| match &settings.place {
            Place::BuiltIn => Some(config.http.precompress.built_in.path().to_path_buf()),
            Place::Directory(directory) => Some(directory.path().to_path_buf()),
            Place::Beside => None,
        })
        .collect();
    directories.sort();
    directories.dedup();
    directories
}

/// Makes the response a copy of the file, if there is one in a coding that the client takes. `response` is the whole file.
pub async fn apply(request: &Request, entry: &Rc<Entry>, response: &mut Response) {
    let settings = &request.location().settings.precompress;
    if !settings.covers(response.content_type.as_ref(), entry.identity.size) {
        return;
    }
    request.vary_accept_encoding.set(true);
    response.depends_on_accept = true;
    let on_the_fly = request.location().settings.compress.offers(response);
    if dictionary::may_be_chosen(request, response, on_the_fly) {
        // With what the client has already, the response becomes smaller than any copy.
        return;
    }
    let codings = permission::codings(request, Some(response), settings.codings);
    let home = Home::of(settings, &request.generation.config.http.precompress);
    let variants = local::variants(&home, entry);
    let mut wanting = false;
    for coding in codings {
        let state = match variants.state(&home, coding) {
            State::Unknown => look(&home, &variants, entry, coding).await,
            known => known,
        };
        match state {
            State::Ready(copied, effort, _) => {
                wanting |= effort < settings.effort;
                send(response, &copied);
                break;
            }
            State::Useless(effort) => wanting |= effort < settings.effort,
            State::Unknown | State::Missing => wanting = true,
            State::Foreign => {}
        }
    }
    if wanting {
        // The next response may be another one.
        response.file = None;
        response.copy_is_wanted = response.copied.is_none();
    }
    if wanting && variants.may_ask() {
        let job = job_for(request, entry, home);
        // A full queue means that others wait; the next request asks again.
        let _full = job::submit(Urgency::Asked, job);
    }
}

fn send(response: &mut Response, copied: &Rc<Copied>) {
    copied.note_use();
    response.set_body(copied.body());
    if response.etag.is_some() {
        response.etag = Some(copied.etag.clone());
    }
    response.headers.push("Content-Encoding", copied.coding);
    response.copied = Some(Rc::clone(copied));
}

/// Looks for a copy, away from the network thread where that means to wait for a disk.
async fn look(home: &Home, variants: &Rc<Variants>, entry: &Entry, coding: Coding) -> State {
    let path = Path::new(OsStr::from_bytes(&entry.path));
    let found = match home.look(path, &entry.identity, coding, Reading::Cached) {
        Ok(None) => {
            let (home, path, identity) = (home.clone(), path.to_path_buf(), entry.identity);
            let cold = move || home.look(&path, &identity, coding, Reading::Blocking);
            match tokio::task::spawn_blocking(cold).await {
                Ok(found) => found,
                Err(_) => Ok(None),
            }
        }
        other => other,
    };
    match found {
        Ok(Some(known)) => variants.set(home, entry, coding, known),
        // What cannot be read is as good as missing: it is made anew.
        Ok(None) | Err(_) => State::Missing,
    }
}

fn job_for(request: &Request, entry: &Entry, home: Home) -> Job {
    let settings = &request.location().settings.precompress;
    Job {
        path: PathBuf::from(OsStr::from_bytes(&entry.path)),
        home,
        codings: settings.codings,
        effort: settings.effort,
        min_length: settings.min_length,
        max_length: settings.max_length,
        rate: request.generation.config.http.precompress.rate,
    }
}
