//! Floods of everything that is no packet, or none of ours.

use roce_engine::sim::Rng;
use roce_engine::verbs::{AsyncEvent, Backend, PKey, QKey, QpAttr, QpState, Qpn, Service, Status};
use roce_tests::pair::seal;
use roce_wire::{Bth, Deth, Ext, Opcode, Psn, Transport};

use crate::attack::{ACK, ATTACKER, Attack, EXPECTED, GOOD, MTU, QKEY};

/// Body sizes behind the BTH, ICRC not counted.
const BODIES: [usize; 14] = [0, 1, 3, 4, 8, 12, 16, 24, 28, 64, 1000, 1024, 1040, 4120];

/// A packet of this opcode and pad, random behind the BTH, with a right ICRC.
fn noise(attack: &Attack, rng: &mut Rng, opcode: u8, pad: u8, body: usize) -> Vec<u8> {
    let mut bth = Bth::new(Opcode(opcode), attack.victim.qpn, Psn::new(EXPECTED));
    bth.pad = pad;
    bth.ack_request = true;
    let mut bytes = vec![0; Bth::LEN + body + 4];
    rng.fill(&mut bytes);
    bytes[..Bth::LEN].copy_from_slice(&bth.to_bytes());
    seal(&attack.meta, &mut bytes);
    bytes
}

/// All 256 opcodes with all pads and bodies of random bytes, sealed with a right ICRC: an opcode that is
/// undefined or of another service is dropped as that; nothing anywhere changes.
#[test]
fn every_opcode_with_random_bytes_changes_nothing() {
    for service in [Service::Rc, Service::Uc, Service::Ud] {
        let mut attack = Attack::new(service);
        let mut rng = Rng::new(9);
        let (mut undefined, mut sent) = (0, 0);
        for opcode in 0..=255 {
            for pad in 0..4 {
                for body in BODIES {
                    let bytes = noise(&attack, &mut rng, opcode, pad, body);
                    attack.inject(bytes);
                    undefined += u64::from(Opcode(opcode).info().is_none());
                    sent += 1;
                }
            }
            attack.settle();
            attack.revive();
        }
        assert_eq!(sent, 256 * 4 * 14);
        assert_eq!(
            attack.counter("drop_unknown_opcode"),
            undefined,
            "{service:?}"
        );
        assert!(attack.counter("drop_malformed") > 0);
        assert!(attack.counter("drop_wrong_service") > 0);
        attack.finish(QpState::Rts, &[]);
    }
}

/// Random bytes from the first on, and good packets with one byte changed: the ICRC keeps all of them
/// away from every queue pair.
#[test]
fn random_and_corrupted_bytes_are_dropped() {
    let mut attack = Attack::new(Service::Rc);
    attack.lan.recv(attack.victim, 1, (16384, 4096));
    let mut rng = Rng::new(4);
    for len in 0..200 {
        for _ in 0..20 {
            let mut bytes = vec![0; len];
            rng.fill(&mut bytes);
            attack.inject(bytes);
        }
    }
    attack.settle();
    let ext = attack.ext(Opcode::RC_RDMA_WRITE_ONLY, 32);
    let good = attack.bytes(attack.bth(Opcode::RC_RDMA_WRITE_ONLY, 0), ext, &[9; 32]);
    let mut changed = 0;
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut bytes = good.clone();
            bytes[at] ^= 1 << bit;
            attack.inject(bytes);
            // Byte 4 holds the congestion bits, which switches change and the ICRC does not cover.
            changed += u64::from(at != 4);
        }
        attack.settle();
        if at == 4 {
            assert_eq!(
                attack.replies().len(),
                1,
                "the first is accepted, the rest merged"
            );
        }
    }
    let drops = [
        "drop_bad_icrc",
        "drop_malformed",
        "drop_unknown_opcode",
        "drop_bad_version",
        "drop_unknown_qpn",
        "drop_wrong_service",
        "drop_qp1",
        "drop_wrong_source",
    ];
    let dropped: u64 = drops.map(|name| attack.counter(name)).iter().sum();
    assert_eq!(dropped, 200 * 20 + changed);
    attack.lan.expect_received(attack.victim, &[]);
    attack.finish(QpState::Rts, &[(0, 32)]);
}

/// Any partition but ours is dropped and counted: all P_Keys are tried. Ours may come as a limited member.
#[test]
fn other_partitions_are_dropped() {
    let mut attack = Attack::new(Service::Uc);
    let (mut dropped, mut after) = (0, 0);
    let keys = (0..=u16::MAX)
        .step_by(17)
        .chain([0x7fff, 0xffff, 0xfffe, 0x7ffe, 1]);
    for key in keys {
        let mut bth = attack.bth(Opcode::UC_RDMA_WRITE_ONLY, after);
        bth.pkey = PKey(key);
        let ext = attack.ext(Opcode::UC_RDMA_WRITE_ONLY, 8);
        let bytes = attack.bytes(bth, ext, &[9; 8]);
        attack.inject(bytes);
        if key & 0x7fff == 0x7fff {
            after += 1;
        } else {
            dropped += 1;
        }
    }
    attack.settle();
    assert_eq!(attack.counter("drop_bad_pkey"), dropped);
    assert_eq!(
        attack.counter("unreliable_gaps"),
        0,
        "the others were in order"
    );
    attack.finish(QpState::Rts, &[(0, 8)]);
}

