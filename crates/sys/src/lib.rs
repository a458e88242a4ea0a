//! System calls behind safe functions: the only crate of the tree that may say `unsafe`. One file a theme. Nothing here
//! knows HTTP or a configuration; every function does one thing the kernel offers and returns `io::Result`.

#![deny(unsafe_op_in_unsafe_fn)]
#![deny(clippy::undocumented_unsafe_blocks)]

/// Socket addresses, TCP and UNIX, and their form in memory.
pub mod address;
/// Extended attributes of files.
pub mod attribute;
/// AVIF, by the system's libavif where that is built in.
pub mod avif;
/// Messages with file descriptors between two related processes.
pub mod channel;
/// Beginning connections to others.
pub mod connect;
/// Password hashes as the system knows them.
pub mod crypt;
/// How a failed call is told: the check of return values, and nginx's `(2: No such file or directory)`.
pub mod errno;
/// A fence around this process that only memory and open descriptors pass.
pub mod fence;
/// Files: opening with care, their identity, their owner.
pub mod file;
/// The addresses of a host name.
pub mod host;
/// Changes in directories as readable events.
pub mod inotify;
/// Moving bytes: scattered reads and writes, sendfile, reads that refuse to block.
pub mod io;
/// Opening sockets that listen.
pub mod listen;
/// The machine: its name, its processors, its wall clock.
pub mod machine;
/// Processes: fork, wait, kill, limits, priority.
pub mod process;
/// Signals as readable events.
pub mod signal;
/// Accepted sockets: options, addresses, what TCP knows of the peer.
pub mod socket;
/// Starting programs as somebody else.
pub mod spawn;
/// A child's memory, read while it stands still.
pub mod trace;
/// Users and groups, and becoming one of them.
pub mod user;
/// WebP with loss, by libwebp.
pub mod webp;
