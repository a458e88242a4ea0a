//! A value with variables in it, compiled at load.

use super::registry::{Registry, VariableId};
use crate::config::setting::Complaint;
use crate::http::Request;
use bytes::Bytes;

#[derive(Debug, Clone)]
enum Part {
    Literal(Bytes),
    Variable(VariableId),
    /// `$1` … `$9` of the last pattern that matched.
    Capture(usize),
}

/// The names of the variables in a text that compiles, as they are written; captures are their digits.
pub fn names(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| byte == b'$').skip(1).map(|piece| {
        let piece = piece.strip_prefix(b"{").unwrap_or(piece);
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let end = piece.iter().position(|byte| !is_part(byte));
        piece.get(..end.unwrap_or(piece.len())).unwrap_or_default()
    })
}

/// A compiled value.
#[derive(Debug, Clone, Default)]
pub struct Template {
    parts: Vec<Part>,
}

impl Template {
    /// Compiles `text`; an invalid variable name is nginx's `invalid variable name`.
    pub fn compile(text: &[u8], registry: &mut Registry) -> Result<Template, Complaint> {
        let mut parts = Vec::new();
        let mut literal = Vec::new();
        let mut rest = text;
        while let Some((&byte, after)) = rest.split_first() {
            if byte != b'$' {
                literal.push(byte);
                rest = after;
                continue;
            }
            let (part, after) = Self::variable(after, registry)?;
            if !literal.is_empty() {
                parts.push(Part::Literal(Bytes::from(std::mem::take(&mut literal))));
            }
            parts.push(part);
            rest = after;
        }
        if !literal.is_empty() {
            parts.push(Part::Literal(Bytes::from(literal)));
        }
        Ok(Template { parts })
    }

    /// What stands after a `$`, and the rest of the text. As in nginx, `$1x` is the first capture and an `x`, and
    /// `${1}` is a variable of that name.
    fn variable<'t>(
        text: &'t [u8],
        registry: &mut Registry,
    ) -> Result<(Part, &'t [u8]), Complaint> {
        if let Some(&digit @ b'1'..=b'9') = text.first() {
            registry.captures_used = true;
            return Ok((Part::Capture(usize::from(digit - b'0')), &text[1..]));
        }
        let bracketed = text.strip_prefix(b"{");
        let text = bracketed.unwrap_or(text);
        let end = text
            .iter()
            .position(|&byte| !(byte.is_ascii_alphanumeric() || byte == b'_'))
            .unwrap_or(text.len());
        let (name, mut rest) = text.split_at(end);
        if bracketed.is_some() {
            rest = match (rest.strip_prefix(b"}"), text.is_empty()) {
                (Some(rest), _) => rest,
                (None, true) => return Err("invalid variable name".into()),
                (None, false) => {
                    return Err(format!(
                        "the closing bracket in \"{}\" variable is missing",
                        String::from_utf8_lossy(name)
                    )
                    .into());
                }
            };
        }
        if name.is_empty() {
            return Err("invalid variable name".into());
        }
        Ok((Part::Variable(registry.reference(name)), rest))
    }

    /// A template that is always `text`.
    #[must_use]
    pub fn literal(text: impl Into<Bytes>) -> Template {
        Template {
            parts: vec![Part::Literal(text.into())],
        }
    }

    /// The value, where no variable stands in it.
    #[must_use]
    pub fn constant(&self) -> Option<Bytes> {
        match self.parts.as_slice() {
            [] => Some(Bytes::new()),
            [Part::Literal(text)] => Some(text.clone()),
            _ => None,
        }
    }

    /// Whether a pattern's captures are used.
    #[must_use]
    pub fn uses_captures(&self) -> bool {
        self.parts
            .iter()
            .any(|part| matches!(part, Part::Capture(_)))
    }

    /// The number of the variable, if the template is exactly one.
    #[must_use]
    pub fn single_variable(&self) -> Option<VariableId> {
        match self.parts.as_slice() {
            [Part::Variable(id)] => Some(*id),
            _ => None,
        }
    }

    /// Appends the value for `request`; unset variables are empty.
    pub fn append(&self, request: &Request, out: &mut Vec<u8>) {
        self.append_with(request, out, false);
    }

    /// As `append`; with `escape_captures` what patterns captured is escaped as a part of arguments.
    pub fn append_with(&self, request: &Request, out: &mut Vec<u8>, escape_captures: bool) {
        for part in &self.parts {
            match part {
                Part::Literal(text) => out.extend_from_slice(text),
                Part::Variable(id) => {
                    request.variable(*id, out);
                }
                Part::Capture(index) if escape_captures => {
                    let mut text = Vec::new();
                    request.capture(*index, &mut text);
                    wire::uri::escape_into(&text, wire::uri::Class::Args, out);
                }
                Part::Capture(index) => {
                    request.capture(*index, out);
                }
            }
        }
    }

    /// The value for `request`.
    #[must_use]
    pub fn evaluate(&self, request: &Request) -> Bytes {
        if let Some(constant) = self.constant() {
            return constant;
        }
        let mut out = Vec::new();
        self.append(request, &mut out);
        Bytes::from(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_nginx_s() {
        const INVALID: &str = "invalid variable name";
        for (text, expected) in [
            ("$", INVALID),
            ("a$", INVALID),
            ("$$", INVALID),
            ("${", INVALID),
            ("${}", INVALID),
            ("$-", INVALID),
            ("${a", "the closing bracket in \"a\" variable is missing"),
            ("${a-b}", "the closing bracket in \"a\" variable is missing"),
        ] {
            let complaint = Template::compile(text.as_bytes(), &mut Registry::default())
                .expect_err("the text is wrong");
            assert_eq!(complaint.text, expected, "{text}");
        }
    }

    #[test]
    fn parts_are_found() {
        let mut registry = Registry::default();
        let compile = |text: &str, registry: &mut Registry| {
            Template::compile(text.as_bytes(), registry).expect("the text is right")
        };
        let template = compile("a${host}b$1c$uri_x", &mut registry);
        assert!(template.uses_captures() && template.constant().is_none());
        assert_eq!(template.parts.len(), 6);
        assert_eq!(
            compile("plain", &mut registry).constant(),
            Some(Bytes::from_static(b"plain"))
        );
        assert_eq!(
            compile("${host}", &mut registry).single_variable(),
            Some(registry.reference(b"host"))
        );
        registry.reference(b"uri_x");
        assert_eq!(registry.reference(b"fresh"), VariableId(2));
    }
}
