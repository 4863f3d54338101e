//! What a responder refuses, from a peer that sends packets by hand.
//!
//! "Bug N" and "trap N" are explained in `docs/scenarios.md`.

use roce_engine::verbs::{
    AsyncEvent, Backend, PostError, QpState, RKey, SendFlags, SendOp, Status,
};
use roce_tests::pair::{Pair, Rogue, named};
use roce_wire::{Ext, Opcode};

const ACK: Opcode = Opcode::RC_ACKNOWLEDGE;

/// Trap 41: after each kind of packet, every packet that can't follow is refused with NAK 0x61 and the
/// QP goes to the error state.
#[test]
fn a_wrong_successor_is_refused() {
    use Opcode as O;
    let first = [O::RC_SEND_FIRST, O::RC_RDMA_WRITE_FIRST];
    let wrong_after_send = [
        O::RC_SEND_FIRST,
        O::RC_SEND_ONLY,
        O::RC_RDMA_WRITE_MIDDLE,
        O::RC_RDMA_WRITE_LAST,
        O::RC_RDMA_WRITE_ONLY,
        O::RC_RDMA_READ_REQUEST,
        O::RC_FETCH_ADD,
    ];
    let wrong_after_write = [
        O::RC_RDMA_WRITE_FIRST,
        O::RC_RDMA_WRITE_ONLY,
        O::RC_SEND_MIDDLE,
        O::RC_SEND_LAST,
        O::RC_SEND_ONLY,
        O::RC_RDMA_READ_REQUEST,
        O::RC_CMP_SWAP,
    ];
    for (first, wrong) in first.into_iter().zip([wrong_after_send, wrong_after_write]) {
        for second in wrong {
            let mut rogue = Rogue::new();
            rogue.recv(1, (0, 8192));
            let ext = extended(&rogue, first, 2048);
            rogue.request(first, 0, ext, &[1; 1024]);
            let ext = extended(&rogue, second, 8);
            rogue.request(second, 1, ext, payload(second));
            rogue.expect_replies(&[(ACK, 200, Some(0x1f)), (ACK, 201, Some(0x61))]);
            rogue.expect_state(QpState::Err);
        }
    }
    for lone in [
        O::RC_SEND_MIDDLE,
        O::RC_SEND_LAST,
        O::RC_SEND_LAST_WITH_IMM,
        O::RC_SEND_LAST_WITH_INV,
        O::RC_RDMA_WRITE_MIDDLE,
        O::RC_RDMA_WRITE_LAST,
        O::RC_RDMA_WRITE_LAST_WITH_IMM,
    ] {
        let mut rogue = Rogue::new();
        rogue.recv(1, (0, 8192));
        let ext = extended(&rogue, lone, 8);
        rogue.request(lone, 0, ext, &[1; 1024]);
        expect_refused(&mut rogue, 0x61);
        rogue.expect_received(&[(1, Status::WrFlushErr)]);
    }
}

/// Bug 8: ATOMIC WRITE and FLUSH are parsed and not offered: NAK 0x61, nothing is written or shown.
#[test]
fn operations_that_are_not_offered_are_refused() {
    for opcode in [Opcode::RC_ATOMIC_WRITE, Opcode::RC_FLUSH] {
        let mut rogue = Rogue::new();
        let mut ext = extended(&rogue, opcode, 0);
        if opcode == Opcode::RC_FLUSH {
            ext.feth = Some(roce_wire::Feth::new(1, 0));
        }
        rogue.request(opcode, 0, ext, payload(opcode));
        expect_refused(&mut rogue, 0x61);
    }
}

