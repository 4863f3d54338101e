//! What a turn sends: who comes first, how much of it, and what it takes along.

use core::time::Duration;

use roce_engine::sim::{Action, Rule};
use roce_engine::verbs::{QKey, SendOp, Service, Status};
use roce_tests::lan::{Lan, Port};
use roce_wire::Opcode;

const KEY: QKey = QKey(7);

/// A queue pair with many datagrams lets the next one have its turn after a quantum.
#[test]
fn datagram_queue_pairs_take_turns() {
    let mut lan = Lan::with(2, |setup| setup.engine.quantum = 4);
    let [a, b, peer] = [0, 0, 1].map(|host| lan.datagram_qp(host, KEY));
    let ah = lan.ah(0, 1);
    let op = SendOp::Datagram {
        ah,
        qpn: peer.qpn,
        qkey: KEY,
        imm: None,
    };
    for (id, port) in [(0, a), (1, b)] {
        for _ in 0..10 {
            lan.post(port, id, op, (0, 8));
        }
    }
    lan.run();
    let from = |seen: &roce_tests::pair::Seen| seen.ext.deth.expect("a datagram").src_qpn;
    let order: Vec<_> = lan.packets(0).iter().map(from).collect();
    let turns: Vec<_> = order
        .chunk_by(|a, b| a == b)
        .map(|turn| (turn[0], turn.len()))
        .collect();
    let (a, b) = (a.qpn, b.qpn);
    assert_eq!(turns, [(a, 4), (b, 4), (a, 4), (b, 4), (a, 2), (b, 2)]);
}

/// The bytes of datagrams are counted as those of all other messages: data only, without headers.
#[test]
fn bytes_of_datagrams_are_counted() {
    let mut lan = Lan::new(2);
    let [a, b] = [0, 1].map(|host| lan.datagram_qp(host, KEY));
    let ah = lan.ah(0, 1);
    let op = SendOp::Datagram {
        ah,
        qpn: b.qpn,
        qkey: KEY,
        imm: Some([1, 2, 3, 4]),
    };
    for (id, len, sum) in [(1, 0, 0), (2, 100, 100), (3, 33, 133)] {
        lan.post(a, id, op, (0, len));
        lan.run();
        assert_eq!(lan.counter(0, "sent_payload_bytes"), sum);
        assert_eq!(lan.counter(0, "sent_pkts"), id);
    }
    let [c, d] = lan.connected(Service::Uc);
    lan.recv(d, 7, (0, 4096));
    lan.post(c, 4, SendOp::Send, (0, 1500));
    lan.run();
    assert_eq!(lan.counter(0, "sent_payload_bytes"), 1633);
}

/// An acknowledgement that may wait a turn doesn't when a request leaves in the same turn anyway: both
/// share a system call.
#[test]
fn a_request_takes_the_acknowledgement_along() {
    let mut lan = Lan::new(2);
    let [a, b] = [0, 1].map(|host| lan.qp(host, Service::Rc));
    lan.connect_with(a, b, |wish| wish.max_rd_atomic = 1);
    let read = lan.read_from(0, 0);
    lan.post(b, 1, read, (8192, 8));
    lan.post(b, 2, read, (8200, 8));
    while !lan.world.device(0).link().has_arrivals() {
        assert!(lan.world.step(), "the first READ is on its way");
    }
    // The WRITE leaves in the turn that answers the READ: both arrive at once, and the answer lets the
    // second READ go.
    let write = lan.write_to(1, 0);
    lan.post(a, 3, write, (0, 8));
    assert!(lan.world.step());
    let before = lan.packets(1).len();
    while lan.packets(1).len() == before {
        assert!(lan.world.step(), "the answers are on their way");
    }
    let sent: Vec<_> = lan.packets(1)[before..]
        .iter()
        .map(|packet| packet.opcode())
        .collect();
    assert_eq!(sent, [Opcode::RC_RDMA_READ_REQUEST, Opcode::RC_ACKNOWLEDGE]);
    lan.run();
    lan.expect_sent(a, &[(3, Status::Success)]);
    lan.expect_sent(b, &[(1, Status::Success), (2, Status::Success)]);
}

/// All queue pairs to one peer together begin with twice what one of them may have in flight; each that
/// has nothing in flight may send one packet more, or it would never be woken.
#[test]
fn the_window_of_a_peer_begins_at_two_queue_pairs() {
    let mut lan = Lan::with(2, |setup| setup.engine.window_start = 8);
    let mute = Rule::new(Action::Drop, |packet| {
        packet.bth.opcode == Opcode::RC_ACKNOWLEDGE
    });
    lan.rule(mute);
    let write = lan.write_to(1, 0);
    let ends: Vec<[Port; 2]> = (0..4)
        .map(|_| {
            let ends = [0, 1].map(|host| lan.qp(host, Service::Rc));
            lan.connect(ends[0], ends[1]);
            ends
        })
        .collect();
    for [a, _] in &ends {
        lan.post(*a, 1, write, (0, 20 * 1024));
    }
    // No acknowledgement comes, and the timeout of 4.2 ms is far.
    lan.run_for(Duration::from_millis(1));
    let to = |port: Port| {
        let packets = lan.packets(0);
        packets
            .iter()
            .filter(|packet| packet.bth.dest_qpn == port.qpn)
            .count()
    };
    let sent: Vec<usize> = ends.iter().map(|[_, b]| to(*b)).collect();
    assert_eq!(sent, [8, 8, 1, 1]);
}
