//! Files that the master looks at every few seconds (`ssl_certificate_reload`): when they have changed, and then stayed the
//! same for one look, the configuration is read again as after SIGHUP. The master does it, since keys are often root's.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use sys::file::{Identity, Status};

/// Between two looks.
const PERIOD: Duration = Duration::from_secs(2);

/// What tells a changed file; `None`: it is not there.
type Mark = Option<Identity>;

#[derive(Default)]
pub struct Watched {
    files: Vec<PathBuf>,
    /// As they were when the configuration was read.
    settled: Vec<Mark>,
    /// As they were at the last look.
    last: Vec<Mark>,
    next: Option<Instant>,
}

fn mark(path: &Path) -> Mark {
    let metadata = std::fs::metadata(path).ok()?;
    Some(Status::from(&metadata).identity)
}

impl Watched {
    /// The files of a configuration that has just been read.
    pub fn set(&mut self, files: &[PathBuf], now: Instant) {
        self.files = files.to_vec();
        self.settled = self.files.iter().map(|file| mark(file)).collect();
        self.last.clone_from(&self.settled);
        self.next = (!self.files.is_empty()).then(|| now + PERIOD);
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.next
    }

    /// Looks, if it is time; true: they have changed. That is told once for each change.
    pub fn have_changed(&mut self, now: Instant) -> bool {
        if self.next.is_none_or(|next| next > now) {
            return false;
        }
        self.next = Some(now + PERIOD);
        let seen: Vec<Mark> = self.files.iter().map(|file| mark(file)).collect();
        let is_stable = seen == self.last;
        self.last = seen;
        // One that is just being replaced is not there, or its key is not yet: whoever does it is waited for.
        let changed =
            is_stable && self.last != self.settled && self.last.iter().all(Option::is_some);
        if changed {
            self.settled.clone_from(&self.last);
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::directory::Directory;

    #[test]
    fn a_change_is_told_once_and_when_it_is_over() {
        let directory = Directory::create();
        let [certificate, key] = ["a.pem", "a.key"].map(|name| directory.path().join(name));
        std::fs::write(&certificate, "1").expect("our directory");
        std::fs::write(&key, "1").expect("our directory");
        let mut now = Instant::now();
        let mut watched = Watched::default();
        assert_eq!(watched.deadline(), None);
        watched.set(&[certificate.clone(), key.clone()], now);
        let mut look = |watched: &mut Watched| {
            now += PERIOD;
            watched.have_changed(now)
        };
        assert!(!look(&mut watched));
        std::fs::write(&certificate, "22").expect("our directory");
        // Its key comes later.
        assert!(!look(&mut watched));
        std::fs::write(&key, "22").expect("our directory");
        assert!(!look(&mut watched));
        assert!(look(&mut watched));
        assert!(!look(&mut watched));
        std::fs::remove_file(&key).expect("our directory");
        assert!(!look(&mut watched) && !look(&mut watched) && !look(&mut watched));
        std::fs::write(&key, "333").expect("our directory");
        assert!(!look(&mut watched) && look(&mut watched));
    }
}
