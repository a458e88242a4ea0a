//! Variables of features that a request has not passed: no upstream, no TLS. nginx gives
//! them no value then, so that a log format may name them all. A feature that fills one takes its row from here.

use super::{Evaluate, Fixed};

const NOT_FOUND: Evaluate = |_, _| false;
const EMPTY: Evaluate = |_, _| true;

pub const FIXED: &[Fixed] = &[
    ("http3", EMPTY),
    ("ssl_ciphers", NOT_FOUND),
    ("ssl_client_cert", NOT_FOUND),
    ("ssl_client_escaped_cert", NOT_FOUND),
    ("ssl_client_fingerprint", NOT_FOUND),
    ("ssl_client_i_dn", NOT_FOUND),
    ("ssl_client_i_dn_legacy", NOT_FOUND),
    ("ssl_client_raw_cert", NOT_FOUND),
    ("ssl_client_s_dn", NOT_FOUND),
    ("ssl_client_s_dn_legacy", NOT_FOUND),
    ("ssl_client_serial", NOT_FOUND),
    ("ssl_client_sigalg", NOT_FOUND),
    ("ssl_client_v_end", NOT_FOUND),
    ("ssl_client_v_remain", NOT_FOUND),
    ("ssl_client_v_start", NOT_FOUND),
    ("ssl_curves", NOT_FOUND),
    ("ssl_early_data", NOT_FOUND),
    ("ssl_ech_outer_server_name", NOT_FOUND),
    ("ssl_ech_status", NOT_FOUND),
    ("ssl_session_id", NOT_FOUND),
    ("ssl_sigalg", NOT_FOUND),
    ("ssl_sigalgs", NOT_FOUND),
];
