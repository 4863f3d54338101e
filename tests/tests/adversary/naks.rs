//! NAKs without end.

use core::time::Duration;

use roce_engine::verbs::{QpState, Service, Status};
use roce_wire::Opcode;

use crate::attack::{Attack, FIRST};

const WRITE: Opcode = Opcode::RC_RDMA_WRITE_ONLY;

/// A victim with four WRITEs of one packet outstanding, PSNs 100 to 103.
fn writing(change: impl Fn(&mut roce_tests::lan::Wish)) -> Attack {
    let mut attack = Attack::with(Service::Rc, change);
    for id in 1..=4 {
        attack.post(id, Attack::write(), (0, 8));
    }
    assert_eq!(attack.replies().len(), 4);
    attack
}

fn flood(attack: &mut Attack, syndrome: u8, after: i32, times: u32) {
    let (bth, ext) = attack.answer_headers(Opcode::RC_ACKNOWLEDGE, syndrome, after);
    for _ in 0..times {
        let bytes = attack.bytes(bth, ext, &[]);
        attack.inject(bytes);
    }
    attack.settle();
}

const DONE: [(u64, Status); 4] = [
    (1, Status::Success),
    (2, Status::Success),
    (3, Status::Success),
    (4, Status::Success),
];

/// A thousand sequence NAKs of one gap cost one retry and one resending.
#[test]
fn a_flood_of_sequence_naks_is_one_retry() {
    let mut attack = writing(|_| {});
    flood(&mut attack, 0x60, 0, 1000);
    let again: Vec<u32> = attack.replies().iter().map(|reply| reply.1).collect();
    assert_eq!(again, [100, 101, 102, 103], "once");
    assert_eq!(attack.counter("rcvd_seq_err"), 1000);
    flood(&mut attack, 0x60, 0, 1000);
    assert_eq!(attack.replies(), []);
    attack.answer(0x1f, 3);
    attack.lan.expect_sent(attack.victim, &DONE);
    attack.finish(QpState::Rts, &[]);
}

/// NAKs that each acknowledge something are progress, and each may ask for the rest again.
#[test]
fn naks_that_progress_never_run_out() {
    let mut attack = writing(|wish| wish.retry_cnt = 1);
    for after in 1..4 {
        flood(&mut attack, 0x60, after, 10);
        let again: Vec<u32> = attack.replies().iter().map(|reply| reply.1).collect();
        assert_eq!(again, (FIRST + after as u32..FIRST + 4).collect::<Vec<_>>());
    }
    attack.answer(0x1f, 3);
    attack.lan.expect_sent(attack.victim, &DONE);
    attack.finish(QpState::Rts, &[]);
}

/// A peer that answers with nothing but sequence NAKs exhausts retry_cnt and no more: each round of NAK
/// and silence is one retry of a timeout.
#[test]
fn naks_and_silence_end_in_a_retry_error() {
    for retry_cnt in 0..=7 {
        let mut attack = writing(|wish| wish.retry_cnt = retry_cnt);
        for _ in 0..20 {
            if attack.lan.world.device(0).next_timeout().is_none() {
                break;
            }
            flood(&mut attack, 0x60, 0, 20);
            attack.lan.run_for(Duration::from_millis(5));
        }
        let sent = attack.lan.sent(attack.victim);
        assert_eq!(sent[0].status, Status::RetryExcErr, "retry_cnt {retry_cnt}");
        assert!(sent[1..].iter().all(|wc| wc.status == Status::WrFlushErr));
        let rounds = attack.replies().len() / 4;
        assert_eq!(rounds, usize::from(retry_cnt), "each retry sends all once");
        attack.finish(QpState::Err, &[]);
    }
}

/// rnr_retry 7 is for ever: three hundred RNR NAKs later the request is still on its way, and done when
/// it is acknowledged.
#[test]
fn rnr_naks_for_ever_are_survived() {
    let mut attack = writing(|_| {});
    for round in 1..=300 {
        // Code 1 is 10 us.
        flood(&mut attack, 0x21, 0, 1);
        attack.lan.run_for(Duration::from_micros(20));
        assert_eq!(attack.counter("rcvd_rnr_err"), round);
        assert_eq!(attack.replies().len(), 4, "round {round}");
    }
    assert_eq!(attack.counter("local_ack_timeout_err"), 0);
    attack.answer(0x1f, 3);
    attack.lan.expect_sent(attack.victim, &DONE);
    attack.finish(QpState::Rts, &[]);
}

