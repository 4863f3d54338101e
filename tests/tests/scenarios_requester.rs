//! What a requester sends, when it sends it again and when it gives up, against a peer played by hand.
//!
//! "Bug N" and "trap N" are explained in `docs/scenarios.md`.

use core::time::Duration;

use roce_engine::verbs::{
    Backend, Payload, Psn, QpState, RKey, SendFlags, SendOp, SendWr, Sge, Status,
};
use roce_tests::pair::{Rogue, Seen};
use roce_wire::{Aeth, AtomicAckEth, Bth, Ext, Msn, NakCode, Opcode, Syndrome};

const WRITE: SendOp = SendOp::Write {
    addr: 0x10_0000,
    rkey: RKey(0x1234),
};
const READ: SendOp = SendOp::Read {
    addr: 0x10_0000,
    rkey: RKey(0x1234),
};
const ADD: SendOp = SendOp::FetchAdd {
    addr: 0x10_0000,
    rkey: RKey(0x1234),
    add: 1,
};

/// Trap 24: the last packet of each message asks for an acknowledgement, and so does one packet of 64
/// at least.
#[test]
fn acknowledgements_are_asked_for_often_enough() {
    let mut rogue = Rogue::with(|setup| {
        setup.engine.window_start = 256;
        setup.engine.window_max = 256;
    });
    rogue.post(1, WRITE, (0, 200 * 1024));
    rogue.post(2, WRITE, (0, 10));
    rogue.settle();
    let packets = rogue.packets();
    assert_eq!(packets.len(), 201);
    let asked: Vec<bool> = packets
        .iter()
        .map(|packet| packet.bth.ack_request)
        .collect();
    assert!(asked[199] && asked[200], "the last of each message");
    assert!(asked.windows(64).all(|window| window.contains(&true)));
}

/// IBA 9.7.6.1.3: progress starts the ack timer afresh. A peer that acknowledges one packet in three quarters of the
/// time is never asked again, however long the message takes.
#[test]
fn progress_starts_the_ack_timer_afresh() {
    let mut rogue = Rogue::new();
    rogue.post(1, WRITE, (0, 8 * 1024));
    rogue.settle();
    assert_eq!(rogue.packets().len(), 8);
    for packet in 0..8 {
        rogue.world.run_for(timeout() * 3 / 4);
        rogue.answer(Syndrome::ACK_UNLIMITED, packet);
    }
    rogue.settle();
    rogue.expect_sent(&[(1, Status::Success)]);
    assert_eq!(rogue.packets().len(), 8, "nothing is sent again");
    assert_eq!(rogue.counter("local_ack_timeout_err"), 0);
}

/// Trap 25: a READ takes as many PSNs as its answer has packets, one if it is empty.
#[test]
fn a_read_takes_the_numbers_of_its_answer() {
    let mut rogue = Rogue::new();
    for (id, len) in [0, 1, 1024, 1025, 4096].into_iter().enumerate() {
        rogue.post(id as u64, READ, (0, len));
    }
    rogue.post(9, WRITE, (0, 0));
    let psns: Vec<u32> = rogue.packets().iter().map(Seen::psn).collect();
    assert_eq!(psns, [100, 101, 102, 103, 105, 109]);
}

/// Trap 25: no more READs and atomics are outstanding than max_rd_atomic.
#[test]
fn the_read_depth_is_kept() {
    let mut rogue = Rogue::with(|setup| setup.max_rd_atomic = 2);
    for id in 0..4 {
        rogue.post(id, ADD, (0, 8));
    }
    assert_eq!(rogue.packets().len(), 2);
    answer_atomic(&mut rogue, 0);
    assert_eq!(rogue.packets().len(), 3);
    answer_atomic(&mut rogue, 1);
    answer_atomic(&mut rogue, 2);
    answer_atomic(&mut rogue, 3);
    let all: Vec<(u64, Status)> = (0..4).map(|id| (id, Status::Success)).collect();
    rogue.expect_sent(&all);
}

