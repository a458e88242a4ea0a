//! What nginx says of a broken file, and what it takes a sound one to mean. The error texts and lines of the table were
//! taken from nginx 1.22.1, run over the same files.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use conf::{Block, Item, Source, Tree};

/// Files by path; a path that ends in `/` is a directory. A pattern matches what begins as it does before its star.
struct Files(BTreeMap<&'static str, Vec<u8>>);

impl Source for Files {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let path = path.to_str().expect("test paths are UTF-8");
        if path.ends_with('/') {
            return Err(io::Error::from_raw_os_error(21));
        }
        self.0
            .get(path)
            .cloned()
            .ok_or_else(|| io::Error::from_raw_os_error(2))
    }

    fn glob(&self, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        let pattern = pattern.to_str().expect("test patterns are UTF-8");
        let start = pattern.split('*').next().unwrap_or(pattern);
        Ok(self
            .0
            .keys()
            .filter(|path| path.starts_with(start))
            .map(PathBuf::from)
            .collect())
    }
}

fn read(files: &[(&'static str, &[u8])]) -> Tree {
    let files = Files(
        files
            .iter()
            .map(|&(path, text)| (path, text.to_vec()))
            .collect(),
    );
    conf::parse(&files, Path::new("/c/main"), Path::new("/c"))
}

fn read_main(text: &[u8]) -> Tree {
    read(&[("/c/main", text)])
}

/// The directives, one a line, blocks indented; ends with the error if there is one.
fn outline(block: &Block) -> String {
    fn add(block: &Block, depth: usize, out: &mut String) {
        for item in &block.items {
            let indent = "  ".repeat(depth);
            match item {
                Item::Error(error) => *out += &format!("{indent}! {error}\n"),
                Item::Directive(directive) => {
                    let words: Vec<String> = std::iter::once(&directive.name)
                        .chain(&directive.args)
                        .map(|word| format!("[{word}]"))
                        .collect();
                    *out += &format!("{indent}{} {}\n", directive.position.line, words.concat());
                    if let Some(block) = &directive.block {
                        add(block, depth + 1, out);
                    }
                }
            }
        }
    }
    let mut out = String::new();
    add(block, 0, &mut out);
    out
}

fn error_of(tree: &Tree) -> String {
    tree.root
        .syntax_error()
        .map(ToString::to_string)
        .unwrap_or_default()
}

#[test]
fn errors_and_their_lines_are_nginx_s() {
    let table: &[(&[u8], &str)] = &[
        (b"", ""),
        (b";\n", "unexpected \";\" in /c/main:1"),
        (b"{\n", "unexpected \"{\" in /c/main:1"),
        (b"events{}\n}\n", "unexpected \"}\" in /c/main:2"),
        (
            b"events {\n",
            "unexpected end of file, expecting \"}\" in /c/main:2",
        ),
        (
            b"events {}\nuser\n",
            "unexpected end of file, expecting \";\" or \"}\" in /c/main:3",
        ),
        (
            b"events {}\nuser 'abc\n",
            "unexpected end of file, expecting \";\" or \"}\" in /c/main:3",
        ),
        (
            b"events # x",
            "unexpected end of file, expecting \";\" or \"}\" in /c/main:1",
        ),
        (
            b"a$",
            "unexpected end of file, expecting \";\" or \"}\" in /c/main:1",
        ),
        (b"events {}#x", ""),
        (b"events {\n;\n}\n", "unexpected \";\" in /c/main:2"),
        (b"user }\n", "unexpected \"}\" in /c/main:1"),
        (b"user \"a\"b;\n", "unexpected \"b\" in /c/main:1"),
        (b"user 'a'\"b\";\n", "unexpected \"\"\" in /c/main:1"),
        (b"user \"a\"}\n", "unexpected \"}\" in /c/main:1"),
        (b"user \"a\"\xff;\n", "unexpected \"\u{fffd}\" in /c/main:1"),
        (
            b"http {\n server {\n  listen 1}\n }\n}\n",
            "unexpected \"}\" in /c/main:4",
        ),
        (
            b"\n\ninclude /x.conf;\n",
            "open() \"/x.conf\" failed (2: No such file or directory) in /c/main:3",
        ),
        (
            b"\"include\" /q;\n",
            "open() \"/q\" failed (2: No such file or directory) in /c/main:1",
        ),
        (
            b"\ninclude nope;\n",
            "open() \"/c/nope\" failed (2: No such file or directory) in /c/main:2",
        ),
        (
            b"include \"\";\n",
            "pread() \"/c/\" failed (21: Is a directory)",
        ),
        (b"include /none/*;\n", ""),
        (
            b"include a b;\n",
            "invalid number of arguments in \"include\" directive in /c/main:1",
        ),
        (
            b"include;\n",
            "invalid number of arguments in \"include\" directive in /c/main:1",
        ),
        (
            b"include a {\n}\n",
            "directive \"include\" is not terminated by \";\" in /c/main:1",
        ),
    ];
    for (text, expected) in table {
        assert_eq!(
            error_of(&read_main(text)),
            *expected,
            "{:?}",
            String::from_utf8_lossy(text)
        );
    }
}

#[test]
fn words_are_as_long_as_nginx_s_buffer_lets_them_be() {
    const STARTED: &str = "too long parameter \"xxxxxxxxxx...\" started in /c/main:3";
    const COMMENT: &str = "too long parameter \"#xxxxxxxxx...\" started in /c/main:3";
    const DOUBLE: &str =
        "too long parameter, probably missing terminating \"\"\" character in /c/main:3";
    const SINGLE: &str =
        "too long parameter, probably missing terminating \"'\" character in /c/main:3";
    const END: &str = "unexpected end of file, expecting \";\" or \"}\" in /c/main:3";
    // Before, how many x, after, what nginx says.
    let table = [
        ("foo ", 4095, ";\n", ""),
        ("foo ", 4094, " ;\n", ""),
        ("foo ", 4095, " ;\n", STARTED),
        ("foo ", 4095, "\n;\n", STARTED),
        ("foo ", 4096, ";\n", STARTED),
        ("foo ", 4096, "", END),
        ("foo ", 5000, "\n;\n", STARTED),
        ("foo \"", 4094, "\";\n", ""),
        ("foo \"", 4093, "\" ;\n", ""),
        ("foo \"", 4094, "\" ;\n", STARTED),
        ("foo \"", 4095, "\";\n", STARTED),
        ("foo \"", 4096, "\";\n", DOUBLE),
        ("foo '", 5000, "';\n", SINGLE),
        ("#", 4094, "\nfoo x;\n", ""),
        ("#", 4095, "\nfoo x;\n", COMMENT),
        ("#", 4095, "", ""),
    ];
    for (before, count, after, expected) in table {
        let text = format!("\n\n{before}{}{after}", "x".repeat(count));
        assert_eq!(
            error_of(&read_main(text.as_bytes())),
            expected,
            "{before} {count} {after:?}"
        );
    }
    let long = [b"foo ".as_slice(), &b"x".repeat(5000), b";"].concat();
    assert_eq!(
        conf::parse_text(&long).syntax_error(),
        None,
        "the command line has no such limit"
    );
}

#[test]
fn words_quotes_and_escapes() {
    let table: &[(&[u8], &str)] = &[
        (b"foo\n a\n b\n ;\n", "4 [foo][a][b]\n"),
        (b"events {}\r\nfoo x;\r\n", "1 [events]\n2 [foo][x]\n"),
        (b"\xef\xbb\xbfuser x;", "1 [\u{feff}user][x]\n"),
        (b"a#b #c;\n d;", "2 [a#b][d]\n"),
        (b"a} x;", "1 [a}][x]\n"),
        (
            b"a \"b\\\"c\\'d\\\\e\\tf\\rg\\nh\\i\" x;",
            "1 [a][b\"c'd\\e\tf\rg\nh\\i][x]\n",
        ),
        (b"a 'b\"c' \"d;{}#\" \"\";", "1 [a][b\"c][d;{}#][]\n"),
        (b"a\\ b\\;\\{c\\\" \\\"d;", "1 [a\\ b\\;\\{c\"][\"d]\n"),
        (b"a b\"c d\"e;", "1 [a][b\"c][d\"e]\n"),
        (b"${a}${{b$c{ x; }", "1 [${a}${{b$c]\n  1 [x]\n"),
        (b"a${b}{ x; }", "1 [a${b}]\n  1 [x]\n"),
        (b"a $ { x; }", "1 [a][$]\n  1 [x]\n"),
        (b"if (\"$a\" = \"b\"){ x; }", "1 [if]\n"),
        (b"a\\\nb c;", "2 [a\\\nb][c]\n"),
        (b"a \"b\nc\"\n;", "3 [a][b\nc]\n"),
        (
            b"a;b c{d;e{}}f;",
            "1 [a]\n1 [b][c]\n  1 [d]\n  1 [e]\n1 [f]\n",
        ),
    ];
    for (text, expected) in table {
        let tree = read_main(text);
        // A bracket after a quoted word begins a word; one before it hides the quote. Both as in nginx.
        if text.starts_with(b"if") {
            assert_eq!(outline(&tree.root), "1 [if][(\"$a\"][=][b][)]\n  1 [x]\n");
            continue;
        }
        assert_eq!(
            outline(&tree.root),
            *expected,
            "{:?}",
            String::from_utf8_lossy(text)
        );
    }
}

#[test]
fn includes_stand_in_place() {
    let tree = read(&[
        (
            "/c/main",
            b"a;\nb {\n include d/*;\n include /c/one; c;\n}\ninclude one;",
        ),
        ("/c/d/1", b"d1;"),
        ("/c/d/2", b"\nd2;"),
        ("/c/one", b"one {}"),
    ]);
    assert_eq!(
        outline(&tree.root),
        "1 [a]\n2 [b]\n  1 [d1]\n  2 [d2]\n  1 [one]\n  4 [c]\n1 [one]\n"
    );
    let paths: Vec<_> = tree
        .files
        .iter()
        .map(|file| file.path.to_str().unwrap_or_default())
        .collect();
    assert_eq!(paths, ["/c/main", "/c/d/1", "/c/d/2", "/c/one"]);
    let block = tree
        .root
        .directives()
        .nth(1)
        .and_then(|b| b.block.as_ref())
        .expect("b has a block");
    assert_eq!(block.end.to_string(), "/c/main:5");
    assert_eq!(
        block.directives().nth(1).map(|d2| d2.position.to_string()),
        Some("/c/d/2:2".to_owned())
    );
}

#[test]
fn errors_in_included_files_end_everything() {
    let tree = read(&[
        ("/c/main", b"a;\nb {\n include u; c;\n}\nd;"),
        ("/c/u", b"server {\n\n"),
    ]);
    let expected =
        "1 [a]\n2 [b]\n  1 [server]\n    ! unexpected end of file, expecting \"}\" in /c/u:3\n";
    assert_eq!(outline(&tree.root), expected);
    let tree = read(&[("/c/main", b"b {\n include u; c;\n}\n"), ("/c/u", b"\n}\n")]);
    assert_eq!(
        outline(&tree.root),
        "1 [b]\n  ! unexpected \"}\" in /c/u:2\n"
    );
}

#[test]
fn a_missing_main_file_has_no_line() {
    assert_eq!(
        error_of(&read(&[])),
        "open() \"/c/main\" failed (2: No such file or directory)"
    );
}

#[test]
fn the_command_line() {
    let files = Files(BTreeMap::from([
        ("/c/close", b"\n}".to_vec()),
        ("/c/ok", b"a {}".to_vec()),
    ]));
    let table = [
        ("user a;", "0 [user][a]\n"),
        (
            "user a",
            "! unexpected end of parameter, expecting \";\" in command line\n",
        ),
        (
            "user",
            "! unexpected end of parameter, expecting \";\" in command line\n",
        ),
        (
            "user {",
            "! block directives are not supported in -g option in command line\n",
        ),
        ("user \"a\"b;", "! unexpected \"b\" in command line\n"),
        ("}", "! unexpected \"}\" in command line\n"),
        ("\n;", "! unexpected \";\" in command line\n"),
        (
            "include /x;",
            "! open() \"/x\" failed (2: No such file or directory) in command line\n",
        ),
        ("include close;", "! unexpected \"}\" in /c/close:2\n"),
        ("include ok; b;", "1 [a]\n0 [b]\n"),
    ];
    for (text, expected) in table {
        let tree = conf::parse_command_line(&files, text.as_bytes(), Path::new("/c"));
        assert_eq!(outline(&tree.root), expected, "{text}");
        if !text.contains("include") {
            assert_eq!(tree.root, conf::parse_text(text.as_bytes()), "{text}");
        }
    }
    assert_eq!(
        outline(&conf::parse_text(b"include ok;")),
        "0 [include][ok]\n"
    );
}

#[test]
fn depth_has_limits() {
    let tree = read_main(b"include main;");
    let expected = format!(
        "\"include\" of \"main\" is nested more than {} deep in /c/main:1",
        conf::MAX_INCLUDE_DEPTH
    );
    assert_eq!(error_of(&tree), expected);
    assert_eq!(tree.files.len(), 1);

    let tree = read_main(&b"a{".repeat(100_000));
    let expected = format!(
        "blocks are nested more than {} deep in /c/main:1",
        conf::MAX_BLOCK_DEPTH
    );
    assert_eq!(error_of(&tree), expected);

    let deep = [
        b"a{".repeat(conf::MAX_BLOCK_DEPTH),
        b"}".repeat(conf::MAX_BLOCK_DEPTH),
    ]
    .concat();
    assert_eq!(error_of(&read_main(&deep)), "");

    // Blocks count through the files that hold them.
    let tree = read(&[("/c/main", b"a { a { a { include main; }}}")]);
    assert!(
        error_of(&tree).starts_with("blocks are nested more than"),
        "{}",
        error_of(&tree)
    );
}
