//! What must hold when things go wrong: reloads and signals under load, deaths, slow and hostile clients, limits.
//! Every test runs a Gannet of its own. Waits are for conditions, with deadlines.

mod site; // a server under test and its processes
mod traffic; // clients that ask without a pause

mod death;
mod reload; // SIGHUP
mod signals; // QUIT, TERM, USR1, USR2, WINCH // a worker that is killed, a request that panics

mod certificates; // replaced while clients shake hands
mod exhaustion; // connections, descriptors, files that shrink
mod growth; // responses that are made to grow
mod handshakes; // of TLS, damaged or never ended
mod hostile; // requests that are none
mod keepalive; // how long a connection is kept
mod ocsp; // what issuers say of certificates
mod openssl; // its command
mod pools; // PHP workers
mod rate;
mod sessions; // of TLS, taken up again
mod slow; // clients that take their time
mod upstreams; // servers behind it that fail
