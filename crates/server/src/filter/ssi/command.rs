//! What the commands of a page do.

use super::include::Include;
use super::page::{Condition, Encoding, Page};
use crate::http::Request;
use crate::routing::pattern::Pattern;
use bytes::Bytes;
use std::borrow::Cow;
use wire::ssi::{BadValue, Command, Expression, PARAMETERS_MAX, Piece, expression, pieces};

/// The longest value that is worked out.
const VALUE_MAX: usize = 64 * 1024;
/// Bytes that the variables and blocks of a client's request may take.
const KEPT_MAX: usize = 1024 * 1024;
/// Pages that may be included for one client's request.
const INCLUDES_MAX: u32 = 10_000;
/// What `echo` says of a variable that there is not.
const NONE: &[u8] = b"(none)";

/// What has come of a command.
pub enum Done {
    Nothing,
    Text(Bytes),
    Include(Box<Include>),
}

/// The error log was told, and the page says that a command failed.
type Outcome = Result<Done, ()>;

/// A command as it is declared.
struct Known {
    name: &'static [u8],
    /// The names of its parameters, and whether they must be given.
    parameters: &'static [(&'static [u8], bool)],
    /// It may only stand after one of these.
    condition: Condition,
    /// It ends a block whose text is left out.
    ends_block: bool,
    act: fn(&mut Page, &Given<'_>) -> Outcome,
}

/// The values of a command's parameters, in the order of their declaration.
struct Given<'c>(Vec<Option<&'c [u8]>>);

impl<'c> Given<'c> {
    fn get(&self, index: usize) -> Option<&'c [u8]> {
        self.0.get(index).copied().flatten()
    }

    /// A value that must be given.
    fn required(&self, index: usize) -> &'c [u8] {
        self.get(index).unwrap_or_default()
    }
}

const KNOWN: &[Known] = &[
    Known {
        name: b"include",
        parameters: &[
            (b"virtual", false),
            (b"file", false),
            (b"wait", false),
            (b"set", false),
            (b"stub", false),
        ],
        condition: Condition::None,
        ends_block: false,
        act: include,
    },
    Known {
        name: b"echo",
        parameters: &[(b"var", true), (b"default", false), (b"encoding", false)],
        condition: Condition::None,
        ends_block: false,
        act: echo,
    },
    Known {
        name: b"config",
        parameters: &[(b"errmsg", false), (b"timefmt", false)],
        condition: Condition::None,
        ends_block: false,
        act: config,
    },
    Known {
        name: b"set",
        parameters: &[(b"var", true), (b"value", true)],
        condition: Condition::None,
        ends_block: false,
        act: set,
    },
    Known {
        name: b"if",
        parameters: &[(b"expr", true)],
        condition: Condition::None,
        ends_block: false,
        act: begin_if,
    },
    Known {
        name: b"elif",
        parameters: &[(b"expr", true)],
        condition: Condition::If,
        ends_block: false,
        act: decide,
    },
    Known {
        name: b"else",
        parameters: &[],
        condition: Condition::If,
        ends_block: false,
        act: otherwise,
    },
    Known {
        name: b"endif",
        parameters: &[],
        condition: Condition::Else,
        ends_block: false,
        act: end_if,
    },
    Known {
        name: b"block",
        parameters: &[(b"name", true)],
        condition: Condition::None,
        ends_block: false,
        act: begin_block,
    },
    Known {
        name: b"endblock",
        parameters: &[],
        condition: Condition::None,
        ends_block: true,
        act: end_block,
    },
];

fn shown(text: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(text)
}

/// Does what a command says.
pub fn carry_out(page: &mut Page, command: &Command) -> Outcome {
    let name = shown(&command.name);
    let Some(known) = KNOWN.iter().find(|known| known.name == command.name) else {
        if !page.is_shown {
            return Ok(Done::Nothing);
        }
        page.complain(format_args!("invalid SSI command: \"{name}\""));
        return Err(());
    };
    if !page.is_shown && !known.ends_block {
        if let Some(block) = page.block {
            keep_in_block(page, block, &written(command));
            return Ok(Done::Nothing);
        }
        if known.condition == Condition::None {
            return Ok(Done::Nothing);
        }
    }
    if known.condition != Condition::None
        && (page.condition == Condition::None || page.condition > known.condition)
    {
        page.complain(format_args!("invalid context of SSI command: \"{name}\""));
        return Err(());
    }
    let given = given(page, known, command)?;
    (known.act)(page, &given)
}

