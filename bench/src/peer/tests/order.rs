//! The messages of each test, counted in bytes, in both roles.

use core::time::Duration;

use super::scripted::{Step, as_client, healthy_qp, peer, run, script};
use crate::spec::{Metric, Op, Span, Spec, Test};

const PREFIX: [usize; 4] = [16, 4, 4, 2];
const R: [usize; 5] = [8; 5];

/// Our session must exchange exactly these messages, as client and as server.
#[track_caller]
fn exchanges(spec: &Spec, after_prefix: &[&[usize]]) {
    let rounds = after_prefix.iter().flat_map(|round| {
        let names = (0..spec.qps as u8).cycle().zip(*round);
        names.map(|(qp, bytes)| Step::Message(healthy_qp(*bytes, qp)))
    });
    let steps: Vec<Step> = script(&PREFIX).into_iter().chain(rounds).collect();
    for spec in [as_client(spec), spec.clone()] {
        let (stream, peer) = peer(steps.clone(), spec.is_client());
        let result = run(&spec, stream);
        assert!(result.is_ok(), "{}: {result:?}", spec.command_line());
        assert_eq!(
            peer.join().unwrap(),
            0,
            "{}: bytes too many",
            spec.command_line()
        );
    }
}

fn test(op: Op, metric: Metric) -> Spec {
    Spec::new(Test::new(op, metric))
}

fn bandwidth(op: Op) -> Spec {
    test(op, Metric::Bandwidth)
}

fn timed(spec: Spec) -> Spec {
    let span = Span {
        total: Duration::from_secs(4),
        margin: Duration::from_secs(1),
    };
    Spec {
        duration: Some(span),
        ..spec
    }
}

fn both_ways(spec: Spec) -> Spec {
    Spec {
        bidirectional: true,
        ..spec
    }
}

fn all_sizes(spec: Spec) -> Spec {
    Spec {
        all_sizes: true,
        ..spec
    }
}

#[test]
fn one_sided_bandwidth_tells_the_passive_end_when_it_is_over() {
    for op in [Op::Write, Op::Read, Op::Atomic] {
        let expected: [&[usize]; 3] = [&[108; 3], &[108], &[8, 8, 8, 8, 8, 108]];
        exchanges(&bandwidth(op), &expected);
        exchanges(&timed(bandwidth(op)), &expected);
        // All sizes run without a word between them.
        exchanges(&all_sizes(bandwidth(op)), &expected);
    }
}

#[test]
fn one_sided_bandwidth_both_ways_starts_together() {
    for op in [Op::Write, Op::Read, Op::Atomic] {
        exchanges(&both_ways(bandwidth(op)), &[&[108; 3], &[108], &R, &[108]]);
        exchanges(
            &timed(both_ways(bandwidth(op))),
            &[&[108; 3], &[108], &R, &[108]],
        );
        let mut sizes: Vec<&[usize]> = vec![&[108; 3]];
        for _ in 0..23 {
            sizes.extend([&[108, 108][..], &R]);
        }
        sizes.push(&[108]);
        exchanges(&all_sizes(both_ways(bandwidth(op))), &sizes);
    }
}

#[test]
fn send_bandwidth_starts_together_in_any_case() {
    let send = bandwidth(Op::Send);
    exchanges(&send, &[&[108; 3], &[108], &[108]]);
    exchanges(&timed(send.clone()), &[&[108; 3], &[108], &[108]]);
    exchanges(&both_ways(send.clone()), &[&[108; 3], &[108], &R, &[108]]);
    exchanges(
        &timed(both_ways(send.clone())),
        &[&[108; 3], &[108], &[108]],
    );
    exchanges(&all_sizes(send.clone()), &[&[108; 3], &[108; 46], &[108]]);
    let mut sizes: Vec<&[usize]> = vec![&[108; 3]];
    for _ in 0..23 {
        sizes.extend([&[108][..], &R, &[108]]);
    }
    sizes.push(&[108]);
    exchanges(&all_sizes(both_ways(send)), &sizes);
}

#[test]
fn latency_tests_have_their_own_orders() {
    exchanges(&test(Op::Send, Metric::Latency), &[&[108; 5]]);
    exchanges(&test(Op::Read, Metric::Latency), &[&[108; 5]]);
    exchanges(&test(Op::Atomic, Metric::Latency), &[&[108; 5]]);
    exchanges(&test(Op::Write, Metric::Latency), &[&[108; 4]]);
    exchanges(&all_sizes(test(Op::Write, Metric::Latency)), &[&[108; 4]]);
    exchanges(&all_sizes(test(Op::Read, Metric::Latency)), &[&[108; 5]]);
    exchanges(
        &all_sizes(test(Op::Send, Metric::Latency)),
        &[&[108; 3], &[108; 23], &[108]],
    );
}

#[test]
fn each_qp_has_its_handshake_in_both_rounds() {
    let three = |op| Spec {
        qps: 3,
        ..bandwidth(op)
    };
    exchanges(
        &three(Op::Write),
        &[&[108; 3], &[108; 3], &[108], &[108], &R, &[108]],
    );
    exchanges(
        &three(Op::Send),
        &[&[108; 3], &[108], &[108; 3], &[108], &[108]],
    );
}

#[test]
fn a_peer_with_fewer_qps_is_told_from_one_with_as_many() {
    let spec = Spec {
        qps: 4,
        ..bandwidth(Op::Write)
    };
    let two = [0, 1, 0].map(|qp| Step::Message(healthy_qp(108, qp)));
    let steps: Vec<Step> = script(&PREFIX)
        .into_iter()
        .chain(two)
        .chain([Step::Hang])
        .collect();
    for spec in [as_client(&spec), spec] {
        let (stream, peer) = peer(steps.clone(), spec.is_client());
        let error = format!("{:#}", run(&spec, stream).unwrap_err());
        assert!(error.contains("after 2 QPs, and we have 4"), "{error}");
        assert!(error.contains("-q"), "{error}");
        peer.join().unwrap();
    }
}

#[test]
fn peers_report_arrives() {
    let spec = bandwidth(Op::Write);
    let sizes: Vec<usize> = PREFIX
        .into_iter()
        .chain([108; 4])
        .chain(R)
        .chain([108])
        .collect();
    let (stream, peer) = peer(script(&sizes), false);
    let reports = run(&spec, stream).unwrap();
    let report = reports[0].unwrap();
    assert_eq!((report.size, report.iterations), (7, 7));
    peer.join().unwrap();
}
