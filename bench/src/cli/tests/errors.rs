//! All that the parser says about wrong command lines, as a set, so that it is read as a set.

use core::fmt::Write as _;
use std::path::Path;

use super::refusal;

/// Command lines, each with what is said about it.
const ERRORS: &str = include_str!("errors.txt");

/// Answers each command line of a text like [`ERRORS`].
fn answered(text: &str) -> String {
    let mut all = String::new();
    for line in text.lines().filter(|line| line.starts_with(['$', '#'])) {
        let Some(command) = line.strip_prefix("$ ") else {
            let _infallible = writeln!(all, "{line}\n");
            continue;
        };
        let said = refusal(command);
        let _infallible = writeln!(all, "{line}\n{}\n", said.trim_end());
    }
    all
}

#[test]
fn errors_are_those_that_were_reviewed() {
    let said = answered(ERRORS);
    if std::env::var_os("ROCE_REWRITE").is_some() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli/tests/errors.txt");
        std::fs::write(file, &said).unwrap();
    }
    for (now, reviewed) in said.lines().zip(ERRORS.lines()) {
        assert_eq!(
            now, reviewed,
            "errors changed: review them after ROCE_REWRITE=1 cargo test -p roce-bench errors_are"
        );
    }
    assert_eq!(said.lines().count(), ERRORS.lines().count());
}

#[test]
fn an_error_says_what_to_do_and_is_one_sentence_or_two() {
    for line in ERRORS.lines().filter(|line| line.starts_with('$')) {
        let text = refusal(&line[2..]);
        let first = text.lines().next().unwrap_or_default();
        assert!(first.len() < 200, "{line}: {first}");
        assert!(!first.ends_with('.'), "{line}: {first}");
    }
}
