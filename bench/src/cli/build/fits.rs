//! Which options a test has, and which of them exclude each other.

use roce_engine::verbs::Service;

use crate::cli::options::TestOptions;
use crate::spec::{Form, Op, Test};

const SIZE: &str = "the size of an atomic is always 8";
const RATE: &str =
    "it applies to bandwidth tests; a latency test has one request at a time on one QP";
const SAMPLES: &str = "it applies to latency tests";
const RECEIVES: &str = "only send tests, and write tests with --write_with_imm, post receives";

/// A rule about an option: its name, whether it was given, whether it fits, and why it does not.
type Rule = (&'static str, bool, bool, &'static str);

/// Refuses options that a test does not have.
///
/// # Errors
/// Names the first of them, and says why.
pub(super) fn applicable(test: Test, options: &TestOptions) -> Result<(), String> {
    let rules = amounts(test, options)
        .into_iter()
        .chain(qps(test, options))
        .chain(pace(test, options))
        .chain(shown(test, options));
    for (option, given, fits, why) in rules {
        if given && !fits {
            return Err(format!(
                "option {option} does not fit {}: {why}",
                test.name()
            ));
        }
    }
    Ok(())
}

fn amounts(test: Test, options: &TestOptions) -> [Rule; 10] {
    let sizable = test.op != Op::Atomic;
    let bandwidth = test.is_bandwidth();
    let receives = test.op == Op::Send || (test.op == Op::Write && options.pace.write_with_imm);
    let some = |value: Option<u32>| value.is_some_and(|value| value > 1);
    let size = options.size.is_some_and(|size| size != 8);
    let fetch = "it applies to read and atomic tests";
    let atomic = "it applies to atomic tests";
    [
        ("-a", options.all, sizable, SIZE),
        ("-s", size, sizable, SIZE),
        ("-b", options.bidirectional, bandwidth, RATE),
        ("-q", some(options.qp), bandwidth, RATE),
        ("-t", some(options.tx_depth), bandwidth, RATE),
        ("-r", some(options.rx_depth), receives, RECEIVES),
        ("-Q", options.cq_mod.is_some(), bandwidth, RATE),
        ("-l", some(options.post_list), bandwidth, RATE),
        ("-o", options.outs.is_some(), test.is_fetch(), fetch),
        ("-A", options.atomic_type.is_some(), !sizable, atomic),
    ]
}

fn qps(test: Test, options: &TestOptions) -> [Rule; 5] {
    let given = &options.qps;
    let write = test.op == Op::Write;
    [
        (
            "-c UC",
            given.connection == Service::Uc,
            !test.is_fetch(),
            "READs and atomics need a reliable connection: use -c RC",
        ),
        (
            "-c UD",
            given.connection == Service::Ud,
            test.op == Op::Send,
            "datagrams carry SENDs only: use send-bw or send-lat, or -c RC",
        ),
        (
            "-I",
            given.inline_size.is_some(),
            !test.is_fetch(),
            "the requests of READs and atomics carry no data to copy",
        ),
        (
            "-e",
            given.events,
            !write || options.pace.write_with_imm,
            "the end that is written to has no completions: use --write_with_imm",
        ),
        (
            "--use-srq",
            given.use_srq,
            test.op == Op::Send,
            "only send tests share receives",
        ),
    ]
}

fn pace(test: Test, options: &TestOptions) -> [Rule; 9] {
    let given = &options.pace;
    let bandwidth = test.is_bandwidth();
    let limited = given.rate_limit.is_some();
    [
        (
            "--write_with_imm",
            given.write_with_imm,
            test.op == Op::Write,
            "it applies to write tests",
        ),
        (
            "--send_with_imm",
            given.send_with_imm,
            test.op == Op::Send,
            "it applies to send tests",
        ),
        (
            "--reversed",
            given.reversed,
            bandwidth,
            "both ends take part in a latency test",
        ),
        (
            "--perform_warm_up",
            given.perform_warm_up,
            bandwidth && test.op != Op::Send,
            "it applies to write-bw, read-bw and atomic-bw",
        ),
        (
            "--latency_gap",
            given.latency_gap.is_some(),
            !bandwidth,
            SAMPLES,
        ),
        (
            "--run_infinitely",
            given.run_infinitely,
            bandwidth,
            "it applies to bandwidth tests",
        ),
        (
            "--rate_limit",
            limited,
            bandwidth,
            "it applies to bandwidth tests; --latency_gap spaces messages out",
        ),
        (
            "--rate_limit",
            limited,
            test.op != Op::Atomic,
            "atomics are not limited by software, as in perftest",
        ),
        (
            "--rate_limit",
            limited,
            test.op != Op::Send || !options.bidirectional,
            "with -b, SENDs are not limited by software, as in perftest",
        ),
    ]
}

fn shown(test: Test, options: &TestOptions) -> [Rule; 9] {
    let given = &options.shown;
    let bandwidth = test.is_bandwidth();
    let latency = !bandwidth;
    let rates = "it applies to bandwidth tests";
    let figure = given.output.unwrap_or_default();
    [
        ("-N", given.no_peak, bandwidth, rates),
        ("-w", given.limit_bw.is_some(), bandwidth, rates),
        ("-y", given.limit_msgrate.is_some(), bandwidth, rates),
        ("--report-both", given.report_both, bandwidth, rates),
        ("-H", given.histogram, latency, SAMPLES),
        ("-U", given.unsorted, latency, SAMPLES),
        ("-C", given.cycles, latency, SAMPLES),
        (
            "--output latency",
            figure == Form::Latency,
            latency,
            "use --output bandwidth or --output message_rate",
        ),
        (
            "--output",
            matches!(figure, Form::Bandwidth | Form::MessageRate),
            bandwidth,
            "use --output latency",
        ),
    ]
}

/// Refuses options that exclude each other.
///
/// # Errors
/// Names both of them, and says why.
pub(super) fn compatible(test: Test, options: &TestOptions) -> Result<(), String> {
    let TestOptions {
        qps, pace, shown, ..
    } = options;
    let (clock, forever) = (options.duration.is_some(), pace.run_infinitely);
    let lists = shown.histogram || shown.unsorted;
    let pairs = [
        (
            options.all && clock,
            "options -a and -D exclude each other: a run by the clock has one size",
        ),
        (
            lists && clock,
            "options -H and -U need a number of messages (-n) instead of -D",
        ),
        (
            qps.events && clock,
            "options -e and -D exclude each other: use -n",
        ),
        (
            qps.events && forever,
            "options -e and --run_infinitely exclude each other: use -n",
        ),
        (
            options.all && forever,
            "options -a and --run_infinitely exclude each other: one size has no end",
        ),
        (
            pace.rate_limit.is_some() && forever,
            "options --rate_limit and --run_infinitely exclude each other: use -D with a long time",
        ),
        (
            test.op == Op::Send && options.bidirectional && forever,
            "options -b and --run_infinitely exclude each other in send-bw: use -D with a long time",
        ),
        (
            pace.write_with_imm && options.bidirectional && forever,
            "options -b and --run_infinitely exclude each other with --write_with_imm: use -D with a long time",
        ),
        (
            options.port == 0 && options.server.is_some(),
            "a client needs its server's port: -p 0 is for a server, which then says the port it got",
        ),
        (
            pace.burst_size.is_some() && pace.rate_limit.is_none(),
            "option --burst_size needs --rate_limit: without a limit there are no bursts",
        ),
    ];
    match pairs.into_iter().find(|(given, _)| *given) {
        Some((_, why)) => Err(why.to_owned()),
        None => Ok(()),
    }
}
