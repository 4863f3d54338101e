//! Answers that do not fit what the victim asked for.

use roce_engine::verbs::{QpState, RKey, SendOp, Service, Status};
use roce_wire::Opcode;

use crate::attack::{ACK, Attack, MTU};

const FIRST: Opcode = Opcode::RC_RDMA_READ_RESPONSE_FIRST;
const MIDDLE: Opcode = Opcode::RC_RDMA_READ_RESPONSE_MIDDLE;
const LAST: Opcode = Opcode::RC_RDMA_READ_RESPONSE_LAST;
const ONLY: Opcode = Opcode::RC_RDMA_READ_RESPONSE_ONLY;
const ATOMIC: Opcode = Opcode::RC_ATOMIC_ACKNOWLEDGE;

/// Where the victim's READ goes, and its bytes: three packets.
const AT: usize = 8192;
const LEN: usize = 2 * MTU + 952;

/// A victim that asked for `LEN` bytes and has a WRITE behind that.
fn reading() -> Attack {
    let mut attack = Attack::new(Service::Rc);
    attack.post(1, Attack::read(), (AT, LEN as u32));
    attack.post(2, Attack::write(), (0, 8));
    assert_eq!(attack.replies().len(), 2);
    attack
}

fn respond(attack: &mut Attack, opcode: Opcode, after: i32, len: usize) {
    let (bth, ext) = attack.answer_headers(opcode, 0x1f, after);
    attack.packet(bth, ext, &vec![0xdd; len]);
}

/// The answer as it was asked for arrives.
#[test]
fn the_right_answer_is_taken() {
    let mut attack = reading();
    respond(&mut attack, FIRST, 0, MTU);
    respond(&mut attack, MIDDLE, 1, MTU);
    respond(&mut attack, LAST, 2, 952);
    respond(&mut attack, ACK, 3, 0);
    attack
        .lan
        .expect_sent(attack.victim, &[(1, Status::Success), (2, Status::Success)]);
    attack.lan.expect_bytes(0, AT, &[0xdd; LEN]);
    attack.finish(QpState::Rts, &[(AT, LEN)]);
}

/// A READ response of a wrong length or in a wrong place ends the READ with IBV_WC_BAD_RESP_ERR (7): one
/// byte more or less, none, a whole packet more, an end too early, no end where it is due, a middle where
/// it begins. Not a byte of it is stored.
#[test]
fn a_response_that_does_not_fit_is_a_bad_response() {
    let wrong: [(usize, Opcode, usize); 22] = [
        (0, FIRST, 0),
        (0, FIRST, MTU - 1),
        (0, FIRST, MTU + 1),
        (0, FIRST, 2 * MTU),
        (0, FIRST, 4096),
        (0, ONLY, MTU),
        (0, ONLY, LEN),
        (0, ONLY, 0),
        (0, LAST, MTU),
        (0, MIDDLE, MTU),
        (1, MIDDLE, MTU - 4),
        (1, MIDDLE, MTU + 4),
        (1, MIDDLE, 0),
        (1, LAST, MTU),
        (1, LAST, 952),
        (1, ONLY, MTU),
        (2, LAST, 951),
        (2, LAST, 953),
        (2, LAST, MTU),
        (2, LAST, 0),
        (2, MIDDLE, 952),
        (2, FIRST, 952),
    ];
    for (good, opcode, len) in wrong {
        let mut attack = reading();
        for after in 0..good {
            respond(&mut attack, [FIRST, MIDDLE][after], after as i32, MTU);
        }
        respond(&mut attack, opcode, good as i32, len);
        let failed = [(1, Status::BadRespErr), (2, Status::WrFlushErr)];
        attack.lan.expect_sent(attack.victim, &failed);
        attack.finish(QpState::Err, &[(AT, good * MTU)]);
    }
}

