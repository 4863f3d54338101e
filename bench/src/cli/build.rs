//! From options to a run: which apply to which test, and which exclude each other.

mod fits;

use core::net::IpAddr;
use core::time::Duration;

use super::options::{PaceArgs, RateLimiter, TestOptions};
use crate::spec::{
    DEFAULT_ROW_EVERY_S, LARGEST_OF_ALL, Op, PcapSpec, QpOptions, RateLimit, Role, Shown, Span,
    Spec, Test, XdpOptions,
};

/// The longest pause of a sender that is slow on purpose: its peer gives up after a minute without any message.
const LONGEST_GAP: Duration = Duration::from_secs(30);

/// Makes the run that the options ask for, with notes about what has no effect.
///
/// # Errors
/// Says which option does not fit, and why.
pub(super) fn build(test: Test, options: TestOptions) -> Result<(Spec, Vec<String>), String> {
    fits::applicable(test, &options)?;
    fits::compatible(test, &options)?;
    let mut notes = Vec::new();
    let mut spec = Spec::new(test);
    amount(&mut spec, &options, &mut notes)?;
    queues(&mut spec, &options)?;
    pace(&mut spec, &options.pace, &mut notes);
    rate(&mut spec, &options.pace, &mut notes)?;
    path(&mut spec, &options);
    shown(&mut spec, &options, &mut notes);
    files(&mut spec, options);
    Ok((spec, notes))
}

