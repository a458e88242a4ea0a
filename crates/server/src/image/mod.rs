//! Pictures in other sizes and forms: `small_light` by parameters in the URL, `image_filter` by directives (step 5 of a
//! request's path, before the other filters). A result is made once on the pool for pictures, and kept in a store under
//! the identity of its source and what was wished, so that a changed source is never answered with an old picture.

mod codec_client;
pub mod codec_process;
pub mod counts;
pub mod directive;
pub mod guard;
mod hints;
pub mod image_filter;
mod kept;
mod memory;
mod recipe;
pub mod small_light;
mod source;
pub mod work;

use crate::config::model::Config;
use crate::filter::compress::forget_identity;
use crate::filter::not_modified;
use crate::http::body::{FileRange, OpenFile};
use crate::http::{Body, Interrupt, Phase, Request, Response};
use crate::log::error::{Level, write_request};
use crate::store::{Key, SCAN_PARTS};
use ::image::Format;
use bytes::Bytes;
use counts::{COUNTS, add};
use directive::Place;
use image_filter::Action;
use kept::Kept;
use recipe::{Made, Negotiated, Reason, Recipe, Refusal, Wanted};
use small_light::plan::EffectsMax;
use small_light::wish::{self, Wish};
use small_light::{Asked, asked};
use source::{Origin, Taken};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// Seconds after which a client may ask again when too much waits.
const RETRY_AFTER: &str = "1";

/// The directories that results are kept in, each once.
#[must_use]
pub fn directories(config: &Config) -> Vec<PathBuf> {
    let mut directories: Vec<PathBuf> = places(config)
        .map(|place| match place {
            Place::Directory(directory) => directory.path().to_path_buf(),
            Place::BuiltIn | Place::Nowhere => config.http.image.built_in.path().to_path_buf(),
        })
        .collect();
    directories.sort();
    directories.dedup();
    directories
}

/// The places of locations that make pictures and keep them.
fn places(config: &Config) -> impl Iterator<Item = &Place> {
    let settings = config
        .http
        .locations
        .iter()
        .map(|location| &location.settings);
    settings
        .filter(|settings| settings.small_light.on || !settings.image_filter.is_off())
        .map(|settings| &settings.image.place)
        .filter(|place| !matches!(place, Place::Nowhere))
}

/// Takes what the stores have on the disk into their index, in the background.
pub fn start(config: &Config) {
    for place in places(config) {
        let http = &config.http.image;
        let store = match place {
            Place::BuiltIn => http.built_in.store(http),
            Place::Directory(directory) => directory.store(http),
            Place::Nowhere => continue,
        };
        if store.is_scanned() || store.bytes() > 0 {
            continue;
        }
        let store = Arc::clone(store);
        let scan = move || (0..SCAN_PARTS).for_each(|part| store.scan_part(part, kept::is_ours));
        // Without a scan each entry is found when it is asked for.
        let _full = crate::background::pool().submit(crate::background::Urgency::Idle, scan);
    }
}

/// Makes the response another picture where that is asked for. `is_settled`: the response is the page of a refusal of
/// this filter, or comes from it.
pub async fn apply(request: &mut Request, response: &mut Response, is_settled: &mut bool) -> Phase {
    let settings = &request.location().settings;
    if request.depth > 0
        || *is_settled
        || (!settings.small_light.on && settings.image_filter.is_off())
    {
        return Ok(());
    }
    let applied = Box::pin(apply_either(request, response)).await;
    // The page of an unmet precondition is a response like others.
    *is_settled |=
        matches!(&applied, Err(interrupt) if !matches!(interrupt, Interrupt::Status(412)));
    applied
}

async fn apply_either(request: &mut Request, response: &mut Response) -> Phase {
    let settings = &request.location().settings;
    if settings.small_light.on && response.status == 200 && !response.is_error_page {
        match asked(request, &settings.small_light) {
            Asked::Nothing => {}
            Asked::TooLong => return Err(Interrupt::Status(414)),
            Asked::UnknownPattern(name) => {
                let name = String::from_utf8_lossy(&name);
                let text = format_args!("small_light: pattern \"{name}\" is not defined");
                write_request(request, Level::Error, text);
                return Err(Interrupt::Status(404));
            }
            Asked::Picture(wish) => return small_light(request, response, wish).await,
        }
    }
    match request.location().settings.image_filter.is_off() {
        true => Ok(()),
        false => image_filter(request, response).await,
    }
}

