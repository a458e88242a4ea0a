//! Tree to raw: walks the directives in the order of the file, checks each against the joined table and lets its row
//! store what was written. Nothing is opened here; `resolve` turns the raw configuration into the one that serves.

use super::directive::{Outcome, Set};
use super::directives;
use super::model::{Child, LocationKind, RawLocation, RawServer};
use super::setting::Complaint;
use crate::content::Content;
use crate::rewrite;
use crate::routing::hosts::ServerName;
use crate::variables::registry::Registry;
use conf::table::{self, Contexts};
use conf::{Block, Directive, Item, Position, Source};
use std::path::{Path, PathBuf};

/// Where relative names in a configuration lead.
#[derive(Debug, Clone)]
pub struct Paths {
    /// `-p`: logs, the pid file, temporary files, `root`.
    pub prefix: PathBuf,
    /// The directory of nginx.conf: `include` and files named in the configuration.
    pub conf_prefix: PathBuf,
    /// nginx.conf itself.
    pub conf_file: PathBuf,
    /// `-e`, or the built-in default.
    pub error_log: PathBuf,
}

impl Paths {
    /// A path as nginx resolves logs, pid and roots.
    #[must_use]
    pub fn in_prefix(&self, name: &str) -> PathBuf {
        self.prefix.join(name)
    }

    /// A path as nginx resolves files of the configuration.
    #[must_use]
    pub fn in_conf(&self, name: &str) -> PathBuf {
        self.conf_prefix.join(name)
    }
}

/// One block being read: `main`, `http`, `server`, `location`, `if`, `limit_except`.
pub struct Frame {
    pub context: Contexts,
    pub position: Option<Position>,
    /// Where the block ends.
    pub end: Option<Position>,
    pub location: RawLocation,
    pub server: RawServer,
    pub kind: LocationKind,
    pub content: Option<Content>,
    pub program: Vec<rewrite::RawStatement>,
    pub children: Vec<Child>,
    pub names: Vec<ServerName>,
    pub listens: Vec<crate::listen::directive::Use>,
    /// The directives of this block that have no setting of their own.
    pub accepted: Vec<Vec<u8>>,
}

impl Frame {
    fn new(context: Contexts, kind: LocationKind, position: Option<Position>) -> Frame {
        Frame {
            context,
            position,
            end: None,
            location: RawLocation::default(),
            server: RawServer::default(),
            kind,
            content: None,
            program: Vec::new(),
            children: Vec::new(),
            names: Vec::new(),
            listens: Vec::new(),
            accepted: Vec::new(),
        }
    }
}

/// What the setters write into.
pub struct Build<'a> {
    pub source: &'a dyn Source,
    pub paths: &'a Paths,
    pub main: super::main_settings::Raw,
    pub http: super::model::RawHttp,
    pub variables: Registry,
    pub logs: crate::log::files::LogFiles,
    pub thread_pools: super::accepted::ThreadPools,
    pub zones: super::zones::Zones,
    pub addresses: crate::listen::options::Addresses,
    pub pools: crate::pool::directive::RawPools,
    pub warnings: Vec<conf::Error>,
    frames: Vec<Frame>,
}

impl<'a> Build<'a> {
    #[must_use]
    pub fn new(source: &'a dyn Source, paths: &'a Paths) -> Self {
        Build {
            source,
            paths,
            main: Default::default(),
            http: Default::default(),
            variables: Registry::default(),
            logs: Default::default(),
            thread_pools: Default::default(),
            zones: Default::default(),
            addresses: Default::default(),
            pools: Default::default(),
            warnings: Vec::new(),
            frames: vec![Frame::new(Contexts::MAIN, LocationKind::None, None)],
        }
    }

    /// The block that is being read.
    pub fn frame(&mut self) -> &mut Frame {
        self.frames
            .last_mut()
            .expect("the main frame is never popped")
    }

    /// The settings that a location-level directive writes.
    pub fn location(&mut self) -> &mut RawLocation {
        &mut self.frame().location
    }

    /// The settings that a server-level directive writes.
    pub fn server(&mut self) -> &mut RawServer {
        &mut self.frame().server
    }

    /// The frames from the outermost (`main`) to the one being read.
    #[must_use]
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// Reads `directive`'s block in a new frame and returns that frame.
    pub fn nested(
        &mut self,
        directive: &Directive,
        context: Contexts,
        kind: LocationKind,
    ) -> Result<Frame, Complaint> {
        self.frames
            .push(Frame::new(context, kind, Some(directive.position.clone())));
        let read = match &directive.block {
            Some(block) => self.read_block(block),
            None => Ok(()),
        };
        let mut frame = self.frames.pop().expect("pushed above");
        read.map_err(Complaint::from_error)?;
        frame.end = directive.block.as_ref().map(|block| block.end.clone());
        Ok(frame)
    }

    /// Reads a block whose directives belong to `context` without a frame of its own (`events`).
    pub fn same_frame(&mut self, directive: &Directive, context: Contexts) -> Outcome {
        let before = std::mem::replace(&mut self.frame().context, context);
        let read = directive
            .block
            .as_ref()
            .map_or(Ok(()), |block| self.read_block(block));
        self.frame().context = before;
        read.map_err(Complaint::from_error)
    }

    /// Reads the directives of one block in their order; the first error ends the reading.
    pub fn read_block(&mut self, block: &Block) -> Result<(), conf::Error> {
        for item in &block.items {
            match item {
                Item::Directive(directive) => self.read_directive(directive)?,
                Item::Error(error) => return Err(error.clone()),
            }
        }
        Ok(())
    }

    fn read_directive(&mut self, directive: &Directive) -> Result<(), conf::Error> {
        let context = self.frame().context;
        let row: &table::Row<Set> =
            table::check(directives::rows(&directive.name), directive, context)?;
        (row.set)(self, directive).map_err(|complaint| complaint.into_error(directive))
    }

    /// Notes a warning; it is printed with the file's position as nginx does.
    pub fn warn(&mut self, directive: &Directive, message: impl Into<String>) {
        self.warnings.push(conf::Error {
            message: message.into(),
            position: Some(directive.position.clone()),
        });
    }

    /// Resolves a path of the configuration (certificates, htpasswd, maps).
    #[must_use]
    pub fn conf_path(&self, name: &str) -> PathBuf {
        self.paths.in_conf(name)
    }

    /// Reads a file that the configuration names, at load time.
    pub fn read_file(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        self.source.read(path)
    }
}

impl Complaint {
    /// An error of a nested block already knows its place.
    fn from_error(error: conf::Error) -> Complaint {
        Complaint {
            text: error.to_string(),
            bare: true,
        }
    }

    /// The message as nginx words it: short forms get the directive's name before them.
    fn into_error(self, directive: &Directive) -> conf::Error {
        if self.bare {
            return conf::Error {
                message: self.text,
                position: None,
            };
        }
        const SHORT: [&str; 5] = [
            "is duplicate",
            "invalid value",
            "invalid number",
            "duplicate",
            "is specified too late",
        ];
        let message = if SHORT.contains(&self.text.as_str()) {
            format!("\"{}\" directive {}", directive.name, self.text)
        } else {
            self.text
        };
        conf::Error {
            message,
            position: Some(directive.position.clone()),
        }
    }
}
