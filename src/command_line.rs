//! nginx's switches, with its texts and its way of reading them, and the subcommand `serve`. Pure: arguments in, what is
//! asked for or the complaint out.

use server::config::{defaults, modules};
use server::image::codec_process;
use server::process::SignalCommand;
use server::version;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// What the arguments ask for.
#[derive(Debug, PartialEq, Eq)]
pub enum CommandLine {
    Nginx(Box<Switches>),
    Serve {
        directory: PathBuf,
        listen: String,
    },
    /// `gannet warm`: its arguments.
    Warm(Vec<OsString>),
    /// The load tester, with its arguments.
    Load(Vec<OsString>),
    Ab(Vec<OsString>),
    Precompress(Vec<OsString>),
    Study(Vec<OsString>),
    Tune(Vec<OsString>),
    /// What a worker starts: `server::image::codec_process`.
    PictureHelper(Vec<OsString>),
}

/// nginx's switches.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Switches {
    pub help: bool,
    pub version: bool,
    pub arguments: bool,
    pub test: bool,
    pub dump: bool,
    pub quiet: bool,
    pub signal: Option<SignalCommand>,
    pub prefix: Option<PathBuf>,
    pub error_log: Option<PathBuf>,
    pub configuration: Option<PathBuf>,
    pub globals: Option<Vec<u8>>,
}

/// Where `serve` listens unless told otherwise: for this machine only.
pub const SERVE_ADDRESS: &str = "127.0.0.1:8080";

/// Reads the arguments after the program's name. The complaint is what nginx prints after `nginx: `.
pub fn parse(arguments: &[OsString]) -> Result<CommandLine, Vec<u8>> {
    match arguments.split_first() {
        Some((word, rest)) if word == "serve" => parse_serve(rest),
        Some((word, rest)) if word == "load" => Ok(CommandLine::Load(rest.to_vec())),
        Some((word, rest)) if word == "ab" => Ok(CommandLine::Ab(rest.to_vec())),
        Some((word, rest)) if word == "warm" => Ok(CommandLine::Warm(rest.to_vec())),
        Some((word, rest)) if word == "precompress" => Ok(CommandLine::Precompress(rest.to_vec())),
        Some((word, rest)) if word == "study" => Ok(CommandLine::Study(rest.to_vec())),
        Some((word, rest)) if word == "tune" => Ok(CommandLine::Tune(rest.to_vec())),
        Some((word, rest)) if word == codec_process::WORD => {
            Ok(CommandLine::PictureHelper(rest.to_vec()))
        }
        _ => parse_switches(arguments).map(|switches| CommandLine::Nginx(Box::new(switches))),
    }
}

fn parse_switches(arguments: &[OsString]) -> Result<Switches, Vec<u8>> {
    let mut switches = Switches::default();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let Some(mut letters) = argument.as_bytes().strip_prefix(b"-") else {
            return Err(invalid_option(argument.as_bytes()));
        };
        while let Some((&letter, rest)) = letters.split_first() {
            letters = rest;
            match letter {
                b'?' | b'h' => switches.help = true,
                b'v' => switches.version = true,
                b'V' => switches.arguments = true,
                b't' => switches.test = true,
                b'T' => switches.dump = true,
                b'q' => switches.quiet = true,
                b'p' | b'e' | b'c' | b'g' | b's' => {
                    // The value is the rest of this argument, or the whole next one.
                    let value = match rest {
                        [] => arguments.next().map(|next| next.as_bytes()),
                        _ => Some(rest),
                    };
                    take_value(&mut switches, letter, value)?;
                    break;
                }
                _ => return Err(invalid_option(&[letter])),
            }
        }
    }
    Ok(switches)
}

fn take_value(switches: &mut Switches, letter: u8, value: Option<&[u8]>) -> Result<(), Vec<u8>> {
    let what = match letter {
        b'p' => "directory name",
        b'e' | b'c' => "file name",
        _ => "parameter",
    };
    let value = value.ok_or_else(|| {
        let letter = char::from(letter);
        format!("option \"-{letter}\" requires {what}").into_bytes()
    })?;
    let path = || PathBuf::from(OsString::from_vec(value.to_vec()));
    match letter {
        b'p' => switches.prefix = Some(path()),
        b'e' => switches.error_log = Some(path()),
        b'c' => switches.configuration = Some(path()),
        b'g' => switches.globals = Some(value.to_vec()),
        _ => match SignalCommand::from_word(value) {
            Some(signal) => switches.signal = Some(signal),
            None => return Err(invalid_option(&[b"-s ", value].concat())),
        },
    }
    Ok(())
}

