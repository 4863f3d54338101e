//! The command `roce`.

use std::process::ExitCode;

use roce_bench::cli::{self, Command};
use roce_bench::output::{self, Printer, say};
use roce_bench::spec::{Form, Spec};
use roce_bench::{compare, devices, exit, lab, program};

fn main() -> ExitCode {
    let command = match cli::parse(std::env::args_os()) {
        Ok(command) => command,
        Err(stop) => return ExitCode::from(stop.report()),
    };
    let result = match command {
        Command::Test { spec, notes } => {
            for note in notes {
                eprintln!("roce: {note}");
            }
            test(&spec).map(|()| 0)
        }
        Command::Compare(spec) => compare::run(&spec),
        Command::Lab(action) => lab::named::run(&action),
        Command::Devices(spec) => devices::run(spec).map(|()| 0),
        Command::Man(folder) => cli::manual(&folder).map(|pages| {
            say(&format!("{pages} pages in {}", folder.display()));
            0
        }),
        Command::Completions(shell) => cli::completions(shell).map(|()| 0),
    };
    match result.and_then(|status| output::printed().map(|()| status)) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("roce: {}", exit::words_of(&error));
            ExitCode::from(exit::status_of(&error))
        }
    }
}

fn test(spec: &Spec) -> anyhow::Result<()> {
    let mut output = Printer::new(spec)?;
    if spec.lab {
        let words = lab::run(spec, &mut output)?;
        if spec.shown.form == Form::Full {
            for line in words {
                say(&format!(" server: {line}"));
            }
        }
        return Ok(());
    }
    let door = lab::inherited_door()?.unwrap_or(program::Door::Options);
    program::one_end(spec, door, &mut output)
}
