//! What a QP does with packets as such: headers, ICRC, addressing, congestion marks.
//!
//! Where a doc comment names an item, "bug N" is one of the known faults of other stacks and "trap N"
//! one of the protocol's; `docs/scenarios.md` lists both with their tests.

use roce_engine::link::Ipv4Id;
use roce_engine::sim::{Action, Rule};
use roce_engine::verbs::{AsyncEvent, Backend, PKey, Psn, QpState, Qpn, SendFlags, SendOp, Status};
use roce_tests::pair::{Pair, Rogue, icrc_of};
use roce_tests::rc::address;
use roce_wire::{Ext, Opcode, Reth, Syndrome};

/// Bugs 1 to 3, traps 1 to 9: each packet's ICRC, computed again from the bytes and headers that left
/// the device, for every pad count and both families; little-endian on the wire.
#[test]
fn every_packet_leaves_with_a_right_icrc() {
    for ipv6 in [false, true] {
        let mut pair = Pair::with(|setup| setup.ipv6 = ipv6);
        for (id, len) in [0, 1, 2, 3, 4, 32, 33, 1023, 1025, 4097]
            .into_iter()
            .enumerate()
        {
            let write = pair.write_to(0, 0);
            let read = pair.read_from(0, 0);
            pair.post(0, id as u64, write, (0, len));
            pair.post(0, id as u64, read, (8192, len));
        }
        let add = pair.add_to(0, 0, 7);
        pair.post(0, 99, add, (16384, 8));
        pair.run();
        assert_eq!(pair.sent(0).len(), 21);
        for side in 0..2 {
            let packets = pair.packets(side);
            assert!(packets.len() >= 16);
            for packet in packets {
                let (rest, icrc) = packet.bytes.split_at(packet.bytes.len() - 4);
                let right = icrc_of(&packet.meta, &packet.bytes).to_le_bytes();
                assert_eq!(icrc, right, "{packet:?}");
                assert_eq!(
                    usize::from(packet.bth.pad),
                    packet.payload.len().wrapping_neg() % 4
                );
                let pad = usize::from(packet.bth.pad);
                assert!(rest[rest.len() - pad..].iter().all(|byte| *byte == 0));
            }
        }
    }
}

/// Bug 4, traps 6 and 12: reserved bits leave as 0 and are ignored when they arrive set.
#[test]
fn reserved_bits_are_sent_as_zero_and_ignored() {
    let mut rogue = Rogue::new();
    rogue.recv(1, (0, 64));
    let mut bth = rogue.bth(Opcode::RC_SEND_ONLY, 0);
    (bth.reserved6, bth.reserved7, bth.ack_request) = (0x3f, 0x7f, true);
    rogue.packet(bth, Ext::NONE, b"hello");
    rogue.expect_received(&[(1, Status::Success)]);
    let reply = rogue.packets().pop().expect("an answer");
    assert_eq!(
        (reply.bth.reserved6, reply.bth.reserved7, reply.bth.version),
        (0, 0, 0)
    );
}

/// Trap 13: we say that the path has migrated; a peer that says it has not (rxe) is as good.
#[test]
fn either_migration_state_is_accepted() {
    let mut rogue = Rogue::new();
    for (after, migrated) in [true, false].into_iter().enumerate() {
        rogue.recv(after as u64, (0, 64));
        let mut bth = rogue.bth(Opcode::RC_SEND_ONLY, after as i32);
        (bth.migrated, bth.ack_request) = (migrated, true);
        rogue.packet(bth, Ext::NONE, b"hello");
    }
    rogue.expect_received(&[(0, Status::Success), (1, Status::Success)]);
    assert!(rogue.packets().iter().all(|packet| packet.bth.migrated));
}

/// Trap 12: another transport header version is dropped.
#[test]
fn another_header_version_is_dropped() {
    let mut rogue = Rogue::new();
    let mut bth = rogue.bth(Opcode::RC_SEND_ONLY, 0);
    bth.version = 1;
    rogue.packet(bth, Ext::NONE, b"hello");
    expect_ignored(&mut rogue, "drop_bad_version");
}

/// Bug 7, trap 16: an undefined opcode is dropped before any length is computed; also the 48-byte
/// packet with opcode 0xff to QPN 0xffffff that stopped a kernel.
#[test]
fn undefined_opcodes_are_dropped() {
    let undefined: Vec<u8> = (0..=255)
        .filter(|raw| Opcode(*raw).info().is_none())
        .collect();
    for raw in &undefined {
        let mut rogue = Rogue::new();
        let mut bytes = rogue.bytes(rogue.bth(Opcode::RC_SEND_ONLY, 0), Ext::NONE, &[0; 16]);
        bytes[0] = *raw;
        rogue.raw(bytes);
        expect_ignored(&mut rogue, "drop_unknown_opcode");
    }
    let mut rogue = Rogue::new();
    let mut bytes = vec![0xff; 48];
    bytes[1] = 0;
    rogue.raw(bytes);
    expect_ignored(&mut rogue, "drop_unknown_opcode");
}

