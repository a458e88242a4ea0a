//! What a relay to another server is told, whatever protocol it speaks: buffers, times, retries, which fields pass. The
//! families `proxy_…` and `fastcgi_…` each have a set of their own.

mod directives;
mod values;

pub use directives::{FASTCGI, PROXY};
pub use values::{
    Bind, Condition, IgnoredFields, Names, NextUpstream, Store, TRIES_UNLIMITED, store_access,
};

use crate::config::defaults;
use crate::http::Request;
use crate::http::temp_file::TempPath;
use crate::limit::rate::Amount;
use std::sync::Arc;
use wire::http1::Known;

/// The families of directives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Proxy,
    FastCgi,
}

impl Family {
    /// How its directives begin.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Family::Proxy => "proxy",
            Family::FastCgi => "fastcgi",
        }
    }
}

/// The size of a page of memory, nginx's default for a buffer.
const PAGE: u64 = 4096;

crate::config::setting::settings! {
    buffering: bool = true,
    request_buffering: bool = true,
    /// Bytes that the head of a response must fit into.
    buffer_size: u64 = PAGE,
    /// Number and size.
    buffers: (u64, u64) = (8, PAGE),
    /// As it was written; `busy_buffers_size()` is what holds.
    busy_size: Option<u64> = None,
    /// As it was written; `temp_file_write_size()` is what holds.
    temp_write_size: Option<u64> = None,
    /// Bytes of a response that a temporary file may take; 0: none is written.
    max_temp_file_size: u64 = 1 << 30,
    temp: Option<Arc<TempPath>> = None,
    connect_timeout_ms: u64 = 60_000,
    send_timeout_ms: u64 = 60_000,
    read_timeout_ms: u64 = 60_000,
    next_upstream: NextUpstream = NextUpstream::default(),
    /// 0: as many as there are servers.
    next_upstream_tries: u64 = TRIES_UNLIMITED,
    /// 0: no limit.
    next_upstream_timeout_ms: u64 = 0,
    intercept_errors: bool = false,
    ignore_client_abort: bool = false,
    /// The local address of connections; `None` inside: `off`.
    bind: Option<Arc<Bind>> = None,
    socket_keepalive: bool = false,
    /// Bytes; `None`: the system's.
    socket_rcvbuf: Option<u64> = None,
    socket_sndbuf: Option<u64> = None,
    limit_rate: Amount = Amount::Fixed(0),
    force_ranges: bool = false,
    store: Store = Store::Off,
    /// The mode of stored files.
    store_access: u32 = 0o600,
    pass_headers: Names = Names::default(),
    hide_headers: Names = Names::default(),
    ignore_headers: IgnoredFields = IgnoredFields::default(),
    pass_request_headers: bool = true,
    pass_request_body: bool = true,
    pass_trailers: bool = false,
}

impl Settings {
    /// The larger of the head's buffer and one of the body's: what the other sizes are measured by.
    fn largest_buffer(&self) -> u64 {
        self.buffer_size.max(self.buffers.1)
    }

    /// Whether a client that goes away ends the request: not where its response may be kept.
    #[must_use]
    pub fn heeds_client(&self, request: &Request) -> bool {
        !self.ignore_client_abort
            && !request
                .cached
                .as_ref()
                .is_some_and(|cached| cached.is_fetch)
    }

    /// Bytes that may be on their way to the client while more is read.
    #[must_use]
    pub fn busy_buffers_size(&self) -> u64 {
        self.busy_size
            .unwrap_or_else(|| self.largest_buffer().saturating_mul(2))
    }

    /// Bytes that are written to a temporary file at once.
    #[must_use]
    pub fn temp_file_write_size(&self) -> u64 {
        self.temp_write_size
            .unwrap_or_else(|| self.largest_buffer().saturating_mul(2))
    }

    /// Where temporary files of this family lie.
    #[must_use]
    pub fn temp_path(&self, family: Family) -> TempPath {
        match &self.temp {
            Some(path) => (**path).clone(),
            None => TempPath {
                directory: match family {
                    Family::Proxy => defaults::PROXY_TEMP.into(),
                    Family::FastCgi => defaults::FASTCGI_TEMP.into(),
                },
                levels: [1, 2, 0],
            },
        }
    }

    /// Whether a field of a response is not for the client. Those of the protocol's own are dropped whatever stands
    /// here.
    #[must_use]
    pub fn hides(&self, family: Family, known: Known, name: &[u8]) -> bool {
        let hidden = is_hidden_by_default(family, known, name) || named(&self.hide_headers, name);
        hidden && !named(&self.pass_headers, name)
    }

