//! A site in PHP: that of `--root`, or a script that computes and waits about as a page of a small gallery does.

use crate::material::Site;
use crate::server;
use crate::study::Pool;
use crate::workspace::Workspace;
use std::path::PathBuf;

/// A page: waits as for a database, computes, and tells what it found. Each page is another one.
const SCRIPT: &str = include_str!("../material/index.php");

/// What a program in PHP is told.
const PARAMETERS: &str =
    "fastcgi_param QUERY_STRING $query_string; fastcgi_param REQUEST_METHOD $request_method;
        fastcgi_param CONTENT_TYPE $content_type; fastcgi_param CONTENT_LENGTH $content_length;
        fastcgi_param SCRIPT_NAME $fastcgi_script_name; fastcgi_param REQUEST_URI $request_uri;
        fastcgi_param DOCUMENT_URI $document_uri; fastcgi_param DOCUMENT_ROOT $document_root;
        fastcgi_param SERVER_PROTOCOL $server_protocol; fastcgi_param REQUEST_SCHEME $scheme;
        fastcgi_param GATEWAY_INTERFACE CGI/1.1; fastcgi_param REMOTE_ADDR $remote_addr;
        fastcgi_param SERVER_NAME $server_name; fastcgi_param SERVER_PORT $server_port;
        fastcgi_param REDIRECT_STATUS 200;
        fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;";

/// The folder whose index.php is asked for.
pub fn site(site: &Site, workspace: &Workspace) -> Result<PathBuf, String> {
    if server::find("php-cgi", |file, name| file.starts_with(name)).is_none() {
        return Err("there is no php-cgi; the package is php-cgi".to_owned());
    }
    match &site.root {
        Some(root) if root.join("index.php").is_file() => Ok(root.clone()),
        Some(_) | None => {
            workspace.write("www/index.php", SCRIPT.as_bytes())?;
            Ok(workspace.root())
        }
    }
}

/// A server of that site. `outside` stands in the http block, `inside` beside `fastcgi_pass`.
pub fn http(root: &std::path::Path, outside: &str, inside: &str) -> String {
    let root = root.display();
    format!(
        "    {outside}
    server {{
        listen 127.0.0.1:%PORT%; root \"{root}\"; index index.php;
        location / {{ try_files $uri $uri/ /index.php?$query_string; }}
        location ~ \\.php$ {{
        {PARAMETERS}
        {inside} fastcgi_pass %PHP%;
        }}
    }}"
    )
}

/// A pool of these words.
pub fn pool(words: &[(&str, &str)]) -> Pool {
    let owned = words
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Pool(owned.collect())
}
