//! The `gannet` binary.

use anyhow::{Context, bail};
use server::config::{self, Paths};
use std::path::PathBuf;
use std::sync::Arc;

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
    let (loaded, _) = config::load(&conf::Disk, &paths, &globals);
    let config = loaded.map_err(|error| anyhow::anyhow!("[emerg] {error}"))?;
    config
        .logs
        .open_all()
        .map_err(|error| anyhow::anyhow!("[emerg] {error}"))?;
    server::log::error::set_process_logs(config.error_log.clone());
    let mut sockets = Vec::new();
    for listener in &config.http.listens {
        let address = listener.listen.address.clone();
        let options = sys::listen::ListenOptions {
            reuse_port: true,
            ..Default::default()
        };
        let socket =
            sys::listen::listen(&address, &options).map_err(|error| anyhow::anyhow!("{error}"))?;
        sockets.push((address, socket));
    }
    server::worker::run(Arc::new(config), sockets)?;
    Ok(())
}
