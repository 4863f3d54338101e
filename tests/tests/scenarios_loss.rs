//! What two devices do when the network loses, repeats, delays or cannot take a packet.
//!
//! "Bug N" and "trap N" are explained in `docs/scenarios.md`.

use core::time::Duration;

use roce_engine::sim::{Action, Fate, PortId, Rule};
use roce_engine::verbs::{Mtu, Psn, QpState, SendOp, Status};
use roce_tests::pair::Pair;
use roce_wire::{Opcode, Packet};

const CLIENT: PortId = PortId(0);
const SERVER: PortId = PortId(1);

/// Trap 27: a lost packet in the middle of a message: one NAK, and resending starts there, with the
/// same cut.
#[test]
fn a_lost_packet_is_resent_from_where_it_was() {
    let mut pair = Pair::new();
    pair.rule(lost(CLIENT, Opcode::RC_RDMA_WRITE_MIDDLE).after(3).once());
    let write = pair.write_to(0, 500);
    pair.post(0, 1, write, (0, 10_000));
    pair.run();
    pair.expect_sent(0, &[(1, Status::Success)]);
    let again: Vec<u32> = pair
        .packets(0)
        .iter()
        .filter(|packet| packet.again)
        .map(|packet| packet.psn())
        .collect();
    assert_eq!(again, [104, 105, 106, 107, 108, 109]);
    let naks = pair
        .packets(1)
        .iter()
        .filter(|packet| packet.syndrome() == Some(0x60))
        .count();
    assert_eq!(naks, 1);
    expect_written(&pair, 500, 10_000);
    assert_eq!(
        pair.counter(0, "local_ack_timeout_err"),
        0,
        "no timeout was needed"
    );
}

/// A lost last packet has nothing behind it that shows the gap: the timeout resends it alone.
#[test]
fn a_lost_tail_is_resent_after_the_timeout() {
    let mut pair = Pair::new();
    pair.rule(lost(CLIENT, Opcode::RC_RDMA_WRITE_LAST).once());
    let write = pair.write_to(0, 0);
    pair.post(0, 1, write, (0, 10_000));
    pair.run();
    pair.expect_sent(0, &[(1, Status::Success)]);
    expect_written(&pair, 0, 10_000);
    assert_eq!(pair.counter(0, "local_ack_timeout_err"), 1);
}

/// Traps 36 and 47 of exactly-once: a lost ACK of a SEND makes a duplicate, which is acknowledged and
/// not delivered twice.
#[test]
fn a_lost_acknowledgement_delivers_a_send_once() {
    let mut pair = Pair::new();
    pair.recv(1, 1, (0, 4096));
    pair.recv(1, 2, (4096, 4096));
    pair.rule(lost(SERVER, Opcode::RC_ACKNOWLEDGE).times(3));
    pair.post(0, 1, SendOp::Send, (0, 3000));
    pair.run();
    pair.expect_sent(0, &[(1, Status::Success)]);
    pair.expect_received(1, &[(1, Status::Success)]);
    assert!(pair.counter(1, "duplicate_request") >= 3);
    pair.ends[1].expect_untouched_outside((0, 3000));
}

/// Bug 10: a lost answer of an atomic is replayed; the atomic is executed once and returns what it
/// found.
#[test]
fn a_lost_atomic_answer_is_replayed() {
    let mut pair = Pair::new();
    pair.ends[1].region.write(64, &1000_u64.to_ne_bytes());
    pair.rule(lost(SERVER, Opcode::RC_ATOMIC_ACKNOWLEDGE).times(2));
    for id in 0..3 {
        let add = pair.add_to(0, 64, 5);
        pair.post(0, id, add, (id as usize * 8, 8));
    }
    pair.run();
    assert_eq!(pair.sent(0).len(), 3);
    let found: Vec<u64> = (0..3).map(|id| pair.ends[0].word(id * 8)).collect();
    assert_eq!(found, [1000, 1005, 1010]);
    assert_eq!(pair.ends[1].word(64), 1015);
}

