//! docs/directives.md, written from the tables: what Gannet makes of each directive and variable of nginx.

use conf::table::{Arity, Contexts};
use server::config::directives::{CHECKED_ONLY, OWN, State, TABLES, feature_rows, state};
use server::config::inventory::{self, Entry, Variable};
use server::config::{accepted, refused};
use server::variables::builtin;
use std::fmt::Write;
use std::path::Path;

const PREFACE: &str = "# Directives and variables

What Gannet makes of every directive and variable of nginx 1.31, and the directives it has beside them. This page is written by `./dev docs` from the tables in
the code.

A directive **works**, or is **accepted**: it is checked as nginx checks it, and then means nothing here, for the reason
given. Any other directive of nginx is **refused**: `\"x\" directive is not supported by gannet yet`, after nginx's own
checks of its place and the number of its arguments; a value that asks for nothing is accepted where the table says so. A
name that nginx does not know either is an unknown directive. A variable that is **always empty** may be named, and has no
value here.
";

#[test]
fn directives_docs_are_current() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/directives.md");
    testkit::generated::check(&page, &text());
}

fn text() -> String {
    let entries = inventory::entries();
    let mut page = format!("{PREFACE}\n{}", totals(entries));
    let mut modules: Vec<&str> = entries.iter().map(|entry| entry.module).collect();
    modules.dedup();
    for module in modules {
        let of_module: Vec<&Entry> = entries
            .iter()
            .filter(|entry| entry.module == module)
            .collect();
        page.push_str(&directives_of(module, &of_module));
    }
    page.push_str(&own_directives());
    page.push_str("\n## Variables\n\nA name that ends in `_` stands for a family.\n\n");
    page.push_str("| variable | module | state |\n| --- | --- | --- |\n");
    for variable in inventory::variables() {
        let Variable { module, name } = variable;
        let known = match works(&variable) {
            true if builtin::is_never_filled(name.as_bytes()) => "always empty",
            true => "works",
            false => "refused",
        };
        line(
            &mut page,
            format_args!("| `${name}` | {module} | {known} |"),
        );
    }
    page
}

fn totals(entries: &[Entry]) -> String {
    let mut text =
        String::from("| | works | accepted | refused | all |\n| --- | --- | --- | --- | --- |\n");
    let count = |wanted| {
        entries
            .iter()
            .filter(|entry| state(entry) == wanted)
            .count()
    };
    let variables: Vec<Variable> = inventory::variables().collect();
    let is_filled = |variable: &&Variable| {
        works(variable) && !builtin::is_never_filled(variable.name.as_bytes())
    };
    let working = variables.iter().filter(is_filled).count();
    let empty = variables.iter().filter(|variable| works(variable)).count() - working;
    line(
        &mut text,
        format_args!(
            "| directives | {} | {} | {} | {} |",
            count(State::Works),
            count(State::Accepted),
            count(State::Refused),
            entries.len()
        ),
    );
    let all = variables.len();
    line(
        &mut text,
        format_args!(
            "| variables | {working} | {empty} | {} | {all} |",
            all - working - empty
        ),
    );
    text
}

fn works(variable: &Variable) -> bool {
    let example = match variable.name.ends_with('_') {
        true => format!("{}x", variable.name),
        false => variable.name.to_owned(),
    };
    builtin::find(example.as_bytes()).is_some()
}

fn directives_of(module: &str, entries: &[&Entry]) -> String {
    let mut text = format!("\n## {module}\n\n");
    text.push_str("| directive | where | arguments | state | |\n| --- | --- | --- | --- | --- |\n");
    for entry in entries {
        // A bar ends a cell, even between backquotes.
        let arguments = entry.arguments.replace('|', "\\|");
        let Entry { name, places, .. } = entry;
        let (state, note) = (state(entry).as_str(), note(entry));
        line(
            &mut text,
            format_args!("| `{name}` | {places} | {arguments} | {state} | {note} |"),
        );
    }
    text
}

/// The directives that are not nginx's, after nginx's own.
fn own_directives() -> String {
    let mut text = String::from(
        "\n## Not nginx's\n\n| directive | whose | where | arguments | |\n| --- | --- | --- | --- | --- |\n",
    );
    for (name, whose) in OWN {
        for row in TABLES.iter().flat_map(|table| table.iter()) {
            if row.name == *name {
                let (places, arguments) = (places(row.contexts), arguments(row.arity));
                let doc = row.doc.trim_start_matches(CHECKED_ONLY);
                line(
                    &mut text,
                    format_args!("| `{name}` | {whose} | {places} | {arguments} | {doc} |"),
                );
            }
        }
    }
    text
}

/// Contexts as the inventory writes them.
fn places(contexts: Contexts) -> String {
    let names = [
        (Contexts::MAIN, "main"),
        (Contexts::EVENTS, "events"),
        (Contexts::HTTP, "http"),
        (Contexts::SERVER, "server"),
        (Contexts::LOCATION, "location"),
        (Contexts::SERVER_IF, "if in server"),
        (Contexts::LOCATION_IF, "if in location"),
        (Contexts::LIMIT_EXCEPT, "limit_except"),
        (Contexts::UPSTREAM, "upstream"),
    ];
    let among = names.iter().filter(|(place, _)| contexts.contains(*place));
    let among: Vec<&str> = among.map(|(_, name)| *name).collect();
    among.join(", ")
}

/// Numbers of arguments as the inventory writes them.
fn arguments(arity: Arity) -> String {
    match arity {
        Arity::Exactly(count) => count.to_string(),
        Arity::Between(least, most) => format!("{least}-{most}"),
        Arity::AtLeast(least) => format!("{least}+"),
        Arity::Flag => "on\\|off".to_owned(),
        Arity::OneOf(counts) => format!("{counts:?}"),
        Arity::Any => "any".to_owned(),
    }
}

/// The line of the table, the reason, or the value that is not refused.
fn note(entry: &Entry) -> String {
    if let Some(row) = feature_rows(entry).next() {
        return row.doc.trim_start_matches(CHECKED_ONLY).to_owned();
    }
    if let Some(accepted) = accepted::find(entry.name) {
        return accepted.reason.to_owned();
    }
    match refused::find(entry.name.as_bytes()) {
        None => String::new(),
        Some(neutral) => {
            let values: Vec<String> = neutral.values.iter().map(|v| format!("`{v}`")).collect();
            format!("{} is accepted: {}", values.join(" or "), neutral.reason)
        }
    }
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    writeln!(text, "{arguments}").expect("a string takes everything");
}
