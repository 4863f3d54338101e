//! UC: everything RC sends but READs and atomics, without an answer.

use roce_engine::verbs::{
    Access, AsyncEvent, Backend, PostError, QpAttr, QpState, RKey, SendFlags, SendOp, Service, Sge,
    Status, WcOpcode,
};
use roce_tests::lan::{Lan, pattern};
use roce_wire::Opcode;

const IMM: [u8; 4] = [1, 2, 3, 4];

/// Every kind of message arrives, with the opcodes of its positions, and nothing ever comes back.
#[test]
fn all_messages_arrive_and_nothing_is_answered() {
    use Opcode as O;
    let mut lan = Lan::new(2);
    let [a, b] = lan.connected(Service::Uc);
    for wr_id in 0..4 {
        lan.recv(b, wr_id, (wr_id as usize * 4096, 4096));
    }
    let write = lan.write_to(1, 32768);
    let write_imm = lan.write_imm_to(1, 40000, IMM);
    lan.post(a, 10, SendOp::Send, (0, 2500));
    lan.post(a, 11, SendOp::SendImm(IMM), (0, 1));
    lan.post(a, 12, write, (0, 3072));
    lan.post(a, 13, write_imm, (0, 1025));
    lan.post(a, 14, SendOp::SendImm(IMM), (0, 0));
    lan.run();
    lan.expect_sent(a, &[10, 11, 12, 13, 14].map(|id| (id, Status::Success)));
    let received = lan.received(b);
    let seen: Vec<_> = received
        .iter()
        .map(|wc| (wc.wr_id, wc.opcode, wc.byte_len, wc.imm))
        .collect();
    assert_eq!(
        seen,
        [
            (0, WcOpcode::Recv, 2500, None),
            (1, WcOpcode::Recv, 1, Some(IMM)),
            (2, WcOpcode::RecvWriteImm, 1025, Some(IMM)),
            (3, WcOpcode::Recv, 0, Some(IMM)),
        ]
    );
    for (offset, len) in [(0, 2500), (4096, 1), (32768, 3072), (40000, 1025)] {
        lan.expect_bytes(1, offset, &pattern(0, 0, len));
    }
    lan.expect_untouched_outside(1, &[(0, 2500), (4096, 1), (32768, 3072), (40000, 1025)]);
    let opcodes: Vec<_> = lan.packets(0).iter().map(|p| p.opcode()).collect();
    let expected = [
        O::UC_SEND_FIRST,
        O::UC_SEND_MIDDLE,
        O::UC_SEND_LAST,
        O::UC_SEND_ONLY_WITH_IMM,
        O::UC_RDMA_WRITE_FIRST,
        O::UC_RDMA_WRITE_MIDDLE,
        O::UC_RDMA_WRITE_LAST,
        O::UC_RDMA_WRITE_FIRST,
        O::UC_RDMA_WRITE_LAST_WITH_IMM,
        O::UC_SEND_ONLY_WITH_IMM,
    ];
    assert_eq!(opcodes, expected);
    assert_eq!(lan.packets(1).len(), 0, "nobody answers");
}

/// Bug 5: no packet of UC asks for an acknowledgement, in long messages and signaled ones too.
#[test]
fn no_packet_asks_for_an_acknowledgement() {
    let mut lan = Lan::new(2);
    let [a, _] = lan.connected(Service::Uc);
    let write = lan.write_to(1, 0);
    for id in 0..20 {
        lan.post(a, id, write, (0, 60_000));
    }
    lan.run();
    let packets = lan.packets(0);
    assert_eq!(packets.len(), 20 * 59);
    assert!(packets.iter().all(|packet| !packet.bth.ack_request));
    let psns = packets.iter().map(|packet| packet.psn());
    assert!(psns.eq(100..100 + 20 * 59), "one after another");
}