/// Bug 18, trap 42: FIRST and MIDDLE are full, ONLY fits, LAST is not empty, and the sum is the RETH's
/// length; anything else is NAK 0x61.
#[test]
fn wrong_lengths_are_refused() {
    let cases: [(&[(Opcode, usize)], u32); 10] = [
        (&[(Opcode::RC_SEND_FIRST, 1020)], 0),
        (&[(Opcode::RC_SEND_FIRST, 2048)], 0),
        (&[(Opcode::RC_SEND_ONLY, 1028)], 0),
        (
            &[(Opcode::RC_SEND_FIRST, 1024), (Opcode::RC_SEND_MIDDLE, 512)],
            0,
        ),
        (
            &[(Opcode::RC_SEND_FIRST, 1024), (Opcode::RC_SEND_LAST, 0)],
            0,
        ),
        (&[(Opcode::RC_RDMA_WRITE_ONLY, 8)], 7),
        (&[(Opcode::RC_RDMA_WRITE_ONLY, 8)], 9),
        (&[(Opcode::RC_RDMA_WRITE_FIRST, 1024)], 1024),
        (
            &[
                (Opcode::RC_RDMA_WRITE_FIRST, 1024),
                (Opcode::RC_RDMA_WRITE_LAST, 8),
            ],
            1031,
        ),
        (
            &[
                (Opcode::RC_RDMA_WRITE_FIRST, 1024),
                (Opcode::RC_RDMA_WRITE_LAST, 8),
            ],
            1033,
        ),
    ];
    for (packets, reth_length) in cases {
        let mut rogue = Rogue::new();
        rogue.recv(1, (0, 8192));
        for (after, (opcode, len)) in packets.iter().enumerate() {
            let ext = extended(&rogue, *opcode, reth_length);
            rogue.request(*opcode, after as i32, ext, &vec![7; *len]);
        }
        let (_, psn, syndrome) = rogue.replies().pop().expect("an answer");
        assert_eq!(
            (psn, syndrome),
            (199 + packets.len() as u32, Some(0x61)),
            "{packets:?}"
        );
        rogue.expect_state(QpState::Err);
        let last_is_whole = packets.len() - 1;
        rogue
            .end
            .expect_untouched_outside((0, 1024 * last_is_whole));
    }
}

/// A RETH that names more than 2^31 bytes is an invalid request, whatever its key is good for.
#[test]
fn messages_beyond_two_gibibytes_are_refused() {
    for opcode in [Opcode::RC_RDMA_WRITE_FIRST, Opcode::RC_RDMA_READ_REQUEST] {
        for length in [(1 << 31) + 1, u32::MAX] {
            let mut rogue = Rogue::new();
            let ext = extended(&rogue, opcode, length);
            let payload: &[u8] = if opcode == Opcode::RC_RDMA_WRITE_FIRST {
                &[7; 1024]
            } else {
                &[]
            };
            rogue.request(opcode, 0, ext, payload);
            expect_refused(&mut rogue, 0x61);
        }
    }
}

/// Trap 42 and "Different path MTUs": a peer whose path MTU is larger is refused at its first packet.
#[test]
fn a_larger_path_mtu_shows_as_an_invalid_request() {
    use roce_engine::verbs::Mtu;
    let mut pair = Pair::with(|setup| setup.mtu = [Mtu::B4096, Mtu::B1024]);
    let write = pair.write_to(0, 0);
    pair.post(0, 1, write, (0, 4096));
    pair.run();
    pair.expect_sent(0, &[(1, Status::RemInvReqErr)]);
    pair.expect_state(0, QpState::Err);
    pair.expect_state(1, QpState::Err);
    pair.ends[1].expect_untouched_outside((0, 0));
}

/// Bug 17, trap 43: a WRITE, READ or atomic that the memory doesn't allow is NAK 0x62, the QP goes to
/// error, an access event tells the user, and nothing is executed: no byte changes.
#[test]
fn memory_violations_are_refused_without_execution() {
    let end_of = |rogue: &Rogue| rogue.end.mr.addr + rogue.end.mr.length;
    let rkey_of = |rogue: &Rogue| rogue.end.mr.rkey;
    for opcode in [
        Opcode::RC_RDMA_WRITE_ONLY,
        Opcode::RC_RDMA_READ_REQUEST,
        Opcode::RC_FETCH_ADD,
    ] {
        for case in 0..5 {
            let mut rogue = Rogue::new();
            let start = rogue.end.mr.addr;
            let (addr, rkey) = match case {
                0 => (start, RKey(rkey_of(&rogue).0 ^ 0x100)),
                1 => (start, RKey(rkey_of(&rogue).0 ^ 1)),
                2 => (end_of(&rogue), rkey_of(&rogue)),
                3 => (start - 8, rkey_of(&rogue)),
                _ => (u64::MAX - 7, rkey_of(&rogue)),
            };
            let ext = named(opcode, addr, rkey, 8);
            rogue.request(
                opcode,
                0,
                ext,
                if opcode == Opcode::RC_RDMA_WRITE_ONLY {
                    &[9; 8]
                } else {
                    &[]
                },
            );
            expect_refused(&mut rogue, 0x62);
            let event = rogue.world.device(0).poll_event();
            assert_eq!(
                event,
                Some(AsyncEvent::QpAccessError(rogue.end.qpn)),
                "case {case}"
            );
        }
    }
}

