//! `mirror`: requests of the same kind to other paths, whose answers nobody gets; and `post_action`: one more request when
//! the client has its answer.

use super::subrequest;
use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, HSLI, Outcome, Set, flag, row};
use crate::http::request::{AtEnd, RequestBody};
use crate::http::{Phase, Request, Response, body_reader};
use crate::request_body;
use bytes::Bytes;
use conf::Directive;
use conf::table::Row;
use std::sync::Arc;

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "mirror",
        HSL,
        Arity::Exactly(1),
        mirror,
        "A path that gets the same request, in the background; off: none.",
    ),
    row(
        "mirror_request_body",
        HSL,
        Arity::Flag,
        |b, d| flag(&mut b.location().mirror.body, d),
        "Whether such requests have the client's body.",
    ),
    row(
        "post_action",
        HSLI,
        Arity::Exactly(1),
        post_action,
        "A path that is asked for when the response was sent; off: none.",
    ),
];

// The paths of a block take the place of all the outer block's.
crate::config::setting::settings! {
    paths: Arc<Vec<Bytes>> = Arc::default(),
    body: bool = true,
    post_action: Bytes = Bytes::new(),
}

/// Bytes read from a file at once.
const READ: usize = 32 * 1024;

fn mirror(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let word = &directive.args[0];
    let paths = &mut build.location().mirror.paths.0;
    if &word[..] == b"off" {
        if paths.is_some() {
            return Err("is duplicate".into());
        }
        *paths = Some(Arc::default());
        return Ok(());
    }
    match paths {
        Some(paths) if paths.is_empty() => return Err("is duplicate".into()),
        _ => {}
    }
    Arc::make_mut(paths.get_or_insert_default()).push(Bytes::copy_from_slice(word));
    Ok(())
}

fn post_action(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let path = match &directive.args[0][..] {
        b"off" => Bytes::new(),
        path => Bytes::copy_from_slice(path),
    };
    build.location().mirror.post_action.set(path)
}

impl Settings {
    /// Whether requests have no others in the background.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.paths.is_empty() && self.post_action.is_empty()
    }
}

/// Sends the location's mirrors what the client asks. They are not waited for.
pub async fn send(request: &mut Request) -> Phase {
    let settings = request.location().settings.mirror.clone();
    if settings.paths.is_empty() || request.depth > 0 {
        return Ok(());
    }
    if settings.body {
        request_body::read::read(request).await?;
    }
    for path in settings.paths.iter() {
        let Some(mut other) = subrequest::new(request, path, &request.args) else {
            continue;
        };
        other.method = request.method;
        if settings.body {
            other.content_length = request.content_length;
            other.body = match &request.body {
                RequestBody::Unread => RequestBody::Unread,
                RequestBody::Memory(bytes) => RequestBody::Memory(bytes.clone()),
                RequestBody::File(file) => RequestBody::File(std::rc::Rc::clone(file)),
            };
        }
        tokio::task::spawn_local(ask(other));
    }
    Ok(())
}

/// Has a request answered, and drops the answer when it is whole.
async fn ask(mut request: Box<Request>) {
    if let Some(response) = subrequest::answer(&mut request).await {
        drain(response).await;
    }
}

async fn drain(response: Response) {
    let mut body = body_reader::stream(response.body, READ);
    while let Some(Ok(_)) = std::future::poll_fn(|context| body.poll_chunk(context)).await {}
}

/// Has the request of `post_action` wait for the end of this one.
pub fn prepare_post_action(request: &mut Request) {
    let path = request.location().settings.mirror.post_action.clone();
    if path.is_empty() || request.depth > 0 || request.post_action {
        return;
    }
    request.post_action = true;
    let path_or_own = match path.first() {
        Some(b'@') => Bytes::copy_from_slice(&request.uri),
        _ => path.clone(),
    };
    let Some(other) = subrequest::new(request, &path_or_own, b"") else {
        return;
    };
    other.sent.bytes.set(request.sent.bytes.get());
    let name = path.starts_with(b"@").then_some(path);
    request
        .at_end
        .push(Box::new(PostAction(Some((other, name)))));
}

/// Begins the request when the one before it has ended.
struct PostAction(Option<(Box<Request>, Option<Bytes>)>);

impl AtEnd for PostAction {}

impl Drop for PostAction {
    fn drop(&mut self) {
        let Some((mut request, name)) = self.0.take() else {
            return;
        };
        // At the end of the thread nothing begins any more.
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        tokio::task::spawn_local(async move {
            let response = match name {
                Some(name) => super::phases::respond_named(&mut request, name).await,
                None => subrequest::answer(&mut request).await,
            };
            if let Some(response) = response {
                drain(response).await;
            }
        });
    }
}
