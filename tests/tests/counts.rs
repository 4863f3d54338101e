//! What a message costs in instructions, against the numbers in `tests/data/instructions.txt`.
//!
//! Wall time says little on a shared machine; instruction counts repeat. The cost of a message is the
//! difference of two runs, so that making the devices does not count. `tests/run counts` builds the
//! program that is counted. A change that makes messages cheaper puts the printed numbers into the file.

use std::path::{Path, PathBuf};
use std::process::Command;

/// How much more than the number in the file a message may cost.
const TOLERANCE: f64 = 1.05;
const FEW: u64 = 160;
const MANY: u64 = 480;

#[test]
fn messages_cost_no_more_than_they_did() {
    let Some(program) = program() else {
        println!(
            "counts: skipped: build the program with cargo build --release -p roce-tests --example turn"
        );
        assert!(std::env::var_os("CI").is_none(), "in CI nothing is skipped");
        return;
    };
    let table = std::fs::read_to_string(root().join("tests/data/instructions.txt"));
    let table = table.expect("the file is there");
    let mut complaints = Vec::new();
    let rows = table.lines().filter(|line| !line.starts_with('#'));
    for row in rows {
        let words: Vec<&str> = row.split_whitespace().collect();
        let [operation, bytes, known] = words[..] else {
            panic!("`{row}` has three words");
        };
        let known: f64 = known.parse().expect("a number");
        let cost = cost(&program, operation, bytes);
        println!(
            "counts: {operation} {bytes} {cost:.0} ({:+.1} %)",
            (cost / known - 1.0) * 100.0
        );
        if cost > known * TOLERANCE {
            complaints.push(format!(
                "{operation} {bytes}: {cost:.0} instructions, {known} before"
            ));
        }
    }
    assert!(
        table.lines().any(|line| line.starts_with("write")),
        "the file has rows"
    );
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

fn cost(program: &Path, operation: &str, bytes: &str) -> f64 {
    let few = count(program, operation, bytes, FEW);
    let many = count(program, operation, bytes, MANY);
    (many - few) as f64 / (MANY - FEW) as f64
}

fn count(program: &Path, operation: &str, bytes: &str, messages: u64) -> u64 {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([operation, bytes, &messages.to_string()])
        .output()
        .expect("valgrind is installed: tests/run does it");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let line = text
        .lines()
        .find_map(|line| line.split("Collected :").nth(1));
    let number = line.and_then(|rest| rest.trim().parse().ok());
    number.unwrap_or_else(|| panic!("callgrind's count is in its output:\n{text}"))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the release build of the counted program, beside this test's own folder.
fn program() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let target = own.ancestors().nth(3)?;
    Some(target.join("release/examples/turn")).filter(|path| path.exists())
}