/// Trap 31: a message completes when its last packet is acknowledged, not before; in order; an
/// unsignaled one silently.
#[test]
fn a_message_completes_with_its_last_packet() {
    let mut rogue = Rogue::new();
    rogue.post(1, WRITE, (0, 3000));
    post_flags(&mut rogue, 2, WRITE, 10, SendFlags::NONE);
    rogue.post(3, WRITE, (0, 10));
    rogue.answer(Syndrome::ACK_UNLIMITED, 1);
    rogue.expect_sent(&[]);
    rogue.answer(Syndrome::ACK_UNLIMITED, 2);
    rogue.expect_sent(&[(1, Status::Success)]);
    rogue.answer(Syndrome::ACK_UNLIMITED, 4);
    rogue.expect_sent(&[(3, Status::Success)]);
}

/// Trap 32, bug 19: a fence waits for READs and atomics, never for WRITEs.
#[test]
fn a_fence_waits_for_reads_and_atomics_only() {
    let mut rogue = Rogue::new();
    rogue.post(1, WRITE, (0, 10));
    post_flags(&mut rogue, 2, WRITE, 10, SendFlags::FENCE);
    assert_eq!(
        rogue.packets().len(),
        2,
        "an unacknowledged WRITE holds nothing up"
    );
    rogue.post(3, ADD, (0, 8));
    post_flags(
        &mut rogue,
        4,
        WRITE,
        10,
        SendFlags::FENCE | SendFlags::SIGNALED,
    );
    rogue.post(5, WRITE, (0, 10));
    assert_eq!(
        rogue.packets().len(),
        3,
        "what is behind the fence waits too"
    );
    answer_atomic(&mut rogue, 2);
    assert_eq!(rogue.packets().len(), 5);
    rogue.expect_sent(&[(1, Status::Success), (3, Status::Success)]);
}

/// Bug 15, trap 26: WRITE, READ, WRITE. The acknowledgement of the last one completes the first and is
/// an implied NAK of the READ, which is asked for again with its own PSN, address and length.
#[test]
fn an_acknowledgement_beyond_a_read_is_an_implied_nak() {
    let mut rogue = Rogue::new();
    rogue.post(1, WRITE, (0, 10));
    rogue.post(2, READ, (100, 2000));
    rogue.post(3, WRITE, (0, 10));
    rogue.answer(Syndrome::ACK_UNLIMITED, 3);
    rogue.expect_sent(&[(1, Status::Success)]);
    let again: Vec<(Opcode, u32)> = again(&rogue);
    assert_eq!(
        again,
        [
            (Opcode::RC_RDMA_READ_REQUEST, 101),
            (Opcode::RC_RDMA_WRITE_ONLY, 103)
        ]
    );
    let reth = rogue.packets()[3].ext.reth.expect("a READ has one");
    assert_eq!((reth.addr, reth.length), (0x10_0000, 2000));
    assert_eq!(rogue.counter("implied_nak_seq_err"), 1);
}

/// Trap 27: a READ whose answer broke off is asked for again from the first missing packet.
#[test]
fn a_read_resumes_at_the_first_missing_packet() {
    let mut rogue = Rogue::new();
    rogue.post(1, READ, (0, 4000));
    answer_read(
        &mut rogue,
        Opcode::RC_RDMA_READ_RESPONSE_FIRST,
        0,
        &[1; 1024],
    );
    answer_read(&mut rogue, Opcode::RC_RDMA_READ_RESPONSE_LAST, 3, &[4; 928]);
    let request = rogue.packets().pop().expect("it is asked for again");
    let reth = request.ext.reth.expect("a READ has one");
    assert_eq!(
        (request.psn(), reth.addr, reth.length),
        (101, 0x10_0400, 2976)
    );
    answer_read(
        &mut rogue,
        Opcode::RC_RDMA_READ_RESPONSE_FIRST,
        1,
        &[2; 1024],
    );
    answer_read(
        &mut rogue,
        Opcode::RC_RDMA_READ_RESPONSE_MIDDLE,
        2,
        &[3; 1024],
    );
    rogue.expect_sent(&[]);
    answer_read(&mut rogue, Opcode::RC_RDMA_READ_RESPONSE_LAST, 3, &[4; 928]);
    rogue.expect_sent(&[(1, Status::Success)]);
    let expected = [vec![1; 1024], vec![2; 1024], vec![3; 1024], vec![4; 928]].concat();
    assert_eq!(rogue.end.bytes(0, 4000), expected);
    rogue.end.expect_untouched_outside((0, 4000));
}

