//! Peers whose options differ from ours, as far as their messages tell.

use super::scripted::{Step, as_client, healthy, line_of, peer, run, script};
use crate::spec::{Metric, Op, Spec, Test};

const PREFIX: [usize; 4] = [16, 4, 4, 2];

fn spec(qps: u32) -> Spec {
    Spec {
        qps,
        ..Spec::new(Test::new(Op::Write, Metric::Bandwidth))
    }
}

/// Runs against a peer that says this and then nothing, and returns our error.
#[track_caller]
fn error(spec: &Spec, after_prefix: &[Step]) -> String {
    let mut steps = script(&PREFIX);
    steps.extend_from_slice(after_prefix);
    steps.push(Step::Hang);
    let (stream, peer) = peer(steps, spec.is_client());
    let error = run(spec, stream).unwrap_err();
    peer.join().unwrap();
    format!("{error:#}")
}

/// A report's five messages.
fn report(size: u64, iterations: u64, figure: f64) -> Vec<Step> {
    [
        size,
        iterations,
        figure.to_bits(),
        figure.to_bits(),
        figure.to_bits(),
    ]
    .map(|field| Step::Message(field.to_be_bytes().to_vec()))
    .to_vec()
}

/// All up to the report.
fn handshakes() -> Vec<Step> {
    vec![line_of(0); 4]
}

#[test]
fn a_peer_with_other_qps_is_told_by_its_handshakes() {
    for as_role in [as_client, Clone::clone] {
        // It has more than we: its third comes where its first should be said again.
        let more: Vec<_> = (0..3).map(line_of).collect();
        let said = error(&as_role(&spec(2)), &more);
        assert!(
            said.contains("more QPs than our 2, give both ends the same -q"),
            "{said}"
        );
        // It has fewer: its first comes again where its third should be.
        let said = error(&as_role(&spec(4)), &[0, 1, 0].map(line_of));
        assert!(said.contains("after 2 QPs, and we have 4"), "{said}");
    }
}

#[test]
fn a_passive_peers_stack_is_no_report_and_no_error() {
    let garbage = [
        report(u64::MAX, 0x7ffd_1234_5678, f64::NAN),
        report(0, 0, 0.0),
        report(65_536, 5000, 0.0),
    ];
    for garbage in garbage {
        let steps = [script(&PREFIX), handshakes(), garbage, vec![line_of(0)]].concat();
        let client = as_client(&spec(1));
        let (stream, peer) = peer(steps, true);
        run(&client, stream).unwrap();
        peer.join().unwrap();
    }
}

#[test]
fn a_report_that_no_peer_can_have_measured_names_the_options() {
    let text = [
        &b"0000:000"[..],
        b"1:5cfb01",
        b":36bcce:",
        b"00000101",
        b":00007fd",
    ]
    .map(|part| Step::Message(part.to_vec()));
    let said = error(&spec(1), &[handshakes(), text.to_vec()].concat());
    assert!(said.contains("it is a QP handshake"), "{said}");
    assert!(said.contains("-q") && said.contains("-b"), "{said}");
    for (size, iterations, figure) in [
        (1 << 40, 5, 1.0),
        (64, u64::MAX, 1.0),
        (64, 5, -1.0),
        (64, 5, f64::NAN),
        (64, 5, f64::INFINITY),
    ] {
        let said = error(
            &spec(1),
            &[handshakes(), report(size, iterations, figure)].concat(),
        );
        assert!(
            said.contains("makes no sense"),
            "{size} {iterations} {figure}: {said}"
        );
    }
}

#[test]
fn two_ends_that_both_wait_or_both_send_are_told_so() {
    let idle = [handshakes(), report(0, 0, 0.0)].concat();
    let said = error(&spec(1), &idle);
    assert!(
        said.contains("moved nothing") && said.contains("--reversed"),
        "{said}"
    );
    let busy = [handshakes(), report(65_536, 5000, 12.5)].concat();
    let said = error(&as_client(&spec(1)), &busy);
    assert!(said.contains("sent messages as well"), "{said}");
}

#[test]
fn a_visitor_without_a_word_is_no_peer_with_other_options() {
    let (stream, scan) = peer(vec![Step::Close], false);
    let said = format!("{:#}", run(&spec(1), stream).unwrap_err());
    scan.join().unwrap();
    assert!(said.contains("without a word"), "{said}");
    assert!(!said.contains("differs"), "{said}");
}

#[test]
fn a_peer_that_dies_in_the_test_is_not_said_to_differ() {
    let mut steps = script(&PREFIX);
    steps.extend(vec![Step::Message(healthy(108)); 3]);
    steps.push(Step::Close);
    let (stream, dying) = peer(steps, false);
    let said = format!("{:#}", run(&spec(1), stream).unwrap_err());
    dying.join().unwrap();
    assert!(said.contains("process is gone"), "{said}");
    assert!(!said.contains("differs"), "{said}");
}
