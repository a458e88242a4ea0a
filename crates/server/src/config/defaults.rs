//! The built-in paths: Debian's layout of nginx, so that a machine's files are found where they are.

pub const PREFIX: &str = "/usr/share/nginx/";
pub const CONF_PATH: &str = "/etc/nginx/nginx.conf";
pub const ERROR_LOG: &str = "/var/log/nginx/error.log";
pub const ACCESS_LOG: &str = "/var/log/nginx/access.log";
pub const PID: &str = "/run/nginx.pid";
pub const LOCK: &str = "/var/lock/nginx.lock";
pub const PROXY_TEMP: &str = "/var/lib/nginx/proxy";
pub const FASTCGI_TEMP: &str = "/var/lib/nginx/fastcgi";
pub const CLIENT_BODY_TEMP: &str = "/var/lib/nginx/body";
