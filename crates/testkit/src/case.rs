//! One case folder: `nginx.conf` with `requests` (or `configs`), and `expected`. tests/README.md tells the format.

mod blocks;
mod configuration;
mod example;
mod requests;
mod setup;

use crate::directory::Directory;
use crate::fastcgi::Responder;
use crate::normalise::{self, Masks};
use crate::origin::Origin;
use crate::ports::{self, Lease};
use crate::server::{Kind, Program, Server};
use crate::{client::Client, difference, http2, tls};
use blocks::Block;
use std::path::{Path, PathBuf};

/// How much of the server's error log a failure shows.
const LOG_LINES_SHOWN: usize = 12;

/// A case as found; its files are read when it runs.
#[derive(Clone)]
pub struct Case {
    /// FEATURE/NAME.
    pub name: String,
    pub folder: PathBuf,
}

impl Case {
    /// Every case below `root`, sorted by name.
    pub fn all(root: &Path) -> Vec<Case> {
        let mut cases = Vec::new();
        for feature in folders(root) {
            for folder in folders(&feature) {
                let part = |path: &Path| {
                    path.file_name()
                        .unwrap_or_default()
                        .to_string_lossy()
                        .into_owned()
                };
                cases.push(Case {
                    name: format!("{}/{}", part(&feature), part(&folder)),
                    folder,
                });
            }
        }
        cases.sort_by(|a, b| a.name.cmp(&b.name));
        cases
    }

    /// Why the case is not run on this server: the first line of its `skip.nginx` or `skip.gannet`.
    ///
    /// On nginx also a module that its configuration loads and that is not installed.
    pub fn skip_reason(&self, kind: Kind) -> Option<String> {
        let read = |name: &str| std::fs::read_to_string(self.folder.join(name)).ok();
        if let Some(text) = read(&format!("skip.{}", kind.as_str())) {
            return Some(text.lines().next().unwrap_or("no reason given").to_string());
        }
        if kind != Kind::Nginx {
            return None;
        }
        let text = read("nginx.conf").or_else(|| read("configs"))?;
        let mut modules = text.lines().filter_map(|line| {
            let path = line.trim().strip_prefix("load_module ")?;
            path.strip_suffix(';').map(str::trim)
        });
        let missing = modules.find(|path| path.starts_with('/') && !Path::new(path).exists())?;
        Some(format!("{missing} is not installed"))
    }

    /// Whether Gannet says of the case's configuration that something in it does not work yet: the only reason to skip
    /// a case on Gannet.
    pub fn is_refused(&self, program: &Program) -> Result<bool, String> {
        let run = Run::prepare(self)?;
        let path = run.write_conf(&configuration::complete(&run.conf, program.kind))?;
        let output = program.test_configuration(run.directory.path(), &path, None);
        let said = String::from_utf8_lossy(&output.stderr);
        Ok(!output.status.success() && said.contains("not supported by gannet yet"))
    }

    /// Runs the case and compares, or records under UPDATE=nginx or UPDATE=gannet.
    pub fn run(&self, program: &Program) -> Result<(), String> {
        let mut run = Run::prepare(self)?;
        self.run_in(&mut run, program).map_err(|complaint| {
            let log = run.error_log();
            let tail = log.lines().count().saturating_sub(LOG_LINES_SHOWN);
            let lines: Vec<&str> = log.lines().skip(tail).collect();
            format!(
                "{complaint}\nthe error log ends with:\n{}",
                lines.join("\n")
            )
        })
    }

    fn run_in(&self, run: &mut Run, program: &Program) -> Result<(), String> {
        let (replies, access_log) = match self.file("configs") {
            Some(configs) => (run.check_configurations(program, &configs)?, None),
            None => run.serve(self, program)?,
        };
        self.compare("expected", &replies, program.kind)?;
        if let Some(log) = access_log {
            self.compare("access.log", &log, program.kind)?;
        }
        match self.file("error.log") {
            Some(patterns) => run.check_error_log(&patterns),
            None => Ok(()),
        }
    }

    fn file(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.folder.join(name)).ok()
    }

    /// Compares with FILE, or for Gannet with FILE.gannet, whose first line gives the reason of the difference.
    fn compare(&self, file: &str, actual: &str, kind: Kind) -> Result<(), String> {
        let own = format!("{file}.gannet");
        let expected = self.file(file).unwrap_or_default();
        let update = std::env::var("UPDATE").unwrap_or_default();
        if update == kind.as_str() && kind == Kind::Nginx {
            return self.write(file, actual);
        }
        let departs = if kind == Kind::Gannet {
            self.file(&own)
        } else {
            None
        };
        if update == kind.as_str() && (departs.is_some() || expected != actual) {
            let reason = departs
                .as_deref()
                .and_then(|text| text.lines().next())
                .unwrap_or("# reason: not yet written");
            return self.write(&own, &format!("{reason}\n{actual}"));
        }
        let Some(text) = departs else {
            return same(file, &expected, actual);
        };
        match text.split_once('\n') {
            Some((reason, departing)) if reason.starts_with("# reason: ") => {
                if departing == expected {
                    return Err(format!("{own} does not depart from {file}: remove it"));
                }
                same(&own, departing, actual)
            }
            _ => Err(format!("{own} must begin with `# reason: …`")),
        }
    }

    fn write(&self, file: &str, text: &str) -> Result<(), String> {
        let path = self.folder.join(file);
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    }
}

