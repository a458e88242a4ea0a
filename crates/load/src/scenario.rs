//! Scenario files: what users do, as TOML. `docs/load.md` describes them.

use crate::assembly::{self, Assembly, Sent};
use crate::plan::{Checks, Given, Step, Take, Task, Think};
use crate::request;
use crate::template::{self, Names, Template};
use crate::units;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

/// What a scenario adds to a plan.
#[derive(Debug)]
pub struct Scenario {
    pub start: Vec<Step>,
    pub tasks: Vec<Task>,
    pub given: Vec<Given>,
    /// How many values a user has.
    pub values: usize,
    pub think: Option<Think>,
    /// Users keep their cookies.
    pub cookies: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    base: Option<String>,
    think: Option<Spanned<String>>,
    #[serde(default)]
    cookies: bool,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Values that users begin with, by turns.
    #[serde(default)]
    values: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    start: Vec<Spanned<RawStep>>,
    #[serde(default)]
    task: Vec<Spanned<RawTask>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTask {
    #[serde(default = "one")]
    weight: u32,
    #[serde(default)]
    step: Vec<Spanned<RawStep>>,
}

fn one() -> u32 {
    1
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStep {
    name: Option<String>,
    get: Option<String>,
    post: Option<String>,
    /// With `url`: any other method.
    method: Option<String>,
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<String>,
    status: Option<String>,
    contains: Option<String>,
    length: Option<u64>,
    #[serde(default)]
    take: BTreeMap<String, String>,
    #[serde(default)]
    take_head: BTreeMap<String, String>,
    think: Option<String>,
}

/// A complaint and where in the text its cause is.
type Complaint = (usize, String);

/// Reads a scenario. `base` wins over the file's own; `headers` go out with every request. The complaint begins with
/// `NAME:LINE: `.
pub fn read(
    name: &str,
    text: &str,
    base: Option<&str>,
    headers: &[(String, String)],
    assembly: &mut Assembly,
) -> Result<Scenario, String> {
    let placed = |(at, why): Complaint| {
        let before = text.get(..at).unwrap_or(text);
        format!("{name}:{}: {why}", before.matches('\n').count() + 1)
    };
    let file: File = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let message = error.message().lines().next().unwrap_or_default();
        placed((at, message.to_owned()))
    })?;
    let base = base.or(file.base.as_deref());
    let mut reader = Reader {
        base,
        headers,
        shared: &file.headers,
        names: Names::default(),
        assembly,
    };
    reader.scenario(&file).map_err(placed)
}

struct Reader<'a> {
    base: Option<&'a str>,
    headers: &'a [(String, String)],
    shared: &'a BTreeMap<String, String>,
    names: Names,
    assembly: &'a mut Assembly,
}

impl Reader<'_> {
    fn scenario(&mut self, file: &File) -> Result<Scenario, Complaint> {
        if file.task.is_empty() {
            return Err((0, "a scenario needs a [[task]]".to_owned()));
        }
        // A place may name a value that a later step takes: a user comes by again.
        let tasks = file.task.iter().flat_map(|task| &task.get_ref().step);
        for step in file.start.iter().chain(tasks) {
            let step = step.get_ref();
            for name in step.take.keys().chain(step.take_head.keys()) {
                self.names.define(name);
            }
        }
        let mut given = Vec::new();
        for (name, lines) in &file.values {
            if lines.is_empty() {
                return Err((0, format!("the value \"{name}\" has no lines")));
            }
            given.push(Given {
                value: self.names.define(name),
                lines: lines.iter().map(|line| line.clone().into_bytes()).collect(),
            });
        }
        let start = self.steps(&file.start)?;
        let mut tasks = Vec::new();
        for raw in &file.task {
            let task = raw.get_ref();
            let wrong = |why: &str| (raw.span().start, why.to_owned());
            if task.step.is_empty() {
                return Err(wrong("a task needs a [[task.step]]"));
            }
            if !(1..=1_000_000).contains(&task.weight) {
                return Err(wrong("a weight must be between 1 and 1000000"));
            }
            tasks.push(Task {
                weight: task.weight,
                steps: self.steps(&task.step)?,
            });
        }
        let think = match &file.think {
            Some(text) => Some(think(text.get_ref()).map_err(|why| (text.span().start, why))?),
            None => None,
        };
        Ok(Scenario {
            start,
            tasks,
            given,
            values: self.names.len(),
            think,
            cookies: file.cookies,
        })
    }

    fn steps(&mut self, raw: &[Spanned<RawStep>]) -> Result<Vec<Step>, Complaint> {
        raw.iter()
            .map(|step| {
                self.step(step.get_ref())
                    .map_err(|why| (step.span().start, why))
            })
            .collect()
    }

    fn step(&mut self, raw: &RawStep) -> Result<Step, String> {
        let (method, url) = match (&raw.get, &raw.post, &raw.method, &raw.url) {
            (Some(url), None, None, None) => ("GET", url),
            (None, Some(url), None, None) => ("POST", url),
            (None, None, method, Some(url)) => (method.as_deref().unwrap_or("GET"), url),
            _ => return Err("a step needs one of get, post, or url with method".to_owned()),
        };
        if !request::is_method(method) {
            return Err(format!("\"{method}\" is no method"));
        }
        let mut target = assembly::target(self.base, url)?;
        // A value may hold what only the path can: its place must not be in the server's name.
        if template::has_place(&target.endpoint.host, &self.names) {
            return Err("no value can stand in the name of a server".to_owned());
        }
        let path = self.template(&target.path)?;
        let mut headers = Vec::new();
        let own = raw.headers.iter().chain(self.shared);
        let all = own.chain(self.headers.iter().map(|(name, value)| (name, value)));
        for (name, value) in all {
            let (name, value) = request::header(&format!("{name}: {value}"))?;
            let is_there = |(other, _): &(String, Template)| other.eq_ignore_ascii_case(&name);
            if !headers.iter().any(is_there) {
                headers.push((name, self.template(&value)?));
            }
        }
        let body = match &raw.body {
            Some(body) => Some(self.template(body)?),
            None => None,
        };
        let checks = Checks {
            statuses: raw
                .status
                .as_deref()
                .map_or(Ok(Vec::new()), assembly::statuses)?,
            body: raw.contains.as_deref().map(assembly::pattern).transpose()?,
            length: raw.length,
        };
        let takes = self.takes(raw)?;
        let pause = raw.think.as_deref().map(think).transpose()?;
        // Rows are told apart by the text of the path, with its places.
        target.path = target.path.split('?').next().unwrap_or_default().to_owned();
        let sent = Sent {
            target: &target,
            path,
            method,
            headers: &headers,
            body,
            name: raw.name.clone(),
        };
        self.assembly.step(sent, checks, takes, pause)
    }

    fn takes(&mut self, raw: &RawStep) -> Result<Vec<Take>, String> {
        let from_body = raw.take.iter().map(|take| (take, false));
        let from_head = raw.take_head.iter().map(|take| (take, true));
        from_body
            .chain(from_head)
            .map(|((name, text), from_head)| {
                // The lines of a head are looked at one by one, in any case of the names.
                let text = if from_head {
                    format!("(?mi){text}")
                } else {
                    text.clone()
                };
                Ok(Take {
                    value: self.names.define(name),
                    name: name.clone(),
                    pattern: assembly::pattern(&text)?,
                    from_head,
                })
            })
            .collect()
    }

    fn template(&self, text: &str) -> Result<Template, String> {
        match template::unknown(text, &self.names) {
            Some(name) => Err(format!("nothing gives a value to {{{name}}}")),
            None => Ok(Template::parse(text, &self.names)),
        }
    }
}

