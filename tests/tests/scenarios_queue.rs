//! Queues, states and completions: what a user of verbs sees.
//!
//! "Bug N" and "trap N" are explained in `docs/scenarios.md`.

use roce_engine::sim::{Action, PortId, Rule};
use roce_engine::verbs::{
    AsyncEvent, Backend, Completion, CqError, Payload, PostError, Qp, QpAttr, QpCaps, QpInit,
    QpState, SendFlags, SendOp, SendWr, Service, Status, WcOpcode,
};
use roce_tests::pair::{Pair, outcomes};
use roce_tests::rc::{RcEnd, address};
use roce_wire::Opcode;

/// Trap 47: to the error state, everything posted comes back flushed, in order, once, signaled or not,
/// on both queues; what is posted afterwards too.
#[test]
fn the_error_state_flushes_everything_in_order_once() {
    let mut pair = Pair::new();
    pair.rule(Rule::new(Action::Drop, |_| true).from_port(PortId(0)));
    for id in 0..5 {
        pair.recv(0, id, (0, 10));
        let write = pair.write_to(0, 0);
        pair.post_flags(0, id, write, (0, 10), SendFlags::NONE);
    }
    pair.run_for(core::time::Duration::from_micros(50));
    modify(&mut pair, 0, QpState::Err);
    let flushed: Vec<(u64, Status)> = (0..5).map(|id| (id, Status::WrFlushErr)).collect();
    pair.expect_sent(0, &flushed);
    pair.expect_received(0, &flushed);
    let write = pair.write_to(0, 0);
    pair.post(0, 9, write, (0, 10));
    pair.recv(0, 8, (0, 10));
    pair.expect_sent(0, &[(9, Status::WrFlushErr)]);
    pair.expect_received(0, &[(8, Status::WrFlushErr)]);
    let sent = pair.packets(0).len();
    pair.run();
    assert_eq!(
        pair.packets(0).len(),
        sent,
        "nothing is sent from the error state"
    );
    pair.expect_sent(0, &[]);
}

/// Trap 47: a receive that a message was being written to is flushed in its turn.
#[test]
fn a_half_written_receive_is_flushed_too() {
    let mut pair = Pair::new();
    pair.rule(Rule::new(Action::Drop, |packet| {
        packet.bth.opcode == Opcode::RC_SEND_LAST
    }));
    pair.recv(1, 1, (0, 4096));
    pair.recv(1, 2, (4096, 4096));
    pair.post(0, 1, SendOp::Send, (0, 3000));
    pair.run_for(core::time::Duration::from_micros(50));
    modify(&mut pair, 1, QpState::Err);
    let flushed = pair.received(1);
    assert_eq!(
        outcomes(&flushed),
        [(1, Status::WrFlushErr), (2, Status::WrFlushErr)]
    );
    assert!(flushed.iter().all(|one| one.opcode == WcOpcode::Recv));
}

/// A QP that went to error is as new after RESET, with other numbers on the wire.
#[test]
fn a_queue_pair_is_as_new_after_reset() {
    let mut pair = Pair::new();
    let write = pair.write_to(0, 0);
    pair.post(0, 1, write, (0, 10_000));
    pair.run_for(core::time::Duration::from_micros(3));
    for side in 0..2 {
        modify(&mut pair, side, QpState::Err);
        modify(&mut pair, side, QpState::Reset);
        pair.sent(side);
        let refused = pair.try_post(side, 1, write, (0, 10), SendFlags::SIGNALED);
        assert_eq!(refused, Err(PostError::State(QpState::Reset)));
    }
    pair.run();
    for side in 0..2 {
        let end = &pair.ends[side];
        let peer = pair.ends[1 - side].qpn;
        let attributes = RcEnd::new(address(false, 1 - side), peer);
        attributes
            .connect(pair.world.device(side), end.qp)
            .expect("legal attributes");
    }
    pair.post(0, 2, write, (0, 10_000));
    pair.run();
    pair.expect_sent(0, &[(2, Status::Success)]);
    assert_eq!(
        pair.ends[1].bytes(0, 10_000),
        pair.ends[0].original(0, 10_000)
    );
}

