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
        let prefix = directory.canonicalize().map_err(failed)?;
        std::fs::read_dir(&prefix).map_err(failed)?;
        let pid = std::env::temp_dir().join(format!("gannet-serve-{}.pid", std::process::id()));
        let paths = Paths {
            conf_prefix: prefix.clone(),
            conf_file: PathBuf::from("serve"),
            error_log: PathBuf::from(defaults::ERROR_LOG),
            prefix,
        };
        // Relative names in the configuration start at the prefix, so a strange name need not be written.
        let root = plain(&paths.prefix).unwrap_or(".");
        let configuration = configuration(listen, root, &pid)?;
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
fn configuration(listen: &str, root: &str, pid: &Path) -> Result<String, String> {
    let pid = plain(pid).ok_or("the temporary directory has an impossible name")?;
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
        root \"{root}\";
        autoindex on;
    }}
}}
"
    ))
}

/// A path that can stand between quotes as it is.
fn plain(path: &Path) -> Option<&str> {
    path.to_str()
        .filter(|path| !path.contains(['"', '\\', '$']))
}

/// What browsers need to be told, and what they can show as text.
const TYPES: &str = "        text/html html htm shtml;
        text/css css;
        text/plain txt md log conf ini toml yaml yml sh;
        text/csv csv;
        text/javascript js mjs;
        text/xml xml;
        text/vtt vtt;
        text/calendar ics;
        application/atom+xml atom;
        application/epub+zip epub;
        application/gzip gz tgz;
        application/json json map;
        application/manifest+json webmanifest;
        application/pdf pdf;
        application/rss+xml rss;
        application/wasm wasm;
        application/x-7z-compressed 7z;
        application/x-tar tar;
        application/xhtml+xml xhtml;
        application/zip zip;
        image/apng apng;
        image/avif avif;
        image/bmp bmp;
        image/gif gif;
        image/heic heic;
        image/jpeg jpeg jpg;
        image/jxl jxl;
        image/png png;
        image/svg+xml svg;
        image/tiff tif tiff;
        image/webp webp;
        image/x-icon ico;
        font/otf otf;
        font/ttf ttf;
        font/woff woff;
        font/woff2 woff2;
        audio/aac aac;
        audio/flac flac;
        audio/midi mid midi;
        audio/mp4 m4a;
        audio/mpeg mp3;
        audio/ogg ogg oga opus;
        audio/wav wav;
        video/mp2t ts;
        video/mp4 mp4 m4v;
        video/mpeg mpeg mpg;
        video/ogg ogv;
        video/quicktime mov;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_directory_can_be_served() {
        let base = std::env::temp_dir().join(format!("gannet-serve-test-{}", std::process::id()));
        for (name, root) in [
            ("plain", "plain\";"),
            ("with blank;{", "with blank;{\";"),
            ("\"quoted\"", "\".\";"),
            ("$x", "\".\";"),
        ] {
            let path = base.join(name);
            std::fs::create_dir_all(&path).unwrap();
            let directory = Directory::new(&path, "127.0.0.1:8080").unwrap();
            let text = &directory.configuration;
            assert!(text.contains(root), "{name}: {text}");
            let loaded = directory.load(&conf::Disk);
            assert!(loaded.is_ok(), "{name}");
        }
        std::fs::remove_dir_all(&base).unwrap();
        let missing = Directory::new(&base, "127.0.0.1:8080").err().unwrap();
        assert!(missing.ends_with("(2: No such file or directory)"));
    }
}
