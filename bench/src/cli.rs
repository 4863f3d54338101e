//! The command line: perftest's letters, names, defaults and limits, and ours.
//!
//! What perftest has and this program has not is refused by name, never ignored.

mod build;
mod compare;
mod options;
mod refused;
mod values;

use std::ffi::OsString;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

pub use compare::CompareSpec;

use crate::exit;
use crate::spec::{Spec, Test};

/// What the command line asks for.
#[derive(Debug)]
pub enum Command {
    /// One of the eight tests.
    Test {
        /// The run.
        spec: Box<Spec>,
        /// What was asked for and has no effect: for stderr.
        notes: Vec<String>,
    },
    /// All tests over all backends.
    Compare(CompareSpec),
}

/// Why there is nothing to run.
#[derive(Debug)]
pub enum Stop {
    /// Help, or an error that the parser words.
    Parser(Box<clap::Error>),
    /// A version was asked for: a line for stdout.
    Version(String),
    /// A usage error: text for stderr.
    Usage(String),
}

impl Stop {
    /// Prints it where it belongs and returns the exit status.
    pub fn report(&self) -> u8 {
        match self {
            Self::Parser(error) => {
                // Nobody is left to hear about a closed terminal.
                let _printed = error.print();
                if error.use_stderr() { exit::USAGE } else { 0 }
            }
            Self::Version(text) => {
                println!("{text}");
                0
            }
            Self::Usage(text) => {
                eprintln!("error: {text}");
                exit::USAGE
            }
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  roce compare                         every test on this machine: one table, no setup
  roce write-bw --lab                  one test, both ends on this machine
  roce write-bw                        server: waits for one client ...
  roce write-bw 192.0.2.1              ... client, on another machine, same options
  ib_write_bw 192.0.2.1                stock perftest may be either end";

/// RDMA performance tests over RoCEv2, with or without RDMA hardware.
#[derive(Parser)]
#[command(
    name = "roce",
    before_help = EXAMPLES,
    disable_help_subcommand = true,
    disable_version_flag = true,
    arg_required_else_help = true,
    subcommand_required = true
)]
struct Roce {
    #[command(subcommand)]
    command: Sub,
}

#[derive(Subcommand)]
enum Sub {
    /// WRITE bandwidth: the client writes into the server's memory
    WriteBw(options::TestOptions),
    /// WRITE latency: ping-pong by polling memory
    WriteLat(options::TestOptions),
    /// READ bandwidth: the client reads the server's memory
    ReadBw(options::TestOptions),
    /// READ latency: one read at a time
    ReadLat(options::TestOptions),
    /// SEND bandwidth: into receives that the server posted
    SendBw(options::TestOptions),
    /// SEND latency: ping-pong
    SendLat(options::TestOptions),
    /// Atomic rate: FETCH_AND_ADD or CMP_AND_SWAP on the server's memory
    AtomicBw(options::TestOptions),
    /// Atomic latency: one at a time
    AtomicLat(options::TestOptions),
    /// All tests over every backend of this machine: one table, one report
    Compare(compare::CompareOptions),
}

impl Sub {
    fn into_test(self) -> Result<(Test, options::TestOptions), Box<compare::CompareOptions>> {
        let (name, options) = match self {
            Self::WriteBw(options) => ("write-bw", options),
            Self::WriteLat(options) => ("write-lat", options),
            Self::ReadBw(options) => ("read-bw", options),
            Self::ReadLat(options) => ("read-lat", options),
            Self::SendBw(options) => ("send-bw", options),
            Self::SendLat(options) => ("send-lat", options),
            Self::AtomicBw(options) => ("atomic-bw", options),
            Self::AtomicLat(options) => ("atomic-lat", options),
            Self::Compare(options) => return Err(Box::new(options)),
        };
        let test = Test::ALL.into_iter().find(|test| test.name() == name);
        Ok((test.unwrap_or(Test::ALL[0]), options))
    }
}

/// Parses a command line; its first word decides, too: a link named `ib_write_bw` is that test.
///
/// # Errors
/// Help, a version, or what is wrong.
pub fn parse<I>(words: I) -> Result<Command, Stop>
where
    I: IntoIterator<Item = OsString>,
{
    let words = with_subcommand(words.into_iter().collect());
    if let [_, only] = words.as_slice()
        && (only == "--version" || only == "-V")
    {
        return Err(Stop::Version(version()));
    }
    let matches = Roce::command()
        .try_get_matches_from(&words)
        .map_err(|error| explain(error, &words))?;
    let roce = Roce::from_arg_matches(&matches).map_err(|error| Stop::Parser(Box::new(error)))?;
    match roce.command.into_test() {
        Ok((_, options)) if options.shown.version => {
            Err(Stop::Version(format!("Version: 6.20\n{}", version())))
        }
        Ok((test, options)) => {
            let built = build::build(test, options).map_err(|text| usage(test.name(), &text))?;
            Ok(Command::Test {
                spec: Box::new(built.0),
                notes: built.1,
            })
        }
        Err(options) => options
            .resolve()
            .map(Command::Compare)
            .map_err(|text| usage("compare", &text)),
    }
}

fn version() -> String {
    format!(
        "roce {} (perftest protocol 6.20)",
        env!("CARGO_PKG_VERSION")
    )
}

fn usage(command: &str, text: &str) -> Stop {
    let space = if command.is_empty() { "" } else { " " };
    Stop::Usage(format!("{text}\n\nSee `roce{space}{command} --help`."))
}

/// Puts the subcommand in where the program's own name says it.
fn with_subcommand(mut words: Vec<OsString>) -> Vec<OsString> {
    let own = words
        .first()
        .and_then(|name| Path::new(name).file_name())
        .and_then(|name| name.to_str())
        .filter(|name| name.starts_with("ib_"))
        .and_then(Test::from_name);
    if let Some(test) = own {
        words.insert(1, test.name().into());
    }
    words
}

/// Says what is known about an option or command that the parser doesn't know.
fn explain(error: clap::Error, words: &[OsString]) -> Stop {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let known = match error.kind() {
        ErrorKind::UnknownArgument => context(ContextKind::InvalidArg).and_then(refused::option),
        ErrorKind::InvalidSubcommand => {
            context(ContextKind::InvalidSubcommand).and_then(refused::command)
        }
        _ => None,
    };
    match known {
        Some(text) => {
            let command = words.get(1).and_then(|word| word.to_str()).unwrap_or("");
            let is_known = Roce::command().find_subcommand(command).is_some();
            usage(if is_known { command } else { "" }, &text)
        }
        None => Stop::Parser(Box::new(error)),
    }
}

#[cfg(test)]
mod tests;
