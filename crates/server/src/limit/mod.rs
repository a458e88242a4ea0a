//! Limits on what a client may use.

pub mod connections;
pub mod rate;
pub mod requests;
pub mod table;
pub mod zone;

/// The zones of a configuration, by what they count.
#[derive(Debug, Default)]
pub struct AllZones {
    pub requests: requests::RateZones,
    pub connections: connections::CountZones,
}

impl AllZones {
    /// Why a configuration with these zones cannot follow one with those.
    pub fn check_successor(&self, before: &AllZones) -> Result<(), String> {
        self.requests
            .check_successor(&before.requests, "limit_req")?;
        self.connections
            .check_successor(&before.connections, "limit_conn_zone")
    }

    /// Takes over what the zones of the configuration before have counted.
    pub fn inherit(&self, before: &AllZones) {
        self.requests.inherit(&before.requests);
        self.connections.inherit(&before.connections);
    }
}
