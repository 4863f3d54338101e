//! Every counter counts what its name says, once: what a person reads when a run goes wrong.

use core::time::Duration;

use roce_engine::verbs::{AsyncEvent, Backend, Psn, QpAttr, QpState, RKey, SendOp};
use roce_tests::pair::{Rogue, named};
use roce_wire::{Aeth, AtomicAckEth, Bth, Ext, Msn, NakCode, Opcode, Syndrome};

const WRITE: SendOp = SendOp::Write {
    addr: 0x10_0000,
    rkey: RKey(0x1234),
};
const READ: SendOp = SendOp::Read {
    addr: 0x10_0000,
    rkey: RKey(0x1234),
};

/// Asserts that a counter is `before + more` after `step`.
#[track_caller]
fn counts(rogue: &mut Rogue, name: &str, more: u64, step: impl FnOnce(&mut Rogue)) {
    let before = rogue.counter(name);
    step(rogue);
    assert_eq!(rogue.counter(name), before + more, "{name}");
}

/// Sends a response whose PSN counts from the first that the device sent.
fn respond(rogue: &mut Rogue, opcode: Opcode, after: u32, syndrome: Syndrome, payload: &[u8]) {
    let bth = Bth::new(opcode, rogue.end.qpn, Psn::new(Rogue::FIRST + after));
    let aeth = Aeth {
        syndrome,
        msn: Msn::new(0),
    };
    let ext = Ext {
        aeth: Some(aeth),
        atomic_ack: (opcode == Opcode::RC_ATOMIC_ACKNOWLEDGE).then_some(AtomicAckEth(5)),
        ..Ext::NONE
    };
    rogue.packet(bth, ext, payload);
}

const ACK: Syndrome = Syndrome::ACK_UNLIMITED;
const READ_ANSWER: Opcode = Opcode::RC_RDMA_READ_RESPONSE_ONLY;
const ATOMIC_ANSWER: Opcode = Opcode::RC_ATOMIC_ACKNOWLEDGE;

#[test]
fn responses_outside_of_what_was_sent_are_ghosts_and_duplicates() {
    let mut rogue = Rogue::new();
    rogue.post(1, WRITE, (0, 10));
    for _ in 0..2 {
        counts(&mut rogue, "ghost_response", 1, |rogue| {
            rogue.answer(ACK, 1)
        });
    }
    rogue.answer(ACK, 0);
    for _ in 0..2 {
        counts(&mut rogue, "duplicate_response", 1, |rogue| {
            rogue.answer(ACK, 0)
        });
    }
    rogue.post(2, WRITE, (0, 10));
    // An answer to a READ or an atomic that was never asked for.
    for opcode in [READ_ANSWER, ATOMIC_ANSWER, READ_ANSWER] {
        counts(&mut rogue, "ghost_response", 1, |rogue| {
            respond(rogue, opcode, 1, ACK, &[])
        });
    }
}

#[test]
fn answers_with_a_syndrome_that_they_cannot_have_are_malformed() {
    let mut rogue = Rogue::new();
    rogue.post(1, READ, (0, 4));
    for opcode in [READ_ANSWER, ATOMIC_ANSWER, READ_ANSWER] {
        let payload: &[u8] = if opcode == READ_ANSWER { &[1; 4] } else { &[] };
        counts(&mut rogue, "drop_malformed", 1, |rogue| {
            respond(rogue, opcode, 0, Syndrome::Rnr { timer: 1 }, payload);
        });
    }
    for _ in 0..2 {
        counts(&mut rogue, "drop_malformed", 1, |rogue| {
            rogue.answer(Syndrome::Reserved(0x40), 0)
        });
    }
    rogue.expect_sent(&[]);
}

#[test]
fn naks_are_counted_by_kind() {
    let mut rogue = Rogue::with(|setup| setup.min_rnr_timer = 1);
    rogue.post(1, WRITE, (0, 10));
    let sequence = Syndrome::Nak(NakCode::SequenceError);
    for _ in 0..2 {
        counts(&mut rogue, "rcvd_seq_err", 1, |rogue| {
            rogue.answer(sequence, 0)
        });
    }
    counts(&mut rogue, "rcvd_rnr_err", 1, |rogue| {
        rogue.answer(Syndrome::Rnr { timer: 1 }, 0)
    });
    counts(&mut rogue, "rcvd_fatal_nak", 1, |rogue| {
        rogue.answer(Syndrome::Nak(NakCode::InvalidRequest), 0);
    });
    rogue.expect_state(QpState::Err);
}

