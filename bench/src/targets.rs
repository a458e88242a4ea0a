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

/// Nothing may cost more CPU, or memory, than with nginx.
const OF_NGINX: f64 = 1.0;
/// Where the request is the cost and not the body: the event library takes 7 % over the floor, the rest is ours.
const OF_FLOOR: f64 = 1.25;
const NEAR_THE_FLOOR: [&str; 4] = ["0b", "1k", "10k", "close"];

/// The largest ratio allowed for a case, in CPU per request or memory per connection.
pub fn at_most(case: &str, against: Against) -> Option<f64> {
    match against {
        Against::Nginx => Some(OF_NGINX),
        Against::Floor => NEAR_THE_FLOOR.contains(&case).then_some(OF_FLOOR),
    }
}
