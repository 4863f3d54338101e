//! What a responder answers, how often, and with which numbers; mostly to a peer played by hand.
//!
//! "Bug N" and "trap N" are explained in `docs/scenarios.md`.

use roce_engine::sim::Datagram;
use roce_engine::verbs::{QpState, RKey, Status};
use roce_tests::pair::{Pair, Rogue, named};
use roce_wire::{Ext, Opcode};

const ACK: Opcode = Opcode::RC_ACKNOWLEDGE;

/// Trap 35: one NAK 0x60 with the expected PSN for a gap, silence for what follows, duplicates are
/// still answered, and the expected packet ends the silence.
#[test]
fn one_gap_gets_one_nak() {
    let mut rogue = Rogue::new();
    let write = |rogue: &Rogue| {
        named(
            Opcode::RC_RDMA_WRITE_ONLY,
            rogue.end.mr.addr,
            rogue.end.mr.rkey,
            4,
        )
    };
    let ext = write(&rogue);
    rogue.request(Opcode::RC_RDMA_WRITE_ONLY, 0, ext, &[1; 4]);
    for after in [2, 3, 4] {
        rogue.request(Opcode::RC_RDMA_WRITE_ONLY, after, ext, &[2; 4]);
    }
    rogue.expect_replies(&[(ACK, 200, Some(0x1f)), (ACK, 201, Some(0x60))]);
    rogue.request(Opcode::RC_RDMA_WRITE_ONLY, 0, ext, &[3; 4]);
    rogue.expect_replies(&[(ACK, 200, Some(0x1f))]);
    assert_eq!(
        rogue.end.bytes(0, 4),
        [1; 4],
        "neither what is ahead nor the duplicate is executed"
    );
    rogue.request(Opcode::RC_RDMA_WRITE_ONLY, 1, ext, &[4; 4]);
    rogue.request(Opcode::RC_RDMA_WRITE_ONLY, 5, ext, &[5; 4]);
    rogue.expect_replies(&[(ACK, 201, Some(0x1f)), (ACK, 202, Some(0x60))]);
    rogue.expect_state(QpState::Rts);
}

/// Trap 36: a duplicate SEND is acknowledged with the newest PSN and not delivered again.
#[test]
fn a_duplicate_send_is_acknowledged_and_not_delivered() {
    let mut rogue = Rogue::new();
    rogue.recv(1, (0, 64));
    rogue.recv(2, (64, 64));
    rogue.request(Opcode::RC_SEND_ONLY, 0, Ext::NONE, b"one");
    rogue.request(Opcode::RC_SEND_ONLY, 1, Ext::NONE, b"two");
    rogue.replies();
    rogue.request(Opcode::RC_SEND_ONLY, 0, Ext::NONE, b"bad");
    rogue.expect_replies(&[(ACK, 201, Some(0x1f))]);
    rogue.expect_received(&[(1, Status::Success), (2, Status::Success)]);
    assert_eq!(
        (rogue.end.bytes(0, 3), rogue.end.bytes(64, 3)),
        (b"one".to_vec(), b"two".to_vec())
    );
}

/// Trap 36: a duplicate READ is read and answered again, whole or from where the requester asks, and
/// the first packet of a part is FIRST or ONLY.
#[test]
fn a_duplicate_read_is_answered_again_from_where_it_asks() {
    use Opcode as O;
    let mut rogue = Rogue::new();
    let read = |rogue: &Rogue, skip: u32| {
        let addr = rogue.end.mr.addr + u64::from(skip);
        named(
            O::RC_RDMA_READ_REQUEST,
            addr,
            rogue.end.mr.rkey,
            2500 - skip,
        )
    };
    let ext = read(&rogue, 0);
    rogue.request(O::RC_RDMA_READ_REQUEST, 0, ext, &[]);
    let whole = [
        (O::RC_RDMA_READ_RESPONSE_FIRST, 200, Some(0x1f)),
        (O::RC_RDMA_READ_RESPONSE_MIDDLE, 201, None),
        (O::RC_RDMA_READ_RESPONSE_LAST, 202, Some(0x1f)),
    ];
    rogue.expect_replies(&whole);
    rogue.end.region.write(2048, &[0xee; 452]);
    rogue.request(O::RC_RDMA_READ_REQUEST, 0, ext, &[]);
    rogue.expect_replies(&whole);
    assert_eq!(
        rogue.packets()[5].payload,
        [0xee; 452],
        "memory is read again"
    );
    let ext = read(&rogue, 1024);
    rogue.request(O::RC_RDMA_READ_REQUEST, 1, ext, &[]);
    rogue.expect_replies(&[
        (O::RC_RDMA_READ_RESPONSE_FIRST, 201, Some(0x1f)),
        (O::RC_RDMA_READ_RESPONSE_LAST, 202, Some(0x1f)),
    ]);
    let ext = read(&rogue, 2048);
    rogue.request(O::RC_RDMA_READ_REQUEST, 2, ext, &[]);
    rogue.expect_replies(&[(O::RC_RDMA_READ_RESPONSE_ONLY, 202, Some(0x1f))]);
}