/// Trap 43: the whole range of a long WRITE is checked with its first packet.
#[test]
fn a_write_that_would_leave_its_region_writes_nothing() {
    let mut rogue = Rogue::new();
    let addr = rogue.end.mr.addr + rogue.end.mr.length - 1024;
    let ext = named(Opcode::RC_RDMA_WRITE_FIRST, addr, rogue.end.mr.rkey, 1025);
    rogue.request(Opcode::RC_RDMA_WRITE_FIRST, 0, ext, &[9; 1024]);
    expect_refused(&mut rogue, 0x62);
}

/// Bug 26: a registration ends where it says, not at a page: its last byte may be written, the next
/// may not, also when both share a page.
#[test]
fn a_registration_ends_at_its_last_byte() {
    for (len, refused) in [(100, false), (101, true)] {
        let mut rogue = Rogue::with(|setup| setup.memory = 1100);
        let addr = rogue.end.mr.addr + 1000;
        let ext = named(Opcode::RC_RDMA_WRITE_ONLY, addr, rogue.end.mr.rkey, len);
        rogue.request(Opcode::RC_RDMA_WRITE_ONLY, 0, ext, &vec![9; len as usize]);
        if refused {
            expect_refused(&mut rogue, 0x62);
        } else {
            rogue.expect_replies(&[(ACK, 200, Some(0x1f))]);
            assert_eq!(rogue.end.bytes(1000, 100), vec![9; 100]);
            rogue.end.expect_untouched_outside((1000, 100));
        }
    }
}

/// Trap 34: zero-length SEND, WRITE and READ name no memory: the key isn't looked at.
#[test]
fn zero_length_requests_need_no_key() {
    let mut rogue = Rogue::new();
    rogue.recv(1, (0, 0));
    rogue.request(Opcode::RC_SEND_ONLY, 0, Ext::NONE, &[]);
    let nowhere = |opcode| named(opcode, 0xdead_0000, RKey(0xbad), 0);
    rogue.request(
        Opcode::RC_RDMA_WRITE_ONLY,
        1,
        nowhere(Opcode::RC_RDMA_WRITE_ONLY),
        &[],
    );
    rogue.request(
        Opcode::RC_RDMA_READ_REQUEST,
        2,
        nowhere(Opcode::RC_RDMA_READ_REQUEST),
        &[],
    );
    rogue.expect_replies(&[
        (ACK, 200, Some(0x1f)),
        (ACK, 201, Some(0x1f)),
        (Opcode::RC_RDMA_READ_RESPONSE_ONLY, 202, Some(0x1f)),
    ]);
    assert!(
        rogue
            .packets()
            .iter()
            .all(|packet| packet.payload.is_empty())
    );
    rogue.expect_received(&[(1, Status::Success)]);
    rogue.end.expect_untouched_outside((0, 0));
}

/// Trap 46: an atomic at an address that isn't a multiple of 8 is NAK 0x61, before its key is looked at.
#[test]
fn unaligned_atomics_are_invalid_requests() {
    for opcode in [Opcode::RC_FETCH_ADD, Opcode::RC_CMP_SWAP] {
        for off in 1..8 {
            let mut rogue = Rogue::new();
            let ext = named(opcode, rogue.end.mr.addr + off, RKey(0xbad), 8);
            rogue.request(opcode, 0, ext, &[]);
            expect_refused(&mut rogue, 0x61);
        }
    }
}

/// Trap 40: a refused READ or atomic is an ACKNOWLEDGE packet (0x11) with an AETH and nothing else.
#[test]
fn a_refused_read_or_atomic_is_a_plain_acknowledge_packet() {
    for opcode in [Opcode::RC_RDMA_READ_REQUEST, Opcode::RC_FETCH_ADD] {
        let mut rogue = Rogue::new();
        let ext = named(opcode, rogue.end.mr.addr, RKey(0xbad), 8);
        rogue.request(opcode, 0, ext, &[]);
        let packets = rogue.packets();
        assert_eq!(packets.len(), 1);
        assert_eq!(
            (packets[0].opcode(), packets[0].bytes.len()),
            (ACK, 12 + 4 + 4)
        );
    }
}

