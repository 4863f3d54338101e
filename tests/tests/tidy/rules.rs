//! Rules for every Rust file.

use crate::source::Source;

/// Most lines of code in a file, its trailing tests, comments and blank lines not counted.
const MAX_CODE_LINES: usize = 500;

/// The files that may hold `unsafe`, each for a reason that its own first lines give.
const UNSAFE_FILES: [&str; 24] = [
    "backend-afxdp/src/sys.rs",
    "backend-afxdp/src/sys/bpf.rs",
    "backend-afxdp/src/sys/map.rs",
    "backend-afxdp/src/umem.rs",
    "backend-udp/src/sys.rs",
    "backend-udp/src/sys/ifaddrs.rs",
    "backend-udp/src/sys/wire.rs",
    "backend-verbs/src/load.rs",
    "backend-verbs/src/raw.rs",
    "backend-verbs/src/raw/post.rs",
    "backend-verbs/src/raw/wr.rs",
    "backend-verbs/src/sys.rs",
    "backend-verbs/src/sys/ex.rs",
    "backend-verbs/tests/device/fake.rs",
    "backend-verbs/tests/fake/data.rs",
    "backend-verbs/tests/fake/device.rs",
    "backend-verbs/tests/fake/libibverbs.rs",
    "backend-verbs/tests/fake/objects.rs",
    "backend-verbs/tests/fake/queues.rs",
    "backend-verbs/tests/fake/writer.rs",
    "bench/src/run/hugepages.rs",
    "bench/src/lab/hosts.rs",
    "bench/src/stats/cycles.rs",
    "roce-engine/src/verbs/region.rs",
];

#[test]
fn files_stay_small() {
    let mut complaints = Vec::new();
    for source in Source::all() {
        let code = if source.is_test() {
            &source.code[..]
        } else {
            source.without_tests()
        };
        let lines = code.lines().filter(|line| !line.trim().is_empty()).count();
        if lines > MAX_CODE_LINES {
            complaints.push(format!(
                "{}: {lines} lines of code, at most {MAX_CODE_LINES}",
                crate::shown(&source.path)
            ));
        }
    }
    crate::report(&complaints);
}

#[test]
fn unsafe_code_is_only_where_it_is_allowed() {
    let mut complaints = Vec::new();
    let mut used = Vec::new();
    for source in Source::all() {
        let name = crate::shown(&source.path);
        let Some(&line) = source.lines_with("unsafe").first() else {
            continue;
        };
        if UNSAFE_FILES.contains(&name.as_str()) {
            used.push(name);
        } else {
            complaints.push(format!(
                "{name}:{line}: `unsafe` in a file that is not in the list of {}",
                file!()
            ));
        }
    }
    for allowed in UNSAFE_FILES {
        if !used.iter().any(|name| name == allowed) {
            complaints.push(format!(
                "{}: {allowed} is allowed `unsafe` and has none",
                file!()
            ));
        }
    }
    crate::report(&complaints);
}

#[test]
fn modules_are_files_beside_their_folder() {
    let named_mod = |source: &Source| source.path.file_name().is_some_and(|name| name == "mod.rs");
    let complaints: Vec<String> = Source::all()
        .iter()
        .filter(|source| named_mod(source))
        .map(|source| {
            format!(
                "{}: name it after its folder, beside it",
                crate::shown(&source.path)
            )
        })
        .collect();
    crate::report(&complaints);
}

#[test]
fn nothing_is_left_for_later() {
    let mut complaints = Vec::new();
    for source in Source::all() {
        let name = crate::shown(&source.path);
        for banned in ["dbg!", "todo!", "unimplemented!"] {
            for line in source.lines_with(banned) {
                complaints.push(format!("{name}:{line}: `{banned}`"));
            }
        }
        for (index, line) in source.code.lines().enumerate() {
            if line.trim() == "#[ignore]" {
                complaints.push(format!(
                    "{name}:{}: `#[ignore]` without a reason",
                    index + 1
                ));
            }
        }
        for (index, line) in source.text.lines().enumerate() {
            // In two halves, so that this file doesn't accuse itself.
            for mark in [
                concat!("TO", "DO"),
                concat!("FIX", "ME"),
                concat!("XX", "X:"),
            ] {
                if line.contains(mark) {
                    complaints.push(format!("{name}:{}: `{mark}`", index + 1));
                }
            }
        }
    }
    crate::report(&complaints);
}

#[test]
fn every_file_says_what_it_is_for() {
    let undocumented = |source: &Source| {
        let name = source.path.file_name().unwrap_or_default();
        name != "tests.rs" && !source.text.starts_with("//!")
    };
    let complaints: Vec<String> = Source::all()
        .iter()
        .filter(|source| undocumented(source))
        .map(|source| {
            format!(
                "{}: begin with a `//!` sentence",
                crate::shown(&source.path)
            )
        })
        .collect();
    crate::report(&complaints);
}
