//! Draining, failing and destroying queue pairs while packets are on their way.

use core::time::Duration;

use roce_engine::sim::{Action, PortId, Rule};
use roce_engine::verbs::{
    AsyncEvent, Backend, CreateError, ModifyError, PostError, QKey, QpAttr, QpState, SendFlags,
    SendOp, Service, Status,
};
use roce_tests::lan::{Lan, Port, pattern};
use roce_wire::Opcode;

fn to_state(state: QpState) -> QpAttr {
    QpAttr {
        state: Some(state),
        ..QpAttr::default()
    }
}

fn drain(lan: &mut Lan, port: Port) {
    let attr = QpAttr {
        sqd_event: Some(true),
        ..to_state(QpState::Sqd)
    };
    lan.modify(port, &attr);
}

/// In SQD what was begun is finished, nothing new is begun, one event says when, and RTS goes on.
#[test]
fn a_send_queue_drains_and_resumes() {
    for service in [Service::Rc, Service::Uc] {
        // So few slots that the first message takes many turns.
        let mut lan = Lan::with(2, |setup| setup.slots = 2);
        let [a, b] = lan.connected(service);
        for id in 0..3 {
            lan.recv(b, id, (id as usize * 16384, 16384));
        }
        for id in 0..3 {
            lan.post(a, id, SendOp::Send, (id as usize * 100, 10_000));
        }
        lan.world.step();
        drain(&mut lan, a);
        assert_eq!(
            lan.events(0),
            [],
            "{service:?}: the first message is on its way"
        );
        lan.run();
        assert_eq!(lan.events(0), [AsyncEvent::SqDrained(a.qpn)], "{service:?}");
        lan.expect_sent(a, &[(0, Status::Success)]);
        lan.expect_received(b, &[(0, Status::Success)]);
        lan.post(a, 3, SendOp::SendImm([0; 4]), (0, 0));
        lan.run();
        lan.expect_sent(a, &[]);
        lan.recv(b, 3, (0, 8));
        lan.modify(a, &to_state(QpState::Rts));
        lan.run();
        lan.expect_sent(a, &[1, 2, 3].map(|id| (id, Status::Success)));
        lan.expect_received(b, &[1, 2, 3].map(|id| (id, Status::Success)));
        lan.expect_bytes(1, 32768, &pattern(0, 200, 10_000));
    }
}

/// The event waits for the end of a message whose packets so far are all acknowledged.
#[test]
fn an_acknowledged_part_of_a_message_is_not_drained() {
    let mut lan = Lan::with(2, |setup| setup.engine.window_start = 4);
    let [a, b] = lan.connected(Service::Rc);
    lan.recv(b, 7, (0, 65_536));
    lan.post(a, 1, SendOp::Send, (0, 60_000));
    lan.world.step();
    drain(&mut lan, a);
    let mut early = 0;
    for _ in 0..10_000 {
        if lan.sent(a).len() == 1 {
            break;
        }
        early += lan.events(0).len();
        let attr = QpAttr {
            retry_cnt: Some(3),
            ..to_state(QpState::Sqd)
        };
        let refused = lan.world.device(0).modify_qp(a.qp, &attr);
        assert_eq!(refused, Err(ModifyError::NotDrained));
        lan.world.step();
    }
    assert_eq!(early, 0, "no event before the message is complete");
    lan.run();
    assert_eq!(lan.events(0), [AsyncEvent::SqDrained(a.qpn)]);
}

/// A READ that was asked for in pieces is drained when its last byte has come.
#[test]
fn a_read_drains_with_its_last_byte() {
    let mut lan = Lan::new(2);
    let [a, b] = [0, 1].map(|host| lan.qp(host, Service::Rc));
    lan.connect_with(a, b, |wish| wish.max_rd_atomic = 1);
    let read = lan.read_from(1, 0);
    lan.post(a, 1, read, (0, 60_000));
    lan.post(a, 2, read, (0, 8));
    lan.world.step();
    drain(&mut lan, a);
    lan.run();
    assert_eq!(lan.events(0), [AsyncEvent::SqDrained(a.qpn)]);
    lan.expect_sent(a, &[(1, Status::Success)]);
    lan.expect_bytes(0, 0, &pattern(1, 0, 60_000));
}