fn same(file: &str, expected: &str, actual: &str) -> Result<(), String> {
    if expected == actual {
        return Ok(());
    }
    Err(format!(
        "differs from `{file}` (-):\n{}",
        difference::lines(expected, actual)
    ))
}

fn folders(root: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect()
}

/// What one run of a case holds on to.
struct Run {
    directory: Directory,
    leases: Vec<Lease>,
    origin: Option<Origin>,
    responder: Option<Responder>,
    conf: String,
}

impl Run {
    fn prepare(case: &Case) -> Result<Run, String> {
        let directory = Directory::create();
        setup::files(&case.folder, directory.path())?;
        let conf = match example::of(&case.folder) {
            None => case.file("nginx.conf").unwrap_or_default(),
            Some(folder) => {
                let path = folder.join("nginx.conf");
                let text = std::fs::read_to_string(&path)
                    .map_err(|error| format!("{}: {error}", path.display()))?;
                example::configuration(&text)
            }
        };
        let text = format!(
            "{conf}{}{}",
            case.file("requests").unwrap_or_default(),
            case.file("configs").unwrap_or_default()
        );
        let leases = (1..=9)
            .take_while(|&n| n == 1 || text.contains(&port_name(n)))
            .map(|_| ports::lease())
            .collect();
        let origin = match case.file("origin") {
            None if !text.contains("%ORIGIN%") => None,
            replies => {
                let replies = requests::canned_replies(&replies.unwrap_or_default())?;
                Some(Origin::start(replies).map_err(|error| format!("the origin: {error}"))?)
            }
        };
        let responder = match case.file("fastcgi") {
            None if !text.contains("%FASTCGI%") => None,
            outputs => {
                let outputs = requests::canned_outputs(&outputs.unwrap_or_default())?;
                Some(Responder::start(outputs).map_err(|error| format!("the responder: {error}"))?)
            }
        };
        let run = Run {
            directory,
            leases,
            origin,
            responder,
            conf,
        };
        if example::of(&case.folder).is_some() {
            example::fill_included(run.directory.path(), |text| run.fill(text))
                .map_err(|error| format!("filling the example: {error}"))?;
        }
        Ok(run)
    }

    /// Puts this run's values in the place of `%PORT%`, `%DIR%` and the like.
    fn fill(&self, text: &str) -> String {
        let directory = self.directory.path().display().to_string();
        let mut text = text
            .replace("%ROOT%", &format!("{directory}/html"))
            .replace("%DIR%", &directory);
        for (index, lease) in self.leases.iter().enumerate() {
            text = text.replace(&port_name(index + 1), &lease.port.to_string());
        }
        for (name, address) in self.peers() {
            text = text.replace(name, &address);
        }
        text
    }

    /// The toy servers of this run: what stands for them, and their addresses.
    fn peers(&self) -> impl Iterator<Item = (&'static str, String)> {
        let origin = self.origin.as_ref().map(|peer| ("%ORIGIN%", peer.port()));
        let responder = self.responder.as_ref();
        let responder = responder.map(|peer| ("%FASTCGI%", peer.port()));
        [origin, responder]
            .into_iter()
            .flatten()
            .map(|(name, port)| (name, format!("127.0.0.1:{port}")))
    }

    fn masks(&self) -> Masks {
        let mut masks = Masks::default();
        masks.text(&self.directory.path().display().to_string(), "%DIR%");
        for (name, address) in self.peers() {
            masks.text(&address, name);
        }
        for (index, lease) in self.leases.iter().enumerate() {
            masks.port(lease.port, &port_name(index + 1));
        }
        masks
    }

    fn write_conf(&self, text: &str) -> Result<PathBuf, String> {
        let path = self.directory.path().join("nginx.conf");
        std::fs::write(&path, self.fill(text))
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }

