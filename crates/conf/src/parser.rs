//! Words to blocks: nesting, and `include` followed in place so that the tree reads as one text.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::glob;
use crate::lexer::{Lexer, Token};
use crate::position::{Error, Position};
use crate::source::{Source, os_error};
use crate::tree::{Block, Directive, Item, SourceFile, Tree, Word};

/// Blocks inside blocks, counted through includes. nginx has no number for it, only the stack.
pub const MAX_BLOCK_DEPTH: usize = 128;
/// Files including files. nginx has no number for it and dies of open files when a file includes itself.
pub const MAX_INCLUDE_DEPTH: usize = 64;
/// Files taken in by one configuration, each time counted: the bound on files that include each other twice.
pub const MAX_INCLUDES: usize = 1_000_000;
/// Directives of one configuration; map and geo tables of millions of lines are in use.
pub const MAX_DIRECTIVES: usize = 16_000_000;

/// Reads the file `path` and all it includes. Relative names in `include` start from `prefix`.
/// What cannot be read or understood becomes the tree's last item.
pub fn parse(source: &dyn Source, path: &Path, prefix: &Path) -> Tree {
    let mut parser = Parser::new(Some(source), prefix);
    let mut items = Vec::new();
    let end = match parser.file(path, None, &mut items) {
        Ok(file) => file.end,
        Err(error) => {
            items.push(Item::Error(error));
            Position {
                file: shown(path),
                line: 1,
            }
        }
    };
    Tree {
        root: Block { items, end },
        files: parser.files,
    }
}

/// Reads the text of the `-g` switch, following its includes. Blocks are refused, as nginx refuses them.
pub fn parse_command_line(source: &dyn Source, text: &[u8], prefix: &Path) -> Tree {
    let mut parser = Parser::new(Some(source), prefix);
    let root = parser.command_line(text);
    Tree {
        root,
        files: parser.files,
    }
}

/// As [`parse_command_line`] without files: an `include` stays in the tree as a directive like any other.
pub fn parse_text(text: &[u8]) -> Block {
    Parser::new(None, Path::new("")).command_line(text)
}

/// What the statements being read are part of.
#[derive(Clone, Copy, PartialEq)]
enum Inside {
    File,
    Block,
    CommandLine,
}

/// Whether reading goes on after a step.
#[derive(Clone, Copy, PartialEq)]
enum Flow {
    /// More statements may follow.
    On,
    /// The block or file is at its end.
    Ended,
    /// A syntax error stands in the tree; nothing more is read anywhere.
    Stopped,
}

/// How the reading of one file went.
struct FileEnd {
    flow: Flow,
    end: Position,
}

struct Parser<'a> {
    source: Option<&'a dyn Source>,
    prefix: &'a Path,
    files: Vec<SourceFile>,
    /// Index into `files`: a file included twice is read once, so that both see the same text.
    known: HashMap<PathBuf, usize>,
    block_depth: usize,
    include_depth: usize,
    includes: usize,
    directives: usize,
}