    /// nginx's checks of the sizes against each other, with its words.
    pub fn check(&self, family: Family) -> Result<(), String> {
        let prefix = family.as_str();
        let (number, size) = self.buffers;
        if number < 2 {
            return Err(format!("there must be at least 2 \"{prefix}_buffers\""));
        }
        let least = self.largest_buffer();
        let too_small = |name: &str, before: &str| {
            format!(
                "\"{prefix}_{name}\" must be {before}equal to or greater than the maximum of the value of \"{prefix}_buffer_size\" and one of the \"{prefix}_buffers\""
            )
        };
        if self.busy_buffers_size() < least {
            return Err(too_small("busy_buffers_size", ""));
        }
        if self.busy_buffers_size() > (number - 1).saturating_mul(size) {
            return Err(format!(
                "\"{prefix}_busy_buffers_size\" must be less than the size of all \"{prefix}_buffers\" minus one buffer"
            ));
        }
        if self.temp_file_write_size() < least {
            return Err(too_small("temp_file_write_size", ""));
        }
        if self.max_temp_file_size != 0 && self.max_temp_file_size < least {
            return Err(too_small(
                "max_temp_file_size",
                "equal to zero to disable temporary files usage or must be ",
            ));
        }
        Ok(())
    }
}

fn named(names: &Names, name: &[u8]) -> bool {
    names.iter().any(|named| named.eq_ignore_ascii_case(name))
}

/// What a family hides unless it is told otherwise.
fn is_hidden_by_default(family: Family, known: Known, name: &[u8]) -> bool {
    match known {
        Known::XAccelExpires
        | Known::XAccelRedirect
        | Known::XAccelLimitRate
        | Known::XAccelBuffering
        | Known::XAccelCharset => true,
        Known::Date | Known::Server => family == Family::Proxy,
        Known::Status => family == Family::FastCgi,
        _ => family == Family::Proxy && name.eq_ignore_ascii_case(b"X-Pad"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_measured_by_each_other() {
        const SUFFIX: &str = "equal to or greater than the maximum of the value of \"proxy_buffer_size\" and one of the \"proxy_buffers\"";
        let of = |change: fn(&mut Settings)| {
            let mut settings = Settings::default();
            change(&mut settings);
            settings.check(Family::Proxy)
        };
        assert_eq!(of(|_| ()), Ok(()));
        assert_eq!(of(|s| s.max_temp_file_size = 0), Ok(()));
        assert_eq!(of(|s| s.busy_size = Some(7 * PAGE)), Ok(()));
        for (change, expected) in [
            (
                (|s: &mut Settings| s.buffers.0 = 1) as fn(&mut Settings),
                "there must be at least 2 \"proxy_buffers\"".to_owned(),
            ),
            (
                |s| s.busy_size = Some(1),
                format!("\"proxy_busy_buffers_size\" must be {SUFFIX}"),
            ),
            (
                |s| s.busy_size = Some(7 * PAGE + 1),
                "\"proxy_busy_buffers_size\" must be less than the size of all \"proxy_buffers\" minus one buffer".to_owned(),
            ),
            (
                |s| s.buffer_size = 16 * PAGE,
                "\"proxy_busy_buffers_size\" must be less than the size of all \"proxy_buffers\" minus one buffer".to_owned(),
            ),
            (
                |s| s.temp_write_size = Some(PAGE - 1),
                format!("\"proxy_temp_file_write_size\" must be {SUFFIX}"),
            ),
            (
                |s| s.max_temp_file_size = 1,
                format!(
                    "\"proxy_max_temp_file_size\" must be equal to zero to disable temporary files usage or must be {SUFFIX}"
                ),
            ),
        ] {
            assert_eq!(of(change), Err(expected));
        }
    }

    #[test]
    fn fields_are_hidden_by_family() {
        let names = |names: &[&str]| -> Names {
            Arc::new(names.iter().map(|name| name.as_bytes().into()).collect())
        };
        let settings = Settings {
            hide_headers: names(&["x-own", "X-Both"]),
            pass_headers: names(&["server", "X-Accel-Charset", "x-both"]),
            ..Settings::default()
        };
        for (name, proxy, fastcgi) in [
            ("Date", true, false),
            ("Server", false, false),
            ("Status", false, true),
            ("X-Pad", true, false),
            ("X-Accel-Redirect", true, true),
            ("x-accel-charset", false, false),
            ("X-OWN", true, true),
            ("X-Both", false, false),
            ("X-Other", false, false),
        ] {
            let name = name.as_bytes();
            let known = Known::from_name(name);
            let text = String::from_utf8_lossy(name);
            assert_eq!(settings.hides(Family::Proxy, known, name), proxy, "{text}");
            assert_eq!(
                settings.hides(Family::FastCgi, known, name),
                fastcgi,
                "{text}"
            );
        }
    }
}
