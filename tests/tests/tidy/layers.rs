//! The order of the engine's modules: each imports only from those before it.

use std::path::Path;

use crate::source::{Source, is_name};

/// The engine's modules from the vocabulary up to the simulator.
const ORDER: [&str; 24] = [
    "verbs",
    "time",
    "clock",
    "arena",
    "link",
    "config",
    "stats",
    "deadlines",
    "mr",
    "sge",
    "cq",
    "recv_queue",
    "srq",
    "congestion",
    "path",
    "peers",
    "ready",
    "shared",
    "qp",
    "cm",
    "gsi",
    "engine",
    "device",
    "sim",
];

#[test]
fn the_engines_modules_import_only_leftwards() {
    let mut complaints = Vec::new();
    for (source, module) in engine_modules() {
        let Some(own) = rank(&module) else {
            complaints.push(format!(
                "{}: module `{module}` has no place in the order of tests/tests/tidy/layers.rs",
                crate::shown(&source.path)
            ));
            continue;
        };
        for name in crate_names(&source, &module) {
            match rank(&name) {
                Some(other) if other <= own => {}
                Some(_) => complaints.push(format!(
                    "{}: `{module}` imports `{name}`, which is to its right in the layer order",
                    crate::shown(&source.path)
                )),
                None => complaints.push(format!(
                    "{}: `{module}` imports `crate::{name}`; name the module that defines it",
                    crate::shown(&source.path)
                )),
            }
        }
    }
    crate::report(&complaints);
}

#[test]
fn the_verbs_vocabulary_stands_on_core_alloc_and_the_wire_alone() {
    const ALLOWED: [&str; 6] = ["core", "alloc", "roce_wire", "super", "self", "crate"];
    let mut complaints = Vec::new();
    let mut seen = 0;
    for (source, module) in engine_modules() {
        if module != "verbs" {
            continue;
        }
        seen += 1;
        for line in source.without_tests().lines().map(str::trim) {
            let Some(path) = line
                .strip_prefix("use ")
                .or_else(|| line.strip_prefix("pub use "))
            else {
                continue;
            };
            let first: String = path.chars().take_while(|&letter| is_name(letter)).collect();
            // A type of the file's own, brought up to be called by its variants.
            if first.starts_with(char::is_uppercase) {
                continue;
            }
            // The front page re-exports from its own rooms.
            let own_room = crate::root()
                .join(format!("roce-engine/src/verbs/{first}.rs"))
                .exists();
            if !ALLOWED.contains(&first.as_str()) && !own_room {
                complaints.push(format!("{}: `use {path}`", crate::shown(&source.path)));
            }
        }
    }
    assert!(seen > 0, "no verbs modules found");
    crate::report(&complaints);
}

/// The engine's source files without its root and its tests, each with its top-level module.
fn engine_modules() -> Vec<(Source, String)> {
    let folder = crate::root().join("roce-engine/src");
    let mut modules = Vec::new();
    for source in Source::all() {
        let Ok(inside) = source.path.strip_prefix(&folder) else {
            continue;
        };
        let first = inside.components().next().expect("a file has a name");
        let module = Path::new(first.as_os_str())
            .with_extension("")
            .display()
            .to_string();
        if module != "lib" && !source.is_test() {
            modules.push((source, module));
        }
    }
    assert!(!modules.is_empty(), "no modules in {}", folder.display());
    modules
}

fn rank(module: &str) -> Option<usize> {
    ORDER.iter().position(|&name| name == module)
}

/// The first names of all paths from the crate's root in a file, `super::` chains resolved.
fn crate_names(source: &Source, module: &str) -> Vec<String> {
    let code = source.without_tests();
    let mut names = names_after(code, "crate::");
    let folder = crate::root().join("roce-engine/src");
    let inside = source.path.strip_prefix(folder).expect("an engine file");
    // From a file at depth 1 one `super::` is the root, at depth 2 it takes two.
    let to_root = "super::".repeat(inside.components().count());
    names.extend(names_after(code, &to_root));
    names.retain(|name| name != module && name != "super");
    names
}

/// The names that follow a path prefix, those in a brace list included.
fn names_after(code: &str, prefix: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        let before = code[..at].chars().next_back().unwrap_or(' ');
        if is_name(before) || before == ':' || before == '$' {
            continue;
        }
        let rest = &code[at + prefix.len()..];
        match rest.strip_prefix('{') {
            Some(list) => names.extend(brace_list(list)),
            None => names.push(rest.chars().take_while(|&letter| is_name(letter)).collect()),
        }
    }
    names
}

/// The first name of each item of a brace list, up to its closing brace.
fn brace_list(list: &str) -> Vec<String> {
    let (mut depth, mut item, mut names) = (0, String::new(), Vec::new());
    for letter in list.chars() {
        match letter {
            '}' if depth == 0 => break,
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(core::mem::take(&mut item)),
            _ if depth == 0 => item.push(letter),
            _ => {}
        }
    }
    names.push(item);
    let first = |item: &String| {
        item.trim()
            .chars()
            .take_while(|&l| is_name(l))
            .collect::<String>()
    };
    names
        .iter()
        .map(first)
        .filter(|name| !name.is_empty())
        .collect()
}

#[test]
fn imports_are_found_in_every_spelling() {
    let code = "use crate::mr::Mr;\nuse crate::{\n    qp::{Qp, State},\n    time,\n};\nlet x = \
                crate::sge::f(); my_crate::no();";
    assert_eq!(names_after(code, "crate::"), ["mr", "qp", "time", "sge"]);
}