fn invalid_option(option: &[u8]) -> Vec<u8> {
    [b"invalid option: \"", option, b"\""].concat()
}

fn parse_serve(arguments: &[OsString]) -> Result<CommandLine, Vec<u8>> {
    let mut directory = None;
    let mut listen = SERVE_ADDRESS.to_owned();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let bytes = argument.as_bytes();
        let address = match bytes.strip_prefix(b"--listen=") {
            Some(value) => Some(value),
            None if bytes == b"--listen" => {
                let next = arguments.next();
                let missing = || b"option \"--listen\" requires address".to_vec();
                Some(next.ok_or_else(missing)?.as_bytes())
            }
            None => None,
        };
        if let Some(address) = address {
            let text = std::str::from_utf8(address)
                .ok()
                .filter(|text| is_address(text));
            listen = text
                .ok_or_else(|| invalid_option(&[b"--listen ", address].concat()))?
                .to_owned();
        } else if bytes.starts_with(b"-") || directory.is_some() {
            return Err(invalid_option(bytes));
        } else {
            directory = Some(PathBuf::from(argument));
        }
    }
    let directory = directory.ok_or_else(|| b"\"serve\" requires directory name".to_vec())?;
    Ok(CommandLine::Serve { directory, listen })
}

/// Whether a text can stand in a `listen` directive: nothing that would end or quote a word.
fn is_address(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".:[]*-_/".contains(&byte);
    !text.is_empty() && text.bytes().all(allowed)
}

/// What `-v`, `-V`, `-?` print; nothing without them.
pub fn about(switches: &Switches) -> String {
    let mut text = String::new();
    if switches.help || switches.version || switches.arguments {
        text.push_str(&format!("nginx version: {}\n", version::SERVER_BUILD));
    }
    if switches.help {
        text.push_str(&help());
    }
    if switches.arguments {
        text.push_str(&configure_arguments());
    }
    text
}

fn help() -> String {
    let (prefix, error_log, configuration) =
        (defaults::PREFIX, defaults::ERROR_LOG, defaults::CONF_PATH);
    format!(
        "Usage: nginx [-?hvVtTq] [-s signal] [-p prefix]
             [-e filename] [-c filename] [-g directives]
       gannet serve directory [--listen address]
       gannet load [options] url...
       gannet ab [options] url
       gannet precompress [options] directory...
       gannet warm [options] list...
       gannet study [options] name
       gannet tune [options]

Options:
  -?,-h         : this help
  -v            : show version and exit
  -V            : show version and configure options then exit
  -t            : test configuration and exit
  -T            : test configuration, dump it and exit
  -q            : suppress non-error messages during configuration testing
  -s signal     : send signal to a master process: stop, quit, reopen, reload
  -p prefix     : set prefix path (default: {prefix})
  -e filename   : set error log file (default: {error_log})
  -c filename   : set configuration file (default: {configuration})
  -g directives : set global directives out of configuration file
  serve         : serve a directory without configuration (default address: {SERVE_ADDRESS})
  load          : load a server and measure it; see gannet load --help
  ab            : the same with ab's switches and report
  precompress   : make compressed copies of files; see gannet precompress --help
  warm          : fetch the URLs of lists and sitemaps into a cache; see gannet warm --help
  study         : repeat a published measurement on this machine; see gannet study --help
  tune          : measure and recommend directives; see gannet tune --help

"
    )
}

/// The built-in paths and what there is of nginx's modules, in the form that scripts look for.
fn configure_arguments() -> String {
    let paths = [
        ("prefix", defaults::PREFIX.trim_end_matches('/')),
        ("conf-path", defaults::CONF_PATH),
        ("error-log-path", defaults::ERROR_LOG),
        ("http-log-path", defaults::ACCESS_LOG),
        ("pid-path", defaults::PID),
        ("lock-path", defaults::LOCK),
        ("http-client-body-temp-path", defaults::CLIENT_BODY_TEMP),
    ];
    let paths = paths
        .iter()
        .map(|(name, value)| format!(" --{name}={value}"));
    let modules = modules::configure_arguments();
    let words: String = paths
        .chain(modules.iter().map(|argument| format!(" {argument}")))
        .collect();
    format!("{TLS}configure arguments:{words}\n")
}

