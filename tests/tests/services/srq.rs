//! Shared receive queues: one queue of receives for many QPs.

use roce_engine::sim::{Action, PortId, Rule};
use roce_engine::verbs::{
    AsyncEvent, Backend, CreateError, PostError, QKey, QpAttr, QpState, RecvWr, SendOp, Service,
    Srq, Status,
};
use roce_tests::lan::{Lan, Port, pattern};
use roce_wire::Opcode;

const KEY: QKey = QKey(7);

/// Connects QPs of host 0, and of host 2 if there is one, with QPs on one SRQ of host 1.
fn on_srq(lan: &mut Lan, srq: Srq, service: Service, from: &[usize]) -> Vec<[Port; 2]> {
    let connect = |host: &usize| {
        let a = lan.qp(*host, service);
        let b = lan.qp_with(1, service, |init| init.srq = Some(srq));
        lan.connect(a, b);
        [a, b]
    };
    from.iter().map(connect).collect()
}

fn fail(lan: &mut Lan, port: Port) {
    let attr = QpAttr {
        state: Some(QpState::Err),
        ..QpAttr::default()
    };
    lan.modify(port, &attr);
}

/// Receives are handed out in the order of posting, whichever QP asks; each message is complete in its
/// own receive although packets of many QPs interleave.
#[test]
fn receives_go_out_in_order_across_queue_pairs() {
    let mut lan = Lan::new(3);
    let srq = lan.srq(1, 16);
    let ends = on_srq(&mut lan, srq, Service::Rc, &[0, 0, 2, 2]);
    for id in 0..8 {
        lan.srq_recv(1, srq, id, (id as usize * 4096, 4096));
    }
    for (n, [a, _]) in ends.iter().enumerate() {
        lan.post(*a, 0, SendOp::Send, (n * 5000, 4000));
        lan.post(*a, 1, SendOp::Send, (n * 5000 + 100, 3000));
    }
    lan.run();
    let mut taken = Vec::new();
    for (n, [a, b]) in ends.iter().enumerate() {
        lan.expect_sent(*a, &[(0, Status::Success), (1, Status::Success)]);
        let received = lan.received(*b);
        assert_eq!(received.len(), 2);
        assert!(received[0].wr_id < received[1].wr_id, "its own in order");
        for (wc, (skip, len)) in received.iter().zip([(0, 4000), (100, 3000)]) {
            assert_eq!((wc.byte_len, wc.qpn), (len, b.qpn));
            let sent = pattern(a.host, n * 5000 + skip, len as usize);
            lan.expect_bytes(1, wc.wr_id as usize * 4096, &sent);
            taken.push(wc.wr_id);
        }
    }
    taken.sort_unstable();
    assert_eq!(taken, [0, 1, 2, 3, 4, 5, 6, 7], "each once");
}

/// An empty SRQ is RNR for a reliable QP; a receive posted later serves the retry.
#[test]
fn an_empty_queue_is_not_ready_until_a_receive_comes() {
    let mut lan = Lan::new(2);
    let srq = lan.srq(1, 4);
    let ends = on_srq(&mut lan, srq, Service::Rc, &[0]);
    let [a, b] = ends[0];
    lan.post(a, 1, SendOp::Send, (0, 2000));
    lan.run_for(core::time::Duration::from_micros(500));
    assert!(lan.counter(1, "send_rnr_err") >= 2);
    lan.expect_untouched_outside(1, &[]);
    lan.srq_recv(1, srq, 7, (0, 4096));
    lan.run();
    lan.expect_sent(a, &[(1, Status::Success)]);
    lan.expect_received(b, &[(7, Status::Success)]);
}