/// Bug 23: a CQ that is too small loses nothing in silence: what fits is delivered, then the CQ says
/// that it overflowed, an event names it, and its QP is in error.
#[test]
fn a_full_completion_queue_is_an_error() {
    let mut pair = Pair::with(|setup| setup.cq_depth = 4);
    for id in 0..6 {
        let write = pair.write_to(0, 0);
        pair.post(0, id, write, (0, 10));
    }
    pair.run();
    let cq = pair.ends[0].send_cq;
    let mut out = [Completion::default(); 16];
    let device = pair.world.device(0);
    assert_eq!(device.poll_cq(cq, &mut out), Ok(4));
    assert!(
        out[..4]
            .iter()
            .enumerate()
            .all(|(id, wc)| wc.wr_id == id as u64)
    );
    assert_eq!(device.poll_cq(cq, &mut out), Err(CqError::Overflow));
    let events: Vec<AsyncEvent> = core::iter::from_fn(|| device.poll_event()).collect();
    assert!(events.contains(&AsyncEvent::CqError(cq)), "{events:?}");
    pair.expect_state(0, QpState::Err);
}

/// Trap 31: an unsignaled request has no completion when it succeeds and one when it fails.
#[test]
fn unsignaled_requests_complete_only_in_error() {
    let mut pair = Pair::new();
    let write = pair.write_to(0, 0);
    for id in 0..3 {
        pair.post_flags(0, id, write, (0, 10), SendFlags::NONE);
    }
    pair.run();
    pair.expect_sent(0, &[]);
    pair.rule(Rule::new(Action::Drop, |_| true));
    pair.post_flags(0, 7, write, (0, 10), SendFlags::NONE);
    pair.run();
    pair.expect_sent(0, &[(7, Status::RetryExcErr)]);
}

/// A local fault (an SGE that its key does not allow) fails the request in its turn and sends nothing
/// of it; those before it succeed.
#[test]
fn a_local_protection_error_waits_for_its_turn() {
    let mut pair = Pair::new();
    let write = pair.write_to(0, 0);
    pair.post(0, 1, write, (0, 10));
    let mut sge = pair.ends[0].sge(0, 10);
    sge.addr += pair.ends[0].mr.length;
    let request = SendWr {
        wr_id: 2,
        op: write,
        payload: Payload::Sges(&[sge]),
        flags: SendFlags::SIGNALED,
    };
    let qp = pair.ends[0].qp;
    pair.world
        .device(0)
        .post_send(qp, &[request])
        .expect("checked when it is sent");
    pair.post(0, 3, write, (0, 10));
    pair.run();
    pair.expect_sent(
        0,
        &[
            (1, Status::Success),
            (2, Status::LocProtErr),
            (3, Status::WrFlushErr),
        ],
    );
    assert_eq!(pair.packets(0).len(), 1);
}

/// A READ whose target is not writable fails locally; the memory is not touched.
#[test]
fn a_read_into_memory_that_may_not_be_written_fails_locally() {
    let mut pair = Pair::new();
    let pd = pair.ends[0].pd;
    let region = pair.ends[0].region.clone();
    let device = pair.world.device(0);
    let mr = device
        .register(pd, &region, roce_engine::verbs::Access::NONE)
        .expect("legal");
    let sge = roce_engine::verbs::Sge {
        addr: mr.addr,
        length: 100,
        lkey: mr.lkey,
    };
    let request = SendWr {
        wr_id: 1,
        op: pair.read_from(0, 0),
        payload: Payload::Sges(&[sge]),
        flags: SendFlags::SIGNALED,
    };
    let qp = pair.ends[0].qp;
    pair.world
        .device(0)
        .post_send(qp, &[request])
        .expect("checked when it is answered");
    pair.run();
    pair.expect_sent(0, &[(1, Status::LocProtErr)]);
    pair.ends[0].expect_untouched_outside((0, 0));
}

