//! PSNs that were never sent, long gone, half a space away, and around 2^23 and 2^24.

use roce_engine::verbs::{QpState, Service, Status};
use roce_wire::Opcode;

use crate::attack::{ACK, Attack, GOOD, MTU};

/// First PSNs around which the space wraps or changes its sign.
const STARTS: [u32; 8] = [
    0, 1, 0x7f_fffd, 0x7f_ffff, 0x80_0000, 0x80_0001, 0xff_fffd, 0xff_ffff,
];

/// Half of the PSN space.
const HALF: i32 = 0x80_0000;

/// Answers to PSNs that the victim never sent, or that are answered already, with any opcode and any
/// syndrome, complete nothing, fail nothing and resend nothing: 2^23 on either side and everywhere near.
#[test]
fn forged_answers_outside_of_the_window_are_ignored() {
    // Two messages of two packets and one of one are outstanding: five PSNs.
    let outside = [
        5,
        6,
        100,
        0x1000,
        HALF - 1,
        HALF,
        HALF + 1,
        HALF + 4,
        HALF + 5,
        -1,
        -2,
        -100,
        -0x1000,
    ];
    let syndromes = [
        0x1f, 0, 0x21, 0x3f, 0x60, 0x61, 0x62, 0x63, 0x64, 0x7f, 0x40, 0x80, 0xff,
    ];
    let opcodes = [
        ACK,
        Opcode::RC_ATOMIC_ACKNOWLEDGE,
        Opcode::RC_RDMA_READ_RESPONSE_FIRST,
        Opcode::RC_RDMA_READ_RESPONSE_MIDDLE,
        Opcode::RC_RDMA_READ_RESPONSE_LAST,
        Opcode::RC_RDMA_READ_RESPONSE_ONLY,
    ];
    for start in STARTS {
        let mut attack = Attack::with(Service::Rc, |wish| wish.psns[0] = start);
        for (id, len) in [(1, 2000), (2, 8), (3, 2000)] {
            attack.post(id, Attack::write(), (0, len));
        }
        let sent = attack.replies().len();
        assert_eq!(sent, 5);
        let mut forged = 0;
        for after in outside {
            for syndrome in syndromes {
                for opcode in opcodes {
                    let (bth, ext) = attack.answer_headers(opcode, syndrome, after);
                    let data = if opcode.0 < ACK.0 {
                        &[0xbb; MTU][..]
                    } else {
                        &[]
                    };
                    let bytes = attack.bytes(bth, ext, data);
                    attack.inject(bytes);
                    forged += 1;
                }
            }
        }
        attack.settle();
        let ghosts = attack.counter("ghost_response") + attack.counter("duplicate_response");
        assert_eq!(ghosts, forged, "from {start:#x}");
        assert_eq!(attack.lan.sent(attack.victim), []);
        assert_eq!(attack.replies(), [], "nothing is sent for them");
        attack.answer(0x1f, 4);
        let done = [1, 2, 3].map(|id| (id, Status::Success));
        attack.lan.expect_sent(attack.victim, &done);
        attack.finish(QpState::Rts, &[]);
    }
}

/// An ACK inside of the window completes exactly the messages that end at or before it.
#[test]
fn an_answer_completes_what_it_covers_and_no_more() {
    // Messages end at PSNs 1, 2 and 4.
    for start in STARTS {
        for (covered, done) in [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3)] {
            let mut attack = Attack::with(Service::Rc, |wish| wish.psns[0] = start);
            for (id, len) in [(1, 2000), (2, 8), (3, 2000)] {
                attack.post(id, Attack::write(), (0, len));
            }
            attack.answer(0x1f, covered);
            let sent = attack.lan.sent(attack.victim);
            let ids: Vec<u64> = sent.iter().map(|wc| wc.wr_id).collect();
            assert_eq!(
                ids,
                (1..=done).collect::<Vec<_>>(),
                "{start:#x} + {covered}"
            );
            attack.answer(0x1f, 4);
            assert_eq!(attack.lan.sent(attack.victim).len() as u64, 3 - done);
            attack.finish(QpState::Rts, &[]);
        }
    }
}

