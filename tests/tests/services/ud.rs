//! UD: one packet a message, to anybody, behind 40 bytes that say where it came from.

use core::time::Duration;

use roce_engine::sim::{Action, PortId, Rule};
use roce_engine::verbs::{
    Backend, CreateError, Gid, Mtu, PostError, QKey, QpAttr, QpState, Qpn, SendFlags, SendOp,
    Service, Sge, Status, WcOpcode,
};
use roce_tests::lan::{Lan, Port, Wish, pattern};
use roce_wire::grh::Network;
use roce_wire::{Deth, Ext, Opcode};

const KEY: QKey = QKey(0x1111_1111);
const AREA: usize = 40;

fn pair(lan: &mut Lan) -> [Port; 2] {
    [0, 1].map(|host| lan.datagram_qp(host, KEY))
}

fn to(lan: &mut Lan, from: Port, to: Port, qkey: QKey) -> SendOp {
    let ah = lan.ah(from.host, to.host);
    SendOp::Datagram {
        ah,
        qpn: to.qpn,
        qkey,
        imm: None,
    }
}

/// The 40 bytes before the data hold the IPv4 header in their last 20, or the IPv6 header, with the
/// sender's address, traffic class and hop limit (trap 18).
#[test]
fn the_area_before_the_data_holds_the_network_header() {
    for (ipv6, exact_icrc) in [(false, true), (false, false), (true, true)] {
        let mut lan = Lan::with(2, |setup| {
            setup.ipv6 = ipv6;
            setup.exact_icrc = exact_icrc;
        });
        let [a, b] = pair(&mut lan);
        lan.recv(b, 7, (0, 4096));
        let op = to(&mut lan, a, b, KEY);
        lan.post(a, 1, op, (100, 33));
        lan.run();
        lan.expect_sent(a, &[(1, Status::Success)]);
        let received = lan.received(b);
        assert_eq!(
            (
                received[0].byte_len,
                received[0].src_qpn,
                received[0].opcode
            ),
            (40 + 33, a.qpn, WcOpcode::Recv)
        );
        lan.expect_bytes(1, AREA, &pattern(0, 100, 33));
        lan.expect_untouched_outside(1, &[(0, AREA + 33)]);
        let area: [u8; AREA] = lan.hosts[1].bytes(0, AREA).try_into().expect("40 bytes");
        let network = Network::from_receive_area(&area).expect("a network header");
        assert_eq!((network.traffic_class(), network.hop_limit()), (0x68, 33));
        // BTH 12, DETH 8, 33 bytes, pad 3, ICRC 4, UDP 8.
        match network {
            Network::V4(header) => {
                assert_eq!(area[..20], [0; 20]);
                assert_eq!(header, header.with_checksum(), "its checksum holds");
                assert_eq!(header.src, core::net::Ipv4Addr::new(10, 9, 0, 1));
                assert_eq!((header.total_len, header.protocol), (20 + 68, 17));
            }
            Network::V6(header) => {
                assert!(ipv6);
                assert_eq!((header.payload_len, header.next_header), (68, 17));
                assert_eq!(
                    core::net::IpAddr::V6(header.src),
                    roce_tests::rc::address(true, 0)
                );
            }
            Network::Grh(_) => panic!("RoCEv1"),
        }
    }
}

/// A datagram with another Q_Key is dropped and counted; the receive waits for the next one.
#[test]
fn a_wrong_qkey_is_dropped() {
    let mut lan = Lan::new(2);
    let [a, b] = pair(&mut lan);
    lan.recv(b, 7, (0, 4096));
    for (id, qkey) in [
        (1, QKey(0)),
        (2, QKey(KEY.0 ^ 1)),
        (3, QKey(KEY.0 ^ 0x4000_0000)),
    ] {
        let op = to(&mut lan, a, b, qkey);
        lan.post(a, id, op, (0, 8));
    }
    lan.run();
    assert_eq!(lan.counter(1, "drop_bad_qkey"), 3);
    assert_eq!(lan.packets(1).len(), 0, "the sender is not told");
    lan.expect_sent(a, &[1, 2, 3].map(|id| (id, Status::Success)));
    let op = to(&mut lan, a, b, KEY);
    lan.post(a, 4, op, (0, 8));
    lan.run();
    lan.expect_received(b, &[(7, Status::Success)]);
    lan.expect_state(b, QpState::Rts);
}