/// A WRITE with immediate data takes a receive of the SRQ, and RNR if there is none.
#[test]
fn a_write_with_immediate_data_takes_a_receive() {
    let mut lan = Lan::new(2);
    let srq = lan.srq(1, 4);
    let ends = on_srq(&mut lan, srq, Service::Rc, &[0]);
    let [a, b] = ends[0];
    let write = lan.write_imm_to(1, 0, [1, 2, 3, 4]);
    lan.post(a, 1, write, (0, 1500));
    lan.run_for(core::time::Duration::from_micros(200));
    assert!(lan.counter(1, "send_rnr_err") >= 1);
    lan.srq_recv(1, srq, 7, (60_000, 8));
    lan.run();
    let received = lan.received(b);
    assert_eq!((received[0].wr_id, received[0].byte_len), (7, 1500));
    lan.expect_untouched_outside(1, &[(0, 1500)]);
}

/// The limit event comes once, when fewer receives than the limit are left, and again only when it was
/// armed again.
#[test]
fn the_limit_event_comes_once() {
    let mut lan = Lan::new(2);
    let srq = lan.srq(1, 8);
    let ends = on_srq(&mut lan, srq, Service::Rc, &[0]);
    let [a, _] = ends[0];
    for id in 0..6 {
        lan.srq_recv(1, srq, id, (0, 64));
    }
    lan.world
        .device(1)
        .arm_srq(srq, 4)
        .expect("within its size");
    let send = |lan: &mut Lan| {
        lan.post(a, 0, SendOp::Send, (0, 8));
        lan.run();
        lan.events(1)
    };
    assert_eq!(send(&mut lan), [], "five are left");
    assert_eq!(send(&mut lan), [], "four are left");
    assert_eq!(send(&mut lan), [AsyncEvent::SrqLimit(srq)]);
    assert_eq!(send(&mut lan), [], "it speaks once");
    lan.world
        .device(1)
        .arm_srq(srq, 3)
        .expect("within its size");
    assert_eq!(send(&mut lan), [AsyncEvent::SrqLimit(srq)]);
    lan.world.device(1).arm_srq(srq, 0).expect("off");
    assert_eq!(send(&mut lan), []);
    let refused = lan.world.device(1).arm_srq(srq, 9);
    assert!(matches!(refused, Err(CreateError::TooLarge { .. })));
}

/// When one QP fails, what waits in the SRQ stays for the others; its event says that it takes no more.
#[test]
fn an_error_of_one_queue_pair_leaves_the_queue() {
    let mut lan = Lan::new(2);
    let srq = lan.srq(1, 8);
    let ends = on_srq(&mut lan, srq, Service::Rc, &[0, 0]);
    let [[_, b], [c, d]] = [ends[0], ends[1]];
    lan.srq_recv(1, srq, 7, (0, 64));
    fail(&mut lan, b);
    assert_eq!(lan.events(1), [AsyncEvent::LastWqeReached(b.qpn)]);
    lan.expect_received(b, &[]);
    fail(&mut lan, b);
    assert_eq!(lan.events(1), [], "once");
    lan.post(c, 1, SendOp::Send, (0, 8));
    lan.run();
    lan.expect_received(d, &[(7, Status::Success)]);
}

/// A receive in progress of a QP that fails is flushed to it alone, before the last-receive event; its
/// place in the SRQ is free again.
#[test]
fn a_receive_in_progress_is_flushed_and_its_place_is_free() {
    let mut lan = Lan::new(2);
    let srq = lan.srq(1, 1);
    let ends = on_srq(&mut lan, srq, Service::Rc, &[0, 0]);
    let [[a, b], [c, d]] = [ends[0], ends[1]];
    lan.srq_recv(1, srq, 7, (0, 4096));
    let hold = Rule::new(Action::Drop, |packet| {
        packet.bth.opcode == Opcode::RC_SEND_LAST
    });
    lan.rule(hold.from_port(PortId(0)));
    lan.post(a, 1, SendOp::Send, (0, 2000));
    lan.run_for(core::time::Duration::from_micros(100));
    let sge = [lan.hosts[1].sge((0, 64))];
    let full = RecvWr {
        wr_id: 8,
        sges: &sge,
    };
    let posted = lan.world.device(1).post_srq_recv(srq, &[full]);
    assert_eq!(posted, Err(PostError::QueueFull { posted: 0 }));
    fail(&mut lan, b);
    lan.expect_received(b, &[(7, Status::WrFlushErr)]);
    assert_eq!(lan.events(1), [AsyncEvent::LastWqeReached(b.qpn)]);
    lan.srq_recv(1, srq, 9, (4096, 4096));
    lan.world.net().clear_rules();
    lan.post(c, 2, SendOp::Send, (0, 8));
    lan.run();
    lan.expect_received(d, &[(9, Status::Success)]);
}

