//! What help shows, and that it fits what is accepted.

use clap::Command as Clap;

use super::{parse_line, refusal};
use crate::cli::{Command, help};
use crate::spec::{Op, Test};

/// Returns a command line that gives an option of a test.
fn line(test: Test, arg: &clap::Arg) -> String {
    let name = match (arg.get_long(), arg.get_short()) {
        (Some(long), _) => format!("--{long}"),
        (None, Some(short)) => format!("-{short}"),
        (None, None) => String::new(),
    };
    let value = match arg.get_id().as_str() {
        "events" if test.op == Op::Write => "--write_with_imm",
        _ if !arg.get_action().takes_values() => "",
        "connection" => "UC",
        "atomic_type" => "CMP_AND_SWAP",
        "rate_units" => "g --rate_limit 1",
        "rate_limit_type" => "SW --rate_limit 1",
        "burst_size" => "2 --rate_limit 1",
        "size" => "16",
        "rx_depth" if test.op == Op::Write => "4 --write_with_imm",
        _ => "4",
    };
    format!("roce {} {name} {value}", test.name())
}

fn of(roce: &Clap, test: Test) -> &Clap {
    roce.find_subcommand(test.name()).unwrap()
}

#[test]
fn what_is_hidden_of_a_test_is_refused_or_without_effect_and_the_rest_is_not() {
    let roce = help::command();
    let mut hidden = 0;
    for test in Test::ALL {
        for arg in of(&roce, test).get_arguments() {
            let line = line(test, arg);
            if arg.is_hide_set() {
                hidden += 1;
                match parse_line(&line) {
                    Ok(Command::Test { notes, .. }) => {
                        assert!(!notes.is_empty(), "{line} is hidden and has an effect");
                    }
                    _ => assert!(refusal(&line).contains("does not fit"), "{line}"),
                }
            } else if let Err(stop) = parse_line(&line) {
                let text = format!("{stop:?}");
                assert!(!text.contains("does not fit"), "{line} is shown: {text}");
            }
        }
    }
    assert!(hidden > 80, "{hidden}");
}

#[test]
fn help_begins_with_examples_of_the_test_itself() {
    for test in Test::ALL {
        let mut roce = help::command();
        let command = roce.find_subcommand_mut(test.name()).unwrap();
        let text = command.render_help().to_string();
        let (examples, rest) = text.split_once("\n\n").unwrap();
        assert!(examples.starts_with("Examples:\n  roce "), "{text}");
        for line in examples.lines().skip(1) {
            assert!(line.contains(test.name()), "{line}");
            let words = line.trim().split("  ").next().unwrap();
            assert!(parse_line(words).is_ok(), "{words}");
        }
        assert!(rest.contains("Exit status:\n  0  done\n"), "{text}");
        let default = format!("[default: {}]", test.default_iters());
        assert!(rest.contains(&default), "{text}");
    }
}

#[test]
fn sections_of_help_have_one_order() {
    let order = [
        "Test:",
        "Queue pairs:",
        "Pace:",
        "Path:",
        "Report:",
        "Examine:",
    ];
    for test in Test::ALL {
        let mut roce = help::command();
        let command = roce.find_subcommand_mut(test.name()).unwrap();
        let text = command.render_help().to_string();
        let places: Vec<_> = order
            .iter()
            .filter_map(|heading| text.find(&format!("\n{heading}\n")))
            .collect();
        assert!(places.is_sorted(), "{}: {places:?}\n{text}", test.name());
        assert!(places.len() >= 5);
    }
}