/// Sets how much is run: size, count or time.
fn amount(spec: &mut Spec, options: &TestOptions, notes: &mut Vec<String>) -> Result<(), String> {
    if let Some(size) = options.size {
        spec.size = size;
        spec.size_given = true;
    }
    if options.all {
        if options.size.is_some() {
            notes.push("-a runs all sizes: -s has no effect".to_owned());
        }
        spec.all_sizes = true;
        spec.size_given = false;
        spec.size = LARGEST_OF_ALL;
    }
    if let Some(iters) = options.iters {
        spec.iters = iters;
    }
    if options.pace.run_infinitely {
        return forever(spec, options, notes);
    }
    let Some(total) = options.duration else {
        return Ok(());
    };
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

/// Sets a run that only a signal ends.
fn forever(spec: &mut Spec, options: &TestOptions, notes: &mut Vec<String>) -> Result<(), String> {
    for (given, option) in [
        (options.iters.is_some(), "-n"),
        (options.margin.is_some(), "-f"),
    ] {
        if given {
            notes.push(format!(
                "--run_infinitely has no end: {option} has no effect"
            ));
        }
    }
    let seconds = match options.duration {
        None => DEFAULT_ROW_EVERY_S,
        Some(every) if every.subsec_nanos() == 0 && every.as_secs() > 0 => {
            u32::try_from(every.as_secs()).unwrap_or(u32::MAX)
        }
        Some(every) => {
            return Err(format!(
                "-D {}: --run_infinitely prints a row every whole number of seconds, at least 1",
                every.as_secs_f64()
            ));
        }
    };
    spec.iters = 0;
    spec.pace.row_every_s = Some(seconds);
    Ok(())
}

/// Sets depths, lists and moderation.
fn queues(spec: &mut Spec, options: &TestOptions) -> Result<(), String> {
    let given = &options.qps;
    spec.service = given.connection;
    spec.qp = QpOptions {
        inline_size: given.inline_size,
        inline_default: 0,
        old_post_send: given.use_old_post_send,
        strict_ordering: given.disable_pcie_relaxed,
        service_level: given.sl,
        pkey_index: given.pkey_index,
        retry_count: given.retry_count,
        flow_labels: given.flow_label.clone(),
        use_srq: given.use_srq,
        events: given.events,
        mr_per_qp: given.mr_per_qp,
        hugepages: given.use_hugepages,
    };
    spec.pace.with_imm = options.pace.write_with_imm || options.pace.send_with_imm;
    spec.bidirectional = options.bidirectional;
    spec.qps = options.qp.unwrap_or(1);
    spec.outs = options.outs;
    spec.atomic = options.atomic_type.unwrap_or_default();
    spec.post_list = options.post_list.unwrap_or(1);
    spec.resolve_depths(options.tx_depth, options.rx_depth, options.cq_mod);
    if spec.qp.use_srq && spec.rx_depth < spec.qps {
        return Err(format!(
            "--use-srq: a receive depth of {} for {} QPs leaves some without any: raise -r or -n, or lower -q",
            spec.rx_depth, spec.qps
        ));
    }
    lists(spec)
}

/// Checks that lists of requests fit depths, moderation and count.
fn lists(spec: &Spec) -> Result<(), String> {
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

/// Sets how messages follow each other.
fn pace(spec: &mut Spec, given: &PaceArgs, notes: &mut Vec<String>) {
    spec.pace.reversed = given.reversed;
    spec.pace.warm_up = given.perform_warm_up && !spec.pace.with_imm;
    if given.perform_warm_up && spec.pace.with_imm {
        notes.push(
            "--perform_warm_up would use up receives of --write_with_imm: it has no effect"
                .to_owned(),
        );
    }
    spec.pace.latency_gap_us = given.latency_gap.unwrap_or(0);
}

/// Sets the rate that is kept to.
fn rate(spec: &mut Spec, given: &PaceArgs, notes: &mut Vec<String>) -> Result<(), String> {
    let Some(rate) = given.rate_limit else {
        return Ok(());
    };
    match given.rate_limit_type {
        Some(RateLimiter::Hw) => {
            return Err(
                "--rate_limit_type HW: there is no adapter that could limit the rate; use --rate_limit_type SW"
                    .to_owned(),
            );
        }
        Some(RateLimiter::Pp) => {
            return Err(
                "--rate_limit_type PP: packet pacing is an adapter's, for raw Ethernet; use --rate_limit_type SW"
                    .to_owned(),
            );
        }
        None => notes.push(
            "--rate_limit is kept by software (--rate_limit_type SW): no adapter is in between"
                .to_owned(),
        ),
        Some(RateLimiter::Sw) => {}
    }
    if given.burst_size.is_none() {
        notes.push(format!(
            "Setting burst size to tx depth = {}",
            spec.tx_depth
        ));
    }
    let limit = RateLimit {
        rate,
        unit: given.rate_units.unwrap_or_default(),
        burst: given.burst_size.unwrap_or(spec.tx_depth),
    };
    let gap = limit.nanos_per_burst(spec.size);
    if gap > LONGEST_GAP.as_nanos() as u64 {
        return Err(format!(
            "--rate_limit {rate}: a burst of {} messages every {} s, and the peer takes more than {} s for the end: \
             raise the rate, or lower --burst_size",
            limit.burst,
            gap / 1_000_000_000,
            LONGEST_GAP.as_secs()
        ));
    }
    spec.pace.rate = Some(limit);
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
    spec.xdp = XdpOptions {
        mode: options.xdp_mode,
        busy_poll: options.busy_poll,
        replace: options.replace_xdp,
    };
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

/// Sets what is shown.
fn shown(spec: &mut Spec, options: &TestOptions, notes: &mut Vec<String>) {
    let given = &options.shown;
    let timed = options.duration.is_some() && !options.pace.run_infinitely;
    let reports = spec.bidirectional
        && !spec.all_sizes
        && spec.pace.row_every_s.is_none()
        && !(spec.test.op == Op::Send && timed);
    for (without_effect, note) in [
        (
            given.report_gbits && !spec.test.is_bandwidth(),
            "--report_gbits has no effect on a latency test",
        ),
        (
            given.cpu_util && !timed,
            "--cpu_util works only with -D: it has no effect",
        ),
        (
            given.report_both && !reports,
            "--report-both needs -b and one size whose figures the ends exchange: it has no effect",
        ),
    ] {
        if without_effect {
            notes.push(note.to_owned());
        }
    }
    spec.report_gbits = given.report_gbits;
    spec.histogram = given.histogram;
    spec.unsorted = given.unsorted;
    spec.cpu_freq = given.cpu_freq;
    spec.shown = Shown {
        form: given.output.unwrap_or_default(),
        no_peak: given.no_peak,
        cycles: given.cycles,
        both: given.report_both && reports,
        cpu_util: given.cpu_util && timed,
        least_bandwidth: given.limit_bw,
        least_rate: given.limit_msgrate,
    };
}

/// Sets what is written and examined.
fn files(spec: &mut Spec, options: TestOptions) {
    let shown = options.shown;
    spec.out_json = shown
        .out_json_file
        .or_else(|| shown.out_json.then(|| "perftest_out.json".into()));
    spec.json = shown.json;
    spec.verify = options.verify;
    spec.pcap = options.pcap.map(|path| PcapSpec {
        path,
        snaplen: options.pcap_snaplen,
        limit: options.pcap_limit,
    });
    spec.impair = options.impair;
    spec.trace = options.trace.unwrap_or_default();
}