/// A key with its high bit set stands for the sender's own (trap 17): the wire carries that.
#[test]
fn a_controlled_qkey_is_replaced_by_the_queue_pairs_own() {
    let mut lan = Lan::new(2);
    let [a, b] = pair(&mut lan);
    lan.recv(b, 7, (0, 4096));
    let op = to(&mut lan, a, b, QKey(0x8000_0000));
    lan.post(a, 1, op, (0, 8));
    lan.run();
    lan.expect_received(b, &[(7, Status::Success)]);
    assert_eq!(lan.packets(0)[0].ext.deth, Some(Deth::new(KEY, a.qpn)));
}

/// The Q_Key may change in RTS, and the next datagram is held against the new one.
#[test]
fn a_qkey_may_change_while_it_is_used() {
    let mut lan = Lan::new(2);
    let [a, b] = pair(&mut lan);
    lan.recv(b, 7, (0, 4096));
    let attr = QpAttr {
        state: Some(QpState::Rts),
        qkey: Some(QKey(5)),
        ..QpAttr::default()
    };
    lan.modify(b, &attr);
    for (id, qkey) in [(1, KEY), (2, QKey(5))] {
        let op = to(&mut lan, a, b, qkey);
        lan.post(a, id, op, (id as usize * 8, 8));
    }
    lan.run();
    lan.expect_received(b, &[(7, Status::Success)]);
    lan.expect_bytes(1, AREA, &pattern(0, 16, 8));
    assert_eq!(lan.counter(1, "drop_bad_qkey"), 1);
}

/// Bug 18: without a receive, or longer than its receive (40 bytes more than its data), a datagram is
/// dropped and counted; the QP stays and the receive serves the next one.
#[test]
fn a_datagram_that_does_not_fit_is_dropped() {
    let mut lan = Lan::new(2);
    let [a, b] = pair(&mut lan);
    let op = to(&mut lan, a, b, KEY);
    lan.post(a, 1, op, (0, 100));
    lan.run();
    assert_eq!(lan.counter(1, "drop_no_receive"), 1);
    lan.recv(b, 7, (0, 139));
    lan.post(a, 2, op, (0, 100));
    lan.run();
    assert_eq!(lan.counter(1, "drop_unreliable"), 1);
    lan.expect_untouched_outside(1, &[]);
    lan.post(a, 3, op, (0, 99));
    lan.run();
    lan.expect_received(b, &[(7, Status::Success)]);
    lan.expect_sent(a, &[1, 2, 3].map(|id| (id, Status::Success)));
    lan.expect_state(b, QpState::Rts);
    lan.expect_untouched_outside(1, &[(0, 139)]);
}

/// A datagram longer than the port's path MTU can't be posted; one of exactly that length arrives.
#[test]
fn a_datagram_is_at_most_one_packet() {
    let mut lan = Lan::with(2, |setup| setup.port_mtu = Mtu::B2048);
    let [a, b] = pair(&mut lan);
    lan.recv(b, 7, (0, 8192));
    let op = to(&mut lan, a, b, KEY);
    let refused = lan.try_post(a, 1, op, (0, 2049), SendFlags::SIGNALED);
    assert_eq!(refused, Err(PostError::DatagramTooLong));
    lan.post(a, 2, op, (0, 2048));
    lan.run();
    let received = lan.received(b);
    assert_eq!((received[0].wr_id, received[0].byte_len), (7, 2088));
    lan.expect_bytes(1, AREA, &pattern(0, 0, 2048));
}

