//! The command line: perftest's letters, names, defaults and limits, and ours.
//!
//! What perftest has and this program has not is refused by name, never ignored.

mod build;
mod compare;
mod generate;
mod help;
mod lab;
mod options;
mod refused;
mod values;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{FromArgMatches as _, Parser, Subcommand};
use clap_complete::Shell;

pub use crate::devices::DevicesSpec;
pub use compare::CompareSpec;
pub use generate::{completions, manual};
pub use lab::{LabAction, LabUp, Side};

use crate::exit;
use crate::spec::{Metric, Op, Spec, Test};

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
    /// The network of two hosts with names.
    Lab(LabAction),
    /// The devices of all backends.
    Devices(DevicesSpec),
    /// Manual pages, into a folder.
    Man(PathBuf),
    /// Completions for a shell, on stdout.
    Completions(Shell),
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

/// RDMA performance tests over RoCEv2, with or without RDMA hardware.
#[derive(Parser)]
#[command(
    name = "roce",
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
    /// A private network of two hosts, for AF_XDP and for trying things out (as root)
    Lab(lab::LabOptions),
    /// Devices of every backend: port state, MTUs, link layer, GID table with type and interface
    Devices {
        /// Limits of RDMA devices, too
        #[arg(short, long)]
        verbose: bool,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Write the manual pages into a folder
    Man {
        /// The folder, as in /usr/local/share/man/man1; it is made if it is not there
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Print completions for a shell
    Completions {
        /// The shell
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
}

impl Sub {
    /// Resolves what was typed.
    fn resolve(self) -> Result<Command, Stop> {
        let (op, metric, options) = match self {
            Self::WriteBw(options) => (Op::Write, Metric::Bandwidth, options),
            Self::WriteLat(options) => (Op::Write, Metric::Latency, options),
            Self::ReadBw(options) => (Op::Read, Metric::Bandwidth, options),
            Self::ReadLat(options) => (Op::Read, Metric::Latency, options),
            Self::SendBw(options) => (Op::Send, Metric::Bandwidth, options),
            Self::SendLat(options) => (Op::Send, Metric::Latency, options),
            Self::AtomicBw(options) => (Op::Atomic, Metric::Bandwidth, options),
            Self::AtomicLat(options) => (Op::Atomic, Metric::Latency, options),
            Self::Compare(options) => {
                return options
                    .resolve()
                    .map(Command::Compare)
                    .map_err(|text| usage("compare", &text));
            }
            Self::Lab(options) => return Ok(Command::Lab(options.action)),
            Self::Devices { verbose, json } => {
                return Ok(Command::Devices(DevicesSpec { verbose, json }));
            }
            Self::Man { folder } => return Ok(Command::Man(folder)),
            Self::Completions { shell } => return Ok(Command::Completions(shell)),
        };
        let test = Test::new(op, metric);
        if options.shown.version {
            return Err(Stop::Version(format!("Version: 6.20\n{}", version())));
        }
        let (spec, notes) =
            build::build(test, options).map_err(|text| usage(test.name(), &text))?;
        let spec = Box::new(spec);
        Ok(Command::Test { spec, notes })
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
    let matches = help::command()
        .try_get_matches_from(&words)
        .map_err(|error| explain(error, &words))?;
    let roce = Roce::from_arg_matches(&matches).map_err(|error| Stop::Parser(Box::new(error)))?;
    roce.command.resolve()
}

/// Returns the version, with the commit that this was built from where that is known.
fn version() -> String {
    let commit =
        option_env!("ROCE_COMMIT").map_or_else(String::new, |commit| format!("commit {commit}, "));
    format!(
        "roce {} ({commit}perftest protocol 6.20)",
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
        // The parser's texts then name a command line that works.
        words[0] = "roce".into();
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
            let is_known = help::command().find_subcommand(command).is_some();
            usage(if is_known { command } else { "" }, &text)
        }
        None => Stop::Parser(Box::new(error)),
    }
}

#[cfg(test)]
mod tests;
