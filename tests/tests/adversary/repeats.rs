//! Requests that were served before, as they were and changed, one by one and in floods; and more READs
//! and atomics than were agreed.

use roce_engine::sim::{Action, PortId, Rule};
use roce_engine::verbs::{QpState, RKey, SendOp, Service, Status};
use roce_tests::lan::Lan;
use roce_wire::{AtomicEth, Opcode};

use crate::attack::{ACK, Attack, EXPECTED, GOOD, MTU, named};

const READ: Opcode = Opcode::RC_RDMA_READ_REQUEST;
const ADD: Opcode = Opcode::RC_FETCH_ADD;
const SWAP: Opcode = Opcode::RC_CMP_SWAP;
const RESULT: Opcode = Opcode::RC_ATOMIC_ACKNOWLEDGE;

/// Duplicate SENDs and WRITEs with other data, other lengths and other keys are acknowledged again and
/// change nothing.
#[test]
fn changed_duplicates_write_nothing() {
    let mut attack = Attack::new(Service::Rc);
    attack.lan.recv(attack.victim, 1, (16384, 64));
    attack.lan.recv(attack.victim, 2, (20480, 64));
    attack.request(Opcode::RC_SEND_ONLY, 0, 0, &[1; 8]);
    attack.request(Opcode::RC_RDMA_WRITE_ONLY, 1, 8, &[1; 8]);
    attack.replies();
    let mr = attack.mr();
    let claims = [
        (mr.addr + 64, mr.rkey, 8),
        (attack.other.1.addr, attack.other.1.rkey, 8),
        (0, RKey(0), 8),
        (mr.addr, mr.rkey, u32::MAX),
    ];
    let opcodes = [
        Opcode::RC_SEND_ONLY,
        Opcode::RC_SEND_FIRST,
        Opcode::RC_SEND_LAST_WITH_INV,
        Opcode::RC_RDMA_WRITE_ONLY,
        Opcode::RC_RDMA_WRITE_MIDDLE,
        Opcode::RC_RDMA_WRITE_ONLY_WITH_IMM,
    ];
    for (addr, rkey, length) in claims {
        for opcode in opcodes {
            for after in [0, 1] {
                let ext = named(opcode, addr, rkey, length);
                attack.packet(attack.bth(opcode, after), ext, &[0xbb; 8]);
                assert_eq!(attack.replies(), [(ACK, EXPECTED + 1, GOOD)]);
            }
        }
    }
    attack
        .lan
        .expect_received(attack.victim, &[(1, Status::Success)]);
    attack.lan.expect_bytes(0, 0, &[1; 8]);
    attack.request(Opcode::RC_SEND_ONLY, 2, 0, &[2; 8]);
    attack
        .lan
        .expect_received(attack.victim, &[(2, Status::Success)]);
    attack.finish(QpState::Rts, &[(0, 8), (16384, 8), (20480, 8)]);
}

/// A duplicate READ may ask for less of the same memory, never for more or for other memory: a larger
/// length, another start, another key, one PSN late. All are dropped; nothing is shown.
#[test]
fn a_duplicate_read_never_widens() {
    let mut attack = Attack::new(Service::Rc);
    let mr = attack.mr();
    let at = mr.addr + 4096;
    let read = |attack: &mut Attack, after: i32, addr: u64, rkey: RKey, length: u32| {
        let ext = named(READ, addr, rkey, length);
        attack.packet(attack.bth(READ, after), ext, &[]);
        attack.replies().len()
    };
    assert_eq!(read(&mut attack, 0, at, mr.rkey, 2500), 3);
    let other = attack.other.1;
    let mtu = MTU as u64;
    let wider = [
        (0, at, mr.rkey, 2501),
        (0, at, mr.rkey, 4096),
        (0, at, mr.rkey, u32::MAX),
        (0, at - 1, mr.rkey, 2500),
        (0, at + 1, mr.rkey, 100),
        (0, at, RKey(mr.rkey.0 ^ 1), 2500),
        (0, other.addr, other.rkey, 8),
        (1, at, mr.rkey, 2500),
        (1, at + mtu, mr.rkey, 1477),
        (1, at + mtu - 1, mr.rkey, 1476),
        (2, at + 2 * mtu, mr.rkey, 453),
        (2, at, mr.rkey, 8),
        (2, u64::MAX, mr.rkey, 452),
    ];
    for (after, addr, rkey, length) in wider {
        let shown = read(&mut attack, after, addr, rkey, length);
        assert_eq!(shown, 0, "{after} {addr:#x} {length}");
    }
    assert_eq!(attack.counter("drop_stale_replay"), wider.len() as u64);
    for (after, skip, length, packets) in [
        (0, 0, 2500, 3),
        (0, 0, 100, 1),
        (0, 0, 0, 1),
        (1, mtu, 1476, 2),
        (1, mtu, 1024, 1),
        (2, 2 * mtu, 452, 1),
        (2, 2 * mtu, 0, 1),
    ] {
        let shown = read(&mut attack, after, at + skip, mr.rkey, length);
        assert_eq!(shown, packets, "{after} {length}");
    }
    attack.finish(QpState::Rts, &[]);
}