fn think(text: &str) -> Result<Think, String> {
    units::duration_range(text).map(|(from, to)| Think { from, to })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<(Scenario, Assembly), String> {
        let mut assembly = Assembly::default();
        let scenario = read("s.toml", text, None, &[], &mut assembly)?;
        Ok((scenario, assembly))
    }

    #[test]
    fn a_scenario_is_read() {
        let text = r#"
base = "http://localhost:8080"
think = "300ms..1s"
headers = { Accept-Language = "de" }

[values]
user = ["anna", "ben"]

[[start]]
post = "/login"
body = "user={user}"
take = { token = 'value="([^"]+)"' }
take_head = { session = '^Set-Cookie: sid=([^;]+)' }

[[task]]
weight = 3
[[task.step]]
get = "/?page=1"
headers = { Cookie = "sid={session}", accept-language = "en" }
[[task.step]]
name = "item"
get = "/item/{token}"
status = "200,304"
contains = "buy"
think = "1s"

[[task]]
[[task.step]]
method = "DELETE"
url = "http://other/x"
"#;
        let (scenario, assembly) = parse(text).unwrap();
        assert_eq!(
            assembly.labels,
            ["POST /login", "/", "item", "DELETE other/x"]
        );
        assert_eq!(assembly.endpoints.len(), 2);
        let weights: Vec<u32> = scenario.tasks.iter().map(|task| task.weight).collect();
        assert_eq!(weights, [3, 1]);
        assert_eq!(scenario.values, 3);
        let mut values = vec![Vec::new(); 3];
        for given in &scenario.given {
            values[given.value] = given.lines[1].clone();
        }
        let mut out = Vec::new();
        scenario.start[0].request.write(&values, &[], &mut out);
        let sent = String::from_utf8(out).unwrap();
        assert!(
            sent.ends_with("Accept-Language: de\r\nContent-Length: 8\r\n\r\nuser=ben"),
            "{sent}"
        );
        let first = &scenario.tasks[0].steps[0].request;
        assert_eq!(first.headers.len(), 5);
        assert_eq!(scenario.tasks[0].steps[1].checks.statuses.len(), 2);
    }

    #[test]
    fn complaints_name_the_line() {
        for (text, complaint) in [
            ("", "s.toml:1: a scenario needs a [[task]]"),
            ("x = 1", "s.toml:1: unknown field `x`"),
            (
                "\n\nthink = \"x\"\n[[task]]\n[[task.step]]\nget=\"http://a/\"",
                "s.toml:3: \"x\" is no duration",
            ),
            ("[[task]]\nweight = 1", "s.toml:1: a task needs"),
            ("[[task]]\nweight = \"x\"", "s.toml:2: invalid type"),
            (
                "[[task]]\nweight = 0\n[[task.step]]\nget=\"http://a/\"",
                "s.toml:1: a weight",
            ),
            (
                "[[task]]\n[[task.step]]\nget = \"/\"",
                "s.toml:2: invalid URL",
            ),
            (
                "[[task]]\n[[task.step]]\nbody = \"/\"",
                "s.toml:2: a step needs",
            ),
            (
                "[[task]]\n[[task.step]]\nget = \"http://a/{x}\"",
                "s.toml:2: nothing gives a value to {x}",
            ),
            (
                "[[task]]\n[[task.step]]\nget = \"http://a/\"\ncontains = \"(\"",
                "s.toml:2: invalid regular",
            ),
            ("[[task]\n", "s.toml:1: "),
        ] {
            let said = parse(text).err().unwrap();
            assert!(said.starts_with(complaint), "{said}\nnot {complaint}");
        }
    }
}