/// Bugs 6 and 7: a packet cut at any length is dropped, whatever it was.
#[test]
fn runts_are_dropped() {
    for opcode in [
        Opcode::RC_SEND_ONLY,
        Opcode::RC_RDMA_WRITE_ONLY_WITH_IMM,
        Opcode::RC_FETCH_ADD,
        Opcode::RC_ACKNOWLEDGE,
        Opcode::RC_RDMA_READ_RESPONSE_ONLY,
    ] {
        let headers = opcode.info().expect("defined").headers.len();
        let mut rogue = Rogue::new();
        for len in 0..12 + headers + 4 {
            let mut bytes = vec![0; len];
            if let Some(first) = bytes.first_mut() {
                *first = opcode.0;
            }
            rogue.raw(bytes);
        }
        assert_eq!(
            rogue.counter("drop_malformed"),
            (12 + headers + 4) as u64,
            "{opcode}"
        );
        rogue.expect_replies(&[]);
        rogue.expect_state(QpState::Rts);
    }
}

/// Bug 7: a pad count beyond the payload is dropped, not subtracted.
#[test]
fn a_forged_pad_count_is_dropped() {
    let mut rogue = Rogue::new();
    let mut bytes = rogue.bytes(rogue.bth(Opcode::RC_SEND_ONLY, 0), Ext::NONE, &[]);
    bytes[1] |= 0x30;
    roce_tests::pair::seal(&rogue.meta, &mut bytes);
    rogue.raw(bytes);
    expect_ignored(&mut rogue, "drop_malformed");
}

/// Traps 1 to 8: every covered bit counts. A flip anywhere but in the congestion byte drops the packet
/// and leaves the QP alone.
#[test]
fn a_flipped_bit_anywhere_is_dropped() {
    let mut rogue = Rogue::new();
    rogue.recv(1, (0, 64));
    let good = rogue.bytes(rogue.bth(Opcode::RC_SEND_ONLY, 0), Ext::NONE, b"hello!");
    for bit in (0..good.len() * 8).filter(|bit| bit / 8 != 4) {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        rogue.raw(bytes);
    }
    rogue.expect_replies(&[]);
    rogue.expect_received(&[]);
    rogue.end.expect_untouched_outside((0, 0));
    rogue.raw(good);
    rogue.expect_received(&[(1, Status::Success)]);
}

/// Trap 2: the Identification and the flags are covered where the receiver sees them, and found from
/// the ICRC where it doesn't.
#[test]
fn the_ipv4_identification_is_covered() {
    for exact in [true, false] {
        let mut rogue = Rogue::with(|setup| setup.exact_icrc = exact);
        rogue.recv(1, (0, 64));
        rogue.meta.ipv4_id = Ipv4Id::Known {
            id: 0x1234,
            flags: 0,
        };
        let bytes = rogue.bytes(rogue.bth(Opcode::RC_SEND_ONLY, 0), Ext::NONE, b"hello");
        rogue.meta.ipv4_id = Ipv4Id::Known {
            id: 0x1235,
            flags: 0,
        };
        rogue.raw(bytes);
        if exact {
            assert_eq!(rogue.counter("drop_bad_icrc"), 1);
            rogue.expect_received(&[]);
        } else {
            assert_eq!(rogue.counter("icrc_some_id"), 1);
            rogue.expect_received(&[(1, Status::Success)]);
        }
    }
}

/// Trap 5 and "NAT": the source port is covered; another source address is told apart and reported.
#[test]
fn another_source_is_dropped_and_reported() {
    let mut rogue = Rogue::new();
    let bytes = rogue.bytes(rogue.bth(Opcode::RC_SEND_ONLY, 0), Ext::NONE, b"hello");
    rogue.meta.source_port += 1;
    rogue.raw(bytes);
    assert_eq!(rogue.counter("drop_bad_icrc"), 1);
    rogue.meta.remote = address(false, 7);
    rogue.request(Opcode::RC_SEND_ONLY, 0, Ext::NONE, b"hello");
    expect_ignored(&mut rogue, "drop_wrong_source");
    let event = rogue.world.device(0).poll_event();
    let (qpn, from, expected) = (rogue.end.qpn, address(false, 7), address(false, 1));
    assert_eq!(
        event,
        Some(AsyncEvent::WrongSource {
            qpn,
            from,
            expected
        })
    );
}

