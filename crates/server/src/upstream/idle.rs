//! Connections to upstreams that are kept for further requests (`keepalive`), a set a thread.

use super::group::Group;
use super::http2::Connection;
use super::secure::Secure;
use crate::http::thread;
use crate::net::Stream;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;
use sys::address::SocketAddress;

/// How often a thread looks for connections that were idle for too long or were ended by the peer.
const SWEEP: Duration = Duration::from_secs(1);

/// An open connection to an upstream.
pub struct Link {
    pub wire: Wire,
    /// Requests so far, the present one included.
    pub requests: u64,
    /// The thread's monotonic milliseconds when it was opened.
    pub opened_ms: u64,
    /// It has served a request before.
    pub reused: bool,
}

/// What is spoken on a connection.
pub enum Wire {
    /// One request after another: HTTP/1, FastCGI.
    Plain(Stream),
    Http2(Box<Connection>),
}

impl Wire {
    /// Whether another request may be sent, as far as is known.
    fn is_quiet(&self) -> bool {
        match self {
            Wire::Plain(stream) => stream.is_quiet(),
            Wire::Http2(client) => client.is_ready(),
        }
    }
}

/// Whose connections may be used for whom.
#[derive(Clone)]
pub struct Owner {
    pub group: Arc<Group>,
    pub address: SocketAddress,
    /// With `local`: the settings of the location that opened it.
    pub location: Option<(u64, u32)>,
    /// With TLS: for whom and how.
    pub secure: Option<Secure>,
    /// The own address that the connection is to have.
    pub local: Option<SocketAddress>,
    pub http2: bool,
}

struct Idle {
    /// Holds the group's address, so that no other group can have the same.
    group: Weak<Group>,
    address: SocketAddress,
    location: Option<(u64, u32)>,
    secure: Option<Secure>,
    local: Option<SocketAddress>,
    http2: bool,
    link: Link,
    since_ms: u64,
    timeout_ms: u64,
}

#[derive(Default)]
struct Set {
    /// The least recently used first.
    idle: VecDeque<Idle>,
    sweeping: bool,
}

thread_local! {
    static SET: RefCell<Set> = RefCell::default();
}

/// The most recently used connection of the owner that still stands.
pub fn take(owner: &Owner) -> Option<Link> {
    SET.with(|set| {
        let mut set = set.borrow_mut();
        loop {
            let index = set.idle.iter().rposition(|idle| {
                std::ptr::eq(idle.group.as_ptr(), Arc::as_ptr(&owner.group))
                    && idle.address == owner.address
                    && idle.location == owner.location
                    && idle.secure == owner.secure
                    && idle.local == owner.local
                    && idle.http2 == owner.http2
            })?;
            let mut link = set.idle.remove(index)?.link;
            if link.wire.is_quiet() {
                link.reused = true;
                link.requests += 1;
                return Some(link);
            }
        }
    })
}

/// Keeps a connection whose response was read to its end, if the group wants it.
pub fn put(owner: &Owner, link: Link) {
    let keepalive = &owner.group.keepalive;
    if let Wire::Http2(client) = &link.wire {
        client.clear();
    }
    let age_ms = thread::monotonic_ms().saturating_sub(link.opened_ms);
    if keepalive.connections == 0
        || link.requests >= keepalive.requests
        || age_ms >= keepalive.time_ms
        || !link.wire.is_quiet()
    {
        return;
    }
    SET.with(|shared| {
        let mut set = shared.borrow_mut();
        let of_group = |idle: &Idle| std::ptr::eq(idle.group.as_ptr(), Arc::as_ptr(&owner.group));
        if set.idle.iter().filter(|idle| of_group(idle)).count() >= keepalive.connections
            && let Some(oldest) = set.idle.iter().position(of_group)
        {
            set.idle.remove(oldest);
        }
        set.idle.push_back(Idle {
            group: Arc::downgrade(&owner.group),
            address: owner.address.clone(),
            location: owner.location,
            secure: owner.secure.clone(),
            local: owner.local.clone(),
            http2: owner.http2,
            link,
            since_ms: thread::monotonic_ms(),
            timeout_ms: keepalive.timeout_ms,
        });
        if !std::mem::replace(&mut set.sweeping, true) {
            tokio::task::spawn_local(sweep());
        }
    });
}

/// Closes what nobody will use any more, until nothing is left.
async fn sweep() {
    loop {
        tokio::time::sleep(SWEEP).await;
        let is_empty = SET.with(|set| {
            let mut set = set.borrow_mut();
            let now_ms = thread::monotonic_ms();
            set.idle.retain(|idle| {
                now_ms.saturating_sub(idle.since_ms) < idle.timeout_ms
                    && idle.group.strong_count() > 0
                    && idle.link.wire.is_quiet()
            });
            set.sweeping = !set.idle.is_empty();
            set.idle.is_empty()
        });
        if is_empty {
            return;
        }
    }
}