/// Trap 27: whatever packet of a READ is lost, the request or any of the answer, the READ completes
/// with all its bytes and asks again for no more than is missing.
#[test]
fn a_read_survives_the_loss_of_any_packet() {
    for lost_packet in 0..11 {
        let mut pair = Pair::new();
        if lost_packet == 0 {
            pair.rule(lost(CLIENT, Opcode::RC_RDMA_READ_REQUEST).once());
        } else {
            let answers = Rule::new(Action::Drop, |_| true).from_port(SERVER);
            pair.rule(answers.after(lost_packet - 1).once());
        }
        let read = pair.read_from(0, 1000);
        pair.post(0, 1, read, (0, 10_000));
        pair.run();
        pair.expect_sent(0, &[(1, Status::Success)]);
        assert_eq!(
            pair.ends[0].bytes(0, 10_000),
            pair.ends[1].original(1000, 10_000)
        );
        pair.ends[0].expect_untouched_outside((0, 10_000));
        let requests = pair.packets(0);
        let last = requests.last().expect("a request");
        let missing = lost_packet.saturating_sub(1);
        assert_eq!(last.psn(), 100 + missing, "packet {lost_packet}");
        let reth = last.ext.reth.expect("a READ has one");
        assert_eq!(reth.length, 10_000 - missing * 1024);
    }
}

/// Bug 15 over a network: the answer of a READ between two WRITEs is lost, and the ACK of the second
/// arrives first.
#[test]
fn a_read_between_writes_survives_the_loss_of_its_answer() {
    let mut pair = Pair::new();
    pair.rule(lost(SERVER, Opcode::RC_RDMA_READ_RESPONSE_ONLY).once());
    let (before, after) = (pair.write_to(0, 0), pair.write_to(0, 8));
    let read = pair.read_from(0, 64);
    pair.post(0, 1, before, (0, 8));
    pair.post(0, 2, read, (1024, 100));
    pair.post(0, 3, after, (8, 8));
    pair.run();
    let done = [1, 2, 3].map(|id| (id, Status::Success));
    pair.expect_sent(0, &done);
    assert_eq!(
        pair.ends[0].bytes(1024, 100),
        pair.ends[1].original(64, 100)
    );
    expect_written(&pair, 0, 16);
}

/// A repeated or late packet of any kind changes nothing.
#[test]
fn repeated_and_late_packets_change_nothing() {
    for late in [false, true] {
        for port in [CLIENT, SERVER] {
            let action = match late {
                true => Action::Delay(Duration::from_micros(50)),
                false => Action::Duplicate,
            };
            let mut pair = Pair::new();
            pair.rule(Rule::new(action, |packet| packet.bth.psn.value() % 3 == 1).from_port(port));
            pair.recv(1, 7, (32_768, 4096));
            let (write, read) = (pair.write_to(0, 0), pair.read_from(0, 65_536));
            let add = pair.add_to(0, 40_000, 3);
            pair.post(0, 1, write, (0, 10_000));
            pair.post(0, 2, SendOp::Send, (0, 4096));
            pair.post(0, 3, add, (20_000, 8));
            pair.post(0, 4, read, (30_000, 10_000));
            pair.run();
            let done = [1, 2, 3, 4].map(|id| (id, Status::Success));
            pair.expect_sent(0, &done);
            pair.expect_received(1, &[(7, Status::Success)]);
            expect_written(&pair, 0, 10_000);
            let word = u64::from_ne_bytes(pair.ends[1].original(40_000, 8).try_into().unwrap());
            assert_eq!(pair.ends[1].word(40_000), word + 3);
            assert_eq!(pair.ends[0].word(20_000), word);
            assert_eq!(
                pair.ends[0].bytes(30_000, 10_000),
                pair.ends[1].original(65_536, 10_000)
            );
        }
    }
}

/// Trap 36: a request that arrives again long after its answer, when later ones are done, disturbs
/// nothing, even if it is the oldest that the replay table has.
#[test]
fn a_request_held_back_for_long_disturbs_nothing() {
    let mut pair = Pair::with(|setup| (setup.max_rd_atomic, setup.max_dest_rd_atomic) = (1, 1));
    pair.rule(
        Rule::new(Action::Hold, |packet| {
            packet.bth.opcode == Opcode::RC_RDMA_READ_REQUEST
        })
        .once(),
    );
    let read = pair.read_from(0, 0);
    pair.post(0, 1, read, (65_536, 10_000));
    pair.run();
    pair.expect_sent(0, &[(1, Status::Success)]);
    assert_eq!(pair.world.net().release(), 1);
    pair.post(0, 2, read, (65_536, 20_000));
    pair.run();
    pair.expect_sent(0, &[(2, Status::Success)]);
    assert_eq!(
        pair.ends[0].bytes(65_536, 20_000),
        pair.ends[1].original(0, 20_000)
    );
}