/// A flood of duplicate READs restarts one answer; it does not multiply it. What the flood costs is
/// bounded by the packets that brought it.
#[test]
fn a_flood_of_duplicate_reads_is_one_answer_at_a_time() {
    let lan = Lan::with(2, |setup| setup.slots = 8);
    let mut attack = Attack::on(lan, Service::Rc, |_| {});
    attack.request(READ, 0, 32 * MTU as u32, &[]);
    assert_eq!(attack.replies().len(), 32);
    let ext = attack.ext(READ, 32 * MTU as u32);
    let bytes = attack.bytes(attack.bth(READ, 0), ext, &[]);
    for _ in 0..1000 {
        attack.inject(bytes.clone());
    }
    attack.settle();
    attack.settle();
    let answered = attack.replies();
    // The device takes 256 packets a turn and may send twice 8: four turns of flood, then one answer.
    let most = 4 * 2 * 8 + 32;
    assert!(answered.len() <= most, "{} packets", answered.len());
    assert_eq!(answered.last().map(|reply| reply.1), Some(EXPECTED + 31));
    assert_eq!(attack.counter("duplicate_request"), 1000);
    attack.finish(QpState::Rts, &[]);
}

/// Duplicates that arrive together owe one acknowledgement, and each that is saved is counted.
#[test]
fn a_flood_of_duplicate_writes_is_acknowledged_once() {
    let mut attack = Attack::on(Lan::with(2, |_| {}), Service::Rc, |_| {});
    attack.request(Opcode::RC_RDMA_WRITE_ONLY, 0, 8, &[1; 8]);
    assert_eq!(attack.replies().len(), 1);
    let ext = attack.ext(Opcode::RC_RDMA_WRITE_ONLY, 8);
    let bytes = attack.bytes(attack.bth(Opcode::RC_RDMA_WRITE_ONLY, 0), ext, &[1; 8]);
    for _ in 0..100 {
        attack.inject(bytes.clone());
    }
    attack.settle();
    attack.settle();
    assert_eq!(attack.replies().len(), 1);
    assert_eq!(attack.counter("duplicate_request"), 100);
    assert_eq!(attack.counter("acks_coalesced"), 99);
    attack.finish(QpState::Rts, &[(0, 8)]);
}

/// Duplicate atomics are answered from the table and never executed again, with whatever operands and
/// addresses they come; another kind of request at their PSN is dropped.
#[test]
fn changed_duplicate_atomics_are_not_executed() {
    let mut attack = Attack::new(Service::Rc);
    attack.lan.hosts[0].region.write(0, &40_u64.to_ne_bytes());
    attack.request(ADD, 0, 8, &[]);
    assert_eq!(attack.replies(), [(RESULT, EXPECTED, GOOD)]);
    let mr = attack.mr();
    let variants = [
        (mr.addr, mr.rkey),
        (mr.addr + 8, mr.rkey),
        (0, RKey(0)),
        (mr.addr + 1, mr.rkey),
    ];
    for (addr, rkey) in variants {
        let mut ext = named(ADD, addr, rkey, 8);
        ext.atomic = Some(AtomicEth {
            addr,
            rkey,
            swap_add: 1000,
            compare: 0,
        });
        for _ in 0..25 {
            attack.packet(attack.bth(ADD, 0), ext, &[]);
            assert_eq!(attack.replies(), [(RESULT, EXPECTED, GOOD)]);
            let packet = attack.lan.packets(0).pop().expect("an answer");
            assert_eq!(packet.ext.atomic_ack.map(|value| value.0), Some(40));
        }
        attack.packet(attack.bth(SWAP, 0), named(SWAP, addr, rkey, 8), &[]);
        attack.packet(attack.bth(READ, 0), named(READ, addr, rkey, 8), &[]);
        assert_eq!(attack.replies(), []);
    }
    attack.lan.expect_bytes(0, 0, &42_u64.to_ne_bytes());
    attack.finish(QpState::Rts, &[(0, 8)]);
}