/// Transport header versions 1 to 15 are dropped; reserved bits, either migration state and both
/// congestion bits are no reason to.
#[test]
fn other_versions_are_dropped_and_reserved_bits_are_not() {
    let mut attack = Attack::new(Service::Rc);
    let ext = attack.ext(Opcode::RC_RDMA_WRITE_ONLY, 8);
    for version in 1..16 {
        let mut bth = attack.bth(Opcode::RC_RDMA_WRITE_ONLY, 0);
        bth.version = version;
        attack.packet(bth, ext, &[9; 8]);
    }
    assert_eq!(attack.counter("drop_bad_version"), 15);
    assert_eq!(attack.replies(), []);
    for (after, flags) in (0..16).enumerate() {
        let mut bth = attack.bth(Opcode::RC_RDMA_WRITE_ONLY, after as i32);
        (bth.migrated, bth.fecn, bth.becn) = (flags & 1 == 1, flags & 2 == 2, flags & 4 == 4);
        (bth.reserved6, bth.reserved7) = (0x3f, 0x7f);
        bth.solicited = flags & 8 == 8;
        attack.packet(bth, ext, &[9; 8]);
        assert_eq!(attack.replies(), [(ACK, EXPECTED + after as u32, GOOD)]);
    }
    attack.finish(QpState::Rts, &[(0, 8)]);
}

/// Packets to every QPN of the device's index space, and to the special ones: those of others' queue pairs
/// are dropped for their source, told once each; nobody's connection is disturbed.
#[test]
fn queue_pairs_of_others_are_out_of_reach() {
    let mut attack = Attack::new(Service::Rc);
    let base = attack.victim.qpn.value() & !0x7fff;
    let special = [0, 1, 2, 0xff_ffff, 0x80_0000];
    let mut sent = 0;
    for qpn in (base..base + 256).chain(special) {
        if qpn == attack.victim.qpn.value() {
            continue;
        }
        for (opcode, length) in [
            (Opcode::RC_RDMA_WRITE_ONLY, 8),
            (ACK, 0),
            (Opcode::RC_SEND_ONLY, 8),
        ] {
            let mut bth = attack.bth(opcode, 0);
            bth.dest_qpn = Qpn::new(qpn);
            let ext = match opcode {
                ACK => attack.answer_headers(ACK, 0x61, 0).1,
                _ => attack.ext(opcode, length),
            };
            let bytes = attack.bytes(bth, ext, &vec![9; length as usize]);
            attack.inject(bytes);
            sent += 1;
        }
        attack.settle();
    }
    let (unknown, foreign) = (
        attack.counter("drop_unknown_qpn"),
        attack.counter("drop_wrong_source"),
    );
    assert_eq!(foreign, 3, "the one other queue pair");
    assert_eq!(attack.counter("drop_qp1"), 3);
    assert_eq!(unknown + foreign + 3, sent);
    let told = attack.lan.events(0);
    assert_eq!(told.len(), 1);
    assert!(matches!(told[0], AsyncEvent::WrongSource { .. }));
    attack.finish(QpState::Rts, &[]);
}

/// Datagrams with guessed keys are dropped one by one; the receives wait for one with the right key.
#[test]
fn a_flood_of_wrong_qkeys_takes_no_receive() {
    let mut attack = Attack::new(Service::Ud);
    attack.lan.recv(attack.victim, 1, (16384, 4096));
    let opcode = Opcode::UD_SEND_ONLY;
    let mut guesses = 0;
    let bits = (0..32).map(|bit| QKEY ^ 1 << bit);
    let wild = (1..5000_u32).map(|n| n.wrapping_mul(0x9e37_79b9));
    for qkey in bits.chain(wild).chain([0, u32::MAX, 0x8001_0000]) {
        let ext = Ext {
            deth: Some(Deth::new(QKey(qkey), ATTACKER)),
            ..Ext::NONE
        };
        let bytes = attack.bytes(attack.bth(opcode, 0), ext, &[9; 64]);
        attack.inject(bytes);
        guesses += 1;
    }
    attack.settle();
    assert_eq!(attack.counter("drop_bad_qkey"), guesses);
    attack.lan.expect_received(attack.victim, &[]);
    attack.request(opcode, 0, 0, &[9; 64]);
    attack
        .lan
        .expect_received(attack.victim, &[(1, Status::Success)]);
    attack.finish(QpState::Rts, &[(16384, 104)]);
}