/// nginx's lines about its TLS library.
const TLS: &str = "built with rustls 0.23 on AWS-LC\nTLS SNI support enabled\n";

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ')
            .filter(|word| !word.is_empty())
            .map(OsString::from)
            .collect()
    }

    fn switches(line: &str) -> Switches {
        match parse(&words(line)) {
            Ok(CommandLine::Nginx(switches)) => *switches,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn the_tls_library_is_the_one_that_is_built_in() {
        let lock = include_str!("../Cargo.lock");
        assert!(lock.contains("name = \"rustls\"\nversion = \"0.23."));
        assert!(lock.contains("name = \"aws-lc-rs\"\n"));
        let told = configure_arguments();
        assert!(told.starts_with(TLS), "{told}");
        assert!(told.contains(" --with-http_ssl_module"), "{told}");
        assert!(told.contains(" --with-http_v2_module"), "{told}");
        assert!(!told.contains("--without-http_proxy_module"), "{told}");
    }

    /// Recorded from nginx 1.22.1.
    #[test]
    fn complaints_are_nginx_s() {
        for (line, complaint) in [
            ("-x", "invalid option: \"x\""),
            ("-tx", "invalid option: \"x\""),
            ("foo", "invalid option: \"foo\""),
            ("--", "invalid option: \"-\""),
            ("--help", "invalid option: \"-\""),
            ("-t foo", "invalid option: \"foo\""),
            ("-c", "option \"-c\" requires file name"),
            ("-p", "option \"-p\" requires directory name"),
            ("-e", "option \"-e\" requires file name"),
            ("-g", "option \"-g\" requires parameter"),
            ("-s", "option \"-s\" requires parameter"),
            ("-s foo", "invalid option: \"-s foo\""),
            ("-sfoo", "invalid option: \"-s foo\""),
            ("-stop", "invalid option: \"-s top\""),
            ("-ct /x", "invalid option: \"/x\""),
            ("-v -x", "invalid option: \"x\""),
            ("serve", "\"serve\" requires directory name"),
            ("serve a b", "invalid option: \"b\""),
            ("serve -x a", "invalid option: \"-x\""),
            ("serve a --listen", "option \"--listen\" requires address"),
            ("serve a --listen 80;", "invalid option: \"--listen 80;\""),
        ] {
            let said = parse(&words(line)).expect_err(line);
            assert_eq!(String::from_utf8_lossy(&said), complaint, "{line}");
        }
        assert_eq!(
            parse(&[OsString::new()]),
            Err(b"invalid option: \"\"".to_vec())
        );
    }

    #[test]
    fn letters_combine_and_values_stand_apart_or_attached() {
        let expected = Switches {
            test: true,
            quiet: true,
            configuration: Some("/x".into()),
            ..Switches::default()
        };
        for line in [
            "-t -q -c /x",
            "-tq -c /x",
            "-qtc /x",
            "-qtc/x",
            "-c/x -qt",
            "-c /y -c /x -tq",
            "- -tqc/x",
        ] {
            assert_eq!(switches(line), expected, "{line}");
        }
        assert_eq!(switches("-ct").configuration, Some("t".into()));
        assert_eq!(switches("-s reload").signal, Some(SignalCommand::Reload));
        assert_eq!(switches("-sstop").signal, Some(SignalCommand::Stop));
        assert_eq!(switches("-e stderr").error_log, Some("stderr".into()));
        assert!(switches("-?").help && switches("-h").help && switches("-hv").version);
        let globals = parse(&["-g", "daemon off;"].map(OsString::from));
        let Ok(CommandLine::Nginx(switches)) = globals else {
            panic!("{globals:?}")
        };
        assert_eq!(switches.globals.as_deref(), Some(&b"daemon off;"[..]));
        assert_eq!(parse(&[]), Ok(CommandLine::Nginx(Box::default())));
    }

    #[test]
    fn serve_takes_a_directory_and_an_address() {
        let serve = |listen: &str| {
            Ok(CommandLine::Serve {
                directory: "a".into(),
                listen: listen.to_owned(),
            })
        };
        assert_eq!(parse(&words("serve a")), serve(SERVE_ADDRESS));
        assert_eq!(
            parse(&words("serve a --listen [::1]:80")),
            serve("[::1]:80")
        );
        assert_eq!(parse(&words("serve --listen=8000 a")), serve("8000"));
    }

    #[test]
    fn the_version_reads_as_one_of_nginx() {
        let version = about(&switches("-v"));
        let own = env!("CARGO_PKG_VERSION");
        assert_eq!(
            version,
            format!("nginx version: nginx/1.31.5 (gannet/{own})\n")
        );
        assert!(about(&switches("-V")).contains(" --conf-path=/etc/nginx/nginx.conf "));
        assert!(about(&switches("-h")).starts_with(&format!("{version}Usage: nginx [-?hvVtTq]")));
        assert_eq!(about(&switches("-t")), "");
    }
}
