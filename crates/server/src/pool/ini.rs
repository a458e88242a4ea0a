//! php-fpm's files: sections of `name = value` lines. Bytes in, entries out; what the entries mean is not decided here.

/// One line that says something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    Section(String),
    Entry { name: String, value: String },
}

/// The lines of a text with their numbers, from 1; the first that is no line of such a file is an error.
pub fn lines(text: &str) -> impl Iterator<Item = (usize, Result<Line, String>)> {
    text.lines()
        .enumerate()
        .filter_map(|(index, line)| Some((index + 1, parse(line.trim())?)))
}

fn parse(line: &str) -> Option<Result<Line, String>> {
    if line.is_empty() || line.starts_with(';') || line.starts_with('#') {
        return None;
    }
    if let Some(rest) = line.strip_prefix('[') {
        return Some(match rest.split_once(']') {
            Some((name, after)) if is_blank(after) => Ok(Line::Section(name.trim().to_owned())),
            _ => Err("syntax error, a section ends with ']'".to_owned()),
        });
    }
    let Some((name, value)) = line.split_once('=') else {
        return Some(Err(format!("syntax error, no value for '{line}'")));
    };
    Some(value_of(value.trim()).map(|value| Line::Entry {
        name: name.trim().to_owned(),
        value,
    }))
}

/// Nothing, or a comment.
fn is_blank(text: &str) -> bool {
    let text = text.trim_start();
    text.is_empty() || text.starts_with(';')
}

/// A value without its quotes and without the comment after it.
fn value_of(text: &str) -> Result<String, String> {
    let quote = match text.chars().next() {
        Some(quote @ ('"' | '\'')) => quote,
        _ => {
            let end = text.find(';').unwrap_or(text.len());
            return Ok(text[..end].trim_end().to_owned());
        }
    };
    let mut value = String::new();
    let mut rest = text[1..].char_indices();
    while let Some((at, character)) = rest.next() {
        match character {
            '\\' if quote == '"' => match rest.next() {
                Some((_, escaped @ ('"' | '\\' | '\''))) => value.push(escaped),
                Some((_, other)) => value.extend(['\\', other]),
                None => break,
            },
            end if end == quote => {
                return match is_blank(&text[1 + at + 1..]) {
                    true => Ok(value),
                    false => Err("syntax error after a quoted value".to_owned()),
                };
            }
            other => value.push(other),
        }
    }
    Err("syntax error, a quote is not closed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, value: &str) -> Result<Line, String> {
        Ok(Line::Entry {
            name: name.to_owned(),
            value: value.to_owned(),
        })
    }

    #[test]
    fn a_file_of_php_fpm_is_read() {
        let text = "; comment\n[www] ; here\n\nuser = www-data\r\npm=static;now\nenv[A] = \"x;\\\"y\" ; z\n\
                    env[B] = 'a\\b'\nphp_value[x] =\n# old\nbroken\n[open\na = \"b\nb = \"c\" d\n";
        let all: Vec<_> = lines(text).collect();
        let expected = [
            (2, Ok(Line::Section("www".into()))),
            (4, entry("user", "www-data")),
            (5, entry("pm", "static")),
            (6, entry("env[A]", "x;\"y")),
            (7, entry("env[B]", "a\\b")),
            (8, entry("php_value[x]", "")),
        ];
        assert_eq!(all[..6], expected);
        let wrong: Vec<_> = all[6..].iter().map(|(line, _)| *line).collect();
        assert_eq!(wrong, [10, 11, 12, 13]);
        assert!(all[6..].iter().all(|(_, line)| line.is_err()));
    }
}