/// Trap 23 and 20: any source port is accepted, 0 too, if the ICRC covers it.
#[test]
fn any_source_port_is_accepted() {
    let mut rogue = Rogue::new();
    for (after, port) in [0, 4791, 65535].into_iter().enumerate() {
        rogue.recv(after as u64, (0, 64));
        rogue.meta.source_port = port;
        rogue.request(Opcode::RC_SEND_ONLY, after as i32, Ext::NONE, b"hello");
    }
    assert_eq!(rogue.received().len(), 3);
}

/// Trap 20: our source port is 0xC000 or above and the same for all packets of a QP.
#[test]
fn a_queue_pair_keeps_its_source_port() {
    let mut pair = Pair::new();
    let write = pair.write_to(0, 0);
    pair.post(0, 1, write, (0, 10_000));
    pair.run();
    for side in 0..2 {
        let packets = pair.packets(side);
        let port = packets[0].meta.source_port;
        assert!(port >= 0xc000);
        assert!(packets.iter().all(|packet| packet.meta.source_port == port));
    }
}

/// Trap 14: another partition is dropped and counted; a limited member talks to a full one only.
#[test]
fn partitions_are_kept_apart() {
    for (ours, theirs, accepted) in [
        (0xffff, 0xffff, true),
        (0xffff, 0x7fff, true),
        (0x7fff, 0xffff, true),
        (0x7fff, 0x7fff, false),
        (0xffff, 0x8001, false),
        (0x8001, 0x0001, true),
    ] {
        let mut rogue = Rogue::with(|setup| setup.pkeys[0] = vec![PKey(ours)]);
        rogue.recv(1, (0, 64));
        let mut bth = rogue.bth(Opcode::RC_SEND_ONLY, 0);
        (bth.pkey, bth.ack_request) = (PKey(theirs), true);
        rogue.packet(bth, Ext::NONE, b"hello");
        if accepted {
            rogue.expect_received(&[(1, Status::Success)]);
            let reply = rogue.packets().pop().expect("an ACK");
            assert_eq!(reply.bth.pkey, PKey(ours));
        } else {
            expect_ignored(&mut rogue, "drop_bad_pkey");
        }
    }
}

/// A packet for a QP that doesn't exist is dropped; so are QP0's, QP1's and the multicast QPN's.
#[test]
fn unknown_queue_pairs_are_dropped() {
    let mut rogue = Rogue::new();
    let unknown = Qpn::new(rogue.end.qpn.value() ^ 0x40_0000);
    for qpn in [unknown, Qpn::new(0), Qpn::MULTICAST] {
        let mut bth = rogue.bth(Opcode::RC_SEND_ONLY, 0);
        bth.dest_qpn = qpn;
        rogue.packet(bth, Ext::NONE, b"hello");
    }
    expect_ignored_times(&mut rogue, "drop_unknown_qpn", 3);
    let mut bth = rogue.bth(Opcode::RC_SEND_ONLY, 0);
    bth.dest_qpn = Qpn::GSI;
    rogue.packet(bth, Ext::NONE, b"hello");
    expect_ignored(&mut rogue, "drop_qp1");
}

/// A packet of another service is dropped before anything of the QP is looked at.
#[test]
fn packets_of_another_service_are_dropped() {
    let mut rogue = Rogue::new();
    rogue.packet(rogue.bth(Opcode::UC_SEND_ONLY, 0), Ext::NONE, b"hello");
    expect_ignored(&mut rogue, "drop_wrong_service");
}

/// A QP that is not ready to receive, or in error, drops what arrives.
#[test]
fn a_queue_pair_in_error_drops_packets() {
    let mut rogue = Rogue::new();
    let to_error = roce_engine::verbs::QpAttr {
        state: Some(QpState::Err),
        ..Default::default()
    };
    let qp = rogue.end.qp;
    rogue
        .world
        .device(0)
        .modify_qp(qp, &to_error)
        .expect("any state goes to error");
    rogue.request(Opcode::RC_SEND_ONLY, 0, Ext::NONE, b"hello");
    assert_eq!(rogue.counter("drop_qp_state"), 1);
    rogue.expect_replies(&[]);
}

/// Traps 48 and 49: data marked CE is delivered like any other and counted; FECN and BECN bits on an
/// ACK change nothing.
#[test]
fn congestion_marks_never_disturb_the_transport() {
    let mut pair = Pair::with(|setup| setup.traffic_class = 2);
    pair.rule(Rule::new(Action::MarkCe, |_| true).times(5));
    pair.rule(
        Rule::new(Action::Rewrite(|bytes| bytes[4] |= 0xc0), |packet| {
            packet.bth.opcode == Opcode::RC_ACKNOWLEDGE
        })
        .once(),
    );
    let write = pair.write_to(0, 100);
    pair.post(0, 1, write, (0, 8000));
    pair.run();
    pair.expect_sent(0, &[(1, Status::Success)]);
    assert_eq!(
        pair.ends[1].bytes(100, 8000),
        pair.ends[0].original(0, 8000)
    );
    assert_eq!(pair.counter(1, "rx_ecn_ce"), 5);
    assert!(
        pair.packets(0)
            .iter()
            .all(|packet| packet.meta.traffic_class == 2 && !packet.again)
    );
}

