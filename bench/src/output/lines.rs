//! The lines below the table: what went wrong on the way, what was checked, what it cost.

use crate::json::Run;
use crate::run::Summary;
use crate::run::cpu::CpuTime;
use crate::spec::Spec;

/// Counters that are named in words. The names are the engine's.
const NAMED: [(&str, &str); 10] = [
    ("retransmitted_pkts", "packets sent again"),
    ("local_ack_timeout_err", "ack timeouts"),
    ("rcvd_seq_err", "sequence NAKs received"),
    ("sent_seq_err", "sequence NAKs sent"),
    ("rcvd_rnr_err", "RNR NAKs received"),
    ("send_rnr_err", "RNR NAKs sent"),
    ("rcvd_fatal_nak", "fatal NAKs received"),
    ("implied_nak_seq_err", "lost READ responses"),
    ("duplicate_request", "duplicate requests answered"),
    ("drop_bad_icrc", "ICRC errors"),
];
/// Parts of the names of other counters that tell of lost packets, or of faults that `--impair` made.
const LOSSES: [&str; 5] = ["drop", "impair_", "_too_", "_truncated", "_errors"];

/// What a run cost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    /// All of it.
    pub(super) cpu: CpuTime,
    nanos: f64,
    bytes: u64,
}

impl Cost {
    /// Adds what was moved while `nanos` were measured, which may be a part of the time that `cpu` is about.
    pub(super) fn moved(&mut self, cpu: &CpuTime, nanos: u64, bytes: u64) {
        self.nanos += cpu.percent() / 100.0 * nanos as f64;
        self.bytes += bytes;
    }
}

/// Returns the lines below a run's table.
pub(super) fn below(spec: &Spec, summary: &Summary, spent: &Cost) -> Vec<String> {
    let mut lines = vec![network(summary)];
    lines.extend(cost(spent));
    lines.extend(summary.notes.iter().cloned());
    if let Some(verify) = &summary.verify {
        if summary.messages > 0 {
            lines.push(verify.clone());
        } else if !spec.lab {
            lines.push(String::from(
                "verify: nothing came to this end to be checked; what it sent is checked only by a roce peer with --verify, \
                 which says so in its own output",
            ));
        }
    }
    lines
}

/// Says that a row of zeros is no result.
pub(super) fn nothing_measured(spec: &Spec) -> String {
    match spec.duration {
        Some(span) => format!(
            "nothing was measured: no message was complete in the {} s between the margins of -D {}: raise -D or \
             lower -f, and see whether something else takes this machine's processors",
            span.sample().as_secs_f64(),
            span.total.as_secs_f64()
        ),
        None => "nothing was measured: no message arrived or was sent (see the lines below the table, and whether \
                 both ends have the same options)"
            .to_owned(),
    }
}

/// Says what went wrong on the way, in one line.
fn network(summary: &Summary) -> String {
    let value = |name: &str| {
        let found = summary.counters.iter().find(|(other, _)| *other == name);
        found.map_or(0, |(_, value)| *value)
    };
    let named = NAMED
        .iter()
        .map(|(name, words)| (value(name), (*words).to_owned()));
    let is_other = |name: &str| {
        LOSSES.iter().any(|part| name.contains(part))
            && !NAMED.iter().any(|(known, _)| *known == name)
    };
    let others = summary
        .counters
        .iter()
        .filter(|(name, _)| is_other(name))
        .map(|(name, value)| (*value, (*name).to_owned()));
    let parts: Vec<String> = named
        .chain(others)
        .filter(|(value, _)| *value > 0)
        .map(|(value, words)| format!("{value} {words}"))
        .collect();
    if summary.counters.is_empty() {
        // A device that sent packets and counted none does not count.
        String::from(
            "network: the device has no counters, see those of its switch or its maker's tools",
        )
    } else if parts.is_empty() {
        String::from("network: no retransmissions, NAKs, ICRC errors or drops")
    } else {
        format!("network: {}", parts.join(", "))
    }
}

fn cost(spent: &Cost) -> Option<String> {
    let Cost { cpu, nanos, bytes } = spent;
    // Below that the clocks say nothing.
    if cpu.wall < core::time::Duration::from_millis(1) {
        return None;
    }
    let mut line = format!("cpu: {:.0}% of one core", cpu.percent());
    if *bytes > 0 {
        let per_byte = nanos / *bytes as f64;
        line.push_str(&format!(", {per_byte:.3} ns per byte"));
    }
    Some(line)
}

/// Adds to a result what is counted over the whole run.
pub(super) fn fill(run: &mut Run, summary: &Summary) {
    let sum = |names: &[&str]| {
        let of = summary
            .counters
            .iter()
            .filter(|(name, _)| names.contains(name));
        Some(of.map(|(_, value)| value).sum())
    };
    run.retransmitted_packets = sum(&["retransmitted_pkts"]);
    run.naks_received = sum(&["rcvd_seq_err", "rcvd_fatal_nak"]);
    run.rnr_naks_received = sum(&["rcvd_rnr_err"]);
    run.icrc_errors = sum(&["drop_bad_icrc"]);
    run.verified_bytes = summary.verify.as_ref().map(|_| summary.verified_bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Test;

    fn summary(counters: Vec<(&'static str, u64)>) -> Summary {
        Summary {
            counters,
            ..Summary::default()
        }
    }

    #[test]
    fn a_clean_run_has_one_line() {
        let clean = summary(vec![("sent_pkts", 5), ("udp_rx_calls", 9)]);
        let spec = Spec::new(Test::ALL[0]);
        let lines = below(&spec, &clean, &Cost::default());
        assert_eq!(
            lines,
            ["network: no retransmissions, NAKs, ICRC errors or drops"]
        );
    }

    #[test]
    fn trouble_is_listed_with_its_reasons() {
        let bad = summary(vec![
            ("retransmitted_pkts", 3),
            ("drop_unknown_qpn", 2),
            ("drop_bad_icrc", 1),
        ]);
        assert_eq!(
            network(&bad),
            "network: 3 packets sent again, 1 ICRC errors, 2 drop_unknown_qpn"
        );
        let mut run = Run::default();
        fill(&mut run, &bad);
        assert_eq!(run.retransmitted_packets, Some(3));
        assert_eq!(run.icrc_errors, Some(1));
        assert_eq!(run.verified_bytes, None);
    }
}