/// What `small_light` makes of a response.
async fn small_light(request: &mut Request, response: &mut Response, mut wish: Box<Wish>) -> Phase {
    if response.content_length == Some(0) {
        return Ok(());
    }
    let settings = &request.location().settings;
    let hints = settings.image.hints;
    if hints {
        hints::apply(request, &mut wish);
    }
    if wish.format == wish::Wanted::Avif && !Format::Avif.can_write() {
        let text = format_args!("small_light: of=avif: this build has no AVIF");
        write_request(request, Level::Error, text);
    }
    let negotiated = negotiated(request, wish.format);
    let negotiates = negotiated.is_some();
    let icon = icon(request, &wish)?;
    let recipe = Recipe {
        wanted: Wanted::SmallLight {
            wish,
            max: EffectsMax::of(&settings.small_light),
            icon: icon.as_ref().map(|(path, _)| path.clone()),
        },
        negotiated,
        animation: settings.image.animation,
        crop: settings.image.crop,
        max_bytes: settings.image.max_bytes,
        sandbox: settings.image.sandbox,
        limits: settings.image.limits(),
    };
    let mut wish_text = canonical(&recipe);
    if let Some((_, identity)) = icon {
        wish_text.extend_from_slice(&identity);
    }
    let bytes_max = match response.content_length {
        Some(_) => recipe.limits.source_bytes,
        None => settings.small_light.buffer.min(recipe.limits.source_bytes),
    };
    let is_known = response.content_length.is_some();
    let origin = match source::of_response(request, response, bytes_max).await? {
        Taken::Origin(origin) => origin,
        Taken::HeadOnly => return Ok(()),
        Taken::TooLarge(size) => {
            let text = format_args!("small_light: too big response: {size}");
            write_request(request, Level::Error, text);
            return Err(Interrupt::Status(if is_known { 413 } else { 415 }));
        }
    };
    let text = [kept::PREFIX, &origin.identity, &wish_text].concat();
    if negotiates {
        response.headers.push("Vary", "Accept");
    }
    if hints {
        hints::tell(response);
    }
    response.etag = response.etag.take().map(|source| match &origin.store {
        // A response that was fetched again may be the same.
        Some(_) => etag(&[&source[..], b" ", &wish_text].concat()),
        None => etag(&text),
    });
    not_modified::apply(request, response)?;
    if response.status == 304 {
        return Ok(());
    }
    let tag = response.etag.clone();
    match find_or_make(request, origin, text, recipe).await? {
        Found::Made(Made::Passed(_) | Made::Told(_)) => {
            forget_identity_of_passed(response);
        }
        Found::Made(Made::Refused(refusal)) => {
            return Err(refused(request, &refusal, "small_light"));
        }
        Found::Made(Made::Picture(bytes, format)) => send(response, Body::Memory(bytes), format),
        Found::File(range, format) => send(response, Body::File(range), format),
    }
    response.etag = tag;
    Ok(())
}

/// The source as it is, under the tag of what was asked for.
fn forget_identity_of_passed(response: &mut Response) {
    let length = response.content_length;
    forget_identity(response);
    response.content_length = length.or_else(|| response.body.length());
}

fn send(response: &mut Response, body: Body, format: Format) {
    forget_identity(response);
    response.made = None;
    response.set_body(body);
    response.set_content_type(Bytes::from_static(format.mime().as_bytes()));
}