/// Trap 37: more READs at once than were agreed are an invalid request, 0x61.
#[test]
fn too_many_reads_are_refused() {
    let mut rogue = Rogue::with(|setup| {
        setup.max_dest_rd_atomic = 1;
        setup.slots = 1;
    });
    let opcode = Opcode::RC_RDMA_READ_REQUEST;
    let ext = named(opcode, rogue.end.mr.addr, rogue.end.mr.rkey, 3000);
    let first = rogue.bytes(rogue.bth(opcode, 0), ext, &[]);
    let second = rogue.bytes(rogue.bth(opcode, 3), ext, &[]);
    let inject = |rogue: &Rogue, bytes| {
        let meta = rogue.meta;
        rogue
            .world
            .net()
            .inject(roce_engine::sim::Datagram { meta, bytes });
    };
    inject(&rogue, first);
    inject(&rogue, second);
    rogue.settle();
    let (opcode, psn, syndrome) = rogue.replies().pop().expect("an answer");
    assert_eq!((opcode, psn, syndrome), (ACK, 203, Some(0x61)));
    rogue.expect_state(QpState::Err);
    let mut rogue = Rogue::with(|setup| setup.max_dest_rd_atomic = 0);
    rogue.request(Opcode::RC_RDMA_READ_REQUEST, 0, ext, &[]);
    expect_refused(&mut rogue, 0x61);
}

/// A message longer than its receive fails on both sides: 0x61 to the sender, a length error here.
#[test]
fn a_message_longer_than_its_receive_fails_on_both_sides() {
    let mut pair = Pair::new();
    pair.recv(1, 7, (0, 1500));
    pair.recv(1, 8, (4096, 100));
    pair.post(0, 1, SendOp::Send, (0, 1501));
    pair.run();
    pair.expect_sent(0, &[(1, Status::RemInvReqErr)]);
    pair.expect_received(1, &[(7, Status::LocLenErr), (8, Status::WrFlushErr)]);
    pair.ends[1].expect_untouched_outside((0, 1500));
}

/// SEND with invalidate: the key is dead afterwards, and the receiver is told which.
#[test]
fn an_invalidated_key_is_dead() {
    let mut pair = Pair::new();
    pair.recv(1, 7, (0, 64));
    let write = pair.write_to(0, 0);
    let rkey = pair.ends[1].mr.rkey;
    let region = roce_engine::verbs::Region::zeroed(64, 8).expect("memory");
    let pd = pair.ends[1].pd;
    let rights = roce_tests::rc::all_rights();
    let spare = pair
        .world
        .device(1)
        .register(pd, &region, rights)
        .expect("a registration");
    pair.post(0, 1, SendOp::SendInv(spare.rkey), (0, 10));
    pair.run();
    assert_eq!(pair.received(1)[0].invalidated, Some(spare.rkey));
    let dead = SendOp::Write {
        addr: spare.addr,
        rkey: spare.rkey,
    };
    pair.post(0, 2, write, (0, 8));
    pair.post(0, 3, dead, (0, 8));
    pair.run();
    pair.expect_sent(
        0,
        &[
            (1, Status::Success),
            (2, Status::Success),
            (3, Status::RemAccessErr),
        ],
    );
    assert_ne!(rkey, spare.rkey);
}

/// What can't be posted is refused by name, and nothing is sent for it.
#[test]
fn requests_that_can_not_be_posted_are_refused() {
    let mut pair = Pair::with(|setup| setup.depth = 2);
    let add = pair.add_to(0, 0, 1);
    let refused = pair.try_post(0, 1, add, (0, 4), SendFlags::SIGNALED);
    assert_eq!(refused, Err(PostError::AtomicLength));
    let write = pair.write_to(0, 0);
    for id in 0..2 {
        pair.post(0, id, write, (0, 8));
    }
    let refused = pair.try_post(0, 9, write, (0, 8), SendFlags::SIGNALED);
    assert_eq!(refused, Err(PostError::QueueFull { posted: 0 }));
    pair.run();
    pair.expect_sent(0, &[(0, Status::Success), (1, Status::Success)]);
}

/// The extended headers that an opcode has, on the device's memory.
fn extended(rogue: &Rogue, opcode: Opcode, length: u32) -> Ext {
    named(opcode, rogue.end.mr.addr, rogue.end.mr.rkey, length)
}

/// The request was refused with this syndrome and had no effect.
fn expect_refused(rogue: &mut Rogue, syndrome: u8) {
    rogue.expect_replies(&[(ACK, Rogue::EXPECTED, Some(syndrome))]);
    rogue.expect_state(QpState::Err);
    rogue.end.expect_untouched_outside((0, 0));
}

const fn payload(opcode: Opcode) -> &'static [u8] {
    match opcode {
        Opcode::RC_RDMA_READ_REQUEST
        | Opcode::RC_FETCH_ADD
        | Opcode::RC_CMP_SWAP
        | Opcode::RC_FLUSH => &[],
        _ => &[5; 8],
    }
}
