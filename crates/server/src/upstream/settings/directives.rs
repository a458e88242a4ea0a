//! The directives that every family has, written once: `directives!` makes a family's table of them.

use super::values::{self, Bind, Names, Store};
use crate::config::build::Build;
use crate::config::directive::{Arity, HSL, Outcome, Set, buffers, flag, msec, number, row, size};
use crate::config::setting::Setting;
use crate::limit::rate::Amount;
use crate::request_body::parse_temp_path;
use conf::Directive;
use conf::table::Row;
use std::sync::Arc;

/// The table of the family whose directives begin with `$prefix` and whose settings are `$field`.
macro_rules! directives {
    ($prefix:literal, $field:ident, $cache:ident, $fastcgi:literal) => {
        &[
            row(
                concat!($prefix, "_bind"),
                HSL,
                Arity::Between(1, 2),
                |b, d| {
                    b.location().$field.bind.vacant()?;
                    let bind = Bind::parse(b, &d.args)?;
                    b.location().$field.bind.set(bind.map(Arc::new))
                },
                "The local address of connections to upstreams.",
            ),
            row(
                concat!($prefix, "_buffer_size"),
                HSL,
                Arity::Exactly(1),
                |b, d| size(&mut b.location().$field.buffer_size, d),
                "Bytes that the head of an upstream's response must fit into.",
            ),
            row(
                concat!($prefix, "_buffering"),
                HSL,
                Arity::Flag,
                |b, d| flag(&mut b.location().$field.buffering, d),
                "Whether responses are read as fast as the upstream sends them, or as fast as the client takes them.",
            ),
            row(
                concat!($prefix, "_buffers"),
                HSL,
                Arity::Exactly(2),
                |b, d| buffers(&mut b.location().$field.buffers, d),
                "Number and size of the buffers that a response is read into.",
            ),
            row(
                concat!($prefix, "_busy_buffers_size"),
                HSL,
                Arity::Exactly(1),
                |b, d| some(&mut b.location().$field.busy_size, d),
                "Bytes that may be on their way to the client while more is read.",
            ),
            row(
                concat!($prefix, "_connect_timeout"),
                HSL,
                Arity::Exactly(1),
                |b, d| msec(&mut b.location().$field.connect_timeout_ms, d),
                "How long a connection to an upstream may take.",
            ),
            row(
                concat!($prefix, "_force_ranges"),
                HSL,
                Arity::Flag,
                |b, d| flag(&mut b.location().$field.force_ranges, d),
                "Serve ranges of responses whether or not the upstream accepts ranges.",
            ),
            row(
                concat!($prefix, "_hide_header"),
                HSL,
                Arity::Exactly(1),
                |b, d| name(&mut b.location().$field.hide_headers, d),
                "A field of responses that is kept from the client.",
            ),
            row(
                concat!($prefix, "_ignore_client_abort"),
                HSL,
                Arity::Flag,
                |b, d| flag(&mut b.location().$field.ignore_client_abort, d),
                "Go on with the upstream when the client has gone.",
            ),
            row(
                concat!($prefix, "_ignore_headers"),
                HSL,
                Arity::AtLeast(1),
                |b, d| values::ignore_headers(b, d, |raw| &mut raw.$field.ignore_headers),
                "Fields of responses that are not obeyed.",
            ),
            row(
                concat!($prefix, "_intercept_errors"),
                HSL,
                Arity::Flag,
                |b, d| flag(&mut b.location().$field.intercept_errors, d),
                "Whether error_page applies to what upstreams answer.",
            ),
            row(
                concat!($prefix, "_limit_rate"),
                HSL,
                Arity::Exactly(1),
                |b, d| {
                    b.location().$field.limit_rate.vacant()?;
                    let amount = Amount::parse(b, &d.args[0])?;
                    b.location().$field.limit_rate.set(amount)
                },
                "Bytes per second that are read of a response; 0: no limit.",
            ),
            row(
                concat!($prefix, "_max_temp_file_size"),
                HSL,
                Arity::Exactly(1),
                |b, d| size(&mut b.location().$field.max_temp_file_size, d),
                "Bytes of a response that may wait in a temporary file; 0: none.",
            ),
            row(
                concat!($prefix, "_next_upstream"),
                HSL,
                Arity::AtLeast(1),
                |b, d| values::next_upstream(b, d, $fastcgi, |raw| &mut raw.$field.next_upstream),
                "What a request is sent to the next server for.",
            ),
            row(
                concat!($prefix, "_next_upstream_timeout"),
                HSL,
                Arity::Exactly(1),
                |b, d| msec(&mut b.location().$field.next_upstream_timeout_ms, d),
                "How long servers are tried; 0: no limit.",
            ),
            row(
                concat!($prefix, "_next_upstream_tries"),
                HSL,
                Arity::Exactly(1),
                |b, d| number(&mut b.location().$field.next_upstream_tries, d),
                "How many servers are tried; 0: no limit.",
            ),
            row(
                concat!($prefix, "_pass_header"),
                HSL,
                Arity::Exactly(1),
                |b, d| name(&mut b.location().$field.pass_headers, d),
                "A field of responses that is passed on although it is hidden by default.",
            ),
            row(
                concat!($prefix, "_pass_request_body"),
                HSL,
                Arity::Flag,
                |b, d| flag(&mut b.location().$field.pass_request_body, d),
                "Whether upstreams get the request's body.",
            ),
            row(
                concat!($prefix, "_pass_request_headers"),
                HSL,
                Arity::Flag,
                |b, d| flag(&mut b.location().$field.pass_request_headers, d),
                "Whether upstreams get the request's fields.",
            ),
            row(
                concat!($prefix, "_read_timeout"),
                HSL,
                Arity::Exactly(1),
                |b, d| msec(&mut b.location().$field.read_timeout_ms, d),
                "How long an upstream may send nothing.",
            ),
            row(
                concat!($prefix, "_request_buffering"),
                HSL,
                Arity::Flag,
                |b, d| flag(&mut b.location().$field.request_buffering, d),
                "Whether the whole request is read before an upstream is asked.",
            ),
            row(
                concat!($prefix, "_send_lowat"),
                HSL,
                Arity::Exactly(1),
                send_lowat,
                "Accepted: Linux has no such mark; nginx warns and ignores it there.",
            ),
            row(
                concat!($prefix, "_send_timeout"),
                HSL,
                Arity::Exactly(1),
                |b, d| msec(&mut b.location().$field.send_timeout_ms, d),
                "How long an upstream may take nothing.",
            ),
            row(
                concat!($prefix, "_socket_keepalive"),
                HSL,
                Arity::Flag,
                |b, d| flag(&mut b.location().$field.socket_keepalive, d),
                "TCP keepalive on connections to upstreams.",
            ),
            row(
                concat!($prefix, "_socket_rcvbuf"),
                HSL,
                Arity::Exactly(1),
                |b, d| some(&mut b.location().$field.socket_rcvbuf, d),
                "Receive buffer of connections to upstreams.",
            ),
            row(
                concat!($prefix, "_socket_sndbuf"),
                HSL,
                Arity::Exactly(1),
                |b, d| some(&mut b.location().$field.socket_sndbuf, d),
                "Send buffer of connections to upstreams.",
            ),
            row(
                concat!($prefix, "_store"),
                HSL,
                Arity::Exactly(1),
                |b, d| {
                    b.location().$field.store.vacant()?;
                    let store = Store::parse(b, &d.args[0])?;
                    if !store.is_off() && b.location().$cache.cache.is_on() {
                        return Err(concat!(
                            "\"",
                            $prefix,
                            "_store\" directive is incompatible with \"",
                            $prefix,
                            "_cache\""
                        )
                        .into());
                    }
                    b.location().$field.store.set(store)
                },
                "Keep responses as files.",
            ),
            row(
                concat!($prefix, "_store_access"),
                HSL,
                Arity::Between(1, 3),
                |b, d| {
                    let setting = b.location().$field.store_access.vacant()?;
                    setting.set(values::store_access(&d.args)?)
                },
                "The rights of files that are kept.",
            ),
            row(
                concat!($prefix, "_temp_file_write_size"),
                HSL,
                Arity::Exactly(1),
                |b, d| some(&mut b.location().$field.temp_write_size, d),
                "Bytes that are written to a temporary file at once.",
            ),
            row(
                concat!($prefix, "_temp_path"),
                HSL,
                Arity::Between(1, 4),
                |b, d| {
                    b.location().$field.temp.vacant()?;
                    let path = parse_temp_path(b, d)?;
                    b.location().$field.temp.set(Some(Arc::new(path)))
                },
                "Where responses wait in temporary files.",
            ),
        ]
    };
}

pub const PROXY: &[Row<Set>] = directives!("proxy", proxy_relay, proxy_cache, false);
pub const FASTCGI: &[Row<Set>] = directives!("fastcgi", fastcgi_relay, fastcgi_cache, true);

/// A size whose default depends on others.
fn some(setting: &mut Setting<Option<u64>>, directive: &Directive) -> Outcome {
    let mut written = Setting(None);
    setting.vacant()?;
    size(&mut written, directive)?;
    setting.set(written.0)
}

/// One more name of a list.
fn name(setting: &mut Setting<Names>, directive: &Directive) -> Outcome {
    let names = setting.0.get_or_insert_default();
    Arc::make_mut(names).push(directive.args[0].bytes.clone().into());
    Ok(())
}

fn send_lowat(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    conf::values::parse_size(&directive.args[0]).ok_or("invalid value")?;
    let message = format!("\"{}\" is not supported, ignored", directive.name);
    build.warn(directive, message);
    Ok(())
}