/// A refused message fails its receive, its QP, and nothing else of the SRQ.
#[test]
fn a_refused_message_costs_one_receive() {
    let mut lan = Lan::new(2);
    let srq = lan.srq(1, 8);
    let ends = on_srq(&mut lan, srq, Service::Rc, &[0, 0]);
    let [[a, b], [c, d]] = [ends[0], ends[1]];
    lan.srq_recv(1, srq, 7, (0, 100));
    lan.srq_recv(1, srq, 8, (100, 100));
    lan.post(a, 1, SendOp::Send, (0, 101));
    lan.run();
    lan.expect_sent(a, &[(1, Status::RemInvReqErr)]);
    lan.expect_received(b, &[(7, Status::LocLenErr)]);
    lan.post(c, 2, SendOp::Send, (0, 100));
    lan.run();
    lan.expect_received(d, &[(8, Status::Success)]);
    lan.expect_untouched_outside(1, &[(100, 100)]);
}

/// A QP on an SRQ that is destroyed in the middle of a message gives the receive's place back.
#[test]
fn a_destroyed_queue_pair_gives_its_place_back() {
    let mut lan = Lan::new(2);
    let srq = lan.srq(1, 1);
    let ends = on_srq(&mut lan, srq, Service::Rc, &[0]);
    let [a, b] = ends[0];
    lan.srq_recv(1, srq, 7, (0, 4096));
    let lose = Rule::new(Action::Drop, |packet| {
        packet.bth.opcode == Opcode::RC_SEND_LAST
    });
    lan.rule(lose);
    lan.post(a, 1, SendOp::Send, (0, 2000));
    lan.run_for(core::time::Duration::from_micros(100));
    lan.world.device(1).destroy_qp(b.qp).expect("it exists");
    lan.srq_recv(1, srq, 8, (0, 64));
    lan.world
        .device(1)
        .destroy_srq(srq)
        .expect("nothing uses it");
}

/// An SRQ that a QP uses can't be destroyed, nor its domain; afterwards its name is dead.
#[test]
fn a_queue_that_is_used_stays() {
    let mut lan = Lan::new(2);
    let pd = lan.world.device(1).alloc_pd().expect("a domain");
    let srq = lan.world.device(1).create_srq(pd, 4, 1).expect("an SRQ");
    let port = lan.qp_with(1, Service::Rc, |init| init.srq = Some(srq));
    let device = lan.world.device(1);
    assert!(matches!(
        device.destroy_srq(srq),
        Err(CreateError::InUse { .. })
    ));
    assert!(matches!(
        device.dealloc_pd(pd),
        Err(CreateError::InUse { .. })
    ));
    device.destroy_qp(port.qp).expect("it exists");
    device.destroy_srq(srq).expect("nothing uses it");
    device.dealloc_pd(pd).expect("nothing uses it");
    assert!(matches!(
        device.destroy_srq(srq),
        Err(CreateError::NoSuchObject(_))
    ));
    let request = RecvWr {
        wr_id: 1,
        sges: &[],
    };
    let posted = device.post_srq_recv(srq, &[request]);
    assert_eq!(posted, Err(PostError::NoSuchSrq));
}