/// Trap 28: several NAKs of one gap cause one retransmission.
#[test]
fn a_burst_of_naks_is_answered_once() {
    let mut rogue = Rogue::new();
    rogue.post(1, WRITE, (0, 4096));
    for _ in 0..3 {
        rogue.answer(Syndrome::Nak(NakCode::SequenceError), 1);
    }
    assert_eq!(again(&rogue).len(), 3, "three packets, once each");
    rogue.answer(Syndrome::ACK_UNLIMITED, 3);
    rogue.expect_sent(&[(1, Status::Success)]);
}

/// Bug 12, trap 28: retry_cnt N gives up after N retries, 7 too: a dead peer is found out. The wait of
/// each retry lies between the coded time and four of it (trap 29).
#[test]
fn every_transport_retry_count_is_finite() {
    for retry_cnt in 0..=7 {
        let mut rogue = Rogue::with(|setup| setup.retry_cnt = retry_cnt);
        rogue.post(1, WRITE, (0, 10));
        rogue.post(2, WRITE, (0, 10));
        rogue.run();
        rogue.expect_sent(&[(1, Status::RetryExcErr), (2, Status::WrFlushErr)]);
        rogue.expect_state(QpState::Err);
        assert_eq!(rogue.counter("retry_exceeded_err"), 1);
        let packets = rogue.packets();
        let first = packets.iter().filter(|packet| packet.psn() == 100).count();
        assert_eq!(first, usize::from(retry_cnt) + 1);
        let (t, n) = (Duration::from_nanos(4096 << 10), u32::from(retry_cnt) + 1);
        let waited = Duration::from_nanos(rogue.world.now().as_nanos());
        assert!(waited >= t * n && waited <= t * n * 4, "{waited:?}");
    }
}

/// Trap 28: progress fills the retry counter again.
#[test]
fn progress_reloads_the_retry_counter() {
    let mut rogue = Rogue::with(|setup| setup.retry_cnt = 2);
    rogue.post(1, WRITE, (0, 10 * 1024));
    for packet in 0..10 {
        rogue.world.run_for(timeout() * 2);
        rogue.answer(Syndrome::ACK_UNLIMITED, packet);
    }
    rogue.expect_sent(&[(1, Status::Success)]);
}

/// Trap 29: a timeout of 0 never fires.
#[test]
fn a_timeout_of_zero_never_fires() {
    let mut rogue = Rogue::with(|setup| setup.timeout = 0);
    rogue.post(1, WRITE, (0, 10));
    rogue.run();
    assert_eq!(rogue.packets().len(), 1);
    rogue.expect_sent(&[]);
    rogue.answer(Syndrome::ACK_UNLIMITED, 0);
    rogue.expect_sent(&[(1, Status::Success)]);
}

/// Trap 29: each code's first retransmission comes between its time and four of it.
#[test]
fn every_timeout_code_is_kept() {
    for code in 1..=22 {
        let mut rogue = Rogue::with(|setup| setup.timeout = code);
        let start = rogue.world.now();
        rogue.post(1, WRITE, (0, 10));
        rogue.world.run_for(Duration::from_nanos(4096 << code) * 4);
        let retried = rogue.packets()[1].at.since(start);
        let t = Duration::from_nanos(4096 << code);
        assert!(retried >= t && retried <= t * 4, "code {code}: {retried:?}");
    }
}