impl<'a> Parser<'a> {
    fn new(source: Option<&'a dyn Source>, prefix: &'a Path) -> Parser<'a> {
        Parser {
            source,
            prefix,
            files: Vec::new(),
            known: HashMap::new(),
            block_depth: 0,
            include_depth: 0,
            includes: 0,
            directives: 0,
        }
    }

    fn command_line(&mut self, text: &[u8]) -> Block {
        let mut lexer = Lexer::of_command_line(text);
        let mut items = Vec::new();
        self.statements(&mut lexer, Inside::CommandLine, &mut items);
        Block {
            items,
            end: lexer.position(),
        }
    }

    /// Reads one file into `items`. `from` is the line that includes it.
    fn file(
        &mut self,
        path: &Path,
        from: Option<&Position>,
        items: &mut Vec<Item>,
    ) -> Result<FileEnd, Error> {
        let text = self
            .text(path)
            .map_err(|error| unreadable(path, &error, from))?;
        let mut lexer = Lexer::of_file(shown(path), &text);
        let flow = self.statements(&mut lexer, Inside::File, items);
        Ok(FileEnd {
            flow,
            end: lexer.position(),
        })
    }

    fn text(&mut self, path: &Path) -> io::Result<Arc<[u8]>> {
        if let Some(&index) = self.known.get(path) {
            return Ok(self.files[index].text.clone());
        }
        let source = self.source.ok_or(io::ErrorKind::NotFound)?;
        let text: Arc<[u8]> = source.read(path)?.into();
        self.known.insert(path.to_owned(), self.files.len());
        self.files.push(SourceFile {
            path: path.to_owned(),
            text: text.clone(),
        });
        Ok(text)
    }

    fn statements(&mut self, lexer: &mut Lexer<'_>, inside: Inside, items: &mut Vec<Item>) -> Flow {
        loop {
            match self.statement(lexer, inside, items) {
                Ok(Flow::On) => {}
                Ok(flow) => return flow,
                Err(error) => {
                    items.push(Item::Error(error));
                    return Flow::Stopped;
                }
            }
        }
    }

    fn statement(
        &mut self,
        lexer: &mut Lexer<'_>,
        inside: Inside,
        items: &mut Vec<Item>,
    ) -> Result<Flow, Error> {
        match lexer.next()? {
            Token::BlockEnd if inside == Inside::Block => Ok(Flow::Ended),
            Token::BlockEnd => Err(lexer.error("unexpected \"}\"")),
            Token::End if inside == Inside::Block => {
                Err(lexer.error("unexpected end of file, expecting \"}\""))
            }
            Token::End => Ok(Flow::Ended),
            Token::BlockStart(_) if inside == Inside::CommandLine => {
                Err(lexer.error("block directives are not supported in -g option"))
            }
            Token::BlockStart(words) if self.is_include(&words) => {
                Err(lexer.error("directive \"include\" is not terminated by \";\""))
            }
            Token::BlockStart(words) => self.block(lexer, words, items),
            Token::Statement(words) if self.is_include(&words) => {
                self.include(&words[1..], &lexer.position(), items)
            }
            Token::Statement(words) => {
                let directive = self.directive(lexer, words)?;
                items.push(Item::Directive(directive));
                Ok(Flow::On)
            }
        }
    }

    fn block(
        &mut self,
        lexer: &mut Lexer<'_>,
        words: Vec<Word>,
        items: &mut Vec<Item>,
    ) -> Result<Flow, Error> {
        let mut directive = self.directive(lexer, words)?;
        let mut inner = Vec::new();
        let flow = if self.block_depth == MAX_BLOCK_DEPTH {
            inner.push(Item::Error(lexer.error(format!(
                "blocks are nested more than {MAX_BLOCK_DEPTH} deep"
            ))));
            Flow::Stopped
        } else {
            self.block_depth += 1;
            let flow = self.statements(lexer, Inside::Block, &mut inner);
            self.block_depth -= 1;
            flow
        };
        directive.block = Some(Block {
            items: inner,
            end: lexer.position(),
        });
        items.push(Item::Directive(directive));
        Ok(if flow == Flow::Stopped {
            Flow::Stopped
        } else {
            Flow::On
        })
    }

    fn directive(&mut self, lexer: &Lexer<'_>, mut words: Vec<Word>) -> Result<Directive, Error> {
        self.directives += 1;
        if self.directives > MAX_DIRECTIVES {
            return Err(lexer.error(format!(
                "configuration has more than {MAX_DIRECTIVES} directives"
            )));
        }
        let name = words.remove(0);
        Ok(Directive {
            name,
            args: words,
            position: lexer.position(),
            block: None,
        })
    }

    fn is_include(&self, words: &[Word]) -> bool {
        self.source.is_some() && words[0].bytes == b"include"
    }

    fn include(
        &mut self,
        args: &[Word],
        from: &Position,
        items: &mut Vec<Item>,
    ) -> Result<Flow, Error> {
        let [name] = args else {
            return Err(Error::at(
                from,
                "invalid number of arguments in \"include\" directive",
            ));
        };
        if self.include_depth == MAX_INCLUDE_DEPTH {
            let message =
                format!("\"include\" of \"{name}\" is nested more than {MAX_INCLUDE_DEPTH} deep");
            return Err(Error::at(from, message));
        }
        self.include_depth += 1;
        for path in self.included(&self.prefix.join(name.to_path()), from)? {
            self.includes += 1;
            if self.includes > MAX_INCLUDES {
                return Err(Error::at(
                    from,
                    format!("configuration includes more than {MAX_INCLUDES} files"),
                ));
            }
            if self.file(&path, Some(from), items)?.flow == Flow::Stopped {
                return Ok(Flow::Stopped);
            }
        }
        self.include_depth -= 1;
        Ok(Flow::On)
    }

    /// The files a name stands for: itself, or what matches it.
    fn included(&self, name: &Path, from: &Position) -> Result<Vec<PathBuf>, Error> {
        match self.source {
            Some(source) if glob::is_pattern(name) => source.glob(name).map_err(|error| {
                Error::at(
                    from,
                    format!("glob() \"{}\" failed {}", name.display(), os_error(&error)),
                )
            }),
            _ => Ok(vec![name.to_owned()]),
        }
    }
}

fn shown(path: &Path) -> Arc<str> {
    Arc::from(path.to_string_lossy())
}

/// nginx names the including line when a file cannot be opened, and no line when opening works and reading fails.
fn unreadable(path: &Path, error: &io::Error, from: Option<&Position>) -> Error {
    let (call, position) = match error.kind() {
        io::ErrorKind::IsADirectory => ("pread", None),
        _ => ("open", from.cloned()),
    };
    Error::new(
        format!("{call}() \"{}\" failed {}", path.display(), os_error(error)),
        position,
    )
}
