//! `gannet serve DIRECTORY`: the directory as a site, without a configuration on the disk.

use server::config::{Paths, defaults};
use server::process::{Diagnostic, Loaded, Program, Spawn};
use server::site::Site;
use std::io;
use std::path::{Path, PathBuf};

/// A site whose nginx.conf is the text made here; what it includes is on the disk.
pub struct Directory {
    site: Site,
    configuration: String,
}

impl Directory {
    /// The complaint is what is wrong with the directory.
    pub fn new(directory: &Path, listen: &str) -> Result<Directory, String> {
        let failed = |error: io::Error| {
            let reason = conf::os_error(&error);
            format!("cannot serve \"{}\" {reason}", directory.display())
        };
        // Relative names in the configuration start here, so the directory's name needs no quoting.
        let prefix = directory.canonicalize().map_err(failed)?;
        std::fs::read_dir(&prefix).map_err(failed)?;
        let pid = std::env::temp_dir().join(format!("gannet-serve-{}.pid", std::process::id()));
        let paths = Paths {
            conf_prefix: prefix.clone(),
            conf_file: PathBuf::from("serve"),
            error_log: PathBuf::from(defaults::ERROR_LOG),
            prefix,
        };
        let configuration = configuration(listen, &pid)?;
        let site = Site {
            paths,
            globals: Vec::new(),
        };
        Ok(Directory {
            site,
            configuration,
        })
    }

    pub fn paths(&self) -> &Paths {
        &self.site.paths
    }
}

/// One file tree, with listings, watched by one person at a terminal.
fn configuration(listen: &str, pid: &Path) -> Result<String, String> {
    let pid = pid.to_str().filter(|path| !path.contains(['"', '\\', '$']));
    let pid = pid.ok_or("the temporary directory has an impossible name")?;
    Ok(format!(
        "daemon off;
worker_processes auto;
pid \"{pid}\";
error_log stderr warn;
events {{}}
http {{
    access_log off;
    default_type application/octet-stream;
    types {{
{TYPES}    }}
    server {{
        listen {listen};
        root .;
        autoindex on;
    }}
}}
"
    ))
}

/// What browsers need to be told.
const TYPES: &str = "        text/html html htm;
        text/css css;
        text/plain txt md;
        text/javascript js mjs;
        text/xml xml;
        application/json json map;
        application/wasm wasm;
        application/pdf pdf;
        application/zip zip;
        image/avif avif;
        image/gif gif;
        image/jpeg jpeg jpg;
        image/png png;
        image/svg+xml svg;
        image/webp webp;
        image/x-icon ico;
        font/woff woff;
        font/woff2 woff2;
        audio/mpeg mp3;
        audio/ogg ogg;
        video/mp4 mp4;
        video/webm webm;
";

impl Program for Directory {
    type Configuration = <Site as Program>::Configuration;
    type Service = <Site as Program>::Service;

    fn load(
        &self,
        source: &dyn conf::Source,
    ) -> Result<Loaded<Self::Configuration>, Vec<Diagnostic>> {
        let Paths {
            conf_file, prefix, ..
        } = &self.site.paths;
        let mut loaded = self.site.load(&Overlay {
            own: conf_file,
            text: &self.configuration,
            source,
        })?;
        loaded.plan.serve_as_owner_of(prefix);
        Ok(loaded)
    }

    fn start(
        &self,
        spawn: Spawn<'_>,
        configuration: Self::Configuration,
    ) -> Result<Self::Service, String> {
        self.site.start(spawn, configuration)
    }
}

/// One text from memory before all others.
struct Overlay<'a> {
    own: &'a Path,
    text: &'a str,
    source: &'a dyn conf::Source,
}

impl conf::Source for Overlay<'_> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        if path == self.own {
            Ok(self.text.into())
        } else {
            self.source.read(path)
        }
    }

    fn glob(&self, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        self.source.glob(pattern)
    }
}
