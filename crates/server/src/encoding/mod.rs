//! Content codings: which of them a client gets, and what makes and undoes them.

pub mod negotiate;
