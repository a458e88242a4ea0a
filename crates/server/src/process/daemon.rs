//! Into the background. The starting process waits until the pid file is written, so that whoever started it finds a
//! server, or an exit code that says there is none.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use sys::process::{Fork, Standard};

pub enum Daemon {
    /// The process that was started; it ends with this code.
    Starter(i32),
    Background(Launch),
}

/// The other end waits until `complete`; dropped without it, the start has failed.
pub struct Launch(UnixStream);

impl Launch {
    pub fn complete(mut self) {
        // The starter may have been killed meanwhile: nobody is left to be told.
        let _gone = self.0.write_all(&[1]);
    }
}

pub fn detach() -> io::Result<Daemon> {
    let (mut starter, background) = UnixStream::pair()?;
    match sys::process::fork()? {
        Fork::Parent(_) => {
            drop(background);
            let complete = matches!(starter.read(&mut [0]), Ok(1));
            Ok(Daemon::Starter(i32::from(!complete)))
        }
        Fork::Child => {
            drop(starter);
            sys::process::new_session()?;
            sys::process::set_umask(0);
            let null = File::options().read(true).write(true).open("/dev/null")?;
            sys::process::redirect(Standard::Input, &null)?;
            sys::process::redirect(Standard::Output, &null)?;
            Ok(Daemon::Background(Launch(background)))
        }
    }
}
