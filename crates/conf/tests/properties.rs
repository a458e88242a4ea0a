//! What holds for every text: a tree printed and read again is the same tree, and no bytes make the reader panic.

use std::path::Path;

use conf::{Block, Item, Word};

/// Texts a run tries. The numbers follow from a fixed seed: a failure repeats.
const TEXTS: u64 = 40_000;

/// Marsaglia's xorshift64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).expect("less than a usize")
    }

    /// A text of the bytes the grammar cares for, a few of which would hardly meet in text of all bytes.
    fn text(&mut self) -> Vec<u8> {
        const PIECES: &[&[u8]] = &[
            b" ",
            b" ",
            b"\n",
            b"\t",
            b"\r",
            b";",
            b";",
            b"{",
            b"}",
            b"{",
            b"}",
            b"\"",
            b"\"",
            b"'",
            b"'",
            b"\\",
            b"\\",
            b"$",
            b"${",
            b"#",
            b")",
            b"(",
            b"a",
            b"n",
            b"t",
            b"r",
            b"word",
            b"a b;",
            b"c {",
            b"\"q u\" ",
            b"\xff",
            b"\0",
            b"include",
            b"include x;",
        ];
        let count = self.below(30);
        (0..count)
            .flat_map(|_| PIECES[self.below(PIECES.len())])
            .copied()
            .collect()
    }
}

struct NoFiles<'a>(&'a [u8]);

impl conf::Source for NoFiles<'_> {
    fn read(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        if path == Path::new("/main") {
            Ok(self.0.to_vec())
        } else {
            Err(std::io::ErrorKind::NotFound.into())
        }
    }

    fn glob(&self, _: &Path) -> std::io::Result<Vec<std::path::PathBuf>> {
        Ok(Vec::new())
    }
}

fn read(text: &[u8]) -> Block {
    conf::parse(&NoFiles(text), Path::new("/main"), Path::new("/")).root
}

fn print(block: &Block, out: &mut Vec<u8>) {
    for item in &block.items {
        let Item::Directive(directive) = item else {
            continue;
        };
        for word in std::iter::once(&directive.name).chain(&directive.args) {
            print_word(word, out);
            out.push(b' ');
        }
        match &directive.block {
            Some(block) => {
                out.extend_from_slice(b"{\n");
                print(block, out);
                out.extend_from_slice(b"}\n");
            }
            None => out.extend_from_slice(b";\n"),
        }
    }
}

fn print_word(word: &Word, out: &mut Vec<u8>) {
    if word.quoted {
        out.push(b'"');
    }
    let mut bytes = word.bytes.iter().enumerate().peekable();
    while let Some((at, &byte)) = bytes.next() {
        match byte {
            b'"' | b'\'' if word.quoted || at == 0 => out.extend_from_slice(&[b'\\', byte]),
            b'\\' => match bytes.peek() {
                // Outside quotes the backslash kept with one of these is what holds the word together.
                Some(&(_, &next @ (b' ' | b';' | b'{' | b'}' | b'#'))) if !word.quoted => {
                    out.extend_from_slice(&[b'\\', next]);
                    bytes.next();
                }
                _ => out.extend_from_slice(b"\\\\"),
            },
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\n' => out.extend_from_slice(b"\\n"),
            _ => out.push(byte),
        }
    }
    if word.quoted {
        out.push(b'"');
    }
}

/// The words and their nesting, without lines.
fn shape(block: &Block) -> String {
    let directives = block.directives().map(|directive| {
        let inner = directive.block.as_ref().map(shape);
        let words: Vec<_> = std::iter::once(&directive.name)
            .chain(&directive.args)
            .collect();
        format!(
            "{:?} {inner:?}",
            words
                .iter()
                .map(|word| (&word.bytes, word.quoted))
                .collect::<Vec<_>>()
        )
    });
    directives.collect::<Vec<_>>().join("\n")
}

#[test]
fn printing_and_reading_gives_the_same_tree() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut words = 0;
    for _ in 0..TEXTS {
        let text = random.text();
        let tree = read(&text);
        let mut printed = Vec::new();
        print(&tree, &mut printed);
        let again = read(&printed);
        let shown = String::from_utf8_lossy(&text);
        assert_eq!(again.syntax_error(), None, "{shown:?}");
        assert_eq!(shape(&again), shape(&tree), "{shown:?}");
        words += tree
            .directives()
            .map(|directive| 1 + directive.args.len())
            .sum::<usize>();
    }
    assert!(
        words > 10_000,
        "the texts hold too few words to show anything: {words}"
    );
}

#[test]
fn no_text_panics_and_an_error_is_always_last() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for round in 0..TEXTS {
        let mut text = random.text();
        if round % 2 == 0 {
            text.iter_mut()
                .for_each(|byte| *byte = u8::try_from(random.below(256)).expect("below 256"));
        }
        let tree = read(&text);
        check_errors(&tree, true);
        let lines = text.iter().filter(|&&byte| byte == b'\n').count() + 1;
        assert!(
            tree.end.line as usize <= lines,
            "{}",
            String::from_utf8_lossy(&text)
        );
        check_errors(&conf::parse_text(&text), true);
    }
}

/// `last`: whether all that encloses the block ends with it, so that an error may stand in it.
fn check_errors(block: &Block, last: bool) {
    for (at, item) in block.items.iter().enumerate() {
        let last = last && at + 1 == block.items.len();
        match item {
            Item::Error(_) => assert!(last, "something was read after an error"),
            Item::Directive(directive) => directive
                .block
                .iter()
                .for_each(|block| check_errors(block, last)),
        }
    }
}

#[test]
fn no_value_panics() {
    let mut random = Random(0x1234_5678_9abc_def1);
    let mut accepted = 0;
    for _ in 0..TEXTS {
        const BYTES: &[u8] = b"0123456789 yMwdhmskgKG";
        let length = random.below(24);
        let text: Vec<u8> = (0..length)
            .map(|_| BYTES[random.below(BYTES.len())])
            .collect();
        let read = [
            conf::values::parse_sec(&text),
            conf::values::parse_msec(&text),
            conf::values::parse_size(&text),
            conf::values::parse_offset(&text),
            conf::values::parse_number(&text),
        ];
        for value in read.into_iter().flatten() {
            assert!(
                i64::try_from(value).is_ok(),
                "{}",
                String::from_utf8_lossy(&text)
            );
            accepted += 1;
        }
    }
    assert!(accepted > 1000, "too few texts were values: {accepted}");
}