/// The command as it would be written.
fn written(command: &Command) -> Vec<u8> {
    let mut text = [b"<!--#", &command.name[..]].concat();
    for (name, value) in &command.parameters {
        text.push(b' ');
        text.extend_from_slice(name);
        text.extend_from_slice(b"=\"");
        text.extend_from_slice(value);
        text.push(b'"');
    }
    text.extend_from_slice(b" -->");
    text
}

/// Sorts a command's parameters.
fn given<'c>(page: &Page, known: &Known, command: &'c Command) -> Result<Given<'c>, ()> {
    let command_name = shown(&command.name);
    if command.parameters.len() > PARAMETERS_MAX {
        page.complain(format_args!(
            "too many SSI command parameters: \"{command_name}\""
        ));
        return Err(());
    }
    let mut values = vec![None; known.parameters.len()];
    for (name, value) in &command.parameters {
        let place = known.parameters.iter().position(|(known, _)| known == name);
        let name = shown(name);
        let Some(slot) = place.and_then(|place| values.get_mut(place)) else {
            page.complain(format_args!(
                "invalid parameter name: \"{name}\" in \"{command_name}\" SSI command"
            ));
            return Err(());
        };
        if slot.replace(&value[..]).is_some() {
            page.complain(format_args!(
                "duplicate \"{name}\" parameter in \"{command_name}\" SSI command"
            ));
            return Err(());
        }
    }
    for ((name, mandatory), value) in known.parameters.iter().zip(&values) {
        if *mandatory && value.is_none() {
            page.complain(format_args!(
                "mandatory \"{}\" parameter is absent in \"{command_name}\" SSI command",
                shown(name)
            ));
            return Err(());
        }
    }
    Ok(Given(values))
}

/// A value with its variables put in.
fn evaluate(page: &Page, value: &[u8]) -> Result<Vec<u8>, ()> {
    let bad = |bad: BadValue<'_>| match bad {
        BadValue::Name => {
            page.complain(format_args!(
                "invalid variable name in \"{}\"",
                shown(value)
            ));
        }
        BadValue::Bracket(name) => page.complain(format_args!(
            "the closing bracket in \"{}\" variable is missing",
            shown(name)
        )),
    };
    let mut out = Vec::new();
    for piece in pieces(value).map_err(bad)? {
        match piece {
            Piece::Text(text) => out.extend_from_slice(&text),
            Piece::Variable(name) => {
                variable(page, name, &mut out);
            }
        }
        if out.len() > VALUE_MAX {
            page.complain(format_args!("too long value of \"{}\"", shown(value)));
            return Err(());
        }
    }
    Ok(out)
}

/// Appends a variable's value: of the page, of a pattern's groups, of the configuration. False: there is no such one.
fn variable(page: &Page, name: &[u8], out: &mut Vec<u8>) -> bool {
    let name = name.to_ascii_lowercase();
    if let Some(includes) = page.request.includes.get()
        && let Some(value) = includes.variables.borrow().get(&name[..])
    {
        out.extend_from_slice(value);
        return true;
    }
    if let [digit @ b'0'..=b'9'] = name[..] {
        let at = usize::from(digit - b'0') * 2;
        if let Some(&[start, end]) = page.captures.positions.get(at..at + 2) {
            let group = page.captures.subject.get(start as usize..end as usize);
            out.extend_from_slice(group.unwrap_or_default());
            return true;
        }
    }
    let variables = &page.request.generation.config.http.variables;
    variables.append_named(&name, &page.request, out)
}

/// Gives a variable of the pages its value, as far as there is room.
pub fn set_variable(request: &Request, name: &[u8], value: Bytes) {
    let includes = request.includes.get_or_init(Default::default);
    let mut variables = includes.variables.borrow_mut();
    let name = name.to_ascii_lowercase();
    let former = variables.get(&name[..]).map_or(0, Bytes::len);
    let kept = (includes.kept.get() + name.len() + value.len()).saturating_sub(former);
    if kept <= KEPT_MAX {
        includes.kept.set(kept);
        variables.insert(name.into(), value);
    }
}