/// What sends nothing is a request as any other: in SQD it is not begun.
#[test]
fn local_requests_wait_in_a_draining_queue() {
    let mut lan = Lan::new(2);
    let [a, b] = lan.connected(Service::Rc);
    let (_, spare) = lan.register(0, 4096, roce_tests::rc::all_rights());
    lan.modify(a, &to_state(QpState::Sqd));
    lan.post(a, 1, SendOp::LocalInv(spare.rkey), (0, 0));
    let write = SendOp::Write {
        addr: spare.addr,
        rkey: spare.rkey,
    };
    lan.post(b, 2, write, (0, 8));
    lan.run();
    lan.expect_sent(a, &[]);
    lan.expect_sent(b, &[(2, Status::Success)]);
    lan.modify(a, &to_state(QpState::Rts));
    lan.run();
    lan.expect_sent(a, &[(1, Status::Success)]);
    lan.post(b, 3, write, (0, 8));
    lan.run();
    lan.expect_sent(b, &[(3, Status::RemAccessErr)]);
}

/// One that was executed is begun: what stands around it is repeated in SQD, and the queue drains.
#[test]
fn a_draining_queue_repeats_what_stands_around_a_local_request() {
    let mut lan = Lan::new(2);
    let [a, _] = lan.connected(Service::Rc);
    let (_, spare) = lan.register(0, 4096, roce_tests::rc::all_rights());
    lan.rule(
        Rule::new(Action::Drop, |_| true)
            .from_port(PortId(0))
            .times(2),
    );
    lan.post(a, 1, lan.write_to(1, 0), (0, 100));
    lan.post(a, 2, SendOp::LocalInv(spare.rkey), (0, 0));
    lan.post(a, 3, lan.write_to(1, 200), (200, 100));
    lan.run_for(Duration::from_micros(50));
    assert_eq!(lan.packets(0).len(), 2, "both are lost");
    drain(&mut lan, a);
    lan.run();
    lan.expect_sent(a, &[1, 2, 3].map(|id| (id, Status::Success)));
    assert_eq!(lan.events(0), [AsyncEvent::SqDrained(a.qpn)]);
    lan.expect_bytes(1, 200, &pattern(0, 200, 100));
}

/// What a destroyed queue pair had in flight no longer takes room of its peer's other queue pairs.
#[test]
fn a_destroyed_queue_pair_gives_its_share_of_the_peer_back() {
    let time_of_the_other = |broken: bool| {
        let mut lan = Lan::new(2);
        let [a, b] = lan.connected(Service::Rc);
        let [c, _] = lan.connected(Service::Rc);
        if broken {
            let gone = b.qpn;
            lan.rule(Rule::new(Action::Drop, move |packet| {
                packet.bth.dest_qpn == gone
            }));
            lan.post(a, 1, lan.write_to(1, 0), (0, 60_000));
            lan.run_for(Duration::from_micros(50));
            assert!(lan.packets(0).len() > 10, "the window is full");
            lan.world.device(0).destroy_qp(a.qp).expect("it exists");
        }
        let start = lan.world.now();
        lan.post(c, 2, lan.write_to(1, 0), (0, 60_000));
        lan.run();
        lan.expect_sent(c, &[(2, Status::Success)]);
        let last = lan.packets(0).pop().expect("a packet");
        last.at.since(start)
    };
    let (alone, after) = (time_of_the_other(false), time_of_the_other(true));
    assert!(after <= alone * 2, "{after:?} after, {alone:?} alone");
}

