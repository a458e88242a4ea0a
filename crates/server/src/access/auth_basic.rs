//! `auth_basic`: a name and a password from a file (RFC 7617). The file is read and the password is hashed on the blocking
//! pool: some methods take long by design.

mod hash;

pub use hash::same;

use super::satisfy::Answer;
use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, Outcome, Set, row};
use crate::http::{Interrupt, Phase, Request, credentials};
use crate::log::error::{Level, write_request};
use crate::variables::Template;
use bytes::Bytes;
use conf::Directive;
use conf::table::{Contexts, Row};
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const CONTEXTS: Contexts = HSL.or(Contexts::LIMIT_EXCEPT);

pub const DIRECTIVES: &[Row<Set>] = &[
    row(
        "auth_basic",
        CONTEXTS,
        Arity::Exactly(1),
        |b, d| {
            let realm = Template::compile(&d.args[0], &mut b.variables);
            let setting = b.location().auth_basic.realm.vacant()?;
            setting.set(Some(realm?))
        },
        "The realm that a name and a password are asked for; off: nobody is asked.",
    ),
    row(
        "auth_basic_user_file",
        CONTEXTS,
        Arity::Exactly(1),
        user_file,
        "The file of names and hashed passwords.",
    ),
];

crate::config::setting::settings! {
    realm: Option<Template> = None,
    users: Option<UserFile> = None,
}

/// A larger file of users is refused.
const USER_FILE_MAX: u64 = 64 << 20;

/// `auth_basic_user_file`.
#[derive(Debug, Clone)]
pub struct UserFile {
    name: Template,
    /// What a name that variables make relative is relative to.
    prefix: PathBuf,
}

fn user_file(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    build.location().auth_basic.users.vacant()?;
    let word = &directive.args[0];
    let mut text = word.to_vec();
    // As nginx completes it: at once, unless a variable may bring the beginning.
    if !matches!(text.first(), Some(b'/' | b'$')) {
        let path = build.paths.conf_prefix.join(OsStr::from_bytes(&text));
        text = path.into_os_string().into_encoded_bytes();
    }
    let users = UserFile {
        name: Template::compile(&text, &mut build.variables)?,
        prefix: build.paths.conf_prefix.clone(),
    };
    build.location().auth_basic.users.set(Some(users))
}

impl Settings {
    /// Whether nobody is ever asked.
    #[must_use]
    pub fn is_off(&self) -> bool {
        let off = |realm: &Template| realm.constant().as_deref() == Some(b"off");
        self.realm.as_ref().is_none_or(off) || self.users.is_none()
    }
}

/// Asks for a name and a password where the location wants them.
pub async fn check(request: &Request) -> Phase<Answer> {
    let settings = &request.location().settings.auth_basic;
    let (Some(realm), Some(users)) = (&settings.realm, &settings.users) else {
        return Ok(Answer::NotAsked);
    };
    let realm = realm.evaluate(request);
    if *realm == *b"off" {
        return Ok(Answer::NotAsked);
    }
    let mut user = Vec::new();
    let Some(colon) = credentials::append_basic(request, &mut user) else {
        write_request(
            request,
            Level::Info,
            format_args!("no user/password was provided for basic authentication"),
        );
        return Err(unauthorized(request, &realm));
    };
    let password = user.split_off(colon + 1);
    user.truncate(colon);
    let path = users
        .prefix
        .join(OsStr::from_bytes(&users.name.evaluate(request)));
    let name = user.clone();
    let task = tokio::task::spawn_blocking(move || {
        let found = look_up(&path, &name, &password);
        (found, path)
    });
    // It fails only when the thread ends, or by a panic that the log told of.
    let Ok((found, path)) = task.await else {
        return Err(Interrupt::Status(500));
    };
    let shown = String::from_utf8_lossy(&user);
    match found {
        Ok(Some(true)) => return Ok(Answer::Pass),
        Ok(Some(false)) => write_request(
            request,
            Level::Error,
            format_args!("user \"{shown}\": password mismatch"),
        ),
        Ok(None) => write_request(
            request,
            Level::Error,
            format_args!("user \"{shown}\" was not found in \"{}\"", path.display()),
        ),
        Err(failure) => return Err(unreadable(request, &path, &failure)),
    }
    Err(unauthorized(request, &realm))
}

/// A call on the file of users that failed.
struct Failure {
    call: &'static str,
    error: io::Error,
}

/// Whether the password is the user's; `None`: there is no such user.
fn look_up(path: &Path, user: &[u8], password: &[u8]) -> Result<Option<bool>, Failure> {
    let failed = |call| move |error| Failure { call, error };
    let file = sys::file::open(path).map_err(failed("open()"))?;
    let mut text = Vec::new();
    let read = file.take(USER_FILE_MAX + 1).read_to_end(&mut text);
    let length = read.map_err(failed("pread()"))?;
    if length as u64 > USER_FILE_MAX {
        let error = io::Error::from(io::ErrorKind::FileTooLarge);
        return Err(failed("pread()")(error));
    }
    let hash = wire::htpasswd::find(&text, user);
    Ok(hash.map(|hash| hash::matches(password, hash)))
}

/// Where there is no file, nobody may enter; another failure is the server's.
fn unreadable(request: &Request, path: &Path, failure: &Failure) -> Interrupt {
    let missing = failure.error.kind() == io::ErrorKind::NotFound;
    let (level, status) = match missing {
        true => (Level::Error, 403),
        false => (Level::Critical, 500),
    };
    write_request(
        request,
        level,
        format_args!(
            "{} \"{}\" failed ({})",
            failure.call,
            path.display(),
            sys::errno::Errno(&failure.error)
        ),
    );
    Interrupt::Status(status)
}

/// 401, with the field that says how to enter; it stays whatever page the client gets.
fn unauthorized(request: &Request, realm: &Bytes) -> Interrupt {
    let value = [b"Basic realm=\"", &realm[..], b"\""].concat();
    request
        .fields
        .borrow_mut()
        .push("WWW-Authenticate", Bytes::from(value));
    Interrupt::Status(401)
}