/// Bugs 11 and 13, trap 30: after an RNR NAK nothing is sent before the coded delay, for each of the 32
/// codes, whatever else happens meanwhile; and soon after it the packet comes again.
#[test]
fn every_rnr_delay_is_waited_for() {
    let hundredths = [
        65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
        1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    ];
    for (timer, hundredths) in hundredths.into_iter().enumerate() {
        let delay = Duration::from_micros(hundredths * 10);
        let mut rogue = Rogue::new();
        rogue.post(1, SendOp::Send, (0, 10));
        let start = rogue.world.now();
        let timer = timer as u8;
        rogue.answer(Syndrome::Rnr { timer }, 0);
        // A post, a stale answer and a sequence NAK, none of which may end the wait.
        rogue.post(2, SendOp::Send, (0, 10));
        rogue.answer(Syndrome::ACK_UNLIMITED, 0xff_ffff);
        rogue.answer(Syndrome::Nak(NakCode::SequenceError), 0);
        rogue
            .world
            .run_for(delay + delay / 4 + Duration::from_micros(10));
        let next = rogue.packets()[1].clone();
        let waited = next.at.since(start);
        assert_eq!((next.psn(), next.again), (100, true), "code {timer}");
        assert!(
            waited >= delay && waited <= delay + delay / 4 + Duration::from_micros(5),
            "{timer}: {waited:?}"
        );
    }
}

/// Bug 12: rnr_retry N gives up after N retries; 7 never does.
#[test]
fn rnr_retry_seven_is_for_ever() {
    for rnr_retry in 0..=7 {
        let mut rogue = Rogue::with(|setup| setup.rnr_retry = rnr_retry);
        rogue.post(1, SendOp::Send, (0, 10));
        for _ in 0..100 {
            rogue.answer(Syndrome::Rnr { timer: 1 }, 0);
            rogue.settle();
        }
        let sent = rogue.packets().len();
        if rnr_retry == 7 {
            assert_eq!(sent, 101);
            rogue.expect_sent(&[]);
            rogue.answer(Syndrome::ACK_UNLIMITED, 0);
            rogue.expect_sent(&[(1, Status::Success)]);
        } else {
            assert_eq!(sent, usize::from(rnr_retry) + 1);
            rogue.expect_sent(&[(1, Status::RnrRetryExcErr)]);
            assert_eq!(rogue.counter("retry_rnr_exceeded_err"), 1);
            rogue.expect_state(QpState::Err);
        }
    }
}

/// Each refusal of the responder has its status, and the requests before the refused one are done.
#[test]
fn each_fatal_nak_has_its_status() {
    for (code, status) in [
        (NakCode::InvalidRequest, Status::RemInvReqErr),
        (NakCode::RemoteAccess, Status::RemAccessErr),
        (NakCode::RemoteOperational, Status::RemOpErr),
    ] {
        let mut rogue = Rogue::new();
        for id in 1..=3 {
            rogue.post(id, WRITE, (0, 10));
        }
        rogue.answer(Syndrome::Nak(code), 1);
        rogue.expect_sent(&[(1, Status::Success), (2, status), (3, Status::WrFlushErr)]);
        rogue.expect_state(QpState::Err);
    }
}

/// Trap 40: a NAK of an atomic is an ACKNOWLEDGE packet and fails the atomic.
#[test]
fn a_refused_atomic_fails() {
    let mut rogue = Rogue::new();
    rogue.post(1, ADD, (0, 8));
    rogue.answer(Syndrome::Nak(NakCode::RemoteAccess), 0);
    rogue.expect_sent(&[(1, Status::RemAccessErr)]);
    rogue.end.expect_untouched_outside((0, 0));
}

/// A READ response that is longer or shorter than it must be is never stored beyond its place: the
/// request fails with a bad response.
#[test]
fn a_read_response_of_the_wrong_length_is_a_bad_response() {
    for (opcode, len) in [
        (Opcode::RC_RDMA_READ_RESPONSE_ONLY, 9),
        (Opcode::RC_RDMA_READ_RESPONSE_ONLY, 7),
        (Opcode::RC_RDMA_READ_RESPONSE_FIRST, 8),
        (Opcode::RC_RDMA_READ_RESPONSE_ONLY, 1024),
    ] {
        let mut rogue = Rogue::new();
        rogue.post(1, READ, (64, 8));
        answer_read(&mut rogue, opcode, 0, &vec![0xee; len]);
        rogue.expect_sent(&[(1, Status::BadRespErr)]);
        rogue.end.expect_untouched_outside((64, 8));
    }
}

