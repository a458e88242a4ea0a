//! What the tests need around a server: ports, a temporary directory, the process, a raw client, a toy origin,
//! and the case folders of `tests/cases` (their format is in tests/README.md).

/// A listening socket with a thread for each connection.
pub mod acceptor;
/// Case folders: their files, their run, the comparison.
pub mod case;
/// A client that sends exactly the bytes it is given.
pub mod client;
/// A line-by-line difference for failure messages.
pub mod difference;
/// A temporary directory that goes away with its owner.
pub mod directory;
/// A toy FastCGI program.
pub mod fastcgi;
/// Short films without pictures or sound.
pub mod film;
/// Generated documentation that must be current.
pub mod generated;
/// Requests over HTTP/2.
pub mod http2;
/// Databases in the MaxMind DB format.
pub mod mmdb;
/// Replies and logs as text without what changes from run to run.
pub mod normalise;
/// A toy upstream.
pub mod origin;
/// PHP, where it is installed.
pub mod php;
/// A TCP port that no other test on this machine uses.
pub mod ports;
/// How much of what was sent a server has not read yet.
pub mod queue;
/// HTTP/1 replies, read strictly.
pub mod reply;
/// A server whose delays are known.
pub mod responder;
/// Starts Gannet or nginx, waits until it listens, stops and reaps it.
pub mod server;
pub mod tls;
