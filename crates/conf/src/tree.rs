//! What a configuration text becomes: blocks of directives made of words, each knowing its place.

use std::ffi::OsStr;
use std::fmt;
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::position::{Error, Position};

/// One word of a directive, its escapes resolved. Bytes, since nginx asks for no encoding.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Word {
    pub bytes: Vec<u8>,
    /// Written between quotes. nginx makes no difference; a printer does.
    pub quoted: bool,
}

impl Word {
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes).ok()
    }

    pub fn to_path(&self) -> PathBuf {
        PathBuf::from(OsStr::from_bytes(&self.bytes))
    }
}

impl Deref for Word {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.bytes))
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}{:?}",
            if self.quoted { "quoted " } else { "" },
            String::from_utf8_lossy(&self.bytes)
        )
    }
}

/// `name args… ;` or `name args… { … }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    pub name: Word,
    pub args: Vec<Word>,
    /// The line of the `;` or `{` that ends the words: the one nginx names in its errors.
    pub position: Position,
    pub block: Option<Block>,
}

impl Directive {
    /// An error at this directive.
    pub fn error(&self, message: impl Into<String>) -> Error {
        Error::at(&self.position, message)
    }

    /// An error in the form nginx gives what a setter complains of: `"NAME" directive COMPLAINT`, as in
    /// `is duplicate` or `invalid value`.
    pub fn complaint(&self, complaint: &str) -> Error {
        self.error(format!("\"{}\" directive {complaint}", self.name))
    }
}

/// The inside of `{ … }`, or of a whole file with its includes in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    pub items: Vec<Item>,
    /// The line of the `}`, or where the file or the reading of it ended.
    pub end: Position,
}

impl Block {
    pub fn directives(&self) -> impl Iterator<Item = &Directive> {
        self.items.iter().filter_map(|item| match item {
            Item::Directive(directive) => Some(directive),
            Item::Error(_) => None,
        })
    }

    /// The syntax error that ended the reading, in this block or deeper.
    pub fn syntax_error(&self) -> Option<&Error> {
        // Reading stops at an error, so only the last item can be one or hold one.
        match self.items.last()? {
            Item::Error(error) => Some(error),
            Item::Directive(directive) => directive.block.as_ref()?.syntax_error(),
        }
    }
}

/// A syntax error stands in the tree where it was met and is the last thing read, so that whoever walks the tree meets
/// it after the directives before it, as nginx would.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    Directive(Directive),
    Error(Error),
}

/// A configuration read to its end or to its first syntax error.
#[derive(Clone, Debug)]
pub struct Tree {
    pub root: Block,
    /// Every file in the order of first reading, each once: what `-T` shows.
    pub files: Vec<SourceFile>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    pub path: PathBuf,
    pub text: Arc<[u8]>,
}