/// What a peer's window had grown to is forgotten with the last queue pair to it.
#[test]
fn a_peer_that_all_have_left_starts_with_a_small_window_again() {
    let first_flight = |used: bool| {
        let mut lan = Lan::with(2, |setup| setup.engine.window_start = 4);
        if used {
            let [a, _] = lan.connected(Service::Rc);
            for id in 0..4 {
                lan.post(a, id, lan.write_to(1, 0), (0, 60_000));
            }
            lan.run();
            lan.world.device(0).destroy_qp(a.qp).expect("it exists");
        }
        let [c, _] = lan.connected(Service::Rc);
        let before = lan.packets(0).len();
        lan.post(c, 9, lan.write_to(1, 0), (0, 60_000));
        lan.run_for(Duration::from_micros(1));
        lan.packets(0).len() - before
    };
    let fresh = first_flight(false);
    assert!((1..20).contains(&fresh), "{fresh}");
    assert_eq!(first_flight(true), fresh);
}

/// Without the wish there is no event, and an idle queue is drained at once.
#[test]
fn an_idle_queue_is_drained_at_once() {
    let mut lan = Lan::new(2);
    let [a, _] = lan.connected(Service::Rc);
    lan.modify(a, &to_state(QpState::Sqd));
    assert_eq!(lan.events(0), []);
    lan.modify(a, &to_state(QpState::Rts));
    drain(&mut lan, a);
    assert_eq!(lan.events(0), [AsyncEvent::SqDrained(a.qpn)]);
}

/// Attributes change when the queue has drained, not before; the retry counter counts from there on.
#[test]
fn attributes_change_in_a_drained_queue_only() {
    let mut lan = Lan::new(2);
    let [a, b] = lan.connected(Service::Rc);
    lan.recv(b, 7, (0, 4096));
    let hold = Rule::new(Action::Hold, |packet| {
        packet.bth.opcode == Opcode::RC_ACKNOWLEDGE
    });
    lan.rule(hold.once());
    lan.post(a, 1, SendOp::Send, (0, 100));
    lan.run_for(Duration::from_micros(50));
    drain(&mut lan, a);
    let attr = QpAttr {
        retry_cnt: Some(1),
        timeout: Some(8),
        max_rd_atomic: Some(1),
        ..to_state(QpState::Sqd)
    };
    let refused = lan.world.device(0).modify_qp(a.qp, &attr);
    assert_eq!(refused, Err(ModifyError::NotDrained));
    lan.world.net().release();
    lan.run();
    assert_eq!(lan.events(0), [AsyncEvent::SqDrained(a.qpn)]);
    lan.modify(a, &attr);
    lan.modify(a, &to_state(QpState::Rts));
    let lose = Rule::new(Action::Drop, |_| true);
    lan.rule(lose.from_port(PortId(0)));
    lan.post(a, 2, SendOp::Send, (0, 100));
    lan.run();
    lan.expect_sent(a, &[(1, Status::Success), (2, Status::RetryExcErr)]);
    assert_eq!(lan.counter(0, "local_ack_timeout_err"), 2, "one retry");
}

/// Bug 24: fewer answers kept while the peer is busy: READs that were accepted are answered.
#[test]
fn fewer_replay_resources_do_not_forget_what_is_not_answered() {
    let mut lan = Lan::with(2, |setup| setup.slots = 1);
    let [a, b] = lan.connected(Service::Rc);
    let read = lan.read_from(1, 0);
    for id in 0..4 {
        lan.post(a, id, read, (id as usize * 8192, 8000));
    }
    while lan.counter(1, "sent_pkts") < 10 {
        assert!(lan.world.step());
    }
    assert!(lan.counter(1, "sent_pkts") < 20, "answers wait");
    lan.modify(b, &to_state(QpState::Sqd));
    let attr = QpAttr {
        max_dest_rd_atomic: Some(1),
        ..to_state(QpState::Sqd)
    };
    lan.modify(b, &attr);
    lan.run();
    lan.expect_sent(a, &[0, 1, 2, 3].map(|id| (id, Status::Success)));
    assert_eq!(lan.counter(0, "local_ack_timeout_err"), 0);
}