fn include(page: &mut Page, given: &Given<'_>) -> Outcome {
    let uri = target(page, given)?;
    let (variable, stub) = (given.get(3), given.get(4));
    if variable.is_some() && stub.is_some() {
        page.complain(format_args!(
            "\"set\" and \"stub\" cannot be used together in \"include\" SSI command"
        ));
        return Err(());
    }
    let waits = waits(page, given)?;
    let mut uri = evaluate(page, uri)?;
    if uri.first() != Some(&b'/') {
        let path = &page.request.uri;
        let directory = path.iter().rposition(|&byte| byte == b'/');
        uri.splice(..0, path[..directory.map_or(0, |slash| slash + 1)].to_vec());
    }
    let Some((path, args)) = wire::uri::split_inside(&uri) else {
        page.complain(format_args!("unsafe URI \"{}\" was detected", shown(&uri)));
        return Err(());
    };
    let stub = stub.map(|name| block(page, name)).transpose()?;
    let includes = page.request.includes.get_or_init(Default::default);
    let asked = match includes.count.get() < INCLUDES_MAX {
        true => (page.asking.ask)(&page.request, &path, args),
        false => None,
    };
    includes.count.set(includes.count.get().saturating_add(1));
    let Some(asked) = asked else {
        let path = shown(&path);
        page.complain(format_args!(
            "subrequests cycle while processing \"{path}\""
        ));
        return Err(());
    };
    if let Some(variable) = variable {
        // It is there, and empty, also where the response is none to keep.
        set_variable(&page.request, variable, Bytes::new());
    }
    let variable = variable.map(<[u8]>::to_vec);
    Ok(Done::Include(Box::new(Include::new(
        asked, stub, variable, waits,
    ))))
}

/// Whether the page goes on after what is included; a file is always waited for, so that `wait` is not for it.
fn waits(page: &Page, given: &Given<'_>) -> Result<bool, ()> {
    match (given.get(1), given.get(2)) {
        (file, None) => return Ok(file.is_some()),
        (Some(file), Some(_)) => page.complain(format_args!(
            "\"wait\" cannot be used with file=\"{}\"",
            shown(file)
        )),
        (None, Some(value)) if value.eq_ignore_ascii_case(b"no") => return Ok(false),
        (None, Some(value)) if value.eq_ignore_ascii_case(b"yes") => return Ok(true),
        (None, Some(value)) => page.complain(format_args!(
            "invalid value \"{}\" in the \"wait\" parameter",
            shown(value)
        )),
    }
    Err(())
}

/// What is included.
fn target<'c>(page: &Page, given: &Given<'c>) -> Result<&'c [u8], ()> {
    match (given.get(0), given.get(1)) {
        (Some(uri), None) | (None, Some(uri)) => return Ok(uri),
        (Some(uri), Some(file)) => page.complain(format_args!(
            "inclusion may be either virtual=\"{}\" or file=\"{}\"",
            shown(uri),
            shown(file)
        )),
        (None, None) => page.complain(format_args!("no parameter in \"include\" SSI command")),
    }
    Err(())
}

/// The text of a block.
fn block(page: &Page, name: &[u8]) -> Result<Bytes, ()> {
    let includes = page.request.includes.get_or_init(Default::default);
    let blocks = includes.blocks.borrow();
    let found = blocks.iter().find(|(known, _)| known == name);
    found
        .map(|(_, text)| Bytes::copy_from_slice(text))
        .ok_or_else(|| {
            let name = shown(name);
            page.complain(format_args!(
                "\"stub\"=\"{name}\" for \"include\" not found"
            ));
        })
}

fn echo(page: &mut Page, given: &Given<'_>) -> Outcome {
    let mut value = Vec::new();
    if !variable(page, given.required(0), &mut value) {
        value = given.get(1).unwrap_or(NONE).to_vec();
    }
    // As in nginx, an encoding that is given with nothing to be encoded is not even looked at.
    if value.is_empty() {
        return Ok(Done::Text(Bytes::new()));
    }
    // As in nginx, what a command says of it holds for the later ones too.
    match given.get(2) {
        None => {}
        Some(b"none") => page.encoding = Encoding::None,
        Some(b"url") => page.encoding = Encoding::Url,
        Some(b"entity") => page.encoding = Encoding::Entity,
        Some(other) => {
            let other = shown(other);
            page.complain(format_args!(
                "unknown encoding \"{other}\" in the \"echo\" command"
            ));
        }
    }
    let text = match page.encoding {
        Encoding::None => value,
        Encoding::Url => wire::uri::escape(&value, wire::uri::Class::Echo).into_owned(),
        Encoding::Entity => wire::uri::escape_html(&value).into_owned(),
    };
    Ok(Done::Text(Bytes::from(text)))
}

