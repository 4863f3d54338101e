use core::time::Duration;

use super::*;

const LEFT: Standing = Standing {
    work: 200,
    left: Some(200),
};

fn watch(test: &str, change: impl FnOnce(&mut Spec)) -> Watch {
    let mut spec = Spec::new(Test::from_name(test).unwrap());
    spec.connect_timeout = Duration::from_secs(2);
    change(&mut spec);
    let mut watch = Watch::new(Arc::default(), &spec);
    watch.begin(SECOND, true);
    watch
}

#[test]
fn a_peer_that_is_through_is_waited_for_no_longer_than_the_bound() {
    let mut watch = watch("send-bw", |_| ());
    watch.spoke_at = Some(4 * SECOND);
    assert_eq!(watch.silence(6 * SECOND, 0, LEFT), None);
    let reason = watch.silence(6 * SECOND + 1, 0, LEFT).unwrap();
    assert!(
        reason.contains("is through with its test") && reason.contains("200 more messages"),
        "{reason}"
    );
    assert!(reason.contains("-c") && reason.contains("-n"), "{reason}");
}

#[test]
fn silence_is_named_with_its_bound() {
    let mut watch = watch("write-lat", |_| ());
    assert_eq!(watch.silence(3 * SECOND, 0, LEFT), None);
    let reason = watch.silence(3 * SECOND + 1, 0, LEFT).unwrap();
    assert!(
        reason.contains("nothing has arrived for 2 s (--connect-timeout)"),
        "{reason}"
    );
}

#[test]
fn traffic_is_never_taken_for_silence() {
    let mut watch = watch("send-bw", |_| ());
    watch.spoke_at = Some(SECOND);
    for packets in 1..50 {
        assert_eq!(watch.silence(packets * SECOND, packets, LEFT), None);
    }
    assert!(watch.silence(52 * SECOND, 49, LEFT).is_some());
}

#[test]
fn runs_with_pauses_and_runs_without_end_are_left_alone() {
    let mut endless = watch("write-bw", |_| ());
    endless.expect_end();
    assert_eq!(endless.silence(1000 * SECOND, 0, LEFT), None);
    let mut paced = watch("read-lat", |spec| spec.pace.latency_gap_us = 1_000_000);
    assert_eq!(paced.silence(50 * SECOND, 0, LEFT), None);
    assert!(paced.silence(62 * SECOND, 0, LEFT).is_some());
}

#[test]
fn a_peer_that_is_gone_needs_no_firewall() {
    let mut watch = watch("write-bw", |_| ());
    watch.complain(SECOND, String::from("packets do not arrive"));
    assert_eq!(watch.hints(), ["packets do not arrive"]);
    watch.note_closed(2 * SECOND);
    assert_eq!(
        watch.hints(),
        ["the peer's process is gone: its TCP connection is closed"]
    );
}

#[test]
fn a_test_without_goodbye_can_not_tell_an_end_from_a_death() {
    let reason = watch("write-lat", |_| ()).left(LEFT);
    assert!(
        reason.contains("through") && reason.contains(GONE),
        "{reason}"
    );
    let one = Standing {
        work: 0,
        left: Some(1),
    };
    let reason = watch("send-lat", |_| ()).left(one);
    assert!(
        !reason.contains("through") && reason.contains("1 more message"),
        "{reason}"
    );
}