/// A finite rnr_retry counts delays, not packets: a burst of RNR NAKs is one, and one more round than it
/// allows is IBV_WC_RNR_RETRY_EXC_ERR (13). Progress fills it again.
#[test]
fn finite_rnr_retries_count_delays() {
    for rnr_retry in 0..=6 {
        let mut attack = writing(|wish| wish.rnr_retry = rnr_retry);
        for _ in 0..rnr_retry {
            flood(&mut attack, 0x21, 0, 50);
            attack.lan.run_for(Duration::from_micros(20));
        }
        attack.lan.expect_sent(attack.victim, &[]);
        if rnr_retry > 0 {
            // The first is acknowledged by an RNR NAK of the second, which is as good as new.
            for _ in 0..rnr_retry {
                flood(&mut attack, 0x21, 1, 50);
                attack.lan.run_for(Duration::from_micros(20));
            }
            attack.lan.expect_sent(attack.victim, &DONE[..1]);
        }
        flood(&mut attack, 0x21, 1, 50);
        let sent = attack.lan.sent(attack.victim);
        let failed = sent.iter().find(|wc| wc.status != Status::Success);
        let failed = failed.expect("one more than allowed");
        let first_unacknowledged = 2;
        assert_eq!(
            (failed.wr_id, failed.status),
            (first_unacknowledged, Status::RnrRetryExcErr)
        );
        attack.finish(QpState::Err, &[]);
    }
}

/// During an RNR delay nothing is sent, whatever else comes: more RNR NAKs with other delays, sequence
/// NAKs, duplicates.
#[test]
fn an_rnr_delay_is_not_cut_short() {
    let mut attack = writing(|_| {});
    // Code 20 is 10.24 ms.
    flood(&mut attack, 0x20 | 20, 0, 1);
    for syndrome in [0x21, 0x60, 0x20 | 20, 0x3f] {
        flood(&mut attack, syndrome, 0, 20);
    }
    flood(&mut attack, 0x1f, -1, 20);
    attack.lan.run_for(Duration::from_millis(9));
    assert_eq!(attack.replies(), []);
    attack.lan.run_for(Duration::from_millis(2));
    assert_eq!(attack.replies().len(), 4);
    attack.answer(0x1f, 3);
    attack.lan.expect_sent(attack.victim, &DONE);
    attack.finish(QpState::Rts, &[]);
}

/// A fatal NAK acknowledges what is before it, fails its request with the status that the code means,
/// flushes the rest, and everything after it finds a queue pair in error.
#[test]
fn fatal_naks_fail_once() {
    for (syndrome, status) in [
        (0x61, Status::RemInvReqErr),
        (0x62, Status::RemAccessErr),
        (0x63, Status::RemOpErr),
        (0x64, Status::RemInvReqErr),
        (0x65, Status::RemInvReqErr),
        (0x7f, Status::RemInvReqErr),
    ] {
        for after in 0..4 {
            let mut attack = writing(|_| {});
            flood(&mut attack, syndrome, after, 100);
            let expected: Vec<_> = (0..4)
                .map(|n| match n {
                    n if n < after => (n as u64 + 1, Status::Success),
                    n if n == after => (n as u64 + 1, status),
                    n => (n as u64 + 1, Status::WrFlushErr),
                })
                .collect();
            attack.lan.expect_sent(attack.victim, &expected);
            assert_eq!(attack.counter("rcvd_fatal_nak"), 1);
            assert_eq!(attack.counter("drop_qp_state"), 99);
            attack.finish(QpState::Err, &[]);
        }
    }
}

/// Reserved syndromes say nothing.
#[test]
fn reserved_syndromes_say_nothing() {
    let mut attack = writing(|_| {});
    for syndrome in (0x40..0x60).chain(0x80..=0xff) {
        flood(&mut attack, syndrome, 2, 1);
    }
    assert_eq!(attack.counter("drop_malformed"), 0x20 + 0x80);
    assert_eq!(attack.replies(), []);
    attack.lan.expect_sent(attack.victim, &[]);
    attack.answer(0x1f, 3);
    attack.lan.expect_sent(attack.victim, &DONE);
    attack.finish(QpState::Rts, &[]);
}

/// A READ may be refused too; the NAK is at any of its PSNs, and not a byte of it was stored.
#[test]
fn a_refused_read_stores_nothing() {
    for after in 0..3 {
        let mut attack = Attack::new(Service::Rc);
        attack.post(1, Attack::read(), (8192, 3000));
        attack.post(2, Attack::write(), (0, 8));
        attack.answer(0x62, after);
        let failed = [(1, Status::RemAccessErr), (2, Status::WrFlushErr)];
        attack.lan.expect_sent(attack.victim, &failed);
        attack.finish(QpState::Err, &[]);
    }
}

/// ACKs of all that is outstanding, over and over, never complete a request twice.
#[test]
fn a_flood_of_acks_completes_once() {
    let mut attack = writing(|_| {});
    flood(&mut attack, 0x1f, 3, 1000);
    attack.lan.expect_sent(attack.victim, &DONE);
    assert_eq!(attack.counter("duplicate_response"), 999);
    attack.post(5, Attack::write(), (0, 8));
    assert_eq!(attack.replies(), [(WRITE, 104, None)]);
    attack.lan.expect_sent(attack.victim, &[]);
    attack.answer(0x1f, 4);
    attack
        .lan
        .expect_sent(attack.victim, &[(5, Status::Success)]);
    attack.finish(QpState::Rts, &[]);
}
