//! conf