/// A request is complete when it was sent: with the peer's QP gone the completions are the same.
#[test]
fn requests_complete_when_they_were_sent() {
    let mut lan = Lan::new(2);
    let [a, b] = lan.connected(Service::Uc);
    lan.world.device(1).destroy_qp(b.qp).expect("it exists");
    lan.post(a, 1, SendOp::Send, (0, 5000));
    let unsignaled = lan.try_post(a, 2, SendOp::Send, (0, 8), SendFlags::NONE);
    unsignaled.expect("legal");
    lan.post(a, 3, SendOp::Send, (0, 8));
    lan.run();
    lan.expect_sent(a, &[(1, Status::Success), (3, Status::Success)]);
    assert_eq!(lan.counter(1, "drop_unknown_qpn"), 7);
    assert_eq!(lan.counter(0, "local_ack_timeout_err"), 0);
}

/// RNR does not exist: a message without a receive is dropped whole, the next one with a receive comes.
#[test]
fn a_message_without_a_receive_is_dropped() {
    let mut lan = Lan::new(2);
    let [a, b] = lan.connected(Service::Uc);
    let write_imm = lan.write_imm_to(1, 8192, IMM);
    lan.post(a, 1, SendOp::Send, (0, 3000));
    lan.post(a, 2, write_imm, (0, 8));
    lan.run();
    lan.expect_sent(a, &[(1, Status::Success), (2, Status::Success)]);
    lan.expect_untouched_outside(1, &[]);
    assert_eq!(lan.counter(1, "drop_no_receive"), 2);
    assert_eq!(lan.counter(1, "drop_unreliable"), 2, "MIDDLE and LAST");
    lan.recv(b, 7, (0, 4096));
    lan.post(a, 3, SendOp::Send, (0, 100));
    lan.run();
    lan.expect_received(b, &[(7, Status::Success)]);
    lan.expect_state(b, QpState::Rts);
    assert_eq!(lan.packets(1).len(), 0);
}

/// A request without the right to it, or to memory that the key does not name, is dropped in silence
/// and changes nothing: the QP stays in RTS and what follows is served.
#[test]
fn a_violation_is_dropped_and_the_queue_pair_stays() {
    let mut lan = Lan::new(2);
    let [a, b] = lan.connected(Service::Uc);
    let (_, read_only) = lan.register(1, 4096, Access::REMOTE_READ);
    let mr = lan.hosts[1].mr;
    let to = |addr, rkey| SendOp::Write { addr, rkey };
    let bad = [
        to(mr.addr, RKey(mr.rkey.0 ^ 1)),
        to(read_only.addr, read_only.rkey),
        to(mr.addr + mr.length - 7, mr.rkey),
        to(u64::MAX - 3, mr.rkey),
    ];
    for (id, op) in bad.into_iter().enumerate() {
        lan.post(a, id as u64, op, (0, 8));
    }
    let long = to(mr.addr + mr.length - 2048, mr.rkey);
    lan.post(a, 8, long, (0, 2049));
    lan.run();
    lan.expect_untouched_outside(1, &[]);
    assert_eq!(lan.counter(1, "drop_unreliable"), 4 + 3);
    lan.expect_state(b, QpState::Rts);
    assert_eq!(lan.events(1), []);
    let good = lan.write_to(1, 16);
    lan.post(a, 9, good, (0, 8));
    lan.run();
    lan.expect_bytes(1, 16, &pattern(0, 0, 8));
    assert_eq!(lan.sent(a).len(), 6);
}

/// A QP without the right to WRITE drops each WRITE, whatever its memory allows.
#[test]
fn a_write_without_the_right_of_the_queue_pair_is_dropped() {
    let mut lan = Lan::new(2);
    let [a, b] = [0, 1].map(|host| lan.qp(host, Service::Uc));
    lan.connect_with(a, b, |wish| wish.access = Access::LOCAL_WRITE);
    lan.recv(b, 7, (0, 64));
    let write = lan.write_to(1, 0);
    lan.post(a, 1, write, (0, 8));
    lan.post(a, 2, SendOp::Send, (0, 8));
    lan.run();
    lan.expect_received(b, &[(7, Status::Success)]);
    assert_eq!(lan.counter(1, "drop_unreliable"), 1);
    lan.expect_state(b, QpState::Rts);
}

