//! Peers that split, trail, hang, die and talk nonsense.

use core::time::Duration;
use std::time::Instant;

use anyhow::bail;
use roce_engine::verbs::Gid;

use super::scripted::{GID_LINE, PARAMS, Step, as_client, healthy, local, peer, run, script};
use crate::peer::{Exchange, Session, rest};
use crate::spec::{Metric, Op, Spec, Test};

const WRITE_BW: [usize; 14] = [16, 4, 4, 2, 108, 108, 108, 108, 8, 8, 8, 8, 8, 108];
/// What each message of `WRITE_BW` is called.
const STAGES: [&str; 14] = [
    "version",
    "page size",
    "cache line",
    "MTU",
    "QP handshake (round \"addresses\", QP 0)",
    "QP handshake (round \"ready\", QP 0)",
    "QP handshake (round \"connected\", QP 0)",
    "QP handshake (round \"finished\", QP 0)",
    "bandwidth report (size)",
    "bandwidth report (iterations)",
    "bandwidth report (peak)",
    "bandwidth report (average)",
    "bandwidth report (message rate)",
    "QP handshake (round \"close\", QP 0)",
];

fn spec() -> Spec {
    Spec {
        connect_timeout: Duration::from_millis(400),
        ..Spec::new(Test::new(Op::Write, Metric::Bandwidth))
    }
}

/// Runs against a script in which one message is replaced, and returns our error.
#[track_caller]
fn error_after(at: usize, instead: Step, we_are_client: bool) -> String {
    let mut steps = script(&WRITE_BW[..at]);
    let ends = matches!(instead, Step::Close | Step::Hang);
    steps.push(instead);
    if !ends {
        steps.push(Step::Hang);
    }
    let spec = if we_are_client {
        as_client(&spec())
    } else {
        spec()
    };
    let (stream, peer) = peer(steps, we_are_client);
    let error = run(&spec, stream).unwrap_err();
    peer.join().unwrap();
    format!("{error:#}")
}

#[test]
fn messages_in_pieces_are_put_together() {
    for we_are_client in [true, false] {
        let steps = WRITE_BW.map(|bytes| Step::Split(healthy(bytes))).to_vec();
        let spec = if we_are_client {
            as_client(&spec())
        } else {
            spec()
        };
        // Bytes that are sent one by one take long on a busy machine; the bound has its own tests.
        let spec = Spec {
            connect_timeout: Duration::from_secs(10),
            ..spec
        };
        let (stream, peer) = peer(steps, we_are_client);
        run(&spec, stream).unwrap();
        assert_eq!(peer.join().unwrap(), 0);
    }
}

#[test]
fn trailer_of_old_versions_is_read() {
    let mut steps = script(&WRITE_BW);
    steps.push(Step::Last(b"done\0".to_vec()));
    let (stream, peer) = peer(steps, true);
    let start = Instant::now();
    run(&as_client(&spec()), stream).unwrap();
    assert_eq!(peer.join().unwrap(), 0);
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn death_of_the_peer_names_the_stage() {
    for we_are_client in [true, false] {
        for (at, stage) in STAGES.iter().enumerate() {
            let error = error_after(at, Step::Close, we_are_client);
            let fits = error.contains(stage)
                && (error.contains("closed the connection after 0 of") || error.contains("reset"));
            assert!(fits, "{stage}: {error}");
        }
    }
}

#[test]
fn silence_before_the_test_is_bounded_and_named() {
    for (at, stage) in STAGES.iter().enumerate().take(7) {
        for we_are_client in [true, false] {
            let start = Instant::now();
            let error = error_after(at, Step::Hang, we_are_client);
            assert!(
                error.contains(&format!("peer's {stage}: 0 of")),
                "{stage}: {error}"
            );
            assert!(start.elapsed() < Duration::from_secs(5));
        }
    }
}

#[test]
fn half_a_message_is_named_as_such() {
    let error = error_after(4, Step::Last(GID_LINE[..50].to_vec()), true);
    assert!(error.contains("50 of 108 bytes"), "{error}");
}

#[test]
fn nonsense_is_quoted() {
    for (at, bytes, word) in [
        (0, b"HTTP/1.1 400 Bad".to_vec(), "HTTP/1.1 400 Bad"),
        (0, vec![0xff; 16], "not a perftest peer"),
        (
            0,
            b"5.60\0\0\0\0\0\0\0\0\0\0\0\0".to_vec(),
            "older than 5.70",
        ),
        (1, b"oops".to_vec(), "page size"),
        (2, vec![0xff; 4], "cache line"),
        (3, b"xx".to_vec(), "MTU reads \"xx\""),
        (4, vec![b'z'; 108], "no NUL"),
        (5, vec![b':'; 108], "round \"ready\""),
    ] {
        for we_are_client in [true, false] {
            let error = error_after(at, Step::Last(bytes.clone()), we_are_client);
            assert!(error.contains(word), "{word}: {error}");
        }
    }
}

#[test]
fn infiniband_peer_is_refused_without_waiting() {
    let line = b"0001:0001:5cfb01:36bcce:00000101:00007fd5400b9000:00000000\0";
    let error = error_after(4, Step::Last(line.to_vec()), true);
    assert!(error.contains("59-byte form of InfiniBand"), "{error}");
}

#[test]
fn gid_families_must_agree() {
    let v6 = b"0000:0001:5cfb01:36bcce:00000101:00007fd5400b9000:\
        fd:00:00:00:00:00:00:00:00:00:00:00:00:00:00:01:00000000:\0";
    let error = error_after(4, Step::Message(v6.to_vec()), true);
    assert!(
        error.contains("GID families differ") && error.contains("fd00::1"),
        "{error}"
    );
}

#[test]
fn callback_ends_a_wait() {
    let (stream, peer) = peer(vec![Step::Hang], true);
    let mut exchange = Exchange::new(stream, true, Duration::from_secs(60), false).unwrap();
    let error = exchange
        .prefix(PARAMS, &mut || bail!("the device is on fire"))
        .unwrap_err();
    assert!(
        format!("{error:#}").contains("version: the device is on fire"),
        "{error:#}"
    );
    drop(exchange);
    peer.join().unwrap();
}

#[test]
fn server_sees_the_clients_gid_before_it_answers() {
    let (stream, peer) = peer(script(&WRITE_BW[..5]), false);
    let spec = spec();
    let exchange = Exchange::new(stream, false, spec.connect_timeout, false).unwrap();
    let mut session = Session::new(exchange, &spec);
    let idle = &mut rest;
    let agreed = session.prefix(PARAMS, idle).unwrap();
    assert_eq!(
        (agreed.page, agreed.cache_line, agreed.mtu.bytes()),
        (4096, 4096, 1024)
    );
    let gid = session.client_gid(idle).unwrap();
    assert_eq!(gid, Some(Gid::from_ip("127.0.0.1".parse().unwrap())));
    let remote = session.introduce(vec![local(0)], idle).unwrap();
    assert_eq!(remote[0].qpn.value(), 0x005c_fb01);
    assert_eq!(session.address_note(), None);
    drop(session);
    assert_eq!(peer.join().unwrap(), 0);
}
