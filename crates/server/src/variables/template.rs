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

    fn variable<'t>(
        text: &'t [u8],
        registry: &mut Registry,
    ) -> Result<(Part, &'t [u8]), Complaint> {
        if let Some(&digit @ b'1'..=b'9') = text.first() {
            return Ok((Part::Capture(usize::from(digit - b'0')), &text[1..]));
        }
        let (name, rest) = if text.first() == Some(&b'{') {
            let inner = &text[1..];
            let end = inner.iter().position(|&byte| byte == b'}').ok_or_else(|| {
                format!(
                    "the closing bracket in \"{}\" variable is missing",
                    String::from_utf8_lossy(inner)
                )
            })?;
            if let [digit @ b'1'..=b'9'] = &inner[..end] {
                return Ok((Part::Capture(usize::from(digit - b'0')), &inner[end + 1..]));
            }
            (&inner[..end], &inner[end + 1..])
        } else {
            let end = text
                .iter()
                .position(|&byte| !(byte.is_ascii_alphanumeric() || byte == b'_'))
                .unwrap_or(text.len());
            text.split_at(end)
        };
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
        for part in &self.parts {
            match part {
                Part::Literal(text) => out.extend_from_slice(text),
                Part::Variable(id) => {
                    request.variable(*id, out);
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