/// A message longer than its receive is dropped, and its receive serves the next message.
#[test]
fn a_message_longer_than_its_receive_leaves_the_receive() {
    let mut lan = Lan::new(2);
    let [a, b] = lan.connected(Service::Uc);
    lan.recv(b, 7, (0, 1500));
    lan.post(a, 1, SendOp::Send, (0, 1501));
    lan.post(a, 2, SendOp::Send, (64, 1500));
    lan.run();
    lan.expect_received(b, &[(7, Status::Success)]);
    lan.expect_bytes(1, 0, &pattern(0, 64, 1500));
    lan.expect_untouched_outside(1, &[(0, 1500)]);
    lan.expect_state(b, QpState::Rts);
}

/// A receive whose own SGE is not valid fails, and the QP with it (IBA class A: a local fault).
#[test]
fn a_receive_of_memory_that_is_not_ours_is_a_local_fault() {
    let mut lan = Lan::new(2);
    let [a, b] = lan.connected(Service::Uc);
    let bad = Sge {
        length: 64,
        ..Sge::default()
    };
    lan.recv_into(b, 7, bad);
    lan.recv(b, 8, (0, 64));
    lan.post(a, 1, SendOp::Send, (0, 64));
    lan.run();
    lan.expect_received(b, &[(7, Status::LocProtErr), (8, Status::WrFlushErr)]);
    lan.expect_state(b, QpState::Err);
    lan.expect_sent(a, &[(1, Status::Success)]);
}

/// READs, atomics and SEND with invalidate do not exist.
#[test]
fn what_needs_an_answer_can_not_be_posted() {
    let mut lan = Lan::new(2);
    let [a, _] = lan.connected(Service::Uc);
    let read = lan.read_from(1, 0);
    let mr = lan.hosts[1].mr;
    let add = SendOp::FetchAdd {
        addr: mr.addr,
        rkey: mr.rkey,
        add: 1,
    };
    for op in [read, add, SendOp::SendInv(mr.rkey)] {
        let refused = lan.try_post(a, 1, op, (0, 8), SendFlags::SIGNALED);
        assert_eq!(refused, Err(PostError::Unsupported), "{op:?}");
    }
    lan.run();
    assert_eq!(lan.packets(0).len(), 0);
}

/// A bad SGE of a send puts only the send queue into error: requests behind it are flushed, receiving
/// goes on, and RTS is one transition away. The peer sees the message cut off and nothing else.
#[test]
fn a_local_error_stops_the_send_queue_only() {
    let mut lan = Lan::new(2);
    let [a, b] = lan.connected(Service::Uc);
    lan.recv(b, 7, (0, 4096));
    lan.recv(a, 8, (32768, 64));
    lan.post(a, 1, SendOp::Send, (0, 8));
    let beyond = lan.hosts[0].sge((64 * 1024 - 1024, 2000));
    let posted = lan.post_sge(a, 2, SendOp::Send, beyond, SendFlags::NONE);
    posted.expect("it is found out when it is sent");
    lan.post(a, 3, SendOp::Send, (0, 8));
    lan.run();
    lan.expect_sent(
        a,
        &[
            (1, Status::Success),
            (2, Status::LocProtErr),
            (3, Status::WrFlushErr),
        ],
    );
    lan.expect_state(a, QpState::Sqe);
    lan.post(a, 4, SendOp::Send, (0, 8));
    lan.expect_sent(a, &[(4, Status::WrFlushErr)]);
    lan.post(b, 5, SendOp::Send, (0, 8));
    lan.run();
    lan.expect_received(a, &[(8, Status::Success)]);
    lan.modify(
        a,
        &QpAttr {
            state: Some(QpState::Rts),
            ..QpAttr::default()
        },
    );
    lan.recv(b, 9, (4096, 4096));
    lan.post(a, 6, SendOp::Send, (0, 2000));
    lan.run();
    lan.expect_sent(a, &[(6, Status::Success)]);
    lan.expect_received(b, &[(7, Status::Success), (9, Status::Success)]);
    lan.expect_bytes(1, 4096, &pattern(0, 0, 2000));
}

