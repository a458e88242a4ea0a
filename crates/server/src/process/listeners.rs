//! Listening sockets. Every address has one socket for each thread of the worker (SO_REUSEPORT), a UNIX address one for all.
//! The master keeps them open over reloads, deaths of workers and upgrades, so that no waiting connection is lost.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use super::journal::{Journal, Level};
use sys::address::SocketAddress;
use sys::listen::{self, ListenError, ListenOptions};

/// How often, and after what wait, an address in use is tried again: its former owner may be about to end.
const BIND_ATTEMPTS: u32 = 5;
const BIND_PAUSE: Duration = Duration::from_millis(500);

/// The environment variable in which nginx hands its sockets over to a new binary, as `5;6;`.
pub const INHERITED_SOCKETS: &str = "NGINX";

/// One address to listen at. All but its first socket have SO_REUSEPORT whatever the options say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenSpec {
    pub address: SocketAddress,
    pub options: ListenOptions,
    /// The server does without it if it cannot be opened.
    pub optional: bool,
}

impl ListenSpec {
    fn is_same_place(&self, other: &ListenSpec) -> bool {
        self.address == other.address && self.options.kind == other.options.kind
    }

    /// How many sockets an address gets.
    fn sockets_for(&self, threads: usize) -> usize {
        if self.address.is_unix() {
            1
        } else {
            threads.max(1)
        }
    }
}

/// An address with its open sockets; an optional one may have none.
#[derive(Debug)]
pub struct Listener {
    pub spec: ListenSpec,
    sockets: Vec<OwnedFd>,
}

impl Listener {
    /// Sockets that another process opened.
    pub fn received(spec: ListenSpec, sockets: Vec<OwnedFd>) -> Listener {
        Listener { spec, sockets }
    }

    /// The sockets that a thread accepts from. Each socket has a thread, and each thread a socket, whatever their numbers:
    /// an upgrade or a change of `worker_processes` may leave more or fewer sockets than threads.
    pub fn for_thread(&self, thread: usize, threads: usize) -> Vec<BorrowedFd<'_>> {
        let count = self.sockets.len();
        if count == 0 || threads == 0 {
            return Vec::new();
        }
        if count < threads {
            return vec![self.sockets[thread % count].as_fd()];
        }
        let own = self.sockets.iter().skip(thread).step_by(threads);
        own.map(OwnedFd::as_fd).collect()
    }

    pub fn sockets(&self) -> &[OwnedFd] {
        &self.sockets
    }

    pub fn is_same_place(&self, spec: &ListenSpec) -> bool {
        self.spec.is_same_place(spec)
    }

    /// Removes the file of a UNIX socket.
    pub fn remove_file(&self, journal: &Journal) {
        let Some(path) = self.spec.address.socket_file() else {
            return;
        };
        // One that could not be opened is another's.
        if self.sockets.is_empty() {
            return;
        }
        if let Err(error) = std::fs::remove_file(path) {
            let reason = sys::errno::Errno(&error);
            journal.emergency(format_args!(
                "unlink() {} failed ({reason})",
                path.display()
            ));
        }
    }
}

/// Why no sockets were opened; the reason is already logged.
#[derive(Debug)]
pub struct NotOpened;

/// Opens what `specs` ask for and `current` does not have. On failure nothing new stays open.
pub fn open(
    specs: &[ListenSpec],
    threads: usize,
    current: &[Arc<Listener>],
    journal: &Journal,
) -> Result<Vec<Arc<Listener>>, NotOpened> {
    let mut opened: Vec<Option<Arc<Listener>>> = vec![None; specs.len()];
    for attempt in 0..BIND_ATTEMPTS {
        if attempt > 0 {
            journal.notice("try again to bind() after 500ms");
            std::thread::sleep(BIND_PAUSE);
        }
        let mut in_use = false;
        for (spec, place) in specs
            .iter()
            .zip(&mut opened)
            .filter(|(_, place)| place.is_none())
        {
            match open_one(spec, threads, current) {
                Ok(listener) => *place = Some(listener),
                Err(error) if spec.optional => {
                    journal.write(Level::Warning, format_args!("{error}, ignored"));
                    *place = Some(Arc::new(Listener::received(spec.clone(), Vec::new())));
                }
                Err(error) => {
                    journal.emergency(&error);
                    if !is_in_use(&error) {
                        close_new(opened, current, journal);
                        return Err(NotOpened);
                    }
                    in_use = true;
                }
            }
        }
        if !in_use {
            return Ok(opened.into_iter().flatten().collect());
        }
    }
    journal.emergency("still could not bind()");
    close_new(opened, current, journal);
    Err(NotOpened)
}