    /// Starts the server, sends the requests, stops it; gives the replies and, if it wrote one, the access log.
    fn serve(
        &mut self,
        case: &Case,
        program: &Program,
    ) -> Result<(String, Option<String>), String> {
        self.write_conf(&configuration::complete(&self.conf, program.kind))?;
        let requests = case
            .file("requests")
            .ok_or("the case has neither `requests` nor `configs`")?;
        let blocks = blocks::parse(&self.fill(&requests))?;
        let mut server = Server::start(program, self.directory.path())?;
        let (mut text, mut kept, mut masks) = (String::new(), None, self.masks());
        for block in &blocks {
            text.push_str(&format!("=== {}\n", block.name));
            text.push_str(&self.exchange(block, &mut kept, &mut masks)?);
        }
        drop(kept);
        if server.stop().is_none_or(|status| !status.success()) {
            return Err("the server did not stop well".to_string());
        }
        let log = std::fs::read(self.directory.path().join("access.log")).ok();
        let log = log.map(|bytes| normalise::access_log(&String::from_utf8_lossy(&bytes), &masks));
        Ok((text, log))
    }

    /// Sends one block's bytes and gives what came back.
    fn exchange(
        &self,
        block: &Block,
        kept: &mut Option<Client>,
        masks: &mut Masks,
    ) -> Result<String, String> {
        let request = requests::assemble(block)?;
        let options = &request.options;
        let port = self
            .leases
            .get(options.port - 1)
            .ok_or("the block names a port that the case does not use")?
            .port;
        let certificates = self.directory.path().join("html");
        let terms = tls::Terms {
            cert: (options.cert.as_ref()).map(|name| certificates.join(name)),
            tls12: options.tls12,
            http2: options.http2,
        };
        let mut client = match kept.take().filter(|_| !options.new) {
            Some(client) => client,
            None => Client::connect_from(options.from, port)
                .and_then(|mut client| match &options.https {
                    Some(name) if !options.http2 => {
                        client.secure_with(name, &terms).map(|()| client)
                    }
                    _ => Ok(client),
                })
                .map_err(|error| format!("{}: {error}", block.name))?,
        };
        masks.port(client.local_port(), "CLIENT_PORT");
        if options.http2 {
            let secured = (options.https.as_deref()).map(|name| (name, &terms));
            let outcome = http2::exchange(client.into_stream(), secured, &request.bytes)
                .map_err(|error| format!("{}: {error}", block.name))?;
            return Ok(match outcome {
                http2::Outcome::Reply(reply) => normalise::one(&reply, masks),
                http2::Outcome::Ended(reason) => format!("[{reason}]\n"),
            });
        }
        match options.split {
            Some(pieces) => client.send_in_pieces(&request.bytes, pieces),
            None => client.send(&request.bytes),
        }
        if options.half {
            client.finish();
        }
        if options.close {
            return Ok("[not read]\n".to_string());
        }
        if options.keep {
            let method = request
                .methods
                .first()
                .map_or("GET", |method| method.as_str());
            let reply = client.read_reply(method);
            *kept = Some(client);
            return Ok(
                reply.map_or("[closed without a byte]\n".to_string(), |reply| {
                    normalise::one(&reply, masks)
                }),
            );
        }
        let (bytes, end) = client.read_to_end();
        Ok(normalise::stream(&bytes, &request.methods, end, masks))
    }

    /// Runs `-t` on each configuration; gives what each said and its exit code.
    fn check_configurations(&self, program: &Program, configs: &str) -> Result<String, String> {
        let mut text = String::new();
        for block in blocks::parse(configs)? {
            let bare = block.option("bare").is_some();
            let conf = if bare {
                block.text.clone()
            } else {
                configuration::complete(&block.text, program.kind)
            };
            let path = self.write_conf(&conf)?;
            let globals = self.fill(configuration::BARE_GLOBALS);
            let output =
                program.test_configuration(self.directory.path(), &path, bare.then_some(&globals));
            let said = String::from_utf8_lossy(&output.stderr);
            let code = output
                .status
                .code()
                .map_or("by a signal".to_string(), |code| code.to_string());
            text.push_str(&format!(
                "=== {}\n{}exit {code}\n",
                block.name,
                self.masks().apply(&said)
            ));
        }
        Ok(text)
    }

    fn error_log(&self) -> String {
        let path = self.directory.path().join("error.log");
        String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
    }

    /// Each line must stand in the error log, or with a leading `!` must not.
    fn check_error_log(&self, patterns: &str) -> Result<(), String> {
        let log = self.error_log();
        for pattern in patterns.lines().filter(|line| !line.is_empty()) {
            let (wanted, text) = pattern
                .strip_prefix('!')
                .map_or((true, pattern), |text| (false, text));
            if log.contains(&self.fill(text)) != wanted {
                let complaint = if wanted { "lacks" } else { "has" };
                return Err(format!("the error log {complaint}: {text}"));
            }
        }
        Ok(())
    }
}

fn port_name(number: usize) -> String {
    if number == 1 {
        "%PORT%".to_string()
    } else {
        format!("%PORT{number}%")
    }
}
