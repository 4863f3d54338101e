//! UC: what a lost packet costs, which is its own message and nothing else.

use roce_engine::sim::{Action, PortId, Rule};
use roce_engine::verbs::{Backend, QpState, SendOp, Service, Status};
use roce_tests::lan::{Lan, Port, pattern};
use roce_wire::Opcode;

const IMM: [u8; 4] = [1, 2, 3, 4];

fn lose(lan: &mut Lan, opcode: Opcode) {
    let rule = Rule::new(Action::Drop, move |packet| packet.bth.opcode == opcode);
    lan.rule(rule.from_port(PortId(0)).once());
}

/// A lost FIRST, MIDDLE or LAST drops its SEND and only it; the receive that was begun serves the next
/// message, from its first byte.
#[test]
fn a_lost_packet_drops_its_message_and_the_receive_is_reused() {
    for (lost, dropped) in [
        (Opcode::UC_SEND_FIRST, 2),
        (Opcode::UC_SEND_MIDDLE, 1),
        (Opcode::UC_SEND_LAST, 0),
    ] {
        let mut lan = Lan::new(2);
        let [a, b] = lan.connected(Service::Uc);
        lan.recv(b, 7, (0, 4096));
        lan.recv(b, 8, (4096, 4096));
        lose(&mut lan, lost);
        lan.post(a, 1, SendOp::Send, (0, 3000));
        lan.post(a, 2, SendOp::Send, (100, 2000));
        lan.post(a, 3, SendOp::Send, (200, 10));
        lan.run();
        lan.expect_sent(a, &[1, 2, 3].map(|id| (id, Status::Success)));
        let received = lan.received(b);
        let seen: Vec<_> = received.iter().map(|wc| (wc.wr_id, wc.byte_len)).collect();
        assert_eq!(seen, [(7, 2000), (8, 10)], "{lost}");
        lan.expect_bytes(1, 0, &pattern(0, 100, 2000));
        lan.expect_bytes(1, 4096, &pattern(0, 200, 10));
        assert_eq!(lan.counter(1, "unreliable_gaps"), 1, "{lost}");
        assert_eq!(lan.counter(1, "drop_unreliable"), dropped, "{lost}");
        assert_eq!(lan.packets(1).len(), 0, "nobody is told");
        lan.expect_state(b, QpState::Rts);
    }
}

/// A lost packet of a WRITE leaves what came before it; what follows is not written, and the immediate
/// data of its message is never told.
#[test]
fn a_lost_packet_ends_a_write() {
    for (lost, written) in [
        (Opcode::UC_RDMA_WRITE_FIRST, 0),
        (Opcode::UC_RDMA_WRITE_MIDDLE, 1024),
        (Opcode::UC_RDMA_WRITE_LAST_WITH_IMM, 2048),
    ] {
        let mut lan = Lan::new(2);
        let [a, b] = lan.connected(Service::Uc);
        lan.recv(b, 7, (60_000, 8));
        lose(&mut lan, lost);
        let first = lan.write_imm_to(1, 0, IMM);
        let second = lan.write_imm_to(1, 8192, [9; 4]);
        lan.post(a, 1, first, (0, 3000));
        lan.post(a, 2, second, (0, 1500));
        lan.run();
        let received = lan.received(b);
        assert_eq!(received.len(), 1, "{lost}");
        assert_eq!((received[0].wr_id, received[0].imm), (7, Some([9; 4])));
        lan.expect_untouched_outside(1, &[(0, written), (8192, 1500)]);
        lan.expect_bytes(1, 8192, &pattern(0, 0, 1500));
    }
}

/// A receive that a cut-off SEND had begun is the next one for a WRITE with immediate data too: receives
/// complete in the order in which they were posted.
#[test]
fn a_receive_that_was_begun_goes_to_a_write_with_immediate_data() {
    let mut lan = Lan::new(2);
    let [a, b] = lan.connected(Service::Uc);
    lan.recv(b, 7, (0, 4096));
    lose(&mut lan, Opcode::UC_SEND_LAST);
    let write = lan.write_imm_to(1, 8192, IMM);
    lan.post(a, 1, SendOp::Send, (0, 2000));
    lan.post(a, 2, write, (0, 16));
    lan.run();
    lan.expect_received(b, &[(7, Status::Success)]);
    assert_eq!(lan.counter(1, "drop_no_receive"), 0);
    lan.recv(b, 8, (4096, 4096));
    lan.post(a, 3, SendOp::Send, (0, 2000));
    lan.run();
    lan.expect_received(b, &[(8, Status::Success)]);
}