/// Trap 36: a duplicate READ that asks for other memory than the one it repeats gets no answer.
#[test]
fn a_duplicate_read_of_other_memory_is_dropped() {
    let mut rogue = Rogue::new();
    let opcode = Opcode::RC_RDMA_READ_REQUEST;
    let (addr, rkey) = (rogue.end.mr.addr, rogue.end.mr.rkey);
    rogue.request(opcode, 0, named(opcode, addr, rkey, 8), &[]);
    assert_eq!(rogue.replies().len(), 1);
    for (addr, rkey, len) in [
        (addr + 8, rkey, 8),
        (addr, RKey(rkey.0 ^ 1), 8),
        (addr, rkey, 16),
    ] {
        rogue.request(opcode, 0, named(opcode, addr, rkey, len), &[]);
        rogue.expect_replies(&[]);
    }
    assert_eq!(rogue.counter("drop_stale_replay"), 3);
    rogue.expect_state(QpState::Rts);
}

/// Trap 36: a duplicate READ that asks for more than what is left of the one it repeats gets no answer,
/// even if that memory is readable.
#[test]
fn a_duplicate_read_that_asks_for_more_is_dropped() {
    let mut rogue = Rogue::new();
    let read = Opcode::RC_RDMA_READ_REQUEST;
    let (addr, rkey) = (rogue.end.mr.addr, rogue.end.mr.rkey);
    rogue.request(read, 0, named(read, addr, rkey, 2048), &[]);
    assert_eq!(rogue.replies().len(), 2);
    for (after, offset, length) in [(0, 0, 2049), (1, 1024, 1025), (1, 1024, 2048)] {
        let ext = named(read, addr + offset, rkey, length);
        rogue.request(read, after, ext, &[]);
        assert_eq!(rogue.replies(), [], "{length} bytes from {offset}");
    }
    rogue.request(read, 1, named(read, addr + 1024, rkey, 1024), &[]);
    assert_eq!(rogue.replies().len(), 1, "what is left is answered");
}

/// Bug 10, trap 36: a duplicate atomic is answered with the value of its one execution.
#[test]
fn a_duplicate_atomic_is_answered_from_the_table() {
    let mut rogue = Rogue::new();
    rogue.end.region.write(0, &40_u64.to_ne_bytes());
    let ext = named(
        Opcode::RC_FETCH_ADD,
        rogue.end.mr.addr,
        rogue.end.mr.rkey,
        8,
    );
    for _ in 0..3 {
        rogue.request(Opcode::RC_FETCH_ADD, 0, ext, &[]);
    }
    rogue.request(Opcode::RC_FETCH_ADD, 1, ext, &[]);
    let values: Vec<u64> = rogue
        .packets()
        .iter()
        .filter_map(|packet| packet.ext.atomic_ack)
        .map(|ack| ack.0)
        .collect();
    assert_eq!(values, [40, 40, 40, 42]);
    assert_eq!(rogue.end.word(0), 44);
}

/// Traps 36 and 37: the table keeps max_dest_rd_atomic answers; what is older is dropped in silence.
#[test]
fn the_replay_table_keeps_the_newest() {
    let mut rogue = Rogue::with(|setup| setup.max_dest_rd_atomic = 2);
    let ext = named(
        Opcode::RC_FETCH_ADD,
        rogue.end.mr.addr,
        rogue.end.mr.rkey,
        8,
    );
    for after in 0..3 {
        rogue.request(Opcode::RC_FETCH_ADD, after, ext, &[]);
    }
    assert_eq!(rogue.replies().len(), 3);
    for (after, answered) in [(0, false), (1, true), (2, true)] {
        rogue.request(Opcode::RC_FETCH_ADD, after, ext, &[]);
        assert_eq!(
            rogue.replies().len(),
            usize::from(answered),
            "request {after}"
        );
    }
    assert_eq!(rogue.counter("drop_stale_replay"), 1);
}

