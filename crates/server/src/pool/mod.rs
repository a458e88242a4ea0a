//! Pools of FastCGI workers, PHP's first of all: what php-fpm does, done by the server that has the requests. `upstream`
//! asks a pool for a child; the process layer starts and buries children.

#[cfg_attr(not(test), expect(dead_code, reason = "written when requests end"))]
mod access_log; // php-fpm's format language
pub mod directive; // php_pool, php_pool_include
mod facts; // what is kept of a request
mod ini; // php-fpm's files
mod settings; // php-fpm's words
mod values;

pub use facts::Facts;
pub use settings::{Listen, Pm, Process, Settings};

use crate::log::files::LogFile;
use std::sync::Arc;

/// The number of a pool within its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolId(usize);

/// The pools of one configuration.
#[derive(Debug, Default)]
pub struct Pools {
    list: Vec<Defined>,
}

/// A pool as one configuration has it.
#[derive(Debug)]
pub struct Defined {
    pub settings: Arc<Settings>,
    pub access_log: Option<Arc<LogFile>>,
    pub slowlog: Option<Arc<LogFile>>,
}

impl Pools {
    pub fn new(raw: directive::RawPools) -> Pools {
        let defined = |pool: directive::RawPool| Defined {
            settings: Arc::new(pool.settings),
            access_log: pool.log,
            slowlog: pool.slowlog,
        };
        Pools {
            list: raw.finish().into_iter().map(defined).collect(),
        }
    }

    /// The pool of `fastcgi_pass pool:NAME`.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<PoolId> {
        let mut names = self.list.iter();
        names
            .position(|pool| pool.settings.name.as_bytes() == name)
            .map(PoolId)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Defined> {
        self.list.iter()
    }
}
