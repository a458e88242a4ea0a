//! Chromium, looking at a site.

use crate::site::Site;
use std::process::{Child, Command, Stdio};

/// A browser that is told to end.
pub struct Browser(Child);

impl Drop for Browser {
    fn drop(&mut self) {
        let _gone = Command::new("kill").arg(self.0.id().to_string()).status();
        let _status = self.0.wait();
    }
}

/// Opens a site's first page; `None` where there is no browser.
pub fn open(site: &Site) -> Option<Browser> {
    let profile = site.directory.path().join("browser");
    let browser = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--remote-debugging-port=0",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("http://localhost:{}/", site.port))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match browser {
        Ok(browser) => Some(Browser(browser)),
        Err(_) => {
            println!("skipped: chromium is not installed");
            None
        }
    }
}
