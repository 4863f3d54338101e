//! Completion queues: resizing under load, overflow, arming.

use core::time::Duration;

use roce_engine::sim::{Bound, Ended};
use roce_engine::verbs::{
    AsyncEvent, Backend, Completion, CqError, CreateError, QKey, QpState, SendFlags, SendOp,
    Service, Status,
};
use roce_tests::lan::{Lan, Port, poll};

/// Bug 23: a CQ that is resized up and down while both directions are busy loses nothing, keeps the
/// order, and refuses a size below what waits.
#[test]
fn a_resize_under_load_loses_nothing() {
    const MESSAGES: u64 = 2000;
    let mut lan = Lan::new(2);
    let [a, b] = lan.connected(Service::Rc);
    let (mut posted, mut received, mut sent) = (0, Vec::new(), Vec::new());
    let (mut turn, mut refused) = (0_u32, 0);
    for id in 0..64 {
        lan.recv(b, id, (id as usize * 64, 64));
    }
    let bound = Bound::time(Duration::from_secs(10));
    let ports = [(a, &mut sent), (b, &mut received)];
    let [(_, sent), (_, received)] = ports;
    let mut world = core::mem::replace(&mut lan.world, roce_engine::sim::World::new(0));
    let ended = world.run_until(bound, |world| {
        turn += 1;
        for port in [a, b] {
            let cq = if port.host == 0 { a.send_cq } else { b.recv_cq };
            let depth = 1 + turn * 37 % 200;
            let device = world.device(port.host);
            match device.resize_cq(cq, depth) {
                Ok(()) => {}
                Err(CreateError::InUse { .. }) => refused += 1,
                Err(other) => panic!("{other}"),
            }
            // Back to what holds everything that is outstanding, before anything is polled.
            device.resize_cq(cq, 64 + 200).expect("it grows");
        }
        if turn.is_multiple_of(7) {
            let taken = poll(world, 0, a.send_cq);
            posted -= taken.len() as u64;
            sent.extend(taken);
            for wc in poll(world, 1, b.recv_cq) {
                let sges = [lan.hosts[1].sge((wc.wr_id as usize % 64 * 64, 64))];
                let wr_id = wc.wr_id + 64;
                received.push(wc);
                let request = roce_engine::verbs::RecvWr { wr_id, sges: &sges };
                world.device(1).post_recv(b.qp, &[request]).expect("room");
            }
        }
        while posted < 100 && sent.len() as u64 + posted < MESSAGES {
            let sges = [lan.hosts[0].sge((0, 64))];
            let request = roce_engine::verbs::SendWr {
                wr_id: sent.len() as u64 + posted,
                op: SendOp::Send,
                payload: roce_engine::verbs::Payload::Sges(&sges),
                flags: SendFlags::SIGNALED,
            };
            world.device(0).post_send(a.qp, &[request]).expect("room");
            posted += 1;
        }
        received.len() as u64 == MESSAGES && sent.len() as u64 == MESSAGES
    });
    lan.world = world;
    assert_eq!(ended, Ended::Met);
    for all in [sent, received] {
        assert!(all.iter().all(|wc| wc.status == Status::Success));
        assert!(
            all.iter().map(|wc| wc.wr_id).eq(0..MESSAGES),
            "in order, once"
        );
    }
    assert!(refused > 0, "some sizes were too small for what waited");
}

/// A CQ has at least one entry, and not more than the device's limit.
#[test]
fn a_queue_has_at_least_one_entry() {
    let mut lan = Lan::with(2, |setup| setup.engine.max_cqe = 256);
    let [a, b] = lan.connected(Service::Rc);
    lan.recv(b, 7, (0, 64));
    let device = lan.world.device(1);
    device.resize_cq(b.recv_cq, 0).expect("one entry");
    lan.post(a, 1, SendOp::Send, (0, 8));
    lan.run();
    lan.expect_received(b, &[(7, Status::Success)]);
    let device = lan.world.device(0);
    assert!(matches!(
        device.create_cq(257),
        Err(CreateError::TooLarge { .. })
    ));
    let cq = device.create_cq(1).expect("a completion queue");
    assert!(matches!(
        device.resize_cq(cq, 257),
        Err(CreateError::TooLarge { .. })
    ));
    device.resize_cq(cq, 256).expect("within its limit");
    device.destroy_cq(cq).expect("nothing uses it");
    assert!(matches!(
        device.resize_cq(cq, 2),
        Err(CreateError::NoSuchObject(_))
    ));
}

/// An overflow is told once by an event, puts every QP that uses the CQ into error, and shows when what
/// came before it was taken; another CQ's QPs go on.
#[test]
fn an_overflow_is_an_error_of_its_queue_pairs() {
    let mut lan = Lan::new(2);
    let [a, b] = lan.connected(Service::Rc);
    let [c, d] = lan.connected(Service::Rc);
    let device = lan.world.device(1);
    device.resize_cq(b.recv_cq, 2).expect("it is empty");
    for id in 0..4 {
        lan.recv(b, id, (0, 64));
        lan.post(a, id, SendOp::Send, (0, 8));
    }
    lan.recv(d, 7, (0, 64));
    lan.run();
    lan.expect_state(b, QpState::Err);
    assert!(lan.events(1).contains(&AsyncEvent::CqError(b.recv_cq)));
    let device = lan.world.device(1);
    let mut out = [Completion::default(); 8];
    assert_eq!(device.poll_cq(b.recv_cq, &mut out), Ok(2));
    assert_eq!(device.poll_cq(b.recv_cq, &mut out), Err(CqError::Overflow));
    lan.post(c, 9, SendOp::Send, (0, 8));
    lan.run();
    lan.expect_received(d, &[(7, Status::Success)]);
}

