//! Renews the tables of `docs/interop.md` with what a full run found.

use core::fmt::Write as _;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result};
use roce_tests::guest::case::{Peer, Role, Test};
use roce_tests::guest::{choice, matrix};

use super::faults;
use super::run::{Told, What};

const BEGIN: &str = "<!-- Written by `interop -- --full`: begin -->";
const END: &str = "<!-- Written by `interop -- --full`: end -->";

const PASSED: char = '✓';
const FAILED: char = '✗';
/// Not run since the line was added.
const UNKNOWN: char = '·';

/// Marks by row and column, one character a role.
type Marks = BTreeMap<(String, String), String>;

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/interop.md")
}

/// Writes what a run found into the tables; what it did not run stays as it was.
pub(crate) fn renew(told: &[Told]) -> Result<()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock();
    let file = file();
    let name = file.display();
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {name}"))?;
    let (before, rest) = text
        .split_once(BEGIN)
        .with_context(|| format!("{name} has no line `{BEGIN}`"))?;
    let (old, after) = rest
        .split_once(END)
        .with_context(|| format!("{name} has no line `{END}`"))?;
    let mut marks = read(old);
    for one in told {
        note(&mut marks, one);
    }
    let tables = write(&marks);
    std::fs::write(&file, format!("{before}{BEGIN}\n\n{tables}\n{END}{after}"))
        .with_context(|| format!("cannot write {name}"))
}

fn note(marks: &mut Marks, told: &Told) {
    let mark = if told.passed { PASSED } else { FAILED };
    match &told.what {
        What::Fault(peer, name) => {
            marks.insert((row("fault", name), peer.kernel().to_owned()), mark.into());
        }
        What::Case(case) => {
            let key = (
                row(case.test.name(), &case.choice.name),
                case.path.to_string(),
            );
            let cell = marks
                .entry(key)
                .or_insert_with(|| [UNKNOWN; 2].iter().collect());
            let mut pair: Vec<char> = cell.chars().collect();
            pair.resize(2, UNKNOWN);
            pair[usize::from(case.role == Role::Server)] = mark;
            *cell = pair.into_iter().collect();
        }
    }
}

fn row(first: &str, second: &str) -> String {
    format!("{first} | {second}")
}

/// Reads the tables back.
fn read(text: &str) -> Marks {
    let mut marks = Marks::new();
    let mut columns: Vec<String> = Vec::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [first, second, rest @ ..] = cells.as_slice() else {
            continue;
        };
        if matches!(*first, "test" | "what") {
            columns = rest.iter().map(|cell| (*cell).to_owned()).collect();
        } else if !first.starts_with('-') {
            let name = row(first, second.trim_matches('`'));
            for (column, cell) in columns.iter().zip(rest) {
                if cell.contains([PASSED, FAILED]) {
                    marks.insert((name.clone(), column.clone()), (*cell).to_owned());
                }
            }
        }
    }
    marks
}

fn write(marks: &Marks) -> String {
    let mut text = totals(marks);
    let paths = matrix::paths();
    let columns: Vec<String> = paths.iter().map(ToString::to_string).collect();
    head(&mut text, ["test", "options"], &columns);
    for test in Test::ALL {
        for choice in choice::choices(test) {
            let name = row(test.name(), &choice.name);
            let _infallible = write!(text, "| {} | `{}` |", test.name(), choice.name);
            for (path, column) in paths.iter().zip(&columns) {
                let mark = marks.get(&(name.clone(), column.clone()));
                let cell = match mark {
                    _ if !matrix::suits(&choice, path) => "–".to_owned(),
                    Some(mark) => mark.clone(),
                    None => [UNKNOWN; 2].iter().collect(),
                };
                let _infallible = write!(text, " {cell} |");
            }
            text.push('\n');
        }
    }
    text.push('\n');
    let kernels = Peer::ALL.map(|peer| peer.kernel().to_owned());
    head(&mut text, ["what", "goes wrong"], &kernels);
    for fault in faults::all() {
        let name = row("fault", fault.name);
        let _infallible = write!(text, "| fault | {} |", fault.name);
        for kernel in &kernels {
            let mark = marks.get(&(name.clone(), kernel.clone()));
            let unknown = UNKNOWN.to_string();
            let _infallible = write!(text, " {} |", mark.unwrap_or(&unknown));
        }
        text.push('\n');
    }
    text
}

/// How many cases of each kernel passed and failed, and how many no run has had yet.
fn totals(marks: &Marks) -> String {
    let mut text = String::new();
    for peer in Peer::ALL {
        let mine = |column: &str| {
            column == peer.kernel() || column.starts_with(&format!("{} ", peer.kernel()))
        };
        let count = |mark: char| -> usize {
            marks
                .iter()
                .filter(|((_, column), _)| mine(column))
                .map(|(_, cell)| cell.chars().filter(|one| *one == mark).count())
                .sum()
        };
        let all = matrix::full(&matrix::LINKS.map(str::to_owned))
            .iter()
            .filter(|case| case.path.peer == peer)
            .count()
            + faults::all().len();
        let (passed, failed) = (count(PASSED), count(FAILED));
        let _infallible = writeln!(
            text,
            "Linux {}: {passed} passed, {failed} failed, {} not run since the list grew.\n",
            peer.kernel(),
            all.saturating_sub(passed + failed)
        );
    }
    text
}

fn head(text: &mut String, first: [&str; 2], columns: &[String]) {
    let _infallible = write!(text, "| {} | {} |", first[0], first[1]);
    for column in columns {
        let _infallible = write!(text, " {column} |");
    }
    text.push_str("\n|---|---|");
    text.push_str(&"---|".repeat(columns.len()));
    text.push('\n');
}