/// A request ahead of the expected PSN gets one sequence NAK, one behind it is acknowledged again, and
/// neither is executed; the border between ahead and behind is half of the space away.
#[test]
fn requests_ahead_and_behind_are_not_executed() {
    for start in STARTS {
        for (after, ahead) in [
            (1, true),
            (2, true),
            (63, true),
            (HALF - 1, true),
            (-1, false),
            (-2, false),
            (-63, false),
            (-HALF, false),
            (-HALF + 1, false),
        ] {
            let mut attack = Attack::with(Service::Rc, |wish| wish.psns[1] = start);
            for _ in 0..3 {
                attack.request(Opcode::RC_RDMA_WRITE_ONLY, after, 8, &[9; 8]);
            }
            let psn = |n: u32| n & 0xff_ffff;
            let expected = if ahead {
                vec![(ACK, start, Some(0x60))]
            } else {
                vec![(ACK, psn(start.wrapping_sub(1)), GOOD); 3]
            };
            assert_eq!(attack.replies(), expected, "{start:#x} + {after}");
            let counter = if ahead {
                "out_of_seq_request"
            } else {
                "duplicate_request"
            };
            assert_eq!(attack.counter(counter), 3);
            attack.expect_memory(&[]);
            attack.request(Opcode::RC_RDMA_WRITE_ONLY, 0, 8, &[9; 8]);
            assert_eq!(attack.replies(), [(ACK, start, GOOD)]);
            attack.finish(QpState::Rts, &[(0, 8)]);
        }
    }
}

/// READs and atomics behind the expected PSN that were never asked are dropped: no memory is shown or
/// changed.
#[test]
fn unknown_reads_and_atomics_behind_are_dropped() {
    for start in STARTS {
        let mut attack = Attack::with(Service::Rc, |wish| wish.psns[1] = start);
        for after in [-1, -2, -HALF] {
            for opcode in [
                Opcode::RC_RDMA_READ_REQUEST,
                Opcode::RC_FETCH_ADD,
                Opcode::RC_CMP_SWAP,
            ] {
                attack.request(opcode, after, 8, &[]);
            }
        }
        assert_eq!(attack.replies(), []);
        assert_eq!(attack.counter("drop_stale_replay"), 9);
        attack.finish(QpState::Rts, &[]);
    }
}

/// Messages and READs run across the wrap, and the parts of such a READ may be asked for again.
#[test]
fn requests_run_across_the_wrap() {
    for start in STARTS {
        let mut attack = Attack::with(Service::Rc, |wish| wish.psns[1] = start);
        attack.request(Opcode::RC_RDMA_WRITE_FIRST, 0, 3 * MTU as u32, &[1; MTU]);
        attack.request(Opcode::RC_RDMA_WRITE_MIDDLE, 1, 0, &[2; MTU]);
        attack.request(Opcode::RC_RDMA_WRITE_LAST, 2, 0, &[3; MTU]);
        attack.replies();
        let psn = |n: u32| (start + n) & 0xff_ffff;
        let read = Opcode::RC_RDMA_READ_REQUEST;
        attack.request(read, 3, 3 * MTU as u32, &[]);
        let psns: Vec<u32> = attack.replies().iter().map(|reply| reply.1).collect();
        assert_eq!(psns, [3, 4, 5].map(psn));
        let mr = attack.mr();
        let ext = crate::attack::named(read, mr.addr + 2 * MTU as u64, mr.rkey, MTU as u32);
        attack.packet(attack.bth(read, 5), ext, &[]);
        let only = Opcode::RC_RDMA_READ_RESPONSE_ONLY;
        assert_eq!(attack.replies(), [(only, psn(5), GOOD)]);
        attack.request(Opcode::RC_FETCH_ADD, 6, 8, &[]);
        let atomic = Opcode::RC_ATOMIC_ACKNOWLEDGE;
        assert_eq!(attack.replies(), [(atomic, psn(6), GOOD)]);
        attack.request(Opcode::RC_RDMA_WRITE_ONLY, 7, 8, &[4; 8]);
        assert_eq!(attack.replies(), [(ACK, psn(7), GOOD)]);
        attack.finish(QpState::Rts, &[(0, 3 * MTU)]);
    }
}

/// On UC any PSN is followed; packets of half a space away change nothing but the count of gaps.
#[test]
fn on_uc_a_foreign_psn_costs_one_message() {
    for start in STARTS {
        let mut attack = Attack::with(Service::Uc, |wish| wish.psns[1] = start);
        attack.lan.recv(attack.victim, 1, (16384, 4096));
        attack.request(Opcode::UC_SEND_FIRST, 0, 0, &[1; MTU]);
        attack.request(Opcode::UC_SEND_MIDDLE, HALF, 0, &[2; MTU]);
        attack.request(Opcode::UC_SEND_LAST, HALF + 1, 0, &[3; 8]);
        attack.lan.expect_received(attack.victim, &[]);
        attack.request(Opcode::UC_SEND_ONLY, 7, 0, &[4; 8]);
        attack
            .lan
            .expect_received(attack.victim, &[(1, Status::Success)]);
        assert_eq!(attack.counter("unreliable_gaps"), 2);
        assert_eq!(attack.counter("drop_unreliable"), 2);
        attack.lan.expect_bytes(0, 16384, &[4; 8]);
        attack.finish(QpState::Rts, &[(16384, MTU)]);
    }
}
