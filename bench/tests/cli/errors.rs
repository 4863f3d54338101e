//! What is said when the machine, or the two ends, lack something: as a set, so that it is read as a set.

use core::fmt::Write as _;
use std::path::Path;

use crate::process::{Turn, free_port, roce};

/// Command lines, each with its exit status and what is said about it on stderr.
const ERRORS: &str = include_str!("errors.txt");

/// Puts names in for what differs from run to run and from machine to machine.
fn without_chance(text: &str) -> String {
    let mut parts = text.split("QPN 0x");
    let mut fixed = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        fixed.push_str("QPN N");
        fixed.push_str(part.trim_start_matches(|c: char| c.is_ascii_hexdigit()));
    }
    match fixed.split_once("there are: ") {
        Some((before, _)) => format!("{before}there are: INTERFACES"),
        None => fixed,
    }
}

fn answered() -> String {
    let port = free_port().to_string();
    let mut all = String::new();
    for line in ERRORS.lines() {
        let Some(words) = line.strip_prefix("$ ") else {
            continue;
        };
        let said = roce(&words.replace("PORT", &port));
        let status = said.code.unwrap();
        let text = without_chance(&said.err.replace(&port, "PORT"));
        // What the lab's server says besides is its own part of the run.
        let own: Vec<_> = text
            .lines()
            .filter(|line| !line.starts_with("server:"))
            .collect();
        let _infallible = writeln!(all, "{line}\n{status}: {}\n", own.join("\n"));
    }
    all
}

#[test]
fn errors_of_the_environment_are_those_that_were_reviewed() {
    let _turn = Turn::take();
    let said = answered();
    if std::env::var_os("ROCE_REWRITE").is_some() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/errors.txt");
        std::fs::write(file, &said).unwrap();
    }
    for (now, reviewed) in said.lines().zip(ERRORS.lines()) {
        assert_eq!(
            now, reviewed,
            "errors changed: review them after ROCE_REWRITE=1 cargo test -p roce-bench --test cli errors_of"
        );
    }
    assert_eq!(said.lines().count(), ERRORS.lines().count());
}