/// Trap 48 and 49: a CNP is counted, never acknowledged, never sequenced, from any source port.
#[test]
fn a_congestion_notification_is_counted_and_not_answered() {
    let mut rogue = Rogue::new();
    rogue.meta.source_port = 0;
    let mut bth = roce_wire::Bth::new(Opcode::CNP, rogue.end.qpn, Psn::new(0));
    bth.becn = true;
    rogue.packet(bth, Ext::NONE, &[0; 16]);
    assert_eq!(rogue.counter("rp_cnp_handled"), 1);
    rogue.expect_replies(&[]);
    rogue.recv(1, (0, 64));
    rogue.request(Opcode::RC_SEND_ONLY, 0, Ext::NONE, b"hello");
    rogue.expect_replies(&[(Opcode::RC_ACKNOWLEDGE, 200, Some(0x1f))]);
}

/// Trap 33: the solicited bit is set on the last packet of a SEND or WRITE with immediate data whose
/// request asks for it, and on no other.
#[test]
fn the_solicited_bit_is_on_the_last_packet_only() {
    let mut pair = Pair::new();
    pair.recv(1, 1, (0, 4096));
    pair.recv(1, 2, (0, 0));
    pair.recv(1, 3, (0, 64));
    let flags = SendFlags::SIGNALED | SendFlags::SOLICITED;
    let SendOp::Write { addr, rkey } = pair.write_to(0, 8192) else {
        unreachable!("a WRITE was asked for");
    };
    let imm = SendOp::WriteImm {
        addr,
        rkey,
        imm: [1, 2, 3, 4],
    };
    pair.post_flags(0, 1, SendOp::Send, (0, 3000), flags);
    pair.post_flags(0, 2, imm, (0, 3000), flags);
    pair.post_flags(0, 3, SendOp::Send, (0, 10), SendFlags::SIGNALED);
    pair.post_flags(0, 4, SendOp::Write { addr, rkey }, (0, 10), flags);
    pair.run();
    let solicited: Vec<Opcode> = pair
        .packets(0)
        .iter()
        .filter(|packet| packet.bth.solicited)
        .map(|packet| packet.opcode())
        .collect();
    assert_eq!(
        solicited,
        [Opcode::RC_SEND_LAST, Opcode::RC_RDMA_WRITE_LAST_WITH_IMM]
    );
    let woken: Vec<bool> = pair.received(1).iter().map(|wc| wc.solicited).collect();
    assert_eq!(woken, [true, true, false]);
}

/// Trap 22: what is asked for is what leaves: hop limit and traffic class of the address vector.
#[test]
fn hop_limit_and_traffic_class_leave_as_asked() {
    let mut pair = Pair::with(|setup| setup.traffic_class = 0x6a);
    let write = pair.write_to(0, 0);
    pair.post(0, 1, write, (0, 10));
    pair.run();
    for side in 0..2 {
        for packet in pair.packets(side) {
            assert_eq!(
                (packet.meta.hop_limit, packet.meta.traffic_class),
                (64, 0x6a)
            );
        }
    }
}

/// An answer whose syndrome is reserved, or to nothing at all, changes nothing.
#[test]
fn answers_to_nothing_are_ignored() {
    let mut rogue = Rogue::new();
    rogue.answer(Syndrome::ACK_UNLIMITED, 0);
    rogue.answer(Syndrome::Reserved(0x45), 0);
    let reth = Reth {
        addr: 0,
        rkey: rogue.end.mr.rkey,
        length: 0,
    };
    assert_eq!(rogue.counter("ghost_response"), 2);
    rogue.expect_state(QpState::Rts);
    let ext = Ext {
        reth: Some(reth),
        ..Ext::NONE
    };
    rogue.request(Opcode::RC_RDMA_WRITE_ONLY, 0, ext, &[]);
    rogue.expect_replies(&[(Opcode::RC_ACKNOWLEDGE, 200, Some(0x1f))]);
}

fn expect_ignored(rogue: &mut Rogue, counter: &str) {
    expect_ignored_times(rogue, counter, 1);
}

/// The packets were counted, and nothing else happened.
fn expect_ignored_times(rogue: &mut Rogue, counter: &str, times: u64) {
    assert_eq!(rogue.counter(counter), times, "{counter}");
    rogue.expect_replies(&[]);
    rogue.expect_received(&[]);
    rogue.expect_state(QpState::Rts);
    rogue.end.expect_untouched_outside((0, 0));
}
