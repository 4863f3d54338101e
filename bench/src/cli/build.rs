//! From options to a run: which apply to which test, and which exclude each other.

use core::net::IpAddr;
use core::time::Duration;

use super::options::TestOptions;
use crate::spec::{LARGEST_OF_ALL, Op, PcapSpec, Role, Span, Spec, Test};

/// Makes the run that the options ask for, with notes about what has no effect.
///
/// # Errors
/// Says which option does not fit, and why.
pub(super) fn build(test: Test, options: TestOptions) -> Result<(Spec, Vec<String>), String> {
    applicable(test, &options)?;
    let mut notes = Vec::new();
    let mut spec = Spec::new(test);
    amount(&mut spec, &options, &mut notes)?;
    queues(&mut spec, &options)?;
    path(&mut spec, &options);
    output(&mut spec, options, &mut notes);
    Ok((spec, notes))
}

/// Refuses options that a test does not have.
fn applicable(test: Test, options: &TestOptions) -> Result<(), String> {
    let sizable = test.op != Op::Atomic;
    let bandwidth = test.is_bandwidth();
    let latency = !bandwidth;
    let (size, rate, samples) = (
        "the size of an atomic is always 8",
        "it applies to bandwidth tests; a latency test has one request at a time on one QP",
        "it applies to latency tests",
    );
    let more_than_one = |value: Option<u32>| value.is_some_and(|value| value > 1);
    let rules = [
        ("-a", options.all, sizable, size),
        (
            "-s",
            options.size.is_some_and(|size| size != 8),
            sizable,
            size,
        ),
        ("-b", options.bidirectional, bandwidth, rate),
        ("-q", more_than_one(options.qp), bandwidth, rate),
        ("-t", more_than_one(options.tx_depth), bandwidth, rate),
        (
            "-r",
            more_than_one(options.rx_depth),
            test.op == Op::Send,
            "only send tests post receives",
        ),
        ("-Q", options.cq_mod.is_some(), bandwidth, rate),
        ("-l", more_than_one(options.post_list), bandwidth, rate),
        ("-H", options.histogram, latency, samples),
        ("-U", options.unsorted, latency, samples),
        (
            "-o",
            options.outs.is_some(),
            test.is_fetch(),
            "it applies to read and atomic tests",
        ),
        (
            "-A",
            options.atomic_type.is_some(),
            !sizable,
            "it applies to atomic tests",
        ),
    ];
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

/// Sets how much is run: size, count or time.
fn amount(spec: &mut Spec, options: &TestOptions, notes: &mut Vec<String>) -> Result<(), String> {
    if let Some(size) = options.size {
        spec.size = size;
    }
    if options.all {
        if options.size.is_some() {
            notes.push("-a runs all sizes: -s has no effect".to_owned());
        }
        spec.all_sizes = true;
        spec.size = LARGEST_OF_ALL;
    }
    if let Some(iters) = options.iters {
        spec.iters = iters;
    }
    let Some(total) = options.duration else {
        return Ok(());
    };
    if options.all {
        return Err(
            "options -a and -D exclude each other: a run by the clock has one size".to_owned(),
        );
    }
    if options.histogram || options.unsorted {
        return Err("options -H and -U need a number of messages (-n) instead of -D".to_owned());
    }
    if options.iters.is_some() {
        notes.push("-D ends the run by the clock: -n has no effect".to_owned());
    }
    let quarter = Duration::from_secs(total.as_secs() / 4);
    let span = Span {
        total,
        margin: options.margin.unwrap_or(quarter),
    };
    if span.sample().is_zero() {
        return Err(format!(
            "-D {} leaves nothing between its margins of {} s (-f): it must be more than twice the margin",
            total.as_secs_f64(),
            span.margin.as_secs_f64()
        ));
    }
    spec.iters = 0;
    spec.duration = Some(span);
    Ok(())
}

/// Sets depths, lists and moderation.
fn queues(spec: &mut Spec, options: &TestOptions) -> Result<(), String> {
    spec.bidirectional = options.bidirectional;
    spec.qps = options.qp.unwrap_or(1);
    spec.outs = options.outs;
    spec.atomic = options.atomic_type.unwrap_or_default();
    spec.post_list = options.post_list.unwrap_or(1);
    spec.resolve_depths(options.tx_depth, options.rx_depth, options.cq_mod);
    let (list, depth) = (spec.post_list, spec.tx_depth);
    if list == 1 {
        return Ok(());
    }
    if list > depth {
        return Err(format!(
            "-l {list} is more than the transmit depth of {depth}: raise -t or -n"
        ));
    }
    if !list.is_multiple_of(spec.cq_mod) {
        return Err(format!(
            "-l {list} is not a multiple of -Q {}: each list must end in a completion",
            spec.cq_mod
        ));
    }
    if !spec.iters.is_multiple_of(list.into()) {
        return Err(format!("-n {} is not a multiple of -l {list}", spec.iters));
    }
    Ok(())
}

/// Sets who the peer is and how it is reached.
fn path(spec: &mut Spec, options: &TestOptions) {
    spec.ipv6 = options.ipv6;
    spec.ipv6_addr = options.ipv6_addr;
    spec.lab = options.lab;
    let host = if options.lab {
        let v6 = options.ipv6 || options.ipv6_addr;
        Some(if v6 { "::1" } else { "127.0.0.1" }.to_owned())
    } else {
        options.server.clone()
    };
    if let Some(host) = host {
        // An IPv6 address says it all.
        if host.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6()) {
            spec.ipv6 = true;
            spec.ipv6_addr = true;
        }
        spec.role = Role::Client { host };
    }
    spec.device.clone_from(&options.device);
    spec.ib_port = options.ib_port.unwrap_or(1);
    spec.gid_index = options.gid_index;
    spec.mtu = options.mtu;
    spec.port = options.port;
    spec.qp_timeout = options.qp_timeout;
    spec.tclass = options.tclass;
    spec.bind_source_ip = options.bind_source_ip;
    if let Some(timeout) = options.connect_timeout {
        spec.connect_timeout = timeout;
        spec.accept_timeout = Some(timeout);
    }
}

/// Sets what is shown and recorded.
fn output(spec: &mut Spec, options: TestOptions, notes: &mut Vec<String>) {
    if options.report_gbits && !spec.test.is_bandwidth() {
        notes.push("--report_gbits has no effect on a latency test".to_owned());
    }
    spec.report_gbits = options.report_gbits;
    spec.histogram = options.histogram;
    spec.unsorted = options.unsorted;
    spec.cpu_freq = options.cpu_freq;
    spec.out_json = options
        .out_json_file
        .or_else(|| options.out_json.then(|| "perftest_out.json".into()));
    spec.json = options.json;
    spec.verify = options.verify;
    spec.pcap = options.pcap.map(|path| PcapSpec {
        path,
        snaplen: options.pcap_snaplen,
        limit: options.pcap_limit,
    });
    spec.impair = options.impair;
    spec.trace = options.trace.unwrap_or_default();
}
