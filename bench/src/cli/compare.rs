//! The options of `roce compare`.

use core::time::Duration;
use std::path::PathBuf;

use clap::Args;
use roce_engine::verbs::Mtu;

use super::values;
use crate::spec::Test;

const EXAMPLES: &str = "\
Examples:
  roce compare                                  the default rows, three rounds: about two minutes
  roce compare --quick                          one short round, to see that it works
  roce compare --tests write-bw --sizes 64,64K  a few cells
  roce compare --create-rxe eth0                the kernel's soft-RoCE beside the others, as root
  roce compare --report results                 writes results/compare.json, too";

/// Options of the comparison.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES, disable_version_flag = true)]
pub(super) struct CompareOptions {
    /// Another machine: not supported yet
    #[arg(hide = true)]
    server: Option<String>,
    /// Tests, comma-separated [default: all but the atomic bandwidth, at typical sizes]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = test)]
    tests: Vec<Test>,
    /// Message sizes, comma-separated, K and M suffixes allowed
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = values::size)]
    sizes: Vec<u64>,
    /// Path MTU of every cell: 256, 512, 1024, 2048 or 4096 [default: the largest that each path carries]
    #[arg(short, long, value_name = "BYTES", value_parser = values::mtu)]
    mtu: Option<Mtu>,
    /// Backends, comma-separated [default: all that this machine can run]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    backends: Vec<String>,
    /// Rounds; the table has their median [default: 3, with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: Option<u32>,
    /// Measured seconds of a cell, after a quarter of them as warm-up [default: 2, with --quick 0.4]
    #[arg(long, value_name = "S", value_parser = values::seconds)]
    duration: Option<Duration>,
    /// Measure beside each cell what its bare path gives: the same packets with no protocol
    #[arg(long)]
    ceiling: bool,
    /// Look at the data of each cell, which costs some of its speed; data that is wrong fails the cell
    #[arg(long)]
    verify: bool,
    /// Make a soft-RoCE device on this interface for the comparison, and remove it after (as root)
    #[arg(long, value_name = "NETDEV")]
    create_rxe: Option<String>,
    /// One short round
    #[arg(long)]
    quick: bool,
    /// Writes compare.json in this folder
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

/// A comparison as data.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CompareSpec {
    /// The tests, if they were chosen.
    pub tests: Vec<Test>,
    /// The message sizes, if they were chosen.
    pub sizes: Vec<u64>,
    /// The path MTU, if it was chosen.
    pub mtu: Option<Mtu>,
    /// The backends, if they were chosen.
    pub backends: Vec<String>,
    /// How many times each cell runs.
    pub rounds: u32,
    /// How long a cell is measured.
    pub duration: Duration,
    /// Whether the bare paths are measured beside them.
    pub ceiling: bool,
    /// Whether the data is looked at.
    pub verify: bool,
    /// The interface that a soft-RoCE device is made on.
    pub create_rxe: Option<String>,
    /// Where the report goes.
    pub report: Option<PathBuf>,
}

impl CompareOptions {
    /// Resolves defaults.
    ///
    /// # Errors
    /// Says what is not there or makes no sense.
    pub(super) fn resolve(self) -> Result<CompareSpec, String> {
        if let Some(server) = self.server {
            return Err(format!(
                "comparing with another machine is not supported yet; run without `{server}`, \
                 or single tests against it, as in: roce write-bw {server}"
            ));
        }
        let (rounds, duration) = if self.quick {
            (1, Duration::from_millis(400))
        } else {
            (3, Duration::from_secs(2))
        };
        let duration = self.duration.unwrap_or(duration);
        if duration < Duration::from_millis(100) {
            return Err("a cell shorter than 0.1 s (--duration) measures its own start".to_owned());
        }
        Ok(CompareSpec {
            tests: self.tests,
            sizes: self.sizes,
            mtu: self.mtu,
            backends: self.backends,
            rounds: self.rounds.unwrap_or(rounds),
            duration,
            ceiling: self.ceiling,
            verify: self.verify,
            create_rxe: self.create_rxe,
            report: self.report,
        })
    }
}

fn test(text: &str) -> Result<Test, String> {
    Test::from_name(&text.replace('_', "-"))
        .or_else(|| Test::from_name(text))
        .ok_or_else(|| {
            let names: Vec<_> = Test::ALL.iter().map(|test| test.name()).collect();
            format!("tests are {}", names.join(", "))
        })
}