fn config(page: &mut Page, given: &Given<'_>) -> Outcome {
    if let Some(format) = given.get(1) {
        *page.request.time_format.borrow_mut() = Some(Bytes::copy_from_slice(format));
    }
    if let Some(message) = given.get(0) {
        page.error = Bytes::copy_from_slice(message);
    }
    Ok(Done::Nothing)
}

fn set(page: &mut Page, given: &Given<'_>) -> Outcome {
    let value = evaluate(page, given.required(1))?;
    set_variable(&page.request, given.required(0), Bytes::from(value));
    Ok(Done::Nothing)
}

fn begin_if(page: &mut Page, given: &Given<'_>) -> Outcome {
    if page.condition != Condition::None {
        page.complain(format_args!("the \"if\" command inside the \"if\" command"));
        return Err(());
    }
    decide(page, given)
}

/// `if` and `elif`.
fn decide(page: &mut Page, given: &Given<'_>) -> Outcome {
    if page.is_chosen {
        page.is_shown = false;
        return Ok(Done::Nothing);
    }
    let text = given.required(0);
    let holds = holds(page, text)?;
    page.condition = Condition::If;
    page.is_shown = holds;
    page.is_chosen = holds;
    Ok(Done::Nothing)
}

fn holds(page: &mut Page, text: &[u8]) -> Result<bool, ()> {
    let invalid = |page: &Page| {
        page.complain(format_args!("invalid expression in \"{}\"", shown(text)));
    };
    let Some(expression) = expression(text) else {
        invalid(page);
        return Err(());
    };
    let (left, right, negated) = match &expression {
        Expression::Exists(value) => return Ok(!evaluate(page, value)?.is_empty()),
        Expression::Equal(left, right, negated) => {
            let same = evaluate(page, left)? == evaluate(page, right)?;
            return Ok(same != *negated);
        }
        Expression::Match(left, right, negated) => (left, *right, *negated),
    };
    let subject = evaluate(page, left)?;
    let pattern = evaluate(page, right)?;
    let pattern = Pattern::compile(&pattern, false).map_err(|error| {
        page.complain(format_args!("{error}"));
    })?;
    let mut captures = std::mem::take(&mut page.captures);
    let matched = pattern.try_capture(&subject, &mut captures);
    page.captures = captures;
    let matched = matched.unwrap_or(false);
    if matched {
        for (group, name) in pattern.named_groups() {
            let mut value = Vec::new();
            let positions = page.captures.positions.get(group * 2..group * 2 + 2);
            if let Some(&[start, end]) = positions {
                let text = page.captures.subject.get(start as usize..end as usize);
                value.extend_from_slice(text.unwrap_or_default());
            }
            set_variable(&page.request, name.as_bytes(), Bytes::from(value));
        }
    }
    Ok(matched != negated)
}

fn otherwise(page: &mut Page, _: &Given<'_>) -> Outcome {
    page.is_shown = !page.is_chosen;
    page.condition = Condition::Else;
    Ok(Done::Nothing)
}

fn end_if(page: &mut Page, _: &Given<'_>) -> Outcome {
    page.is_shown = true;
    page.is_chosen = false;
    page.condition = Condition::None;
    Ok(Done::Nothing)
}

fn begin_block(page: &mut Page, given: &Given<'_>) -> Outcome {
    let name = Bytes::copy_from_slice(given.required(0));
    let includes = page.request.includes.get_or_init(Default::default);
    let mut blocks = includes.blocks.borrow_mut();
    let kept = includes.kept.get() + name.len() + size_of::<(Bytes, Vec<u8>)>();
    if kept <= KEPT_MAX {
        includes.kept.set(kept);
        blocks.push((name, Vec::new()));
    }
    page.block = blocks.len().checked_sub(1);
    page.is_shown = false;
    Ok(Done::Nothing)
}

fn end_block(page: &mut Page, _: &Given<'_>) -> Outcome {
    page.block = None;
    page.is_shown = true;
    Ok(Done::Nothing)
}

/// Appends to a block's text, as far as there is room.
pub fn keep_in_block(page: &Page, block: usize, text: &[u8]) {
    let includes = page.request.includes.get_or_init(Default::default);
    let kept = includes.kept.get() + text.len();
    if kept <= KEPT_MAX
        && let Some((_, whole)) = includes.blocks.borrow_mut().get_mut(block)
    {
        includes.kept.set(kept);
        whole.extend_from_slice(text);
    }
}