/// The responder of a QP in SQD goes on serving its peer.
#[test]
fn a_draining_queue_pair_serves_its_peer() {
    let mut lan = Lan::new(2);
    let [a, b] = lan.connected(Service::Rc);
    drain(&mut lan, b);
    lan.recv(b, 7, (0, 4096));
    let (read, write) = (lan.read_from(1, 8192), lan.write_to(1, 16384));
    for (id, op) in [(1, SendOp::Send), (2, read), (3, write)] {
        lan.post(a, id, op, (0, 2000));
    }
    lan.run();
    lan.expect_sent(a, &[1, 2, 3].map(|id| (id, Status::Success)));
    lan.expect_received(b, &[(7, Status::Success)]);
}

/// A datagram queue drains too: nothing is sent in SQD, all of it after.
#[test]
fn datagrams_wait_in_a_draining_queue() {
    let mut lan = Lan::new(2);
    let [a, b] = [0, 1].map(|host| lan.datagram_qp(host, QKey(1)));
    lan.recv(b, 7, (0, 4096));
    drain(&mut lan, a);
    assert_eq!(lan.events(0), [AsyncEvent::SqDrained(a.qpn)]);
    let op = SendOp::Datagram {
        ah: lan.ah(0, 1),
        qpn: b.qpn,
        qkey: QKey(1),
        imm: None,
    };
    lan.post(a, 1, op, (0, 8));
    lan.run();
    lan.expect_sent(a, &[]);
    lan.modify(a, &to_state(QpState::Rts));
    lan.run();
    lan.expect_sent(a, &[(1, Status::Success)]);
    lan.expect_received(b, &[(7, Status::Success)]);
}

/// Error in SQD flushes what waits, and the queue never reports that it drained.
#[test]
fn an_error_ends_draining() {
    let mut lan = Lan::new(2);
    let [a, _] = lan.connected(Service::Rc);
    lan.post(a, 1, SendOp::Send, (0, 8));
    lan.post(a, 2, SendOp::Send, (0, 8));
    lan.run_for(Duration::from_micros(10));
    drain(&mut lan, a);
    lan.modify(a, &to_state(QpState::Err));
    lan.run();
    lan.expect_sent(a, &[(1, Status::WrFlushErr), (2, Status::WrFlushErr)]);
    assert_eq!(lan.events(0), []);
}

/// A QP destroyed with packets on their way, both ways: what arrives late is dropped and counted, and the
/// peer's request runs out of retries.
#[test]
fn late_packets_of_a_destroyed_queue_pair_are_dropped() {
    let mut lan = Lan::with(2, |setup| setup.slots = 1);
    let [a, b] = lan.connected(Service::Rc);
    lan.recv(b, 7, (0, 32768));
    let read = lan.read_from(1, 40_000);
    lan.post(a, 1, SendOp::Send, (0, 20_000));
    lan.post(a, 2, read, (20_480, 8000));
    lan.run_for(Duration::from_nanos(2500));
    lan.world.device(1).destroy_qp(b.qp).expect("it exists");
    lan.world
        .device(1)
        .destroy_cq(b.recv_cq)
        .expect("nothing uses it");
    lan.run();
    let sent = lan.sent(a);
    assert_eq!(sent[0].status, Status::RetryExcErr);
    assert_eq!(sent[1].status, Status::WrFlushErr);
    lan.expect_state(a, QpState::Err);
    assert!(
        lan.counter(1, "drop_unknown_qpn") > 8,
        "late packets and retries"
    );
    let destroyed = lan.world.device(1).destroy_qp(b.qp);
    assert!(matches!(destroyed, Err(CreateError::NoSuchObject(_))));
    let gone = lan.try_post(b, 1, SendOp::Send, (0, 8), SendFlags::NONE);
    assert_eq!(gone, Err(PostError::NoSuchQp));
}

/// The requester is destroyed instead: answers find nobody, and its memory stays as it is.
#[test]
fn late_answers_find_nobody() {
    let mut lan = Lan::new(2);
    let [a, _] = lan.connected(Service::Rc);
    let read = lan.read_from(1, 0);
    lan.post(a, 1, read, (0, 16_000));
    lan.run_for(Duration::from_nanos(3000));
    lan.world.device(0).destroy_qp(a.qp).expect("it exists");
    lan.run();
    lan.expect_sent(a, &[]);
    lan.expect_untouched_outside(0, &[]);
    assert_eq!(lan.counter(0, "drop_unknown_qpn"), 16);
}