/// Inline bytes are copied when they are posted, and again none of them is read when they are resent.
#[test]
fn inline_bytes_are_copied_when_posted() {
    let mut pair = Pair::new();
    pair.rule(Rule::new(Action::Drop, |_| true).once());
    let mut bytes = *b"inline data, copied when it is posted";
    let request = SendWr {
        wr_id: 1,
        op: pair.write_to(0, 0),
        payload: Payload::Inline(&bytes),
        flags: SendFlags::SIGNALED,
    };
    let qp = pair.ends[0].qp;
    pair.world
        .device(0)
        .post_send(qp, &[request])
        .expect("it fits");
    let posted = bytes;
    bytes.fill(0);
    pair.run();
    pair.expect_sent(0, &[(1, Status::Success)]);
    assert_eq!(pair.ends[1].bytes(0, posted.len()), posted);
    assert_ne!(bytes, posted);
}

/// Trap 19: immediate data arrives byte for byte, and a WRITE with immediate data reports the RETH's
/// length while its receive's memory is not touched.
#[test]
fn immediate_data_is_opaque() {
    let mut pair = Pair::new();
    pair.recv(1, 1, (100_000, 0));
    pair.recv(1, 2, (100_000, 64));
    let SendOp::Write { addr, rkey } = pair.write_to(0, 0) else {
        unreachable!("a WRITE was asked for");
    };
    let imm = [0x80, 0, 1, 0xff];
    pair.post(0, 1, SendOp::WriteImm { addr, rkey, imm }, (0, 5000));
    pair.post(0, 2, SendOp::SendImm(imm), (0, 5));
    pair.run();
    let received = pair.received(1);
    let seen: Vec<_> = received
        .iter()
        .map(|wc| (wc.opcode, wc.byte_len, wc.imm))
        .collect();
    assert_eq!(
        seen,
        [
            (WcOpcode::RecvWriteImm, 5000, Some(imm)),
            (WcOpcode::Recv, 5, Some(imm))
        ]
    );
    assert_eq!(
        pair.ends[1].bytes(100_005, 59),
        pair.ends[1].original(100_005, 59)
    );
}

/// SQD: what was started is finished, what was not waits, an event says when; back in RTS it goes on.
#[test]
fn a_draining_queue_finishes_what_it_started() {
    let mut pair = Pair::with(|setup| setup.slots = 2);
    let write = pair.write_to(0, 0);
    pair.post(0, 1, write, (0, 10_000));
    pair.run_for(core::time::Duration::from_micros(1));
    let drain = QpAttr {
        state: Some(QpState::Sqd),
        sqd_event: Some(true),
        ..QpAttr::default()
    };
    let (qp, qpn) = (pair.ends[0].qp, pair.ends[0].qpn);
    pair.world
        .device(0)
        .modify_qp(qp, &drain)
        .expect("RTS goes to SQD");
    pair.post(0, 2, write, (0, 10));
    pair.run();
    pair.expect_sent(0, &[(1, Status::Success)]);
    let device = pair.world.device(0);
    let events: Vec<AsyncEvent> = core::iter::from_fn(|| device.poll_event()).collect();
    assert!(events.contains(&AsyncEvent::SqDrained(qpn)), "{events:?}");
    // Bug 24: the depth changes while the peer's traffic goes on.
    let shallower = QpAttr {
        max_dest_rd_atomic: Some(1),
        ..QpAttr::default()
    };
    pair.world
        .device(0)
        .modify_qp(qp, &shallower)
        .expect("SQD allows it");
    modify(&mut pair, 0, QpState::Rts);
    pair.run();
    pair.expect_sent(0, &[(2, Status::Success)]);
}

