//! Directives that are read and checked as nginx does, and then have no meaning here; each says why.

use super::build::Build;
use super::directive::{Outcome, Set, parse_flag};
use super::setting::Complaint;
use conf::{Directive, values};
use std::net::IpAddr;

/// A directive without a meaning; its contexts and arguments are the inventory's.
#[derive(Clone, Copy)]
pub struct Accepted {
    pub name: &'static str,
    /// What nginx checks.
    pub check: Set,
    pub reason: &'static str,
}

const fn accepted(name: &'static str, check: Set, reason: &'static str) -> Accepted {
    Accepted {
        name,
        check,
        reason,
    }
}

const TABLES: &str = "Tables size themselves.";
const OWN_SOCKETS: &str = "Every thread accepts from its own socket.";
const NO_POOLS: &str = "There are no memory pools.";
const COLD_READS: &str =
    "Files that are not in the page cache are read off the network threads by themselves.";
const OBSOLETE: &str = "Obsolete in nginx, too: it warns and does nothing.";

pub const ACCEPTED: &[Accepted] = &[
    accepted("debug_points", debug_points, "There are no debug points."),
    accepted("lock_file", text, "Threads share memory, not lock files."),
    accepted(
        "pcre_jit",
        flag,
        "Patterns are compiled as fast as they can be.",
    ),
    accepted("thread_pool", thread_pool, COLD_READS),
    accepted(
        "timer_resolution",
        time,
        "The clock is read once in every turn of an event loop.",
    ),
    accepted("accept_mutex", flag, OWN_SOCKETS),
    accepted("accept_mutex_delay", time, OWN_SOCKETS),
    accepted(
        "multi_accept",
        flag,
        "A thread that wakes up accepts what waits.",
    ),
    accepted(
        "debug_connection",
        debug_connection,
        "There is no debug log of single connections.",
    ),
    accepted(
        "epoll_events",
        number,
        "The event loop sizes its list of events itself.",
    ),
    accepted("worker_aio_requests", number, COLD_READS),
    accepted("request_pool_size", pool_size, NO_POOLS),
    accepted("types_hash_bucket_size", number, TABLES),
    accepted("types_hash_max_size", number, TABLES),
    accepted("variables_hash_bucket_size", number, TABLES),
    accepted("variables_hash_max_size", number, TABLES),
    accepted("server_names_hash_bucket_size", number, TABLES),
    accepted("server_names_hash_max_size", number, TABLES),
    accepted("referer_hash_bucket_size", number, TABLES),
    accepted("referer_hash_max_size", number, TABLES),
    accepted("proxy_headers_hash_bucket_size", number, TABLES),
    accepted("proxy_headers_hash_max_size", number, TABLES),
    accepted(
        "output_buffers",
        buffers,
        "Files go from the page cache or from memory to the socket.",
    ),
    accepted("aio", aio, COLD_READS),
    accepted(
        "aio_write",
        flag,
        "Temporary files are written off the network threads.",
    ),
    accepted(
        "directio",
        directio,
        "Files are read through the page cache.",
    ),
    accepted(
        "directio_alignment",
        offset,
        "Files are read through the page cache.",
    ),
    accepted("read_ahead", size, "The kernel reads ahead by itself."),
    accepted(
        "send_lowat",
        send_lowat,
        "Linux has no such mark; nginx warns and ignores it there.",
    ),
    accepted("scgi_temp_path", text, "Nothing is passed on by SCGI."),
    accepted("uwsgi_temp_path", text, "Nothing is passed on by uwsgi."),
    accepted("http2_idle_timeout", replaced::<0>, OBSOLETE),
    accepted("http2_max_field_size", replaced::<1>, OBSOLETE),
    accepted("http2_max_header_size", replaced::<1>, OBSOLETE),
    accepted("http2_max_requests", replaced::<2>, OBSOLETE),
    accepted("http2_recv_timeout", replaced::<3>, OBSOLETE),
    accepted("http2_max_concurrent_pushes", obsolete, OBSOLETE),
    accepted("http2_push", obsolete, OBSOLETE),
    accepted("http2_push_preload", obsolete, OBSOLETE),
];

/// The row of a name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Accepted> {
    ACCEPTED.iter().find(|accepted| accepted.name == name)
}

/// Notes that a directive without a setting stands in this block; a second time is "is duplicate".
pub fn once(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let accepted = &mut build.frame().accepted;
    if accepted.contains(&directive.name.bytes) {
        return Err("is duplicate".into());
    }
    accepted.push(directive.name.bytes.clone());
    Ok(())
}

/// A value that must parse, whatever it is.
fn parsed<T>(
    build: &mut Build<'_>,
    directive: &Directive,
    parse: fn(&[u8]) -> Option<T>,
    complaint: &str,
) -> Result<T, Complaint> {
    once(build, directive)?;
    parse(&directive.args[0]).ok_or_else(|| complaint.into())
}

fn text(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    once(build, directive)
}

fn flag(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    once(build, directive)?;
    parse_flag(directive).map(drop)
}

fn number(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    parsed(build, directive, values::parse_number, "invalid number").map(drop)
}

fn size(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    parsed(build, directive, values::parse_size, "invalid value").map(drop)
}

fn offset(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    parsed(build, directive, values::parse_offset, "invalid value").map(drop)
}

fn time(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    parsed(build, directive, values::parse_msec, "invalid value").map(drop)
}