/// A QP that takes the place of a destroyed one never gets packets that were meant for that one, though
/// its peer, its PSNs and its memory are the same: its QPN is another.
#[test]
fn a_new_queue_pair_never_gets_old_packets() {
    let mut lan = Lan::with(2, |setup| setup.engine.max_qp = 1);
    let [a, mut b] = lan.connected(Service::Uc);
    lan.recv(b, 7, (0, 64));
    lan.rule(Rule::new(Action::Hold, |_| true));
    lan.post(a, 1, SendOp::Send, (0, 8));
    lan.run();
    lan.world.net().clear_rules();
    let mut qpns = vec![b.qpn];
    for round in 0..20 {
        lan.world.device(1).destroy_qp(b.qp).expect("it exists");
        b = lan.qp(1, Service::Uc);
        assert!(!qpns.contains(&b.qpn), "a QPN that was not used lately");
        qpns.push(b.qpn);
        lan.modify(a, &to_state(QpState::Reset));
        lan.connect(a, b);
        lan.recv(b, 8, (0, 64));
        if round == 1 {
            assert_eq!(lan.world.net().release(), 1);
        }
        lan.run();
        lan.expect_received(b, &[]);
    }
    assert_eq!(lan.counter(1, "drop_unknown_qpn"), 1);
    lan.expect_untouched_outside(1, &[]);
    lan.post(a, 2, SendOp::Send, (0, 8));
    lan.run();
    lan.expect_received(b, &[(8, Status::Success)]);
}

/// A QP can be reset and connected again, as often as its owner likes, from any state and with anything
/// outstanding; the next connection starts clean.
#[test]
fn a_queue_pair_can_be_used_again() {
    let mut lan = Lan::new(2);
    let ends = [0, 1].map(|host| lan.qp(host, Service::Rc));
    let [a, b] = ends;
    for round in 0..10 {
        lan.connect_with(a, b, |wish| {
            wish.psns = wish.psns.map(|psn| psn + round * 1000)
        });
        lan.recv(b, 7, (0, 4096));
        let read = lan.read_from(1, 8192);
        lan.post(a, 1, SendOp::Send, (0, 3000));
        lan.post(a, 2, read, (8192, 3000));
        lan.run();
        lan.expect_sent(a, &[(1, Status::Success), (2, Status::Success)]);
        lan.expect_received(b, &[(7, Status::Success)]);
        // Something is left on its way, and something waits for a receive.
        lan.recv(b, 8, (0, 16));
        lan.post(a, 3, read, (8192, 30_000));
        lan.post(a, 4, SendOp::Send, (0, 3000));
        lan.run_for(Duration::from_nanos(u64::from(round) * 700));
        if round % 2 == 0 {
            lan.modify(a, &to_state(QpState::Err));
        }
        for port in ends {
            lan.modify(port, &to_state(QpState::Reset));
        }
        lan.run();
        for port in ends {
            let _ = (lan.sent(port), lan.received(port));
        }
    }
}

/// The last receive of an SRQ's QP in error is told once, for each way into the error state.
#[test]
fn the_last_receive_is_told_once() {
    let mut lan = Lan::new(2);
    let srq = lan.srq(1, 4);
    let a = lan.qp(0, Service::Rc);
    let b = lan.qp_with(1, Service::Rc, |init| init.srq = Some(srq));
    lan.connect(a, b);
    let forbidden = SendOp::Write {
        addr: 0,
        rkey: roce_engine::verbs::RKey(0),
    };
    lan.post(a, 1, forbidden, (0, 8));
    lan.run();
    let expected = [
        AsyncEvent::QpAccessError(b.qpn),
        AsyncEvent::LastWqeReached(b.qpn),
    ];
    assert_eq!(lan.events(1), expected);
    lan.modify(b, &to_state(QpState::Err));
    assert_eq!(lan.events(1), []);
}
