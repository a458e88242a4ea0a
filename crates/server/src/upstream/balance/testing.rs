//! Tiers for the tests of the methods.

use super::{Open, Tried};
use crate::upstream::group::endpoint::{Endpoint, Parameters};
use crate::upstream::group::peers::Tier;
use std::net::SocketAddr;
use std::sync::Arc;

/// Endpoints 127.0.0.1:39500, :39501 … with these weights.
pub fn tier(weights: &[u64]) -> Tier {
    let endpoint = |(port, &weight): (usize, &u64)| {
        let address = SocketAddr::from(([127, 0, 0, 1], 39500 + port as u16));
        let parameters = Parameters {
            weight,
            ..Parameters::default()
        };
        let server = address.to_string().into();
        Arc::new(Endpoint::new(address.into(), server, parameters))
    };
    Tier::new(weights.iter().enumerate().map(endpoint).collect())
}

/// What `next` picks `count` times, as text; `-` for nothing.
pub fn picks(
    tier: &Tier,
    tried: &Tried,
    count: usize,
    mut next: impl FnMut(&Open<'_>) -> Option<usize>,
) -> String {
    let pick = |_| {
        let open = Open {
            tier,
            tried,
            now: 0,
        };
        next(&open).map_or_else(|| "-".to_owned(), |index| index.to_string())
    };
    (0..count).map(pick).collect()
}

/// The keys that were asked of nginx, too.
pub const KEYS: [&str; 12] = [
    "/a",
    "/b",
    "/c",
    "/index.html",
    "/img/1.png",
    "/img/2.png",
    "/x?y=1",
    "/long/path/of/some/kind",
    "/0",
    "/1",
    "/2",
    "/3",
];