/// A jump of the PSN, forward or back, counts as a gap; the message that brings it is accepted if it
/// starts there (IBA 9.8.3: the expected PSN follows the received one).
#[test]
fn a_psn_jump_is_followed() {
    let mut lan = Lan::new(2);
    let ends = [0, 1].map(|host| lan.qp(host, Service::Uc));
    // The sender starts half a PSN space away from where it is expected.
    for (port, peer, psns) in [(0, 1, [0x80_0000, 200]), (1, 0, [200, 100])] {
        let remote = roce_tests::rc::address(false, peer);
        let wish = roce_tests::lan::Wish::new(remote, ends[peer].qpn, psns);
        lan.enter(ends[port], &wish);
    }
    let [a, b] = ends;
    lan.recv(b, 7, (0, 4096));
    lan.recv(b, 8, (4096, 4096));
    lan.post(a, 1, SendOp::Send, (0, 3000));
    lan.post(a, 2, SendOp::Send, (0, 3000));
    lan.run();
    lan.expect_received(b, &[(7, Status::Success), (8, Status::Success)]);
    assert_eq!(lan.counter(1, "unreliable_gaps"), 1);
    let expected = lan.world.device(1).query_qp(b.qp).expect("the QP");
    assert_eq!(expected.attr.rq_psn.map(|psn| psn.value()), Some(0x80_0006));
}

/// PSNs wrap at 2^24 inside of a message, without a gap.
#[test]
fn psns_wrap_inside_of_a_message() {
    let mut lan = Lan::new(2);
    let [a, b] = [0, 1].map(|host| lan.qp(host, Service::Uc));
    lan.connect_with(a, b, |wish| wish.psns = [0xff_fffe, 0xff_fffe]);
    lan.recv(b, 7, (0, 8192));
    lan.post(a, 1, SendOp::Send, (0, 5000));
    lan.run();
    lan.expect_received(b, &[(7, Status::Success)]);
    assert_eq!(lan.counter(1, "unreliable_gaps"), 0);
    let psns: Vec<u32> = lan.packets(0).iter().map(|packet| packet.psn()).collect();
    assert_eq!(psns, [0xff_fffe, 0xff_ffff, 0, 1, 2]);
}

/// A duplicate inside a message breaks it; the next message is whole.
#[test]
fn a_duplicated_packet_costs_at_most_its_message() {
    let mut lan = Lan::new(2);
    let [a, b] = lan.connected(Service::Uc);
    lan.recv(b, 7, (0, 8192));
    let twice = Rule::new(Action::Duplicate, |packet| {
        packet.bth.opcode == Opcode::UC_SEND_MIDDLE
    });
    lan.rule(twice.once());
    lan.post(a, 1, SendOp::Send, (0, 3000));
    lan.post(a, 2, SendOp::Send, (500, 3000));
    lan.run();
    lan.expect_received(b, &[(7, Status::Success)]);
    lan.expect_bytes(1, 0, &pattern(0, 500, 3000));
}

/// When the QP goes to the error state, the receive that a message was being written to is flushed
/// first, then those behind it.
#[test]
fn a_receive_that_was_begun_is_flushed_in_its_turn() {
    let mut lan = Lan::new(2);
    let [a, b] = lan.connected(Service::Uc);
    lan.recv(b, 7, (0, 4096));
    lan.recv(b, 8, (4096, 4096));
    lose(&mut lan, Opcode::UC_SEND_LAST);
    lan.post(a, 1, SendOp::Send, (0, 2000));
    lan.run();
    lan.expect_received(b, &[]);
    fail(&mut lan, b);
    lan.expect_received(b, &[(7, Status::WrFlushErr), (8, Status::WrFlushErr)]);
}

fn fail(lan: &mut Lan, port: Port) {
    let attr = roce_engine::verbs::QpAttr {
        state: Some(QpState::Err),
        ..Default::default()
    };
    lan.modify(port, &attr);
}
