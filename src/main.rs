//! The `gannet` binary.

use anyhow::{Context, bail};
use server::config::{self, Paths};
use server::process::{Action, ErrorTarget, Invocation};
use server::site::Site;
use std::path::PathBuf;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let mut conf_file = PathBuf::from(config::defaults::CONF_PATH);
    let mut prefix = PathBuf::from(config::defaults::PREFIX);
    let mut globals = Vec::new();
    while let Some(argument) = arguments.next() {
        let value = arguments
            .next()
            .with_context(|| format!("option {argument:?} requires a value"))?;
        match argument.to_str() {
            Some("-c") => conf_file = PathBuf::from(value),
            Some("-p") => prefix = PathBuf::from(value),
            Some("-g") => globals = value.into_encoded_bytes(),
            _ => bail!("invalid option: {argument:?}"),
        }
    }
    let conf_file = prefix.join(conf_file);
    let conf_prefix = conf_file.parent().unwrap_or(&prefix).to_path_buf();
    let paths = Paths {
        prefix,
        conf_prefix,
        conf_file,
        error_log: PathBuf::from(config::defaults::ERROR_LOG),
    };
    let invocation = Invocation {
        configuration: paths.conf_file.clone(),
        error_log: ErrorTarget::File(paths.error_log.clone()),
        action: Action::Serve,
        version: concat!("gannet/", env!("CARGO_PKG_VERSION")),
        arguments: std::env::args_os().collect(),
    };
    let site = Site { paths, globals };
    std::process::exit(server::process::run(&site, &invocation))
}