/// The peer's QP that was in SQE gets its messages in PSN order, without a gap.
#[test]
fn psns_go_on_after_an_error_of_the_send_queue() {
    let mut lan = Lan::new(2);
    let [a, b] = lan.connected(Service::Uc);
    let beyond = lan.hosts[0].sge((64 * 1024 - 1024, 2000));
    let posted = lan.post_sge(a, 1, SendOp::Send, beyond, SendFlags::SIGNALED);
    posted.expect("it is found out when it is sent");
    lan.recv(b, 7, (0, 4096));
    lan.run();
    let rts = QpAttr {
        state: Some(QpState::Rts),
        ..QpAttr::default()
    };
    lan.modify(a, &rts);
    lan.post(a, 2, SendOp::Send, (0, 8));
    lan.run();
    lan.expect_received(b, &[(7, Status::Success)]);
    let psns: Vec<u32> = lan.packets(0).iter().map(|packet| packet.psn()).collect();
    let expected: Vec<u32> = (100..100 + psns.len() as u32).collect();
    assert_eq!(psns, expected);
    assert_eq!(lan.counter(1, "unreliable_gaps"), 0);
}

/// Attributes of the reliable service are refused by name, and so is a missing path MTU.
#[test]
fn attributes_of_another_service_are_refused() {
    use roce_engine::verbs::ModifyError;
    let mut lan = Lan::new(2);
    let [a, _] = lan.connected(Service::Uc);
    let attr = QpAttr {
        state: Some(QpState::Rts),
        min_rnr_timer: Some(1),
        ..QpAttr::default()
    };
    let refused = lan.world.device(0).modify_qp(a.qp, &attr);
    assert!(matches!(refused, Err(ModifyError::Attributes { .. })));
    let fresh = lan.qp(0, Service::Uc);
    let attr = QpAttr {
        state: Some(QpState::Rtr),
        ..QpAttr::default()
    };
    let refused = lan.world.device(0).modify_qp(fresh.qp, &attr);
    assert!(matches!(
        refused,
        Err(ModifyError::IllegalTransition { .. })
    ));
}

/// The first packet that a queue pair in RTR accepts is reported, once; one that is dropped is not.
#[test]
fn a_peer_that_speaks_first_is_reported_once() {
    let mut lan = Lan::new(2);
    let [a, b] = [0, 1].map(|host| lan.qp(host, Service::Uc));
    let [to_a, to_b] = [(b, [100, 200]), (a, [200, 100])].map(|(peer, psns)| {
        let remote = roce_tests::rc::address(false, peer.host);
        roce_tests::lan::Wish::new(remote, peer.qpn, psns)
    });
    lan.enter(a, &to_a);
    let [to_init, to_rtr, to_rts] = to_b.attributes(Service::Uc);
    lan.modify(b, &to_init);
    lan.modify(b, &to_rtr);
    lan.post(a, 1, SendOp::Send, (0, 8));
    lan.run();
    assert_eq!(lan.events(1), [], "no receive: it was dropped");
    lan.recv(b, 7, (0, 4096));
    lan.recv(b, 8, (4096, 4096));
    lan.post(a, 2, SendOp::Send, (0, 3000));
    lan.post(a, 3, SendOp::Send, (0, 8));
    lan.run();
    assert_eq!(lan.events(1), [AsyncEvent::CommEstablished(b.qpn)]);
    lan.expect_received(b, &[(7, Status::Success), (8, Status::Success)]);
    lan.modify(b, &to_rts);
    lan.recv(b, 9, (0, 4096));
    lan.post(a, 4, SendOp::Send, (0, 8));
    lan.run();
    assert_eq!(lan.events(1), []);
}
