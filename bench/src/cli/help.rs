//! What help and manual pages say beyond the options: examples first, and of each test only the options that fit it.

use clap::CommandFactory as _;
use clap::builder::StyledStr;

use super::Roce;
use crate::spec::{Op, Test};

/// Examples of the whole command.
const EXAMPLES: &str = "\
Examples:
  roce compare                         every test on this machine: one table, no setup
  roce write-bw --lab                  one test, both ends on this machine
  roce write-bw                        server: waits for one client ...
  roce write-bw 192.0.2.1              ... client, on another machine, same options
  ib_write_bw 192.0.2.1                stock perftest may be either end";

/// What follows the options everywhere.
pub(super) const STATUSES: &str = "\
Exit status:
  0  done
  1  the test failed: the message says which request, and what usually causes it
  2  the command line is wrong
  3  the machine lacks something: a device, a privilege, a port, a file
  4  a limit (-w, -y) is not reached
  130  a signal ended it";

/// What follows the options of the whole command.
const ENVIRONMENT: &str = "\
Environment:
  NO_COLOR     set to anything: no colours
  ROCE_IBV_WR  set to anything: RDMA devices are posted to by ibv_wr_* wherever the
               provider has it, not only where perftest does

A link to this program named ib_write_bw, ib_send_lat, ... behaves as that test.";

/// Whether a test has an option.
type Fits = fn(Test) -> bool;

const BANDWIDTH: Fits = |test| test.is_bandwidth();
const LATENCY: Fits = |test| !test.is_bandwidth();
const SEND: Fits = |test| test.op == Op::Send;
const WRITE: Fits = |test| test.op == Op::Write;
const SIZABLE: Fits = |test| test.op != Op::Atomic;
const FETCH: Fits = |test| test.is_fetch();
const CARRIES: Fits = |test| !test.is_fetch();
const LIMITED: Fits = |test| test.is_bandwidth() && test.op != Op::Atomic;

/// Options that not all tests have, by the names of their fields.
const SOME: [(&str, Fits); 31] = [
    ("size", SIZABLE),
    ("all", SIZABLE),
    ("bidirectional", BANDWIDTH),
    ("qp", BANDWIDTH),
    ("tx_depth", BANDWIDTH),
    ("rx_depth", CARRIES),
    ("cq_mod", BANDWIDTH),
    ("post_list", BANDWIDTH),
    ("outs", FETCH),
    ("atomic_type", |test| test.op == Op::Atomic),
    ("connection", CARRIES),
    ("inline_size", CARRIES),
    ("use_srq", SEND),
    ("write_with_imm", WRITE),
    ("send_with_imm", SEND),
    ("reversed", BANDWIDTH),
    ("perform_warm_up", |test| {
        test.is_bandwidth() && test.op != Op::Send
    }),
    ("latency_gap", LATENCY),
    ("run_infinitely", BANDWIDTH),
    ("rate_limit", LIMITED),
    ("rate_units", LIMITED),
    ("rate_limit_type", LIMITED),
    ("burst_size", LIMITED),
    ("report_gbits", BANDWIDTH),
    ("no_peak", BANDWIDTH),
    ("report_both", BANDWIDTH),
    ("limit_bw", BANDWIDTH),
    ("limit_msgrate", BANDWIDTH),
    ("histogram", LATENCY),
    ("unsorted", LATENCY),
    ("cycles", LATENCY),
];

/// Returns the parser of the command, with its help.
pub(super) fn command() -> clap::Command {
    let mut roce = Roce::command()
        .before_help(EXAMPLES)
        .after_help(format!("{STATUSES}\n\n{ENVIRONMENT}"));
    for test in Test::ALL {
        roce = roce.mut_subcommand(test.name(), |command| of_test(command, test));
    }
    roce.mut_subcommand("compare", |command| command.after_help(STATUSES))
        .mut_subcommand("lab", |command| command.after_help(STATUSES))
}

/// Hides what a test does not have, and says its own defaults.
fn of_test(command: clap::Command, test: Test) -> clap::Command {
    let fields: Vec<_> = command
        .get_arguments()
        .map(|arg| arg.get_id().clone())
        .collect();
    let command = command.before_help(examples(test)).after_help(STATUSES);
    // All of them, as an argument that is changed goes behind the others.
    fields.into_iter().fold(command, |command, field| {
        command.mut_arg(field, |arg| argument_of(arg, test))
    })
}

/// Fits an option to a test.
fn argument_of(arg: clap::Arg, test: Test) -> clap::Arg {
    let field = arg.get_id().as_str();
    let hidden = SOME
        .iter()
        .any(|(some, fits)| *some == field && !fits(test));
    let with_default = |arg: &clap::Arg, default: u64| {
        let help = arg.get_help().map(StyledStr::to_string).unwrap_or_default();
        format!("{help} [default: {default}]")
    };
    let help = match field {
        "iters" => Some(with_default(&arg, test.default_iters())),
        "size" => Some(with_default(&arg, test.default_size())),
        "output" if test.is_bandwidth() => {
            Some("Print only one figure: bandwidth or message_rate".to_owned())
        }
        "output" => Some("Print only one figure: latency".to_owned()),
        "connection" if test.op == Op::Write => Some("Transport service: RC or UC".to_owned()),
        _ => None,
    };
    let arg = arg.hide(hidden);
    match help {
        Some(help) => arg.help(help),
        None => arg,
    }
}

/// Returns the examples of a test's help.
pub(super) fn examples(test: Test) -> String {
    let name = test.name();
    let third = match test.op {
        Op::Atomic => "-A CMP_AND_SWAP   ",
        _ => "-a                ",
    };
    let says = match test.op {
        Op::Atomic => "the other atomic",
        _ => "all sizes from 2 bytes to 8 MiB",
    };
    let mut text = format!(
        "Examples:
  roce {name} --lab                     both ends on this machine
  roce {name} -d udp:eth0               server, on that interface: waits for one client ...
  roce {name} -d udp:eth0 192.0.2.1     ... client of that server, same options
  roce {name} --lab {third}  {says}
  roce {name} --lab -D 10               ten seconds
  roce {name} --lab --impair drop=1%    on a network that loses packets
  roce {name} --lab --pcap run.pcapng   record every frame"
    );
    if test.op == Op::Send {
        text.push_str(&format!(
            "\n  roce {name} --lab -c UD               datagrams"
        ));
    }
    text
}