/// What `image_filter` makes of a response: as in nginx, of any response, error pages and redirects too.
async fn image_filter(request: &mut Request, response: &mut Response) -> Phase {
    not_modified::apply(request, response)?;
    if response.status == 304 {
        return Ok(());
    }
    response.skip_conditions = true;
    let settings = &request.location().settings;
    let bytes_max = settings.image_filter.buffer;
    let Some(wish) = image_filter::wish(&settings.image_filter, request) else {
        return Err(Interrupt::Status(415));
    };
    let keeps = !matches!(wish.action, Action::Test | Action::Size);
    let negotiated = match wish.convert {
        None if keeps => negotiated(request, wish::Wanted::Source),
        _ => None,
    };
    let negotiates = negotiated.is_some();
    let recipe = Recipe {
        wanted: Wanted::Filter(wish),
        negotiated,
        animation: settings.image.animation,
        crop: settings.image.crop,
        max_bytes: 0,
        sandbox: settings.image.sandbox,
        limits: settings.image.limits(),
    };
    let text = canonical(&recipe);
    let origin = match source::of_response(request, response, bytes_max).await? {
        Taken::Origin(origin) => origin,
        Taken::HeadOnly => return Ok(()),
        Taken::TooLarge(size) => {
            let text = format_args!("image filter: too big response: {size}");
            write_request(request, Level::Error, text);
            return Err(Interrupt::Status(415));
        }
    };
    let text = [kept::PREFIX, &origin.identity, &text].concat();
    if negotiates {
        response.headers.push("Vary", "Accept");
    }
    // An upstream's word stays, though there are no ranges: so it is in nginx.
    let accepts_ranges = response.headers.find("Accept-Ranges").cloned();
    let found = match keeps {
        true => find_or_make(request, origin, text, recipe).await?,
        false => make(request, origin, text, recipe, false).await?,
    };
    match found {
        Found::Made(Made::Passed(format)) => {
            let etag = response.etag.clone();
            forget_identity_of_passed(response);
            response.etag = etag;
            response.set_content_type(Bytes::from_static(format.mime().as_bytes()));
        }
        Found::Made(Made::Told(json)) => {
            // As in nginx, in place of whatever the response was, and without what `add_header` gave it.
            *response = Response::new(200, Body::Memory(json));
            response.set_content_type(Bytes::from_static(b"application/json"));
            response.skip_conditions = true;
            response.is_bare = true;
        }
        Found::Made(Made::Refused(refusal)) => {
            refused(request, &refusal, "image filter");
            return Err(Interrupt::Status(415));
        }
        Found::Made(Made::Picture(bytes, format)) => send(response, Body::Memory(bytes), format),
        Found::File(range, format) => send(response, Body::File(range), format),
    }
    if let Some(value) = accepts_ranges.filter(|_| !response.is_bare) {
        response.headers.push("Accept-Ranges", value);
    }
    Ok(())
}

/// A picture, made or found.
enum Found {
    Made(Made),
    File(FileRange, Format),
}

async fn find_or_make(
    request: &mut Request,
    origin: Origin,
    text: Vec<u8>,
    recipe: Recipe,
) -> Phase<Found> {
    let http = &request.generation.config.http.image;
    let store = request.location().settings.image.store(http);
    if let Some(store) = store.map(|usual| origin.store.clone().unwrap_or(usual)) {
        let key = Key::of(&text);
        if let Some((bytes, format)) = memory::find(key) {
            if let Some(slot) = origin.store.as_ref().and_then(|store| store.find(key)) {
                slot.note_use(crate::store::unix_seconds());
            }
            add(&COUNTS.found, 1);
            return Ok(Found::Made(Made::Picture(bytes, format)));
        }
        let kept = kept::find(&store, key);
        add(&COUNTS.found, u64::from(kept.is_some()));
        match kept {
            None => {}
            Some(Kept::Memory(made)) => {
                if let Made::Picture(bytes, format) = &made {
                    memory::keep(key, bytes, *format);
                }
                return Ok(Found::Made(made));
            }
            Some(Kept::File {
                file,
                offset,
                length,
                format,
            }) => {
                let file = Rc::new(OpenFile { fd: file.into() });
                let range = FileRange {
                    file,
                    offset,
                    length,
                };
                return Ok(Found::File(range, format));
            }
        }
    }
    make(request, origin, text, recipe, true).await
}

async fn make(
    request: &mut Request,
    origin: Origin,
    text: Vec<u8>,
    recipe: Recipe,
    keeps: bool,
) -> Phase<Found> {
    let settings = &request.location().settings.image;
    let http = &request.generation.config.http.image;
    let masters = keeps && settings.master;
    let job = work::Job {
        master: masters.then(|| [kept::PREFIX, &origin.identity, b"master"].concat()),
        text,
        source: origin.source,
        recipe,
        store: (settings.store(http).filter(|_| keeps)).map(|usual| origin.store.unwrap_or(usual)),
        group: origin.group,
    };
    match work::make(job, settings.queue).await {
        Ok(Some(made)) => Ok(Found::Made(made)),
        Ok(None) => {
            add(&COUNTS.refused, 1);
            let text = "the making failed; the line of the failure stands above";
            Ok(Found::Made(Made::refused(Reason::Passing, text)))
        }
        Err(work::Busy) => {
            add(&COUNTS.busy, 1);
            let text = format_args!("image: {} pictures are waited for already", settings.queue);
            write_request(request, Level::Error, text);
            let mut fields = request.fields.borrow_mut();
            fields.push("Retry-After", RETRY_AFTER);
            Err(Interrupt::Status(429))
        }
    }
}