/// Trap 15: PSNs wrap in the middle of messages, at 2^24 and at 2^23, with losses around the wrap.
#[test]
fn sequence_numbers_wrap_in_the_middle_of_a_message() {
    for first in [0x00ff_fffa, 0x007f_fffa] {
        for lost_packet in 0..20 {
            let mut pair = Pair::with(|setup| setup.psn = [Psn::new(first); 2]);
            pair.rule(Rule::new(Action::Drop, |_| true).after(lost_packet).once());
            let (write, read) = (pair.write_to(0, 0), pair.read_from(0, 65_536));
            pair.post(0, 1, write, (0, 5000));
            pair.post(0, 2, read, (30_000, 8000));
            pair.run();
            pair.expect_sent(0, &[(1, Status::Success), (2, Status::Success)]);
            expect_written(&pair, 0, 5000);
            assert_eq!(
                pair.ends[0].bytes(30_000, 8000),
                pair.ends[1].original(65_536, 8000)
            );
            let last = pair.packets(1).pop().expect("an answer");
            assert!(last.psn() < 16 || last.psn() > 0x7f_fff0 && last.psn() < 0x80_0010);
        }
    }
}

/// Bug 21: the link has no room in the middle of a message, of an answer and before an ACK: nothing is
/// lost, nothing is sent twice, everything is in order.
#[test]
fn a_full_link_in_the_middle_of_a_message_loses_nothing() {
    for slots in [1, 2, 3] {
        let mut pair = Pair::with(|setup| setup.slots = slots);
        let (write, read) = (pair.write_to(0, 0), pair.read_from(0, 65_536));
        pair.post(0, 1, write, (0, 10_000));
        pair.post(0, 2, read, (30_000, 10_000));
        pair.run();
        pair.expect_sent(0, &[(1, Status::Success), (2, Status::Success)]);
        expect_written(&pair, 0, 10_000);
        assert_eq!(
            pair.ends[0].bytes(30_000, 10_000),
            pair.ends[1].original(65_536, 10_000)
        );
        assert!(pair.packets(0).iter().all(|packet| !packet.again));
        let psns: Vec<u32> = pair.packets(0).iter().map(|packet| packet.psn()).collect();
        assert!(psns.is_sorted_by(|a, b| a < b), "{psns:?}");
    }
}

/// Bug 21: a link that takes nothing for longer than the timeout is not the peer's fault: no retry is
/// spent on what never left.
#[test]
fn a_stopped_link_spends_no_retries() {
    let mut pair = Pair::with(|setup| setup.retry_cnt = 0);
    pair.world.device(0).link_mut().set_slots(0);
    let write = pair.write_to(0, 0);
    pair.post(0, 1, write, (0, 5000));
    pair.run_for(Duration::from_millis(1));
    pair.world.device(0).link_mut().set_slots(2);
    pair.run();
    pair.expect_sent(0, &[(1, Status::Success)]);
    expect_written(&pair, 0, 5000);
}

/// A dead path: the requester reports it by name after its retries, flushes what is behind, and the
/// responder's memory and QP are as they were.
#[test]
fn a_dead_path_ends_with_retry_exceeded() {
    let mut pair = Pair::new();
    pair.rule(Rule::new(Action::Drop, |_| true).from_port(CLIENT));
    let write = pair.write_to(0, 0);
    pair.post(0, 1, write, (0, 5000));
    pair.post(0, 2, write, (0, 5000));
    pair.recv(0, 9, (0, 10));
    pair.run();
    pair.expect_sent(0, &[(1, Status::RetryExcErr), (2, Status::WrFlushErr)]);
    pair.expect_received(0, &[(9, Status::WrFlushErr)]);
    pair.expect_state(0, QpState::Err);
    pair.expect_state(1, QpState::Rts);
    pair.ends[1].expect_untouched_outside((0, 0));
}

