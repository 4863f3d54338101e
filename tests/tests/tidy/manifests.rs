//! Rules for the crates' manifests.

use std::collections::{BTreeMap, BTreeSet};

const DOCUMENT: &str = "docs/dependencies.md";

#[test]
fn every_dependency_has_its_reason_written_down() {
    let path = crate::root().join(DOCUMENT);
    let document = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{DOCUMENT} has to name every dependency: {error}"));
    let mut users: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut own = BTreeSet::new();
    for path in crate::files(&["Cargo.toml"]) {
        let manifest = std::fs::read_to_string(&path).expect("a readable manifest");
        own.extend(package_name(&manifest));
        for name in dependencies(&manifest) {
            users.entry(name).or_default().push(crate::shown(&path));
        }
    }
    let complaints: Vec<String> = users
        .iter()
        .filter(|(name, _)| !own.contains(*name) && !document.contains(&format!("`{name}`")))
        .map(|(name, users)| {
            format!(
                "{DOCUMENT} does not say why `{name}` is needed ({})",
                users.join(", ")
            )
        })
        .collect();
    crate::report(&complaints);
}

fn package_name(manifest: &str) -> Option<String> {
    let line = manifest.lines().find(|line| line.starts_with("name = "))?;
    line.split('"').nth(1).map(str::to_owned)
}

/// The names in every dependency table of a manifest.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut inside = false;
    for line in manifest.lines() {
        if let Some(table) = line.strip_prefix('[') {
            let table = table.trim_end_matches(']');
            inside = table.ends_with("dependencies");
            // The long form, [dependencies.name].
            if let Some((_, name)) = table.rsplit_once("dependencies.") {
                names.push(name.to_owned());
            }
        } else if inside && line.starts_with(|letter: char| letter.is_ascii_alphanumeric()) {
            let end = line.find(['=', '.', ' ']).unwrap_or(line.len());
            names.push(line[..end].to_owned());
        }
    }
    names
}

#[test]
fn dependencies_are_found_in_every_table_and_form() {
    let manifest = "[package]\nname = \"x\"\n[dependencies]\na.workspace = true\nb = \"1\"\n\
                    [target.'cfg(unix)'.dev-dependencies]\nc = { version = \"1\" }\n\
                    [build-dependencies.d]\nversion = \"1\"\n[features]\ne = []\n";
    assert_eq!(dependencies(manifest), ["a", "b", "c", "d"]);
    assert_eq!(package_name(manifest).as_deref(), Some("x"));
}
