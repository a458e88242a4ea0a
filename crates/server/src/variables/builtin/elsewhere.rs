//! Variables that never have a value here: what the TLS library does not tell, and features that are not here. A log
//! format may name them all; a feature that fills one takes its row from here.

use super::{Evaluate, Fixed};

const NOT_FOUND: Evaluate = |_, _| false;
const EMPTY: Evaluate = |_, _| true;

pub const FIXED: &[Fixed] = &[
    ("http3", EMPTY),
    ("ssl_ech_outer_server_name", NOT_FOUND),
    ("ssl_ech_status", NOT_FOUND),
];