/// An answer to a READ or atomic that comes twice, or that was never asked for, is ignored.
#[test]
fn repeated_and_unasked_answers_are_ignored() {
    let mut rogue = Rogue::new();
    rogue.post(1, READ, (0, 8));
    answer_read(&mut rogue, Opcode::RC_RDMA_READ_RESPONSE_ONLY, 0, &[1; 8]);
    answer_read(&mut rogue, Opcode::RC_RDMA_READ_RESPONSE_ONLY, 0, &[2; 8]);
    answer_atomic(&mut rogue, 1);
    rogue.expect_sent(&[(1, Status::Success)]);
    assert_eq!(rogue.end.bytes(0, 8), [1; 8]);
    rogue.post(2, WRITE, (0, 8));
    answer_read(&mut rogue, Opcode::RC_RDMA_READ_RESPONSE_ONLY, 1, &[3; 8]);
    answer_atomic(&mut rogue, 1);
    rogue.expect_sent(&[]);
    rogue.answer(Syndrome::ACK_UNLIMITED, 1);
    rogue.expect_sent(&[(2, Status::Success)]);
    rogue.end.expect_untouched_outside((0, 8));
}

/// Bug 14: when everything is acknowledged no timer runs and nothing is ever sent again.
#[test]
fn an_idle_queue_pair_is_silent() {
    let mut rogue = Rogue::new();
    rogue.post(1, WRITE, (0, 10));
    rogue.answer(Syndrome::ACK_UNLIMITED, 0);
    rogue.run();
    assert_eq!(rogue.packets().len(), 1);
    assert_eq!(rogue.world.device(0).next_timeout(), None);
}

/// Bug 24: a QP that is destroyed with requests in flight leaves nothing behind: no timer, no packet,
/// and its number is not a live QP's.
#[test]
fn a_destroyed_queue_pair_leaves_nothing_behind() {
    let mut rogue = Rogue::new();
    rogue.post(1, WRITE, (0, 4096));
    rogue.answer(Syndrome::Rnr { timer: 20 }, 2);
    let qp = rogue.end.qp;
    rogue.world.device(0).destroy_qp(qp).expect("it exists");
    let sent = rogue.packets().len();
    rogue.run();
    assert_eq!(rogue.packets().len(), sent);
    rogue.answer(Syndrome::ACK_UNLIMITED, 3);
    assert_eq!(rogue.counter("drop_unknown_qpn"), 1);
    assert!(rogue.world.device(0).query_qp(qp).is_err());
}

fn timeout() -> Duration {
    Duration::from_nanos(4096 << 10)
}

/// What the device sent again.
fn again(rogue: &Rogue) -> Vec<(Opcode, u32)> {
    let packets = rogue.packets();
    let again = packets.iter().filter(|packet| packet.again);
    again
        .map(|packet| (packet.opcode(), packet.psn()))
        .collect()
}

fn answer_read(rogue: &mut Rogue, opcode: Opcode, after: u32, payload: &[u8]) {
    let bth = Bth::new(opcode, rogue.end.qpn, Psn::new(Rogue::FIRST + after));
    let aeth = (opcode != Opcode::RC_RDMA_READ_RESPONSE_MIDDLE).then_some(ACKED);
    let ext = Ext { aeth, ..Ext::NONE };
    rogue.packet(bth, ext, payload);
}

fn answer_atomic(rogue: &mut Rogue, after: u32) {
    let psn = Psn::new(Rogue::FIRST + after);
    let bth = Bth::new(Opcode::RC_ATOMIC_ACKNOWLEDGE, rogue.end.qpn, psn);
    let ext = Ext {
        aeth: Some(ACKED),
        atomic_ack: Some(AtomicAckEth(77)),
        ..Ext::NONE
    };
    rogue.packet(bth, ext, &[]);
}

fn post_flags(rogue: &mut Rogue, wr_id: u64, op: SendOp, length: u32, flags: SendFlags) {
    let sges: [Sge; 1] = [rogue.end.sge(0, length)];
    let request = SendWr {
        wr_id,
        op,
        payload: Payload::Sges(&sges),
        flags,
    };
    let qp = rogue.end.qp;
    rogue
        .world
        .device(0)
        .post_send(qp, &[request])
        .expect("the request is legal");
    rogue.settle();
}

const ACKED: Aeth = Aeth {
    syndrome: Syndrome::ACK_UNLIMITED,
    msn: Msn::new(1),
};