fn buffers(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    once(build, directive)?;
    let bufs = values::parse_bufs(&directive.args[0], &directive.args[1]);
    bufs.map(drop).ok_or_else(|| "invalid value".into())
}

fn pool_size(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let size = parsed(build, directive, values::parse_size, "invalid value")?;
    check_pool_size(size)
}

/// nginx's pools have at least 112 bytes and whole 16s of them.
pub fn check_pool_size(size: u64) -> Outcome {
    match size {
        0..112 => Err("the pool size must be no less than 112".into()),
        size if size % 16 != 0 => Err("the pool size must be a multiple of 16".into()),
        _ => Ok(()),
    }
}

fn one_of(build: &mut Build<'_>, directive: &Directive, words: [&[u8]; 2]) -> Outcome {
    once(build, directive)?;
    match words.contains(&&directive.args[0].to_ascii_lowercase()[..]) {
        true => Ok(()),
        false => Err(format!("invalid value \"{}\"", directive.args[0]).into()),
    }
}

fn debug_points(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    one_of(build, directive, [b"stop", b"abort"])
}

/// An address, a network or a name, as often as one likes.
fn debug_connection(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let word = &directive.args[0];
    let missing = || format!("host not found in debug_connection \"{word}\"");
    let written = word.as_str().ok_or_else(missing)?;
    if written == "unix:" {
        return Ok(());
    }
    if let Some(exact) = is_exact_network(written) {
        if !exact {
            build.warn(
                directive,
                format!("low address bits of {word} are meaningless"),
            );
        }
        return Ok(());
    }
    let found = std::net::ToSocketAddrs::to_socket_addrs(&(written, 0));
    match found.is_ok_and(|mut all| all.next().is_some()) {
        true if !written.is_empty() => Ok(()),
        _ => Err(missing().into()),
    }
}

/// Whether the address has no bits outside its network (`10.0.0.0/8`); `None` for what is no address.
fn is_exact_network(text: &str) -> Option<bool> {
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (text, None),
    };
    let (bits, width) = match address.parse::<IpAddr>().ok()? {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()), 32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    };
    let length = match prefix {
        None => width,
        Some(prefix) => prefix.parse().ok().filter(|&length| length <= width)?,
    };
    let low = 1u128
        .checked_shl(width - length)
        .map_or(u128::MAX, |bit| bit - 1);
    Some(bits & low == 0)
}

fn thread_pool(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let name = directive.args[0].bytes.clone();
    if build.thread_pools.defined.contains(&name) {
        return Err(format!("duplicate thread pool \"{}\"", directive.args[0]).into());
    }
    let mut threads = false;
    for word in &directive.args[1..] {
        if let Some(text) = word.strip_prefix(b"threads=") {
            threads = values::parse_number(text).is_some_and(|count| count > 0);
            if !threads {
                return Err(format!("invalid threads value \"{word}\"").into());
            }
        } else if let Some(text) = word.strip_prefix(b"max_queue=")
            && values::parse_number(text).is_none()
        {
            return Err(format!("invalid max_queue value \"{word}\"").into());
        }
    }
    if !threads {
        return Err("\"thread_pool\" must have \"threads\" parameter".into());
    }
    build.thread_pools.defined.push(name);
    Ok(())
}

fn aio(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    once(build, directive)?;
    match &directive.args[0][..] {
        b"off" | b"threads" => Ok(()),
        b"on" => Err("\"aio on\" is unsupported on this platform".into()),
        word => {
            let name = word.strip_prefix(b"threads=").ok_or("invalid value")?;
            if name.contains(&b'$') {
                let value = crate::variables::Template::compile(name, &mut build.variables);
                return value.map(drop);
            }
            let used = (name.to_vec(), directive.position.clone());
            build.thread_pools.used.push(used);
            Ok(())
        }
    }
}

fn directio(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    match &directive.args[0][..] {
        b"off" => once(build, directive),
        _ => offset(build, directive),
    }
}

fn send_lowat(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    size(build, directive)?;
    build.warn(directive, "\"send_lowat\" is not supported, ignored");
    Ok(())
}

/// What took the place of HTTP/2's own limits.
const SUCCESSORS: [&str; 4] = [
    "keepalive_timeout",
    "large_client_header_buffers",
    "keepalive_requests",
    "client_header_timeout",
];

fn replaced<const SUCCESSOR: usize>(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let message = format!(
        "the \"{}\" directive is obsolete, use the \"{}\" directive instead",
        directive.name, SUCCESSORS[SUCCESSOR]
    );
    build.warn(directive, message);
    Ok(())
}

fn obsolete(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let message = format!("the \"{}\" directive is obsolete, ignored", directive.name);
    build.warn(directive, message);
    Ok(())
}

/// The thread pools that are named and those that `aio` asks for; `aio` may come first.
#[derive(Default)]
pub struct ThreadPools {
    defined: Vec<Vec<u8>>,
    used: Vec<(Vec<u8>, conf::Position)>,
}

impl ThreadPools {
    /// An `aio` that asks for a pool nobody defines.
    pub fn check(&self) -> Result<(), conf::Error> {
        let known = |name: &Vec<u8>| name == b"default" || self.defined.contains(name);
        match self.used.iter().find(|(name, _)| !known(name)) {
            None => Ok(()),
            Some((name, position)) => Err(conf::Error::at(
                position,
                format!("unknown thread pool \"{}\"", String::from_utf8_lossy(name)),
            )),
        }
    }
}