#[test]
fn what_the_responder_says_is_counted_by_kind() {
    let mut rogue = Rogue::new();
    let write = Opcode::RC_RDMA_WRITE_ONLY;
    let ext = named(write, rogue.end.mr.addr, rogue.end.mr.rkey, 4);
    let send = |rogue: &mut Rogue, after| rogue.request(write, after, ext, &[1; 4]);
    for after in 0..2 {
        counts(&mut rogue, "acks_sent", 1, |rogue| send(rogue, after));
    }
    for _ in 0..2 {
        counts(&mut rogue, "duplicate_request", 1, |rogue| send(rogue, 0));
    }
    counts(&mut rogue, "sent_seq_err", 1, |rogue| send(rogue, 5));
    for _ in 0..2 {
        // The gap was reported: more of it is dropped without a word.
        counts(&mut rogue, "drop_out_of_sequence", 1, |rogue| {
            send(rogue, 6)
        });
    }
    assert_eq!(rogue.counter("out_of_seq_request"), 3);
    counts(&mut rogue, "send_rnr_err", 1, |rogue| {
        rogue.request(Opcode::RC_SEND_ONLY, 2, Ext::NONE, &[1; 4]);
    });
    for _ in 0..2 {
        counts(&mut rogue, "drop_stale_replay", 1, |rogue| {
            let ext = named(
                Opcode::RC_FETCH_ADD,
                rogue.end.mr.addr,
                rogue.end.mr.rkey,
                8,
            );
            rogue.request(Opcode::RC_FETCH_ADD, -3, ext, &[]);
        });
    }
    counts(&mut rogue, "sent_fatal_nak", 1, |rogue| {
        rogue.request(Opcode::RC_SEND_MIDDLE, 2, Ext::NONE, &[1; 1024]);
    });
}

/// A response needs a requester, which RTR does not have: it is not even a ghost.
#[test]
fn responses_in_rtr_are_not_looked_at() {
    let mut rogue = Rogue::new();
    let qp = rogue.end.qp;
    let device = rogue.world.device(0);
    let old = device.query_qp(qp).expect("the QP lives").attr;
    let to = |state| QpAttr {
        state: Some(state),
        ..QpAttr::default()
    };
    let init = QpAttr {
        pkey_index: Some(0),
        port: Some(1),
        access: old.access,
        ..to(QpState::Init)
    };
    let rtr = QpAttr {
        address: old.address,
        path_mtu: old.path_mtu,
        dest_qpn: old.dest_qpn,
        rq_psn: Some(Psn::new(Rogue::EXPECTED)),
        max_dest_rd_atomic: Some(1),
        min_rnr_timer: Some(1),
        ..to(QpState::Rtr)
    };
    for attr in [to(QpState::Reset), init, rtr] {
        device.modify_qp(qp, &attr).expect("a legal transition");
    }
    for name in ["ghost_response", "duplicate_response"] {
        counts(&mut rogue, name, 0, |rogue| rogue.answer(ACK, 0));
    }
    // It is there: requests are executed.
    counts(&mut rogue, "acks_sent", 1, |rogue| {
        let write = Opcode::RC_RDMA_WRITE_ONLY;
        let ext = named(write, rogue.end.mr.addr, rogue.end.mr.rkey, 4);
        rogue.request(write, 0, ext, &[1; 4]);
    });
}

/// Only the first packet from a wrong source is reported: a flood of them must not flood its reader.
#[test]
fn a_wrong_source_is_reported_once_and_counted_each_time() {
    let mut rogue = Rogue::new();
    rogue.meta.remote = "10.9.9.9".parse().expect("an address");
    for _ in 0..3 {
        counts(&mut rogue, "drop_wrong_source", 1, |rogue| {
            rogue.request(Opcode::RC_SEND_ONLY, 0, Ext::NONE, &[]);
        });
    }
    let mut reports = 0;
    while let Some(event) = rogue.world.device(0).poll_event() {
        reports += u32::from(matches!(event, AsyncEvent::WrongSource { .. }));
    }
    assert_eq!(reports, 1);
}

/// What a query says of the PSNs and the state is what they are, not what they were set to.
#[test]
fn a_query_sees_psns_move_and_the_state_change() {
    let mut rogue = Rogue::new();
    rogue.post(1, WRITE, (0, 10));
    let write = Opcode::RC_RDMA_WRITE_ONLY;
    let ext = named(write, rogue.end.mr.addr, rogue.end.mr.rkey, 4);
    rogue.request(write, 0, ext, &[1; 4]);
    let qp = rogue.end.qp;
    let attr = |rogue: &mut Rogue| rogue.world.device(0).query_qp(qp).expect("it lives").attr;
    let moved = attr(&mut rogue);
    assert_eq!(moved.sq_psn, Some(Psn::new(Rogue::FIRST + 1)));
    assert_eq!(moved.rq_psn, Some(Psn::new(Rogue::EXPECTED + 1)));
    rogue.answer(Syndrome::Nak(NakCode::RemoteAccess), 0);
    assert_eq!(attr(&mut rogue).state, Some(QpState::Err));
}

/// A sequence NAK behind an RNR NAK, as rxe sends it, neither cuts the delay short nor spends a retry,
/// even if it acknowledges something.
#[test]
fn a_sequence_nak_does_not_end_an_rnr_wait() {
    let mut rogue = Rogue::with(|setup| setup.retry_cnt = 0);
    rogue.post(1, WRITE, (0, 2048));
    rogue.answer(Syndrome::Rnr { timer: 20 }, 0);
    for after in [0, 1] {
        counts(&mut rogue, "retransmitted_pkts", 0, |rogue| {
            rogue.answer(Syndrome::Nak(NakCode::SequenceError), after);
        });
    }
    rogue.expect_sent(&[]);
    rogue.world.run_for(Duration::from_millis(12));
    assert_eq!(rogue.counter("retransmitted_pkts"), 1, "after 10.24 ms");
}
