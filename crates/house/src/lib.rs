//! The house rules as tests: import directions, where `unsafe` may stand, sizes, names, headers, what pages name.
//! Each rule is a pure function from source text to complaints, so that each has its own counter-examples below.

pub mod dependencies;
pub mod documents;
pub mod layers;
pub mod rules;
pub mod source;
pub mod texts;

#[cfg(test)]
mod tests {
    use crate::source::{File, repository, rust_files};
    use crate::{dependencies, documents, layers, rules, texts};

    /// Runs one rule over every file of the repository.
    fn clean(rule: fn(&File) -> Vec<String>) {
        let files = rust_files();
        assert!(files.len() > 5, "the walk found only {} files", files.len());
        none(files.iter().flat_map(rule).collect());
    }

    fn none(complaints: Vec<String>) {
        assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
    }

    /// The complaints about a file with this text, said to stand at `path`.
    fn about(rule: fn(&File) -> Vec<String>, path: &str, text: &str) -> usize {
        rule(&File::new(path, text)).len()
    }

    #[test]
    fn server_modules_import_downwards() {
        clean(layers::server_imports);
        none(layers::departures_unused(&rust_files()));
        let rule = layers::server_imports;
        assert_eq!(
            about(
                rule,
                "crates/server/src/http/a.rs",
                "use crate::pipeline::Phase;"
            ),
            1
        );
        assert_eq!(
            about(
                rule,
                "crates/server/src/http/a.rs",
                "fn f() { crate::listen::x() }"
            ),
            1
        );
        assert_eq!(
            about(
                rule,
                "crates/server/src/limit/a.rs",
                "use crate::access::Rule;"
            ),
            1
        );
        assert_eq!(
            about(
                rule,
                "crates/server/src/limit/a.rs",
                "use crate::http::Request;"
            ),
            0
        );
        assert_eq!(
            about(
                rule,
                "crates/server/src/limit/a.rs",
                "use crate::limit::zone::Zone;"
            ),
            0
        );
        assert_eq!(
            about(
                rule,
                "crates/server/src/upstream/a.rs",
                "use crate::cache::Key;"
            ),
            0
        );
        assert_eq!(
            about(
                rule,
                "crates/server/src/cache/a.rs",
                "use crate::upstream::Peer;"
            ),
            1
        );
        assert_eq!(
            about(
                rule,
                "crates/server/src/limit/a.rs",
                "use crate::config::build::Build; use crate::config::directives::TABLES;"
            ),
            1
        );
        assert_eq!(about(rule, "crates/server/src/brandnew/a.rs", ""), 1);
        assert_eq!(
            about(
                rule,
                "crates/server/src/http/a.rs",
                "use crate::{listen::A, http::B};"
            ),
            1
        );
    }

    #[test]
    fn crates_depend_as_designed() {
        none(layers::crate_dependencies(&repository()));
        let bad = "[dependencies]\nserver.workspace = true\n[dev-dependencies]\ntestkit.workspace = true\n";
        assert_eq!(layers::dependencies_of("wire", bad).len(), 1);
        assert_eq!(layers::dependencies_of("gannet", bad).len(), 0);
    }

    #[test]
    fn unsafe_stands_only_in_sys_and_says_why() {
        clean(rules::unsafe_code);
        let block = "fn f() {\n    unsafe { g() }\n}";
        let argued = "fn f() {\n    // SAFETY: g has no preconditions.\n    unsafe { g() }\n}";
        assert_eq!(about(rules::unsafe_code, "crates/wire/src/a.rs", argued), 1);
        assert_eq!(about(rules::unsafe_code, "crates/sys/src/a.rs", block), 1);
        assert_eq!(about(rules::unsafe_code, "crates/sys/src/a.rs", argued), 0);
        assert_eq!(
            about(
                rules::unsafe_code,
                "crates/wire/src/a.rs",
                "// unsafe\nlet s = \"unsafe\";"
            ),
            0
        );
    }

    #[test]
    fn files_open_with_a_header() {
        clean(rules::header);
        assert_eq!(about(rules::header, "src/a.rs", "use std::io;"), 1);
        assert_eq!(about(rules::header, "src/a.rs", "//! What it is for."), 0);
    }

