//! What Gannet has to reach, as ratios to what was measured beside it in the same run.

/// Whom a target compares Gannet with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Against {
    Nginx,
    Floor,
}

impl Against {
    pub fn as_str(self) -> &'static str {
        match self {
            Against::Nginx => "nginx",
            Against::Floor => "floor",
        }
    }
}

/// The name of the server the targets are for.
pub const SUBJECT: &str = "gannet";

/// What Gannet may cost of nginx's CPU per request, or memory per connection.
const OF_NGINX: [(&str, f64); 3] = [("0b", 0.85), ("1k", 0.70), ("10k", 0.90)];
/// The kernel's copying is nearly all of larger bodies, its accepting nearly all of new connections.
const OF_NGINX_OTHERWISE: f64 = 1.0;
/// Where the request is the cost and not the body: the event library takes 7 % over the floor, the rest is ours.
const OF_FLOOR: f64 = 1.20;
const NEAR_THE_FLOOR: [&str; 3] = ["0b", "1k", "10k"];

/// The largest ratio allowed for a case, in CPU per request or memory per connection.
pub fn at_most(case: &str, against: Against) -> Option<f64> {
    match against {
        Against::Nginx => {
            let own = OF_NGINX.iter().find(|(name, _)| *name == case);
            Some(own.map_or(OF_NGINX_OTHERWISE, |&(_, ratio)| ratio))
        }
        Against::Floor => NEAR_THE_FLOOR.contains(&case).then_some(OF_FLOOR),
    }
}

pub const SERVER_CPU: &str = "server's CPU per request";
pub const TOTAL_CPU: &str = "CPU per request, PHP's included,";

/// What a request past limits, access rules and maps may cost of nginx's, and one past filters that do not apply of the
/// bare case's.
pub const OF_RULES: f64 = 0.80;
pub const OF_FILTERS: f64 = 1.03;

/// What a response from the cache may cost of nginx's.
const OF_HITS: f64 = 0.75;
/// The same for answers from behind the server: case, what is compared, and the largest ratio to nginx.
pub const RELAYED: &[(&str, &str, f64)] = &[
    ("script", TOTAL_CPU, 0.75),
    ("script", SERVER_CPU, 0.55),
    ("1k", SERVER_CPU, 0.80),
    ("100k", SERVER_CPU, 0.80),
    ("proxy-1k", SERVER_CPU, OF_HITS),
    ("proxy-10k", SERVER_CPU, OF_HITS),
    ("proxy-100k", SERVER_CPU, OF_HITS),
    ("fastcgi-1k", SERVER_CPU, OF_HITS),
    ("fastcgi-10k", SERVER_CPU, OF_HITS),
    ("fastcgi-100k", SERVER_CPU, OF_HITS),
];
/// HTTPS and HTTP/2: CPU per request or connection, memory per idle connection, as multiples of nginx's.
pub const TLS: &[(&str, f64)] = &[
    ("0b", 0.65),
    ("1k", 0.65),
    ("10k", 0.85),
    ("100k", 0.40),
    ("1m", 0.45),
    ("full-rsa-1.2", 0.60),
    ("full-rsa-1.3", 0.60),
    ("full-ecdsa-1.2", 0.60),
    ("full-ecdsa-1.3", 0.60),
    ("resumed-1.2", 0.60),
    ("resumed-1.3", 0.60),
    ("h2-1k", 0.80),
    ("h2-100k", 0.80),
    ("idle", 1.0),
];
/// 95th percentile of the gallery's users in the same `pm`, as a multiple of nginx's with php-fpm.
pub const GALLERY_P95: f64 = 1.0;
/// Requests/s of `pm auto`, as a share of the best number of children a sweep finds.
pub const AUTO_OF_BEST: f64 = 0.90;
