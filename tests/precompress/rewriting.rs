//! Pages that a filter changes: a copy of the file is not what the client is to get.

use crate::site::{Site, decoded, get, is_copy, until_coded};
use std::fs;

fn text(name: &str) -> String {
    format!("<p><!--# echo var=\"arg_none\" default=\"{name}\" --> replace this</p>\n").repeat(100)
}

#[test]
fn copies_are_of_what_nothing_changes() {
    let inside = "gzip on; precompress_store copies;\n\
         location /ssi/ { ssi on; }\n location /sub/ { sub_filter this that; sub_filter_once off; }\n\
         location /added/ { add_after_body /after; }\n location = /after { default_type text/html; return 200 end; }\n\
         location /characters/ { charset windows-1251; source_charset koi8-r; }\n";
    let site = Site::prepare("", inside);
    let path = site.directory.path().join("nginx.conf");
    let configuration = fs::read_to_string(&path).unwrap();
    let map = "http {\n charset_map koi8-r windows-1251 { 70 50; }\n";
    fs::write(&path, configuration.replace("http {\n", map)).unwrap();
    let folders = ["ssi", "sub", "added", "characters", "plain"];
    for folder in folders {
        fs::create_dir(site.root().join(folder)).unwrap();
        for name in ["page.html", "style.css"] {
            fs::write(site.root().join(folder).join(name), text(folder)).unwrap();
        }
    }
    let site = site.started();
    let expected = |folder: &str| match folder {
        "ssi" => "<p>ssi replace this</p>\n".repeat(100),
        "sub" => text("sub").replace("this", "that"),
        "added" => text("added") + "end",
        "characters" => text("characters").replace('p', "P"),
        _ => text(folder),
    };
    let mut client = site.client();
    for folder in folders {
        assert!(get(&mut client, &format!("/{folder}/page.html"), "gzip").is_some());
    }
    // Had copies of the pages been asked for, they would have been made before these.
    for folder in folders {
        until_coded(&site, &format!("/{folder}/style.css"), "gzip");
    }
    until_coded(&site, "/plain/page.html", "gzip");
    for folder in folders {
        for _ in 0..3 {
            let reply = get(&mut client, &format!("/{folder}/page.html"), "gzip").unwrap();
            assert_eq!(reply.field("Content-Encoding"), Some("gzip"), "{folder}");
            let body = String::from_utf8(decoded(&reply).unwrap()).unwrap();
            assert_eq!(body, expected(folder), "{folder}");
            assert_eq!(is_copy(&reply), folder == "plain", "{folder}");
        }
    }
}
