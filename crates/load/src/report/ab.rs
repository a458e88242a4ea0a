//! The report of `ab`.