    #[test]
    fn unwrap_stands_only_in_tests() {
        clean(rules::unwrap);
        assert_eq!(
            about(rules::unwrap, "src/a.rs", "fn f() { x.unwrap(); }"),
            1
        );
        assert_eq!(
            about(
                rules::unwrap,
                "src/a.rs",
                "#[cfg(test)]\nmod tests { fn f() { x.unwrap(); } }"
            ),
            0
        );
        assert_eq!(
            about(rules::unwrap, "tests/a.rs", "fn f() { x.unwrap(); }"),
            0
        );
    }

    #[test]
    fn files_and_functions_are_short() {
        clean(rules::lengths);
        let long = format!(
            "fn f() {{\n{}}}\n",
            "    x();\n".repeat(rules::FUNCTION_LINES)
        );
        assert_eq!(about(rules::lengths, "src/a.rs", &long), 1);
        let many = "fn f() {}\n".repeat(rules::FILE_LINES + 1);
        assert_eq!(about(rules::lengths, "src/a.rs", &many), 1);
        let table = format!(
            "const T: &[u8] = &[\n{}];\n",
            "    1,\n".repeat(rules::FILE_LINES)
        );
        assert_eq!(about(rules::lengths, "src/a.rs", &table), 0);
        assert_eq!(
            about(
                rules::lengths,
                "src/a.rs",
                &"// why\n\n".repeat(rules::FILE_LINES)
            ),
            0
        );
    }

    #[test]
    fn nothing_is_left_for_later() {
        clean(rules::left_for_later);
        assert_eq!(
            about(
                rules::left_for_later,
                "src/a.rs",
                concat!("// TO", "DO: this")
            ),
            1
        );
        assert_eq!(
            about(
                rules::left_for_later,
                "src/a.rs",
                concat!("fn f() { to", "do!() }")
            ),
            1
        );
    }

    #[test]
    fn modules_are_named_for_what_they_do() {
        clean(rules::module_name);
        assert_eq!(about(rules::module_name, "crates/wire/src/util.rs", ""), 1);
        assert_eq!(
            about(rules::module_name, "crates/server/src/helpers/x.rs", ""),
            1
        );
        assert_eq!(about(rules::module_name, "crates/wire/src/uri.rs", ""), 0);
    }

    #[test]
    fn architecture_names_every_module() {
        none(rules::architecture(&repository()));
    }

    #[test]
    fn texts_name_no_machine_registry_or_writer() {
        let texts = texts::texts(&repository());
        assert!(
            texts.len() > 300,
            "the walk found only {} texts",
            texts.len()
        );
        none(
            texts
                .iter()
                .flat_map(|(path, text)| texts::foreign(path, text))
                .collect(),
        );
        let about = |text: &str| texts::foreign("a", text).len();
        assert_eq!(about(concat!("see /wo", "rk/main")), 1);
        assert_eq!(about(concat!("https://registry.npm", "js.org/x")), 1);
        assert_eq!(about(concat!("from index.crat", "es.io.")), 1);
        assert_eq!(about(concat!("asked the C", "EO")), 1);
        assert_eq!(about("https://static.example.com/a and /net/work/a"), 0);
    }

    #[test]
    fn dependencies_are_argued_locked_and_permissive() {
        let root = repository();
        for manifest in ["Cargo.toml", "fuzz/Cargo.toml"] {
            let text = std::fs::read_to_string(root.join(manifest)).unwrap();
            none(dependencies::argued(manifest, &text));
            none(dependencies::locked_and_permissive(&root, manifest));
        }
        let argued = |manifest: &str| dependencies::argued("a", manifest).len();
        assert_eq!(argued("[dependencies]\nregex = \"1\"\n"), 1);
        assert_eq!(argued("[dependencies]\n# Patterns.\nregex = \"1\"\n"), 0);
        assert_eq!(argued("[dependencies]\nregex.workspace = true\n"), 0);
        let refused = |line: &str| dependencies::licence(line).is_some();
        assert!(refused("a v1|GPL-3.0"));
        assert!(refused("a v1|"));
        assert!(!refused("a v1|(MIT OR Apache-2.0) AND Unicode-3.0"));
        assert!(!refused("a v1|MIT/Apache-2.0 (*)"));
    }

    #[test]
    fn pages_name_what_exists() {
        let sources: Vec<String> = rust_files().into_iter().map(|file| file.text).collect();
        none(documents::names(&repository(), &sources));
    }
}