/// Immediate data, inline data, no data: one packet each, with the opcode that says so.
#[test]
fn all_kinds_of_datagrams_arrive() {
    let mut lan = Lan::new(2);
    let [a, b] = pair(&mut lan);
    for id in 0..3 {
        lan.recv(b, id, (id as usize * 512, 512));
    }
    let ah = lan.ah(0, 1);
    let datagram = |imm| SendOp::Datagram {
        ah,
        qpn: b.qpn,
        qkey: KEY,
        imm,
    };
    lan.post(a, 1, datagram(Some([1, 2, 3, 4])), (0, 5));
    lan.post(a, 2, datagram(None), (0, 0));
    let inline = roce_engine::verbs::SendWr {
        wr_id: 3,
        op: datagram(Some([5; 4])),
        payload: roce_engine::verbs::Payload::Inline(b"inline"),
        flags: SendFlags::SIGNALED,
    };
    let posted = lan.world.device(0).post_send(a.qp, &[inline]);
    posted.expect("legal");
    lan.run();
    lan.expect_sent(a, &[1, 2, 3].map(|id| (id, Status::Success)));
    let received = lan.received(b);
    let seen: Vec<_> = received.iter().map(|wc| (wc.byte_len, wc.imm)).collect();
    assert_eq!(
        seen,
        [(45, Some([1, 2, 3, 4])), (40, None), (46, Some([5; 4]))]
    );
    assert_eq!(lan.hosts[1].bytes(1024 + AREA, 6), b"inline");
    let packets = lan.packets(0);
    let opcodes: Vec<_> = packets.iter().map(|packet| packet.opcode()).collect();
    let (plain, with_imm) = (Opcode::UD_SEND_ONLY, Opcode::UD_SEND_ONLY_WITH_IMM);
    assert_eq!(opcodes, [with_imm, plain, with_imm]);
    assert!(packets.iter().all(|packet| !packet.bth.ack_request));
    let psns: Vec<u32> = packets.iter().map(|packet| packet.psn()).collect();
    assert_eq!(psns, [0, 1, 2]);
}

/// A datagram QP takes datagrams only, and a connected QP takes none.
#[test]
fn packets_of_another_service_are_dropped() {
    let mut lan = Lan::new(2);
    let [a, b] = pair(&mut lan);
    lan.recv(b, 7, (0, 512));
    let [_, connected] = lan.connected(Service::Uc);
    lan.recv(connected, 8, (512, 512));
    let remote = roce_tests::rc::address(false, 1);
    for service in [Service::Uc, Service::Rc] {
        let sender = lan.qp(0, service);
        lan.enter(sender, &Wish::new(remote, b.qpn, [0, 0]));
        lan.post(sender, 1, SendOp::Send, (0, 8));
        lan.run_for(Duration::from_micros(100));
        lan.world
            .device(0)
            .destroy_qp(sender.qp)
            .expect("it exists");
    }
    let op = to(&mut lan, a, connected, KEY);
    lan.post(a, 3, op, (0, 8));
    lan.run();
    assert_eq!(lan.counter(1, "drop_wrong_service"), 3);
    lan.expect_untouched_outside(1, &[]);
    lan.expect_state(b, QpState::Rts);
}

/// An address handle of another domain, or one that was destroyed, fails the request; the send queue is
/// in error until it is taken to RTS again, and receiving goes on.
#[test]
fn an_address_handle_of_another_domain_can_not_be_used() {
    let mut lan = Lan::new(2);
    let [a, b] = pair(&mut lan);
    lan.recv(a, 8, (0, 512));
    lan.recv(b, 7, (0, 512));
    let other = lan.world.device(0).alloc_pd().expect("a domain");
    let foreign = lan.ah_of(0, other, 1).expect("an address handle");
    let gone = lan.ah(0, 1);
    lan.world.device(0).destroy_ah(gone).expect("it exists");
    assert!(matches!(
        lan.world.device(0).destroy_ah(gone),
        Err(CreateError::NoSuchObject(_))
    ));
    let good = to(&mut lan, a, b, KEY);
    for ah in [foreign, gone] {
        let op = SendOp::Datagram {
            ah,
            qpn: b.qpn,
            qkey: KEY,
            imm: None,
        };
        lan.post(a, 1, op, (0, 8));
        lan.post(a, 2, good, (0, 8));
        lan.run();
        lan.expect_sent(a, &[(1, Status::LocQpOpErr), (2, Status::WrFlushErr)]);
        lan.expect_state(a, QpState::Sqe);
        let rts = QpAttr {
            state: Some(QpState::Rts),
            ..QpAttr::default()
        };
        lan.modify(a, &rts);
    }
    assert_eq!(lan.packets(0).len(), 0);
    let back = to(&mut lan, b, a, KEY);
    lan.post(b, 3, back, (0, 8));
    lan.post(a, 4, good, (0, 8));
    lan.run();
    lan.expect_received(a, &[(8, Status::Success)]);
    lan.expect_received(b, &[(7, Status::Success)]);
}