/// Trap 38: the MSN counts messages, not packets.
#[test]
fn the_message_sequence_number_counts_messages() {
    let mut rogue = Rogue::new();
    let (addr, rkey) = (rogue.end.mr.addr, rogue.end.mr.rkey);
    let first = named(Opcode::RC_RDMA_WRITE_FIRST, addr, rkey, 2052);
    rogue.request(Opcode::RC_RDMA_WRITE_FIRST, 0, first, &[1; 1024]);
    rogue.request(Opcode::RC_RDMA_WRITE_MIDDLE, 1, Ext::NONE, &[1; 1024]);
    rogue.request(Opcode::RC_RDMA_WRITE_LAST, 2, Ext::NONE, &[1; 4]);
    let add = named(Opcode::RC_FETCH_ADD, addr, rkey, 8);
    rogue.request(Opcode::RC_FETCH_ADD, 3, add, &[]);
    let read = named(Opcode::RC_RDMA_READ_REQUEST, addr, rkey, 8);
    rogue.request(Opcode::RC_RDMA_READ_REQUEST, 4, read, &[]);
    let msn: Vec<u32> = rogue
        .packets()
        .iter()
        .filter_map(|packet| packet.ext.aeth)
        .map(|aeth| aeth.msn.value())
        .collect();
    assert_eq!(msn, [0, 0, 1, 2, 3]);
}

/// Trap 39: an ACK never limits the requester: its credit code is 0x1f.
#[test]
fn acknowledgements_grant_unlimited_credits() {
    let mut rogue = Rogue::new();
    rogue.recv(1, (0, 64));
    rogue.request(Opcode::RC_SEND_ONLY, 0, Ext::NONE, b"hello");
    rogue.expect_replies(&[(ACK, 200, Some(0x1f))]);
}

/// Trap 44: RNR NAK for a SEND or WRITE with immediate data without a receive, at that packet's PSN;
/// silence for what follows; the same packet again is accepted when there is one.
#[test]
fn a_missing_receive_is_not_ready_until_it_is_posted() {
    for opcode in [Opcode::RC_SEND_ONLY, Opcode::RC_RDMA_WRITE_ONLY_WITH_IMM] {
        let mut rogue = Rogue::with(|setup| setup.min_rnr_timer = 17);
        let mut ext = extended(&rogue, opcode, 4);
        if opcode == Opcode::RC_RDMA_WRITE_ONLY_WITH_IMM {
            ext.imm = Some([1, 2, 3, 4]);
        }
        rogue.request(opcode, 0, ext, &[9; 4]);
        rogue.expect_replies(&[(ACK, 200, Some(0x20 | 17))]);
        rogue.request(opcode, 1, ext, &[8; 4]);
        rogue.expect_replies(&[]);
        rogue.end.expect_untouched_outside((0, 0));
        rogue.recv(1, (0, 64));
        rogue.request(opcode, 0, ext, &[9; 4]);
        rogue.expect_replies(&[(ACK, 200, Some(0x1f))]);
        rogue.expect_received(&[(1, Status::Success)]);
        assert_eq!(rogue.end.bytes(0, 4), [9; 4]);
    }
}

/// Trap 45: an acknowledgement is owed for a packet that asks for one, and only then.
#[test]
fn acknowledgements_come_when_asked_for() {
    let mut rogue = Rogue::new();
    let ext = extended(&rogue, Opcode::RC_RDMA_WRITE_ONLY, 4);
    for after in 0..3 {
        rogue.packet(rogue.bth(Opcode::RC_RDMA_WRITE_ONLY, after), ext, &[9; 4]);
    }
    rogue.expect_replies(&[]);
    rogue.request(Opcode::RC_RDMA_WRITE_ONLY, 3, ext, &[9; 4]);
    rogue.expect_replies(&[(ACK, 203, Some(0x1f))]);
}