/// What the client sees of a refusal.
fn refused(request: &Request, refusal: &Refusal, who: &str) -> Interrupt {
    let text = format_args!("{who}: {}", refusal.text);
    write_request(request, Level::Error, text);
    Interrupt::Status(match refusal.reason {
        Reason::TooLarge => 413,
        Reason::Unsupported | Reason::Passing => 415,
    })
}

/// What tells one recipe from another. How long it may take does not change what comes of it.
fn canonical(recipe: &Recipe) -> Vec<u8> {
    let Recipe {
        wanted,
        negotiated,
        animation,
        crop,
        max_bytes,
        sandbox: _,
        limits,
    } = recipe;
    let bounds = (
        limits.source_bytes,
        limits.pixels,
        limits.frames,
        limits.output_pixels,
        limits.memory,
    );
    format!("{wanted:?} {negotiated:?} {animation} {crop:?} {max_bytes} {bounds:?}").into_bytes()
}

/// A tag of source and wish.
fn etag(text: &[u8]) -> Bytes {
    Bytes::from(format!("\"{}\"", Key::of(text).name()))
}

/// What the client takes, where it may choose.
fn negotiated(request: &Request, format: wish::Wanted) -> Option<Negotiated> {
    let may_choose = match format {
        wish::Wanted::Auto => true,
        wish::Wanted::Source => request.location().settings.image.negotiate,
        _ => false,
    };
    may_choose.then(|| Negotiated {
        webp: takes(request, b"image/webp"),
        avif: takes(request, b"image/avif"),
    })
}

/// Whether Accept names a type. A client that takes everything need not know what is new.
fn takes(request: &Request, kind: &[u8]) -> bool {
    request.fields_named(b"accept").any(|value| {
        value.split(|&byte| byte == b',').any(|item| {
            let mut parts = item.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
            let is_kind = parts
                .next()
                .is_some_and(|name| name.eq_ignore_ascii_case(kind));
            let is_refused = |part: &[u8]| {
                let zero = part
                    .strip_prefix(b"q=")
                    .or_else(|| part.strip_prefix(b"Q="));
                zero.is_some_and(|zero| wish::number(zero) <= 0.0)
            };
            is_kind && !parts.any(is_refused)
        })
    })
}

/// The longest path of an icon.
const ICON_MAX: usize = 255;

/// The file that `embedicon` names, with what tells its states apart.
fn icon(request: &Request, wish: &Wish) -> Phase<Option<(PathBuf, Vec<u8>)>> {
    let material = request.location().settings.small_light.material.as_ref();
    let (Some(directory), Some(name)) = (material, &wish.icon) else {
        return Ok(None);
    };
    if wish.engine != wish::Engine::ImageMagick {
        return Ok(None);
    }
    let refuse = |why: &dyn std::fmt::Display| {
        let name = String::from_utf8_lossy(name);
        let text = format_args!("small_light: embedicon \"{name}\": {why}");
        write_request(request, Level::Error, text);
        Interrupt::Status(415)
    };
    let is_plain =
        !name.contains(&b'/') && !name.contains(&0) && !name.windows(2).any(|two| two == b"..");
    let name = std::str::from_utf8(name).ok().filter(|_| is_plain);
    let path = directory.join(name.ok_or_else(|| refuse(&"not a name of a file"))?);
    if path.as_os_str().len() > ICON_MAX {
        return Err(refuse(&"the path is too long"));
    }
    let file = sys::file::open(&path).map_err(|error| refuse(&error))?;
    let status = sys::file::status(&file).map_err(|error| refuse(&error))?;
    let mut text = source::identity_text(&status.identity);
    text.extend_from_slice(path.as_os_str().as_encoded_bytes());
    Ok(Some((path, text)))
}