fn datagrams(lan: &mut Lan) -> ([Port; 2], SendOp) {
    let ports = [0, 1].map(|host| lan.datagram_qp(host, QKey(1)));
    let op = SendOp::Datagram {
        ah: lan.ah(0, 1),
        qpn: ports[1].qpn,
        qkey: QKey(1),
        imm: None,
    };
    for id in 0..16 {
        lan.recv(ports[1], id, (0, 128));
    }
    (ports, op)
}

fn send(lan: &mut Lan, port: Port, op: SendOp, solicited: bool) {
    let flags = if solicited {
        SendFlags::SIGNALED | SendFlags::SOLICITED
    } else {
        SendFlags::SIGNALED
    };
    let posted = lan.try_post(port, 0, op, (0, 8), flags);
    posted.expect("legal");
    lan.run();
}

fn notified(lan: &mut Lan, port: Port) -> bool {
    lan.world.device(port.host).take_notification(port.recv_cq)
}

fn arm(lan: &mut Lan, port: Port, solicited_only: bool) {
    let armed = lan
        .world
        .device(port.host)
        .arm_cq(port.recv_cq, solicited_only);
    armed.expect("it exists");
}

/// A CQ that is not armed never notifies; one armed for any completion notifies once; one armed for
/// solicited completions waits for one.
#[test]
fn a_queue_notifies_once_for_what_it_was_armed_for() {
    let mut lan = Lan::new(2);
    let ([a, b], op) = datagrams(&mut lan);
    send(&mut lan, a, op, true);
    assert!(!notified(&mut lan, b), "it was not armed");
    arm(&mut lan, b, false);
    assert!(!notified(&mut lan, b), "what came before doesn't count");
    send(&mut lan, a, op, false);
    send(&mut lan, a, op, false);
    assert!(notified(&mut lan, b));
    assert!(!notified(&mut lan, b), "once");
    arm(&mut lan, b, true);
    send(&mut lan, a, op, false);
    assert!(!notified(&mut lan, b));
    send(&mut lan, a, op, true);
    assert!(notified(&mut lan, b));
}

/// Armed for any completion, a queue stays so when it is armed for solicited ones (IBA 11.4.2.2); the
/// other way round it widens.
#[test]
fn arming_never_narrows() {
    let mut lan = Lan::new(2);
    let ([a, b], op) = datagrams(&mut lan);
    for order in [[false, true], [true, false]] {
        for solicited_only in order {
            arm(&mut lan, b, solicited_only);
        }
        send(&mut lan, a, op, false);
        assert!(notified(&mut lan, b), "{order:?}");
    }
}

/// A failed completion counts as solicited.
#[test]
fn an_error_wakes_who_waits_for_solicited_completions() {
    let mut lan = Lan::new(2);
    let ([_, b], _) = datagrams(&mut lan);
    arm(&mut lan, b, true);
    let attr = roce_engine::verbs::QpAttr {
        state: Some(QpState::Err),
        ..Default::default()
    };
    lan.modify(b, &attr);
    assert!(notified(&mut lan, b));
    assert_eq!(lan.received(b).len(), 16);
}

/// The solicited bit of a message of several packets is on its last one, and RC, UC and WRITE with
/// immediate data carry it as UD does; a plain WRITE doesn't.
#[test]
fn every_service_solicits() {
    for service in [Service::Rc, Service::Uc] {
        let mut lan = Lan::new(2);
        let [a, b] = lan.connected(service);
        let write_imm = lan.write_imm_to(1, 8192, [0; 4]);
        let write = lan.write_to(1, 8192);
        for op in [SendOp::Send, write_imm, write] {
            lan.recv(b, 7, (0, 4096));
            arm(&mut lan, b, true);
            let flags = SendFlags::SIGNALED | SendFlags::SOLICITED;
            let posted = lan.try_post(a, 1, op, (0, 2500), flags);
            posted.expect("legal");
            lan.run();
            assert_eq!(notified(&mut lan, b), op != write, "{service:?} {op:?}");
        }
        let packets = lan.packets(0);
        let with_bit: Vec<usize> = packets
            .iter()
            .enumerate()
            .filter(|(_, packet)| packet.bth.solicited)
            .map(|(place, _)| place)
            .collect();
        assert_eq!(with_bit, [2, 5]);
    }
}

/// A CQ that a QP uses, for either direction, can't be destroyed.
#[test]
fn a_queue_that_is_used_stays() {
    let mut lan = Lan::new(1);
    let port = lan.qp(0, Service::Ud);
    let device = lan.world.device(0);
    for cq in [port.send_cq, port.recv_cq] {
        assert!(matches!(
            device.destroy_cq(cq),
            Err(CreateError::InUse { .. })
        ));
    }
    device.destroy_qp(port.qp).expect("it exists");
    for cq in [port.send_cq, port.recv_cq] {
        device.destroy_cq(cq).expect("nothing uses it");
        let polled = device.poll_cq(cq, &mut [Completion::default()]);
        assert_eq!(polled, Err(CqError::NoSuchCq));
        assert_eq!(device.arm_cq(cq, false), Err(CqError::NoSuchCq));
    }
}