/// The same on a READ of nothing and on one of a single packet.
#[test]
fn a_short_read_takes_one_packet() {
    for (asked, opcode, len, good) in [
        (0, ONLY, 0, true),
        (0, ONLY, 4, false),
        (0, FIRST, MTU, false),
        (8, ONLY, 8, true),
        (8, ONLY, 7, false),
        (8, ONLY, 9, false),
        (8, ONLY, 0, false),
        (8, FIRST, 8, false),
        (8, LAST, 8, false),
        (8, MIDDLE, 8, false),
    ] {
        let mut attack = Attack::new(Service::Rc);
        attack.post(1, Attack::read(), (AT, asked));
        respond(&mut attack, opcode, 0, len);
        let (status, state, stored) = if good {
            (Status::Success, QpState::Rts, len)
        } else {
            (Status::BadRespErr, QpState::Err, 0)
        };
        attack.lan.expect_sent(attack.victim, &[(1, status)]);
        attack.finish(state, &[(AT, stored)]);
    }
}

/// More of a READ than was asked for, behind its end, is for nobody: the next request is a WRITE.
#[test]
fn what_comes_behind_the_end_is_ignored() {
    let mut attack = reading();
    respond(&mut attack, FIRST, 0, MTU);
    respond(&mut attack, MIDDLE, 1, MTU);
    respond(&mut attack, LAST, 2, 952);
    let before = attack.counter("ghost_response");
    for (after, opcode) in [(3, MIDDLE), (3, LAST), (3, ONLY), (4, MIDDLE), (5, LAST)] {
        respond(&mut attack, opcode, after, 952);
    }
    assert_eq!(attack.counter("ghost_response"), before + 5);
    attack
        .lan
        .expect_sent(attack.victim, &[(1, Status::Success)]);
    attack.answer(0x1f, 3);
    attack
        .lan
        .expect_sent(attack.victim, &[(2, Status::Success)]);
    attack.finish(QpState::Rts, &[(AT, LEN)]);
}

/// A packet of the answer again is a duplicate: what it brings is not stored.
#[test]
fn a_repeated_response_is_not_stored() {
    let mut attack = reading();
    respond(&mut attack, FIRST, 0, MTU);
    for _ in 0..100 {
        let (bth, ext) = attack.answer_headers(FIRST, 0x1f, 0);
        attack.packet(bth, ext, &[0xbb; MTU]);
    }
    assert_eq!(attack.counter("duplicate_response"), 100);
    attack.lan.expect_bytes(0, AT, &[0xdd; MTU]);
    respond(&mut attack, MIDDLE, 1, MTU);
    respond(&mut attack, LAST, 2, 952);
    attack
        .lan
        .expect_sent(attack.victim, &[(1, Status::Success)]);
    attack.finish(QpState::Rts, &[(AT, LEN)]);
}

/// A response that skips packets of the READ, or an ACK of it, is not its answer: the rest is asked for
/// again once, however many of these come.
#[test]
fn a_skipped_response_asks_again_once() {
    for (opcode, after, len) in [(MIDDLE, 1, MTU), (LAST, 2, 952), (ACK, 2, 0), (ACK, 3, 0)] {
        let mut attack = reading();
        for _ in 0..50 {
            respond(&mut attack, opcode, after, len);
        }
        let again = attack.replies();
        let read = Opcode::RC_RDMA_READ_REQUEST;
        let write = Opcode::RC_RDMA_WRITE_ONLY;
        assert_eq!(
            again,
            [(read, 100, None), (write, 103, None)],
            "{opcode} {after}"
        );
        assert_eq!(attack.counter("implied_nak_seq_err"), 50);
        attack.lan.expect_sent(attack.victim, &[]);
        respond(&mut attack, FIRST, 0, MTU);
        respond(&mut attack, MIDDLE, 1, MTU);
        respond(&mut attack, LAST, 2, 952);
        attack.answer(0x1f, 3);
        attack
            .lan
            .expect_sent(attack.victim, &[(1, Status::Success), (2, Status::Success)]);
        attack.finish(QpState::Rts, &[(AT, LEN)]);
    }
}

/// Data for a SEND or a WRITE, and atomic results that nobody asked for, are ignored.
#[test]
fn unsolicited_results_are_ignored() {
    let mut attack = Attack::new(Service::Rc);
    attack.post(1, Attack::write(), (0, 8));
    attack.post(2, SendOp::Send, (0, 8));
    for after in [0, 1] {
        for (opcode, len) in [
            (ONLY, 8),
            (FIRST, MTU),
            (LAST, 8),
            (MIDDLE, MTU),
            (ATOMIC, 0),
        ] {
            respond(&mut attack, opcode, after, len);
        }
    }
    // An answer at PSN 1 acknowledges what is before it: the WRITE. It completes nothing else.
    attack
        .lan
        .expect_sent(attack.victim, &[(1, Status::Success)]);
    assert_eq!(attack.counter("ghost_response"), 10);
    attack.answer(0x1f, 1);
    attack
        .lan
        .expect_sent(attack.victim, &[(2, Status::Success)]);
    attack.finish(QpState::Rts, &[]);
}