/// A domain with an address handle can't be destroyed.
#[test]
fn a_domain_with_an_address_handle_stays() {
    let mut lan = Lan::new(2);
    let other = lan.world.device(0).alloc_pd().expect("a domain");
    let ah = lan.ah_of(0, other, 1).expect("an address handle");
    let device = lan.world.device(0);
    assert!(matches!(
        device.dealloc_pd(other),
        Err(CreateError::InUse { .. })
    ));
    device.destroy_ah(ah).expect("it exists");
    device.dealloc_pd(other).expect("nothing uses it");
}

/// A bad SGE fails its request and stops the send queue; a bad receive fails and takes the QP along.
#[test]
fn local_protection_errors_have_their_statuses() {
    let mut lan = Lan::new(2);
    let [a, b] = pair(&mut lan);
    let op = to(&mut lan, a, b, KEY);
    let bad = Sge {
        length: 64,
        ..Sge::default()
    };
    let posted = lan.post_sge(a, 1, op, bad, SendFlags::NONE);
    posted.expect("it is found out when it is sent");
    lan.run();
    lan.expect_sent(a, &[(1, Status::LocProtErr)]);
    lan.expect_state(a, QpState::Sqe);
    let back = to(&mut lan, b, a, KEY);
    lan.recv_into(a, 8, bad);
    lan.recv(a, 9, (0, 512));
    lan.post(b, 2, back, (0, 8));
    lan.run();
    lan.expect_received(a, &[(8, Status::LocProtErr), (9, Status::WrFlushErr)]);
    lan.expect_state(a, QpState::Err);
    lan.expect_sent(b, &[(2, Status::Success)]);
}

/// Many senders on many hosts share one QP: each datagram comes once, whole, with its sender's QPN, and
/// answers find their way by the handle made for its host.
#[test]
fn many_peers_send_to_one_queue_pair() {
    const PEERS: usize = 6;
    const EACH: usize = 10;
    let mut lan = Lan::new(PEERS + 1);
    let server = lan.datagram_qp(PEERS, KEY);
    for id in 0..PEERS * EACH {
        lan.recv(server, id as u64, (id * 512, 512));
    }
    let clients: Vec<Port> = (0..PEERS).map(|host| lan.datagram_qp(host, KEY)).collect();
    for client in &clients {
        lan.recv(*client, 1, (0, 512));
        let op = to(&mut lan, *client, server, KEY);
        for id in 0..EACH {
            lan.post(*client, id as u64, op, (id * 100 + 1000, 100));
        }
    }
    lan.run();
    let received = lan.received(server);
    assert_eq!(received.len(), PEERS * EACH);
    let mut counts = [0; PEERS];
    for wc in &received {
        let client = clients.iter().position(|client| {
            let area = lan.hosts[PEERS].bytes(wc.wr_id as usize * 512, AREA);
            client.qpn == wc.src_qpn && usize::from(area[35]) == client.host + 1
        });
        let client = client.expect("a sender with this QPN and address");
        let from = 1000 + counts[client] * 100;
        let data = lan.hosts[PEERS].bytes(wc.wr_id as usize * 512 + AREA, 100);
        assert_eq!(data, pattern(client, from, 100), "in order for each sender");
        counts[client] += 1;
    }
    assert_eq!(counts, [EACH; PEERS]);
    for client in &clients {
        let op = to(&mut lan, server, *client, KEY);
        lan.post(server, 1, op, (0, 8));
    }
    lan.run();
    for client in clients {
        assert_eq!(lan.received(client).len(), 1);
    }
}

/// A lost datagram is nobody's business but the user's: what follows is accepted as it comes.
#[test]
fn a_lost_or_duplicated_datagram_changes_nothing_else() {
    let mut lan = Lan::new(2);
    let [a, b] = pair(&mut lan);
    for id in 0..4 {
        lan.recv(b, id, (id as usize * 512, 512));
    }
    let nth = |action, psn| {
        Rule::new(action, move |packet| packet.bth.psn.value() == psn)
            .from_port(PortId(0))
            .once()
    };
    lan.rule(nth(Action::Drop, 1));
    lan.rule(nth(Action::Duplicate, 2));
    let op = to(&mut lan, a, b, KEY);
    for id in 0..4 {
        lan.post(a, id, op, (id as usize * 8, 8));
    }
    lan.run();
    let data: Vec<_> = lan
        .received(b)
        .iter()
        .map(|wc| lan.hosts[1].bytes(wc.wr_id as usize * 512 + AREA, 8))
        .collect();
    let sent = [0, 2, 2, 3].map(|id| pattern(0, id * 8, 8));
    assert_eq!(data, sent);
}