/// Datagrams of all lengths with the right key: those that fit their receive arrive, no others, and no
/// byte is written behind a receive.
#[test]
fn datagrams_never_leave_their_receive() {
    let mut attack = Attack::new(Service::Ud);
    for (id, len) in (0..4200).step_by(60).enumerate() {
        attack.lan.recv(attack.victim, id as u64, (16384, 1064));
        let bytes = attack.bytes(
            attack.bth(Opcode::UD_SEND_ONLY, 0),
            attack.ext(Opcode::UD_SEND_ONLY, 0),
            &vec![9; len],
        );
        attack.inject(bytes);
        attack.settle();
        let received = attack.lan.received(attack.victim);
        assert_eq!(received.len(), usize::from(len <= 1024), "{len} bytes");
    }
    attack.finish(QpState::Rts, &[(16384, 1064)]);
}

/// Congestion notifications, true and half true, by the thousand: counted, never answered, and the
/// transport goes on.
#[test]
fn a_flood_of_congestion_notifications_is_counted() {
    for service in [Service::Rc, Service::Uc, Service::Ud] {
        let mut attack = Attack::new(service);
        for n in 0..2000 {
            let mut bth = Bth::new(Opcode::CNP, attack.victim.qpn, Psn::new(n % 7));
            bth.becn = n % 2 == 0;
            let bytes = attack.bytes(bth, Ext::NONE, &[n as u8; 16]);
            attack.inject(bytes);
        }
        attack.settle();
        assert_eq!(attack.counter("rp_cnp_handled"), 1000, "{service:?}");
        assert_eq!(
            attack.counter("drop_malformed"),
            1000,
            "one without BECN says nothing"
        );
        assert_eq!(attack.replies(), []);
        attack.finish(QpState::Rts, &[]);
    }
}

/// Every packet of another service, with what its headers need, is dropped for its service.
#[test]
fn packets_of_other_services_are_dropped() {
    for (service, own) in [
        (Service::Rc, Transport::Rc),
        (Service::Uc, Transport::Uc),
        (Service::Ud, Transport::Ud),
    ] {
        let mut attack = Attack::new(service);
        let mut foreign = 0;
        for &opcode in Opcode::ALL {
            let info = opcode.info().expect("a defined opcode");
            if info.transport == own || info.transport == Transport::Cnp {
                continue;
            }
            let (_, answer) = attack.answer_headers(opcode, 0x1f, 0);
            let ext = if info.is_request {
                attack.ext(opcode, 8)
            } else {
                answer
            };
            let data = if info.has_payload { &[9; 8][..] } else { &[] };
            attack.packet(attack.bth(opcode, 0), ext, data);
            foreign += 1;
        }
        assert_eq!(attack.counter("drop_wrong_service"), foreign);
        assert_eq!(attack.replies(), []);
        attack.finish(QpState::Rts, &[]);
    }
}

/// Gaps by the thousand: one NAK, a bounded answer, and the expected packet is accepted after all.
#[test]
fn a_flood_of_gaps_gets_one_nak() {
    let mut attack = Attack::new(Service::Rc);
    for after in 1..3000 {
        let ext = attack.ext(Opcode::RC_RDMA_WRITE_ONLY, 8);
        let bytes = attack.bytes(attack.bth(Opcode::RC_RDMA_WRITE_ONLY, after), ext, &[9; 8]);
        attack.inject(bytes);
    }
    attack.settle();
    assert_eq!(attack.replies(), [(ACK, EXPECTED, Some(0x60))]);
    assert_eq!(attack.counter("drop_out_of_sequence"), 2998);
    attack.request(Opcode::RC_RDMA_WRITE_ONLY, 0, 8, &[9; 8]);
    assert_eq!(attack.replies(), [(ACK, EXPECTED, GOOD)]);
    attack.finish(QpState::Rts, &[(0, 8)]);
}

/// SENDs by the thousand without a receive: RNR NAKs no faster than they ask, and memory stays.
#[test]
fn a_flood_of_sends_without_receives_is_not_ready() {
    let mut attack = Attack::new(Service::Rc);
    let bytes = attack.bytes(attack.bth(Opcode::RC_SEND_ONLY, 0), Ext::NONE, &[9; MTU]);
    for _ in 0..3000 {
        attack.inject(bytes.clone());
    }
    attack.settle();
    let replies = attack.replies();
    assert!(
        replies
            .iter()
            .all(|reply| *reply == (ACK, EXPECTED, Some(0x21)))
    );
    assert!(replies.len() <= 3000 / 200, "{}: one a turn", replies.len());
    attack.finish(QpState::Rts, &[]);
}

impl Attack {
    /// Puts the victim back into RTS after a packet that put it into error, connected as before.
    fn revive(&mut self) {
        let device = self.lan.world.device(0);
        let info = device.query_qp(self.victim.qp).expect("the queue pair");
        let moved = info.attr.rq_psn.is_some_and(|psn| psn.value() != EXPECTED);
        if info.state == QpState::Rts && !(moved && self.victim.service == Service::Rc) {
            return;
        }
        let reset = QpAttr {
            state: Some(QpState::Reset),
            ..QpAttr::default()
        };
        self.lan.modify(self.victim, &reset);
        let wish = roce_tests::lan::Wish::new(self.meta.remote, ATTACKER, [100, EXPECTED]);
        self.lan.enter(self.victim, &wish);
    }
}