/// An atomic takes its result from an ATOMIC ACKNOWLEDGE of its PSN, once; a READ is not answered by one,
/// nor an atomic by READ data.
#[test]
fn an_atomic_takes_one_result() {
    let add = SendOp::FetchAdd {
        addr: 0x10_0000,
        rkey: RKey(1),
        add: 1,
    };
    let mut attack = Attack::new(Service::Rc);
    attack.post(1, add, (AT, 8));
    attack.post(2, Attack::read(), (AT + 8, 8));
    respond(&mut attack, ONLY, 0, 8);
    respond(&mut attack, FIRST, 0, MTU);
    attack.lan.expect_sent(attack.victim, &[]);
    respond(&mut attack, ATOMIC, 0, 0);
    respond(&mut attack, ATOMIC, 0, 0);
    attack
        .lan
        .expect_sent(attack.victim, &[(1, Status::Success)]);
    attack.lan.expect_bytes(0, AT, &0xbad_u64.to_ne_bytes());
    respond(&mut attack, ATOMIC, 1, 0);
    attack.lan.expect_sent(attack.victim, &[]);
    assert_eq!(attack.counter("ghost_response"), 3);
    assert_eq!(attack.counter("duplicate_response"), 1);
    respond(&mut attack, ONLY, 1, 8);
    attack
        .lan
        .expect_sent(attack.victim, &[(2, Status::Success)]);
    attack.finish(QpState::Rts, &[(AT, 16)]);
}

/// A NAK in the AETH of data is no NAK, and the data is not taken.
#[test]
fn data_that_says_no_is_dropped() {
    for syndrome in [0x20, 0x60, 0x61, 0x62, 0x63, 0x7f, 0x40, 0xff] {
        let mut attack = reading();
        let (bth, ext) = attack.answer_headers(FIRST, syndrome, 0);
        attack.packet(bth, ext, &[0xbb; MTU]);
        let (bth, ext) = attack.answer_headers(ATOMIC, syndrome, 0);
        attack.packet(bth, ext, &[]);
        assert_eq!(attack.counter("drop_malformed"), 2, "{syndrome:#x}");
        assert_eq!(attack.lan.sent(attack.victim), []);
        attack.finish_reading();
    }
}

/// Answers to a queue pair that may not send yet find nothing.
#[test]
fn answers_before_anything_was_sent_are_ignored() {
    let mut attack = Attack::new(Service::Rc);
    for after in [-1, 0, 1] {
        for (opcode, len) in [(ACK, 0), (ONLY, 8), (ATOMIC, 0)] {
            respond(&mut attack, opcode, after, len);
        }
    }
    let ignored = attack.counter("ghost_response") + attack.counter("duplicate_response");
    assert_eq!(ignored, 9);
    attack.finish(QpState::Rts, &[]);
}

/// On UC and UD there are no answers.
#[test]
fn answers_to_unreliable_queue_pairs_are_dropped() {
    for service in [Service::Uc, Service::Ud] {
        let mut attack = Attack::new(service);
        for (opcode, len) in [(ACK, 0), (ONLY, 8), (FIRST, MTU), (ATOMIC, 0)] {
            respond(&mut attack, opcode, 0, len);
        }
        assert_eq!(attack.counter("drop_wrong_service"), 4);
        attack.finish(QpState::Rts, &[]);
    }
}

impl Attack {
    /// The victim of `reading` gets its answers after all.
    fn finish_reading(mut self) {
        respond(&mut self, FIRST, 0, MTU);
        respond(&mut self, MIDDLE, 1, MTU);
        respond(&mut self, LAST, 2, 952);
        self.answer(0x1f, 3);
        self.lan
            .expect_sent(self.victim, &[(1, Status::Success), (2, Status::Success)]);
        self.finish(QpState::Rts, &[(AT, LEN)]);
    }
}