/// For `-t`: whether the addresses can be bound. One in use is fine: it is this server, as a rule.
pub fn probe(specs: &[ListenSpec], journal: &Journal) -> Result<(), NotOpened> {
    for spec in specs.iter().filter(|spec| !spec.optional) {
        match listen::listen(&spec.address, &spec.options) {
            Ok(socket) => Listener::received(spec.clone(), vec![socket]).remove_file(journal),
            Err(error) if is_in_use(&error) => {}
            Err(error) => {
                journal.emergency(&error);
                return Err(NotOpened);
            }
        }
    }
    Ok(())
}

fn is_in_use(error: &ListenError) -> bool {
    error.call == "bind()" && error.source.kind() == io::ErrorKind::AddrInUse
}

/// The socket files of what was opened in vain; the sockets close by themselves.
fn close_new(opened: Vec<Option<Arc<Listener>>>, current: &[Arc<Listener>], journal: &Journal) {
    for listener in opened.into_iter().flatten() {
        if !current
            .iter()
            .any(|other| other.is_same_place(&listener.spec))
        {
            listener.remove_file(journal);
        }
    }
}

fn open_one(
    spec: &ListenSpec,
    threads: usize,
    current: &[Arc<Listener>],
) -> Result<Arc<Listener>, ListenError> {
    let failed = |call: &'static str| {
        move |source| ListenError {
            call,
            address: spec.address.clone(),
            source,
        }
    };
    let wanted = spec.sockets_for(threads);
    let mut sockets = Vec::with_capacity(wanted);
    let is_open =
        |listener: &&Arc<Listener>| listener.is_same_place(spec) && !listener.sockets.is_empty();
    if let Some(existing) = current.iter().find(is_open) {
        if existing.spec == *spec && existing.sockets.len() >= wanted {
            return Ok(existing.clone());
        }
        for socket in &existing.sockets {
            sockets.push(socket.try_clone().map_err(failed("dup()"))?);
        }
    } else {
        // Without SO_REUSEPORT at first, unless `reuseport` is written: a second server started by mistake must fail here,
        // not share the port.
        sockets.push(listen::listen(&spec.address, &spec.options)?);
    }
    if sockets.len() < wanted {
        for socket in &sockets {
            listen::set_reuse_port(socket).map_err(failed("setsockopt(SO_REUSEPORT)"))?;
        }
        let shared = ListenOptions {
            reuse_port: true,
            ..spec.options.clone()
        };
        while sockets.len() < wanted {
            sockets.push(listen::listen(&spec.address, &shared)?);
        }
    }
    Ok(Arc::new(Listener {
        spec: spec.clone(),
        sockets,
    }))
}

/// Gives kept sockets the options of the configuration that was just committed. A refusal is logged, and serves on.
pub fn configure_kept(now: &[Arc<Listener>], before: &[Arc<Listener>], journal: &Journal) {
    let changed = |listener: &&Arc<Listener>| {
        before.iter().any(|other| {
            other.is_same_place(&listener.spec) && other.spec.options != listener.spec.options
        })
    };
    for listener in now.iter().filter(changed) {
        for socket in &listener.sockets {
            if let Err(error) =
                listen::configure(socket, &listener.spec.address, &listener.spec.options)
            {
                journal.write(Level::Alert, format_args!("{error}, ignored"));
            }
        }
    }
}