/// Traps 30 and 44: a receiver that posts late: RNR NAKs, no packet before its delay is over, then
/// every message once and in order.
#[test]
fn a_slow_receiver_gets_every_message_once() {
    let mut pair = Pair::with(|setup| setup.min_rnr_timer = 10);
    for id in 0..5 {
        pair.post(0, id, SendOp::Send, (id as usize * 100, 100));
    }
    for id in 0..5 {
        pair.run_for(Duration::from_micros(700));
        pair.recv(1, id, (1000 + id as usize * 100, 100));
    }
    pair.run();
    let all: Vec<(u64, Status)> = (0..5).map(|id| (id, Status::Success)).collect();
    pair.expect_sent(0, &all);
    pair.expect_received(1, &all);
    assert_eq!(pair.ends[1].bytes(1000, 500), pair.ends[0].original(0, 500));
    let naks: Vec<u64> = pair
        .packets(1)
        .iter()
        .filter(|packet| packet.syndrome() == Some(0x20 | 10))
        .map(|packet| packet.at.as_nanos())
        .collect();
    assert!(naks.len() >= 5);
    for nak in naks {
        let received = nak + 2000;
        let early = pair.packets(0);
        let mut early = early.iter().map(|packet| packet.at.as_nanos());
        assert!(
            !early.any(|at| at > received && at < received + 320_000),
            "320 us are asked for"
        );
    }
}

/// Corruption anywhere is a loss: whatever is hit, everything arrives once, unharmed.
#[test]
fn corrupted_packets_are_lost_packets() {
    for port in [CLIENT, SERVER] {
        for hit in 0..8 {
            let mut pair = Pair::new();
            let flip = Action::Rewrite(|bytes| {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 0x10;
            });
            pair.rule(Rule::new(flip, |_| true).from_port(port).after(hit).once());
            let (write, read) = (pair.write_to(0, 0), pair.read_from(0, 65_536));
            pair.post(0, 1, write, (0, 5000));
            pair.post(0, 2, read, (30_000, 5000));
            pair.run();
            pair.expect_sent(0, &[(1, Status::Success), (2, Status::Success)]);
            expect_written(&pair, 0, 5000);
            assert_eq!(
                pair.ends[0].bytes(30_000, 5000),
                pair.ends[1].original(65_536, 5000)
            );
            let hits = [0, 1].map(|side| {
                let rewritten = |packet: &&roce_tests::pair::Seen| packet.fate == Fate::Rewritten;
                pair.packets(side).iter().filter(rewritten).count() as u64
            });
            assert_eq!(pair.counter(1, "drop_bad_icrc"), hits[0]);
            assert_eq!(pair.counter(0, "drop_bad_icrc"), hits[1]);
        }
    }
}

/// Every path MTU carries every kind of request whole, over IPv4 and IPv6.
#[test]
fn every_path_mtu_carries_every_request() {
    for ipv6 in [false, true] {
        for mtu in Mtu::ALL {
            let mut pair = Pair::with(|setup| (setup.ipv6, setup.mtu) = (ipv6, [mtu; 2]));
            pair.recv(1, 7, (100_000, 20_000));
            let (write, read) = (pair.write_to(0, 0), pair.read_from(0, 150_000));
            pair.post(0, 1, write, (0, 10_001));
            pair.post(0, 2, SendOp::Send, (1, 9_999));
            pair.post(0, 3, read, (30_000, 10_003));
            pair.run();
            let done = [1, 2, 3].map(|id| (id, Status::Success));
            pair.expect_sent(0, &done);
            expect_written(&pair, 0, 10_001);
            assert_eq!(
                pair.ends[1].bytes(100_000, 9_999),
                pair.ends[0].original(1, 9_999)
            );
            assert_eq!(
                pair.ends[0].bytes(30_000, 10_003),
                pair.ends[1].original(150_000, 10_003)
            );
            let longest = pair
                .packets(0)
                .iter()
                .map(|packet| packet.payload.len())
                .max();
            assert_eq!(longest, Some(mtu.bytes()));
        }
    }
}

fn lost(from: PortId, opcode: Opcode) -> Rule {
    Rule::new(Action::Drop, move |packet: &Packet<'_>| {
        packet.bth.opcode == opcode
    })
    .from_port(from)
}

/// The first `len` bytes of the client are at `offset` of the server.
fn expect_written(pair: &Pair, offset: usize, len: usize) {
    assert!(
        pair.ends[1].bytes(offset, len) == pair.ends[0].original(0, len),
        "what was written"
    );
}
