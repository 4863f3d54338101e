//! The table of perftest's options in `docs/perftest-compat.md` against the parser and the refusals.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory as _;

use super::{refusal, refused};
use crate::cli::Roce;

/// A row of the table.
struct Row {
    options: Vec<String>,
    works: bool,
    /// What to use instead, if it doesn't.
    instead: String,
    /// The tests that the last column names.
    proofs: Vec<String>,
}

fn document() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/perftest-compat.md");
    fs::read_to_string(path).unwrap()
}

fn rows(document: &str) -> Vec<Row> {
    let quoted = |cell: &str| -> Vec<String> {
        cell.split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect()
    };
    document
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| {
            let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [options, _, here, instead, proofs] = cells[..] else {
                panic!("not five cells: {line}")
            };
            assert!(["works", "refused"].contains(&here), "{line}");
            Row {
                options: quoted(options),
                works: here != "refused",
                instead: instead.to_owned(),
                proofs: quoted(proofs),
            }
        })
        .collect()
}

/// Returns the options of a test as a user types them.
fn parsed() -> BTreeSet<String> {
    let roce = Roce::command();
    let test = roce.find_subcommand("write-bw").unwrap();
    let mut names = BTreeSet::from(["-h".to_owned(), "--help".to_owned()]);
    for arg in test.get_arguments().filter(|arg| !arg.is_positional()) {
        names.extend(arg.get_short().map(|letter| format!("-{letter}")));
        names.extend(arg.get_long().map(|long| format!("--{long}")));
        let aliases = arg.get_all_aliases().unwrap_or_default();
        names.extend(aliases.iter().map(|long| format!("--{long}")));
    }
    names
}

#[test]
fn table_parser_and_refusals_agree() {
    let document = document();
    let table = rows(&document);
    let parsed = parsed();
    let names = |works| {
        let of = table.iter().filter(move |row| row.works == works);
        of.flat_map(|row| row.options.iter().cloned())
    };
    let ours = document.split("## Ours").nth(1).unwrap();
    let ours = ours.split('`').skip(1).step_by(2).map(str::to_owned);
    let ours = ours.filter(|name| name.starts_with("--"));
    let told: BTreeSet<String> = names(true).chain(ours).collect();
    assert_eq!(told, parsed, "left: the document, right: the parser");

    let refused_here: Vec<String> = names(false).collect();
    for option in refused::all_of_perftest() {
        let family = refused_here.iter().any(|told| told.starts_with(&option));
        assert!(family, "{option} is refused, and not in the table");
    }
    let all: Vec<_> = table.iter().flat_map(|row| &row.options).collect();
    let distinct: BTreeSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), all.len(), "an option has two rows");
}

#[test]
fn every_other_option_is_refused_by_name() {
    for row in rows(&document()).iter().filter(|row| !row.works) {
        for option in &row.options {
            for tail in ["", " 1"] {
                let text = refusal(&format!("ib_write_bw {option}{tail}"));
                let text = text.lines().next().unwrap_or_default();
                let named = text.starts_with(&format!("option {option} "));
                assert!(named && text.ends_with(&row.instead), "{option}: {text}");
            }
            if option.starts_with("--") {
                let text = refusal(&format!("roce send-lat {option}=1 host"));
                assert!(text.starts_with(&format!("option {option} ")), "{text}");
            }
        }
    }
    assert!(refusal("ib_write_bw -FR").starts_with("option -R (rdma_cm)"));
    let text = refusal("roce write-bw --ceiling");
    assert!(
        text.starts_with("option --ceiling is not supported; "),
        "{text}"
    );
}

#[test]
fn every_row_names_a_test_that_is_there() {
    let mut code = String::new();
    for folder in ["src/cli", "tests/cli"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        sources(&folder, &mut code);
    }
    let mut runs = 0;
    for row in rows(&document()) {
        assert_eq!(row.proofs.len(), 1, "{:?}", row.options);
        for proof in row.proofs {
            if let Some(words) = proof.strip_prefix("roce ") {
                let mut words = words.split(' ');
                let used = words.any(|word| row.options.iter().any(|option| option == word));
                assert!(used, "{proof} does not use any of {:?}", row.options);
                runs += 1;
            } else {
                assert!(code.contains(&format!("fn {proof}()")), "no test {proof}");
            }
        }
    }
    assert!(runs > 50, "{runs} commands");
}

fn sources(folder: &PathBuf, code: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, code);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            code.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}