/// An acknowledgement goes no further than the newest packet that asked: rxe's requester relies on its ack timer
/// where it loses a wake-up of its own, and the timer rests when nothing is open.
#[test]
fn an_acknowledgement_names_the_newest_packet_that_asked() {
    let mut rogue = Rogue::new();
    let (addr, rkey) = (rogue.end.mr.addr, rogue.end.mr.rkey);
    let whole = named(Opcode::RC_RDMA_WRITE_ONLY, addr, rkey, 4);
    let first = named(Opcode::RC_RDMA_WRITE_FIRST, addr, rkey, 4096);
    let burst = [
        (Opcode::RC_RDMA_WRITE_ONLY, whole, true, vec![9; 4]),
        (Opcode::RC_RDMA_WRITE_FIRST, first, false, vec![1; 1024]),
        (Opcode::RC_RDMA_WRITE_MIDDLE, Ext::NONE, true, vec![2; 1024]),
        (
            Opcode::RC_RDMA_WRITE_MIDDLE,
            Ext::NONE,
            false,
            vec![3; 1024],
        ),
    ];
    for (after, (opcode, ext, asks, payload)) in (0..).zip(burst) {
        let mut bth = rogue.bth(opcode, after);
        bth.ack_request = asks;
        let bytes = rogue.bytes(bth, ext, &payload);
        let meta = rogue.meta;
        rogue.world.net().inject(Datagram { meta, bytes });
    }
    rogue.settle();
    rogue.expect_replies(&[(ACK, 202, Some(0x1f))]);
    let acks = rogue.packets();
    let msn = acks
        .last()
        .and_then(|ack| ack.ext.aeth)
        .map(|aeth| aeth.msn);
    assert_eq!(msn.map(|msn| msn.value()), Some(1));
    rogue.request(Opcode::RC_RDMA_WRITE_LAST, 4, Ext::NONE, &[4; 1024]);
    rogue.expect_replies(&[(ACK, 204, Some(0x1f))]);
}

/// So does the acknowledgement of a duplicate, unless the duplicate is the newest that asks.
#[test]
fn a_duplicate_is_acknowledged_up_to_what_asked() {
    let mut rogue = Rogue::new();
    let (addr, rkey) = (rogue.end.mr.addr, rogue.end.mr.rkey);
    let whole = named(Opcode::RC_RDMA_WRITE_ONLY, addr, rkey, 4);
    let first = named(Opcode::RC_RDMA_WRITE_FIRST, addr, rkey, 4096);
    rogue.request(Opcode::RC_RDMA_WRITE_ONLY, 0, whole, &[9; 4]);
    rogue.packet(rogue.bth(Opcode::RC_RDMA_WRITE_FIRST, 1), first, &[1; 1024]);
    rogue.packet(
        rogue.bth(Opcode::RC_RDMA_WRITE_MIDDLE, 2),
        Ext::NONE,
        &[2; 1024],
    );
    rogue.expect_replies(&[(ACK, 200, Some(0x1f))]);
    rogue.packet(rogue.bth(Opcode::RC_RDMA_WRITE_FIRST, 1), first, &[1; 1024]);
    rogue.expect_replies(&[(ACK, 200, Some(0x1f))]);
    rogue.request(Opcode::RC_RDMA_WRITE_FIRST, 1, first, &[1; 1024]);
    rogue.expect_replies(&[(ACK, 202, Some(0x1f))]);
}

/// Trap 45: one acknowledgement answers a whole burst, and all of its messages complete.
#[test]
fn one_acknowledgement_covers_a_burst() {
    let mut pair = Pair::new();
    let write = pair.write_to(0, 0);
    for id in 0..50 {
        pair.post(0, id, write, (0, 100));
    }
    pair.run();
    let all: Vec<(u64, Status)> = (0..50).map(|id| (id, Status::Success)).collect();
    pair.expect_sent(0, &all);
    assert!(
        pair.packets(1).len() < 10,
        "{} acknowledgements",
        pair.packets(1).len()
    );
    assert!(pair.counter(1, "acks_coalesced") > 40);
}

/// The extended headers that an opcode has, on the device's memory.
fn extended(rogue: &Rogue, opcode: Opcode, length: u32) -> Ext {
    named(opcode, rogue.end.mr.addr, rogue.end.mr.rkey, length)
}