/// A QP on an SRQ takes no receives of its own.
#[test]
fn receives_are_posted_to_the_shared_queue_only() {
    let mut lan = Lan::new(2);
    let srq = lan.srq(1, 4);
    let port = lan.qp_with(1, Service::Rc, |init| init.srq = Some(srq));
    let request = RecvWr {
        wr_id: 1,
        sges: &[],
    };
    let posted = lan.world.device(1).post_recv(port.qp, &[request]);
    assert_eq!(posted, Err(PostError::UsesSrq));
}

/// Receives name memory of the SRQ's domain, whatever the QP's domain is.
#[test]
fn receives_are_of_the_queues_own_domain() {
    let mut lan = Lan::new(2);
    let srq = lan.srq(1, 4);
    let other = lan.world.device(1).alloc_pd().expect("a domain");
    let a = lan.qp(0, Service::Rc);
    let b = lan.qp_with(1, Service::Rc, |init| {
        init.srq = Some(srq);
        init.pd = other;
    });
    lan.connect(a, b);
    lan.srq_recv(1, srq, 7, (0, 64));
    lan.post(a, 1, SendOp::Send, (0, 64));
    lan.run();
    lan.expect_received(b, &[(7, Status::Success)]);
    lan.expect_bytes(1, 0, &pattern(0, 0, 64));
}

/// UC on an SRQ: a message that is cut off keeps its receive for the QP's next one; without a receive
/// the message is dropped.
#[test]
fn unreliable_connections_share_receives() {
    let mut lan = Lan::new(2);
    let srq = lan.srq(1, 8);
    let ends = on_srq(&mut lan, srq, Service::Uc, &[0, 0]);
    let [[a, b], [c, d]] = [ends[0], ends[1]];
    lan.srq_recv(1, srq, 7, (0, 4096));
    lan.srq_recv(1, srq, 8, (4096, 4096));
    let lose = Rule::new(Action::Drop, |packet| {
        packet.bth.opcode == Opcode::UC_SEND_LAST
    });
    lan.rule(lose.once());
    lan.post(a, 1, SendOp::Send, (0, 2000));
    lan.run();
    lan.post(c, 2, SendOp::Send, (0, 8));
    lan.run();
    lan.expect_received(d, &[(8, Status::Success)]);
    lan.post(c, 3, SendOp::Send, (0, 8));
    lan.run();
    assert_eq!(
        lan.counter(1, "drop_no_receive"),
        1,
        "one is held by the other QP"
    );
    lan.post(a, 4, SendOp::Send, (100, 10));
    lan.run();
    lan.expect_received(b, &[(7, Status::Success)]);
    lan.expect_bytes(1, 0, &pattern(0, 100, 10));
}

/// UD on an SRQ: several QPs, each with its own key, take receives from one queue.
#[test]
fn datagram_queue_pairs_share_receives() {
    let mut lan = Lan::new(2);
    let srq = lan.srq(1, 8);
    let a = lan.datagram_qp(0, KEY);
    let [b, c] = [KEY, QKey(8)].map(|qkey| {
        let port = lan.qp_with(1, Service::Ud, |init| init.srq = Some(srq));
        lan.open(port, qkey);
        port
    });
    for id in 0..3 {
        lan.srq_recv(1, srq, id, (id as usize * 512, 512));
    }
    let ah = lan.ah(0, 1);
    for (id, to, qkey) in [(1, b, KEY), (2, c, KEY), (3, c, QKey(8)), (4, b, KEY)] {
        let op = SendOp::Datagram {
            ah,
            qpn: to.qpn,
            qkey,
            imm: None,
        };
        lan.post(a, id, op, (0, 8));
    }
    lan.run();
    lan.expect_received(b, &[(0, Status::Success), (2, Status::Success)]);
    lan.expect_received(c, &[(1, Status::Success)]);
    assert_eq!(lan.counter(1, "drop_bad_qkey"), 1);
}
