//! `split_clients "SOURCE" $variable { … }`: a value by the hash of another one, so that a client always falls into the
//! same part.

use super::map::directive::variable_name;
use super::registry::VariableId;
use super::template::Template;
use crate::config::build::Build;
use crate::config::directive::{Arity, HTTP, Outcome, Set, block};
use crate::config::setting::Complaint;
use crate::http::Request;
use crate::http::request::Slot;
use bytes::Bytes;
use conf::table::Row;
use conf::{Directive, Item};

pub const DIRECTIVES: &[Row<Set>] = &[block(
    "split_clients",
    HTTP,
    Arity::Exactly(2),
    split_clients,
    "A variable whose value depends on the hash of another value.",
)];

/// Hundredths of a percent in a whole.
const WHOLE: u64 = 10_000;

/// A compiled `split_clients`.
#[derive(Debug)]
pub struct SplitClients {
    source: Template,
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    /// Hashes below it belong to the part; `None`: all that are left.
    end: Option<u32>,
    value: Bytes,
}

impl SplitClients {
    /// Appends the value for `request`, and keeps it for the variable `id`.
    pub fn append(&self, id: VariableId, request: &Request, out: &mut Vec<u8>) -> bool {
        let hash = murmur2(&self.source.evaluate(request));
        let inside = |part: &&Part| part.end.is_none_or(|end| hash < end);
        let value = self.parts.iter().find(inside).map(|part| &part.value);
        let value = value.cloned().unwrap_or_default();
        out.extend_from_slice(&value);
        request.assign(id, Slot::Value(value));
        true
    }
}

fn split_clients(build: &mut Build<'_>, directive: &Directive) -> Outcome {
    let source = Template::compile(&directive.args[0], &mut build.variables)?;
    let name = variable_name(&directive.args[1])?;
    build.variables.define(name)?;
    let (mut parts, mut sum, mut end) = (Vec::new(), 0, 0);
    for item in directive.block.iter().flat_map(|block| &block.items) {
        let item = match item {
            Item::Directive(item) => item,
            Item::Error(error) => return Err(Complaint::bare(error.to_string())),
        };
        let wrong = |text: String| Complaint::bare(item.error(text).to_string());
        let share = &item.name;
        let invalid = || wrong(format!("invalid percent value \"{share}\""));
        let value = item.args.first().ok_or_else(invalid)?;
        let value = Bytes::copy_from_slice(value);
        if share[..] == *b"*" {
            sum = WHOLE;
            parts.push(Part { end: None, value });
            continue;
        }
        let hundredths = parse_percent(share).ok_or_else(invalid)?;
        sum += hundredths;
        end += hundredths * u64::from(u32::MAX) / WHOLE;
        let end = u32::try_from(end).unwrap_or(u32::MAX);
        parts.push(Part {
            end: Some(end),
            value,
        });
        if sum > WHOLE {
            break;
        }
    }
    if sum > WHOLE {
        return Err("percent total is greater than 100%".into());
    }
    build
        .variables
        .split_clients(name, SplitClients { source, parts })?;
    Ok(())
}

/// `0.5%`, `12.34%`: hundredths of a percent, not 0.
fn parse_percent(text: &[u8]) -> Option<u64> {
    let text = text.strip_suffix(b"%")?;
    let (whole, decimals) = match memchr::memchr(b'.', text) {
        Some(dot) => (&text[..dot], &text[dot + 1..]),
        None => (text, &b""[..]),
    };
    let number = |digits: &[u8]| match digits {
        b"" => Some(0),
        digits => conf::values::parse_number(digits),
    };
    let scale = match decimals.len() {
        0 => 0,
        1 => 10,
        2 => 1,
        _ => return None,
    };
    let hundredths = number(whole)?.checked_mul(100)? + number(decimals)? * scale;
    (hundredths > 0 && hundredths <= WHOLE * 100).then_some(hundredths)
}

/// Austin Appleby's MurmurHash2 with the seed 0, by which nginx splits.
fn murmur2(text: &[u8]) -> u32 {
    const MIX: u32 = 0x5bd1_e995;
    let mut hash = text.len() as u32;
    let (words, rest) = text.as_chunks::<4>();
    for word in words {
        let mut word = u32::from_le_bytes(*word).wrapping_mul(MIX);
        word ^= word >> 24;
        hash = hash.wrapping_mul(MIX) ^ word.wrapping_mul(MIX);
    }
    if !rest.is_empty() {
        for (place, &byte) in rest.iter().enumerate() {
            hash ^= u32::from(byte) << (8 * place);
        }
        hash = hash.wrapping_mul(MIX);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MIX);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percents() {
        for (text, expected) in [
            ("10%", Some(1000)),
            ("0.5%", Some(50)),
            ("0.05%", Some(5)),
            ("100%", Some(10_000)),
            (".5%", Some(50)),
            ("0%", None),
            ("0.001%", None),
            ("10", None),
            ("x%", None),
            ("%", None),
        ] {
            assert_eq!(parse_percent(text.as_bytes()), expected, "{text}");
        }
    }
}