/// A QP in RTR receives and can't send.
#[test]
fn a_queue_pair_that_may_not_send_yet_receives() {
    let mut lan = Lan::new(2);
    let a = lan.datagram_qp(0, KEY);
    let b = lan.qp(1, Service::Ud);
    let step = |state, qkey, first: bool| QpAttr {
        state: Some(state),
        qkey,
        pkey_index: first.then_some(0),
        port: first.then_some(1),
        ..QpAttr::default()
    };
    lan.modify(b, &step(QpState::Init, Some(KEY), true));
    lan.recv(b, 7, (0, 512));
    lan.modify(b, &step(QpState::Rtr, None, false));
    let op = to(&mut lan, a, b, KEY);
    lan.post(a, 1, op, (0, 8));
    lan.run();
    lan.expect_received(b, &[(7, Status::Success)]);
    let back = to(&mut lan, b, a, KEY);
    let refused = lan.try_post(b, 2, back, (0, 8), SendFlags::SIGNALED);
    assert_eq!(refused, Err(PostError::State(QpState::Rtr)));
}

/// Datagrams to a QPN that nobody has, and to the management QP, are counted drops.
#[test]
fn datagrams_for_nobody_are_counted() {
    let mut lan = Lan::new(2);
    let [a, b] = pair(&mut lan);
    let ah = lan.ah(0, 1);
    for (id, qpn) in [(1, Qpn::new(b.qpn.value() ^ 2)), (2, Qpn::GSI)] {
        let op = SendOp::Datagram {
            ah,
            qpn,
            qkey: KEY,
            imm: None,
        };
        lan.post(a, id, op, (0, 8));
    }
    lan.run();
    assert_eq!(lan.counter(1, "drop_unknown_qpn"), 1);
    assert_eq!(lan.counter(1, "drop_qp1"), 1);
    let packets = lan.packets(0);
    assert!(packets.iter().all(|packet| packet.ext != Ext::NONE));
}

/// Operations of connected services can't be posted, nor datagrams to them.
#[test]
fn operations_of_another_service_can_not_be_posted() {
    let mut lan = Lan::new(2);
    let [a, b] = pair(&mut lan);
    let write = lan.write_to(1, 0);
    for op in [SendOp::Send, write, SendOp::LocalInv(lan.hosts[0].mr.rkey)] {
        let refused = lan.try_post(a, 1, op, (0, 8), SendFlags::SIGNALED);
        assert_eq!(refused, Err(PostError::Unsupported), "{op:?}");
    }
    let op = to(&mut lan, a, b, KEY);
    let [c, _] = lan.connected(Service::Uc);
    let refused = lan.try_post(c, 1, op, (0, 8), SendFlags::SIGNALED);
    assert_eq!(refused, Err(PostError::Unsupported));
}

/// There is no multicast: a group can't be joined, and no address handle leads to one. The refusal says
/// so and what to do instead.
#[test]
fn multicast_is_refused_by_name() {
    for (ipv6, group) in [(false, "239.1.2.3"), (true, "ff0e::ffff:ef01:203")] {
        let mut lan = Lan::with(2, |setup| setup.ipv6 = ipv6);
        let [a, _] = pair(&mut lan);
        let group = Gid::from_ip(group.parse().expect("an address"));
        let joined = lan.world.device(0).attach_mcast(a.qp, group);
        let refusal = joined.expect_err("there is none").to_string();
        assert!(refusal.contains("no multicast"), "{refusal}");
        let mut address = lan.vector(1);
        address.dgid = group;
        let pd = lan.hosts[0].pd;
        let made = lan.world.device(0).create_ah(pd, &address);
        let refusal = made.expect_err("there is none").to_string();
        assert!(refusal.contains("is a multicast group"), "{refusal}");
        assert!(refusal.contains("to each QP instead"), "{refusal}");
    }
}