/// Of READs and atomics in a burst, as many as were agreed are served; one more is an invalid request,
/// 0x61, if the first is not answered yet, and it is not executed.
#[test]
fn one_more_than_agreed_is_refused() {
    for depth in [1, 2, 4, 16] {
        for opcode in [READ, ADD, SWAP] {
            let lan = Lan::with(2, |setup| setup.slots = 1);
            let mut attack = Attack::on(lan, Service::Rc, |wish| wish.max_dest_rd_atomic = depth);
            // A long READ keeps the link busy.
            let ext = attack.ext(READ, 20 * MTU as u32);
            let long = attack.bytes(attack.bth(READ, 0), ext, &[]);
            attack.inject(long);
            for n in 0..i32::from(depth) {
                let mut ext = attack.ext(opcode, 8);
                if let Some(atomic) = &mut ext.atomic {
                    (atomic.addr, atomic.compare) = (atomic.addr + 8 * n as u64, 0);
                }
                let bytes = attack.bytes(attack.bth(opcode, 20 + n), ext, &[]);
                attack.inject(bytes);
            }
            attack.settle();
            let last = attack.replies().pop();
            let refused = EXPECTED + 20 + u32::from(depth) - 1;
            assert_eq!(last, Some((ACK, refused, Some(0x61))), "{opcode} {depth}");
            let executed = 8 * (usize::from(depth) - 1);
            attack.finish(
                QpState::Err,
                &[(0, if opcode == READ { 0 } else { executed })],
            );
        }
    }
}

/// With no resources agreed, READs and atomics are refused, again and again.
#[test]
fn none_agreed_is_none_served() {
    for opcode in [READ, ADD, SWAP] {
        let mut attack = Attack::with(Service::Rc, |wish| wish.max_dest_rd_atomic = 0);
        attack.request(opcode, 0, 8, &[]);
        attack.expect_refusal(0x61, 0);
        attack.finish(QpState::Err, &[]);
    }
}

/// Duplicates both ways at once: the victim's own requests go on while its peer repeats every request it
/// ever sent and every answer it ever gave.
#[test]
fn opposing_duplicates_disturb_nobody() {
    let mut attack = Attack::new(Service::Rc);
    for id in 0..20 {
        attack
            .lan
            .recv(attack.victim, id, (16384 + id as usize * 64, 64));
    }
    let mut history: Vec<Vec<u8>> = Vec::new();
    for round in 0..20_i32 {
        attack.post(round as u64, Attack::write(), (0, 8));
        let send = attack.bytes(
            attack.bth(Opcode::RC_SEND_ONLY, round),
            Default::default(),
            &[7; 8],
        );
        let (bth, ext) = attack.answer_headers(ACK, 0x1f, round);
        let ack = attack.bytes(bth, ext, &[]);
        history.extend([send, ack]);
        for bytes in history.clone().into_iter().rev() {
            attack.inject(bytes.clone());
            attack.inject(bytes);
        }
        attack.settle();
    }
    let all: Vec<_> = (0..20).map(|id| (id, Status::Success)).collect();
    // Newest first: each new SEND is in order, all the others are duplicates.
    attack.lan.expect_received(attack.victim, &all);
    attack.lan.expect_sent(attack.victim, &all);
    assert_eq!(attack.counter("retransmitted_pkts"), 0);
    assert_eq!(attack.counter("out_of_seq_request"), 0);
    attack.finish(QpState::Rts, &[(16384, 20 * 64)]);
}

/// Two honest peers whose network sends everything twice, both ways at once, with READs and atomics in
/// both directions: each atomic is executed once.
#[test]
fn two_peers_on_a_stuttering_network_agree() {
    let mut lan = Lan::new(2);
    let [a, b] = lan.connected(Service::Rc);
    for from in [0, 1] {
        let twice = Rule::new(Action::Duplicate, |_| true);
        lan.rule(twice.from_port(PortId(from)));
    }
    for host in [0, 1] {
        lan.hosts[host].region.write(0, &0_u64.to_ne_bytes());
    }
    for id in 0..30 {
        for (port, peer) in [(a, 1), (b, 0)] {
            let mr = lan.hosts[peer].mr;
            let add = SendOp::FetchAdd {
                addr: mr.addr,
                rkey: mr.rkey,
                add: 1,
            };
            let read = lan.read_from(peer, 8192);
            lan.recv(port, id, (32768, 4096));
            lan.post(port, 3 * id, add, (8, 8));
            lan.post(port, 3 * id + 1, read, (16384, 3000));
            lan.post(port, 3 * id + 2, SendOp::Send, (24576, 3000));
        }
    }
    lan.run();
    for port in [a, b] {
        assert_eq!(lan.sent(port).len(), 90);
        assert_eq!(lan.received(port).len(), 30);
        lan.expect_bytes(port.host, 0, &30_u64.to_ne_bytes());
        lan.expect_state(port, QpState::Rts);
    }
    assert!(lan.counter(0, "duplicate_request") > 100);
    assert_eq!(
        lan.world.device(0).next_timeout(),
        None,
        "nothing is left to do"
    );
}