/// The sockets that a former binary left open for this one: all that the environment names, by address.
pub fn inherited(journal: &Journal) -> Vec<Arc<Listener>> {
    let Ok(variable) = std::env::var(INHERITED_SOCKETS) else {
        return Vec::new();
    };
    journal.notice(format_args!("using inherited sockets from \"{variable}\""));
    let mut numbers = Vec::new();
    for word in variable.split_terminator([';', ':']) {
        let Ok(number) = word.parse() else {
            journal.emergency(format_args!(
                "invalid socket number \"{word}\" in {INHERITED_SOCKETS} environment variable, ignoring the rest of the variable"
            ));
            break;
        };
        numbers.push(number);
    }
    let mut listeners: Vec<Listener> = Vec::new();
    for (number, adopted) in numbers.iter().zip(listen::adopt(&numbers)) {
        let known = adopted.and_then(|socket| {
            let address = sys::socket::local_address(&socket)?;
            let kind = listen::kind_of(&socket)?;
            Ok((
                socket,
                ListenSpec {
                    address,
                    options: ListenOptions {
                        kind,
                        ..ListenOptions::default()
                    },
                    optional: false,
                },
            ))
        });
        match known {
            Ok((socket, spec)) => match listeners
                .iter_mut()
                .find(|other| other.is_same_place(&spec))
            {
                Some(listener) => listener.sockets.push(socket),
                None => listeners.push(Listener {
                    spec,
                    sockets: vec![socket],
                }),
            },
            Err(error) => {
                let reason = sys::errno::Errno(&error);
                journal.write(
                    Level::Critical,
                    format_args!("inherited socket #{number} is no listening socket ({reason})"),
                );
            }
        }
    }
    listeners.into_iter().map(Arc::new).collect()
}

/// The value of the environment variable for these sockets.
pub fn inheritance(listeners: &[Arc<Listener>]) -> String {
    let sockets = listeners.iter().flat_map(|listener| listener.sockets());
    sockets
        .map(|socket| format!("{};", socket.as_raw_fd()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::slice::from_ref;

    fn journal() -> Journal {
        Journal::silent()
    }

    fn any() -> ListenSpec {
        ListenSpec {
            address: SocketAddress::Ip("127.0.0.1:0".parse().unwrap()),
            options: ListenOptions::default(),
            optional: false,
        }
    }

    /// Opens one address of a free port.
    fn opened(threads: usize) -> (ListenSpec, Vec<Arc<Listener>>) {
        let first = open(&[any()], 1, &[], &journal()).unwrap();
        let address = sys::socket::local_address(&first[0].sockets[0]).unwrap();
        drop(first);
        let spec = ListenSpec { address, ..any() };
        let all = open(from_ref(&spec), threads, &[], &journal()).unwrap();
        (spec, all)
    }

    #[test]
    fn every_socket_has_a_thread_and_every_thread_a_socket() {
        let (_, listeners) = opened(3);
        assert_eq!(listeners[0].sockets.len(), 3);
        for threads in 1..8 {
            let mut seen = std::collections::BTreeSet::new();
            for thread in 0..threads {
                let own = listeners[0].for_thread(thread, threads);
                assert!(!own.is_empty());
                seen.extend(own.iter().map(AsRawFd::as_raw_fd));
            }
            assert_eq!(seen.len(), 3, "{threads} threads");
        }
    }

    #[test]
    fn open_sockets_are_kept_and_joined_by_new_ones() {
        let (spec, before) = opened(1);
        let same = open(from_ref(&spec), 1, &before, &journal()).unwrap();
        assert!(Arc::ptr_eq(&before[0], &same[0]));
        let more = open(from_ref(&spec), 4, &before, &journal()).unwrap();
        assert_eq!(more[0].sockets.len(), 4);
        // Fewer threads close nothing.
        let fewer = open(&[spec], 2, &more, &journal()).unwrap();
        assert!(Arc::ptr_eq(&more[0], &fewer[0]));
    }

    #[test]
    fn an_address_that_cannot_be_bound_opens_nothing() {
        let path =
            std::env::temp_dir().join(format!("gannet-listeners-{}.sock", std::process::id()));
        let unix = ListenSpec {
            address: SocketAddress::Unix(path.clone()),
            ..any()
        };
        let foreign = ListenSpec {
            address: SocketAddress::Ip("192.0.2.1:1".parse().unwrap()),
            ..any()
        };
        assert!(open(&[unix.clone(), foreign.clone()], 2, &[], &journal()).is_err());
        assert!(!path.exists());
        assert!(probe(&[foreign], &journal()).is_err());
        assert!(probe(&[unix.clone(), any()], &journal()).is_ok());
        assert!(!path.exists());
        let bound = open(from_ref(&unix), 2, &[], &journal()).unwrap();
        assert_eq!(bound[0].sockets.len(), 1);
        // In use is fine for a test of the configuration.
        assert!(probe(&[unix], &journal()).is_ok());
        bound[0].remove_file(&journal());
        assert!(!path.exists());
    }
}