/// Bug 24: the replay table shrinks while answers are on their way; nothing is answered from what is
/// gone, and the requester gets everything by asking again.
#[test]
fn the_replay_table_may_shrink_under_traffic() {
    let mut pair = Pair::with(|setup| setup.slots = 1);
    let drain = QpAttr {
        state: Some(QpState::Sqd),
        ..QpAttr::default()
    };
    let qp = pair.ends[1].qp;
    pair.world
        .device(1)
        .modify_qp(qp, &drain)
        .expect("RTS goes to SQD");
    for id in 0..4 {
        let read = pair.read_from(0, id as usize * 5000);
        pair.post(0, id, read, (100_000 + id as usize * 5000, 5000));
    }
    pair.run_for(core::time::Duration::from_micros(3));
    let fewer = QpAttr {
        max_dest_rd_atomic: Some(4),
        ..QpAttr::default()
    };
    pair.world
        .device(1)
        .modify_qp(qp, &fewer)
        .expect("SQD allows it");
    pair.run();
    let all: Vec<(u64, Status)> = (0..4).map(|id| (id, Status::Success)).collect();
    pair.expect_sent(0, &all);
    assert_eq!(
        pair.ends[0].bytes(100_000, 20_000),
        pair.ends[1].original(0, 20_000)
    );
}

/// Hundreds of QPs on one device share its link fairly: all of them finish, and none finishes long
/// before the others.
#[test]
fn hundreds_of_queue_pairs_share_a_device() {
    let mut pair = Pair::with(|setup| {
        setup.engine.max_qp = 512;
        setup.cq_depth = 512;
        setup.slots = 16;
    });
    let write = pair.write_to(0, 0);
    let mut qps = vec![(pair.ends[0].qp, pair.ends[1].qp)];
    for _ in 1..300 {
        qps.push(connect_more(&mut pair));
    }
    for (id, (qp, _)) in qps.iter().enumerate() {
        let sges = [pair.ends[0].sge(0, 8192)];
        let request = SendWr {
            wr_id: id as u64,
            op: write,
            payload: Payload::Sges(&sges),
            flags: SendFlags::SIGNALED,
        };
        pair.world
            .device(0)
            .post_send(*qp, &[request])
            .expect("room for one");
    }
    pair.run();
    let mut done: Vec<u64> = pair.sent(0).iter().map(|wc| wc.wr_id).collect();
    assert_eq!(done.len(), 300);
    done.sort_unstable();
    assert!(done.into_iter().eq(0..300));
    assert_eq!(
        pair.counter(0, "local_ack_timeout_err"),
        0,
        "no QP waits for its turn that long"
    );
    assert_eq!(pair.ends[1].bytes(0, 8192), pair.ends[0].original(0, 8192));
}

/// Connects another QP of each device, on the same CQs.
fn connect_more(pair: &mut Pair) -> (Qp, Qp) {
    let qps = [0, 1].map(|side| {
        let end = &pair.ends[side];
        let init = QpInit {
            service: Service::Rc,
            pd: end.pd,
            send_cq: end.send_cq,
            recv_cq: end.recv_cq,
            caps: QpCaps {
                max_send_wr: 1,
                max_recv_wr: 1,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline: 0,
            },
            srq: None,
            sq_sig_all: false,
        };
        pair.world
            .device(side)
            .create_qp(&init)
            .expect("a queue pair")
    });
    for side in 0..2 {
        let peer = pair
            .world
            .device(1 - side)
            .query_qp(qps[1 - side])
            .expect("it exists");
        let attributes = RcEnd::new(address(false, 1 - side), peer.qpn);
        attributes
            .connect(pair.world.device(side), qps[side])
            .expect("legal attributes");
    }
    (qps[0], qps[1])
}

fn modify(pair: &mut Pair, side: usize, state: QpState) {
    let attr = QpAttr {
        state: Some(state),
        ..QpAttr::default()
    };
    let qp = pair.ends[side].qp;
    pair.world
        .device(side)
        .modify_qp(qp, &attr)
        .expect("a legal transition");
}
