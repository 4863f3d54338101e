//! Type 2 memory windows: a part of a region for one QP's peer, for as long as its owner says.

use core::time::Duration;

use roce_engine::sim::{Action, PortId, Rule};
use roce_engine::verbs::{
    Access, Backend, CreateError, Mr, Mw, QpState, RKey, SendFlags, SendOp, Service, Status,
    WcOpcode,
};
use roce_tests::lan::{Lan, Port, pattern};
use roce_wire::Opcode;

/// Where the window lies in host 1's memory, and its bytes.
const AT: usize = 4096;
const LEN: usize = 1024;

/// Two connected QPs; host 1's memory has no remote rights of its own.
struct Bound {
    lan: Lan,
    a: Port,
    b: Port,
    mr: Mr,
    mw: Mw,
}

impl Bound {
    fn unbound() -> Self {
        let mut lan = Lan::new(2);
        let [a, b] = lan.connected(Service::Rc);
        let region = lan.hosts[1].region.clone();
        let pd = lan.hosts[1].pd;
        let device = lan.world.device(1);
        let rights = Access::LOCAL_WRITE | Access::MW_BIND;
        let mr = device.register(pd, &region, rights).expect("a region");
        let mw = device.alloc_mw(pd).expect("a window");
        Self { lan, a, b, mr, mw }
    }

    fn new() -> Self {
        let mut bound = Self::unbound();
        let op = bound.bind_op(1, Access::REMOTE_WRITE | Access::REMOTE_READ);
        bound.lan.post(bound.b, 50, op, (0, 0));
        bound.lan.run();
        bound.lan.expect_sent(bound.b, &[(50, Status::Success)]);
        bound
    }

    fn key(&self, tag: u32) -> RKey {
        RKey(self.mw.rkey.0 & !0xff | (self.mw.rkey.0 + tag) & 0xff)
    }

    fn bind_op(&self, tag: u32, access: Access) -> SendOp {
        SendOp::BindMw {
            mw: self.mw,
            rkey: self.key(tag),
            mr: self.mr,
            addr: self.mr.addr + AT as u64,
            length: LEN as u64,
            access,
        }
    }

    fn write(&self, offset: i64, tag: u32) -> SendOp {
        SendOp::Write {
            addr: (self.mr.addr + AT as u64).wrapping_add_signed(offset),
            rkey: self.key(tag),
        }
    }

    /// Asserts that a request of the peer is refused with NAK 0x62 and has no effect.
    fn expect_refused(mut self, op: SendOp, len: u32) {
        self.lan.post(self.a, 9, op, (0, len));
        self.lan.run();
        self.lan.expect_sent(self.a, &[(9, Status::RemAccessErr)]);
        let nak = self.lan.packets(1).pop().expect("an answer");
        assert_eq!(
            (nak.opcode(), nak.syndrome()),
            (Opcode::RC_ACKNOWLEDGE, Some(0x62))
        );
        self.lan.expect_state(self.b, QpState::Err);
        self.lan.expect_untouched_outside(1, &[]);
    }
}

/// A bound window may be written and read through its QP, from its first byte to its last.
#[test]
fn a_peer_reaches_exactly_the_window() {
    let mut bound = Bound::new();
    let write = bound.write(0, 1);
    bound.lan.post(bound.a, 1, write, (0, LEN as u32));
    let SendOp::Write { addr, rkey } = write else {
        unreachable!("it is a WRITE")
    };
    let read = SendOp::Read { addr, rkey };
    bound.lan.post(bound.a, 2, read, (32768, LEN as u32));
    bound.lan.run();
    let done = [(1, Status::Success), (2, Status::Success)];
    bound.lan.expect_sent(bound.a, &done);
    bound.lan.expect_bytes(1, AT, &pattern(0, 0, LEN));
    bound.lan.expect_bytes(0, 32768, &pattern(0, 0, LEN));
    bound.lan.expect_untouched_outside(1, &[(AT, LEN)]);
}

/// A bind completes as one, in its turn, and nothing of it is on the wire.
#[test]
fn a_bind_is_a_local_completion() {
    let mut bound = Bound::unbound();
    let bind = bound.bind_op(1, Access::REMOTE_WRITE);
    bound.lan.recv(bound.a, 7, (0, 64));
    bound.lan.post(bound.b, 1, bind, (0, 0));
    bound.lan.post(bound.b, 2, SendOp::Send, (0, 8));
    bound
        .lan
        .post(bound.b, 3, SendOp::LocalInv(bound.key(1)), (0, 0));
    bound.lan.run();
    let sent = bound.lan.sent(bound.b);
    let seen: Vec<_> = sent.iter().map(|wc| (wc.wr_id, wc.opcode)).collect();
    let expected = [
        (1, WcOpcode::BindMw),
        (2, WcOpcode::Send),
        (3, WcOpcode::LocalInv),
    ];
    assert_eq!(seen, expected);
    assert_eq!(bound.lan.packets(1).len(), 1, "the SEND");
}

/// One byte before, one byte behind, at both ends of the address space: NAK 0x62, nothing is written.
#[test]
fn nothing_outside_of_the_window_is_reached() {
    let end = LEN as i64;
    for (offset, len) in [
        (-1, 1),
        (end, 1),
        (end - 1, 2),
        (0, LEN as u32 + 1),
        (-1, 2),
    ] {
        let bound = Bound::new();
        let op = bound.write(offset, 1);
        bound.expect_refused(op, len);
    }
    for addr in [0, u64::MAX, u64::MAX - 7] {
        let bound = Bound::new();
        let rkey = bound.key(1);
        bound.expect_refused(SendOp::Write { addr, rkey }, 8);
    }
}

/// A right that the window was not given is refused, also where its region has it.
#[test]
fn a_right_that_was_not_bound_is_refused() {
    let mut bound = Bound::unbound();
    bound.mr = bound.lan.hosts[1].mr;
    let bind = bound.bind_op(1, Access::REMOTE_WRITE);
    bound.lan.post(bound.b, 1, bind, (0, 0));
    bound.lan.run();
    let (addr, rkey) = (bound.mr.addr + AT as u64, bound.key(1));
    bound.expect_refused(SendOp::Read { addr, rkey }, 8);
    let bound = Bound::new();
    let (addr, rkey) = (bound.mr.addr + AT as u64, bound.key(1));
    let add = SendOp::FetchAdd { addr, rkey, add: 1 };
    bound.expect_refused(add, 8);
}

/// The peer of another QP of the same domain can't use the window.
#[test]
fn another_queue_pair_does_not_reach_the_window() {
    let mut bound = Bound::new();
    let [c, d] = bound.lan.connected(Service::Rc);
    (bound.a, bound.b) = (c, d);
    let op = bound.write(0, 1);
    bound.expect_refused(op, 8);
}

/// An unbound window's key, the key before a bind, and any other low byte name nothing.
#[test]
fn only_the_bound_key_names_the_window() {
    let bound = Bound::unbound();
    let op = bound.write(0, 0);
    bound.expect_refused(op, 8);
    for tag in [0, 2, 255] {
        let bound = Bound::new();
        let op = bound.write(0, tag);
        bound.expect_refused(op, 8);
    }
}

/// SEND with invalidate ends the window: the receiver is told which key, and its next use is NAK 0x62.
#[test]
fn the_peer_may_invalidate_the_window() {
    let mut bound = Bound::new();
    bound.lan.recv(bound.b, 7, (0, 64));
    let write = bound.write(0, 1);
    let key = bound.key(1);
    bound.lan.post(bound.a, 1, write, (0, 8));
    bound.lan.post(bound.a, 2, SendOp::SendInv(key), (0, 8));
    bound.lan.post(bound.a, 3, write, (64, 8));
    bound.lan.run();
    let statuses = [
        (1, Status::Success),
        (2, Status::Success),
        (3, Status::RemAccessErr),
    ];
    bound.lan.expect_sent(bound.a, &statuses);
    let received = bound.lan.received(bound.b);
    assert_eq!(received[0].invalidated, Some(key));
    bound.lan.expect_bytes(1, AT, &pattern(0, 0, 8));
    let nak = bound.lan.packets(1).pop().expect("an answer");
    assert_eq!(nak.syndrome(), Some(0x62));
}

/// A peer can't invalidate a window of another QP, a key that names nothing, or one that is invalid
/// already: NAK 0x62, and the message is not delivered.
#[test]
fn a_key_of_another_queue_pair_is_not_invalidated() {
    for case in 0..3 {
        let mut bound = Bound::new();
        let [c, d] = bound.lan.connected(Service::Rc);
        let (from, to, key) = match case {
            0 => (c, d, bound.key(1)),
            1 => (bound.a, bound.b, bound.key(2)),
            _ => {
                let inv = SendOp::LocalInv(bound.key(1));
                bound.lan.post(bound.b, 5, inv, (0, 0));
                bound.lan.run();
                (bound.a, bound.b, bound.key(1))
            }
        };
        bound.lan.recv(to, 7, (0, 64));
        bound.lan.post(from, 1, SendOp::SendInv(key), (0, 8));
        bound.lan.run();
        bound.lan.expect_sent(from, &[(1, Status::RemAccessErr)]);
        bound.lan.expect_received(to, &[(7, Status::RemAccessErr)]);
        bound.lan.expect_untouched_outside(1, &[]);
        if case == 0 {
            let write = bound.write(0, 1);
            bound.lan.post(bound.a, 2, write, (0, 8));
            bound.lan.run();
            bound.lan.expect_sent(bound.a, &[(2, Status::Success)]);
        }
    }
}

/// The owner may invalidate it, bind it again with another key, and the old key stays dead.
#[test]
fn a_window_is_bound_again_with_a_new_key() {
    let mut bound = Bound::new();
    let again = bound.bind_op(2, Access::REMOTE_WRITE);
    bound
        .lan
        .post(bound.b, 1, SendOp::LocalInv(bound.key(1)), (0, 0));
    bound.lan.post(bound.b, 2, again, (0, 0));
    bound.lan.run();
    bound
        .lan
        .expect_sent(bound.b, &[(1, Status::Success), (2, Status::Success)]);
    let write = bound.write(0, 2);
    bound.lan.post(bound.a, 3, write, (0, 8));
    bound.lan.run();
    bound.lan.expect_sent(bound.a, &[(3, Status::Success)]);
    bound.lan.hosts[1].region.write(AT, &pattern(1, AT, 8));
    let op = bound.write(0, 1);
    bound.expect_refused(op, 8);
}

/// What can't be bound fails with IBV_WC_MW_BIND_ERR (6), and with it the QP: bound already, outside of
/// the region, no bytes, more rights than the region has, a region without the right, another key.
#[test]
fn what_can_not_be_bound_fails() {
    for case in 0..7 {
        let mut bound = if case == 0 {
            Bound::new()
        } else {
            Bound::unbound()
        };
        let mut mr = bound.mr;
        let (_, weak) = bound
            .lan
            .register(1, 8192, Access::REMOTE_READ | Access::MW_BIND);
        let (_, plain) = bound.lan.register(1, 8192, Access::LOCAL_WRITE);
        let mut rkey = bound.key(2);
        let (mut addr, mut length) = (mr.addr, 64);
        let mut mw = bound.mw;
        match case {
            0 => {}
            1 => length = mr.length + 1,
            2 => length = 0,
            3 => (mr, addr) = (weak, weak.addr),
            4 => (mr, addr) = (plain, plain.addr),
            5 => rkey = RKey(rkey.0 + 0x100),
            _ => mw.handle ^= 1,
        }
        let access = Access::REMOTE_WRITE;
        let op = SendOp::BindMw {
            mw,
            rkey,
            mr,
            addr,
            length,
            access,
        };
        bound.lan.post(bound.b, 1, op, (0, 0));
        bound.lan.post(bound.b, 2, SendOp::Send, (0, 8));
        bound.lan.run();
        let failed = [(1, Status::MwBindErr), (2, Status::WrFlushErr)];
        bound.lan.expect_sent(bound.b, &failed);
        bound.lan.expect_state(bound.b, QpState::Err);
    }
}

/// A window and a region of two domains can't be bound together.
#[test]
fn a_region_of_another_domain_is_not_bound() {
    let mut bound = Bound::unbound();
    let region = bound.lan.hosts[1].region.clone();
    let device = bound.lan.world.device(1);
    let other = device.alloc_pd().expect("a domain");
    let rights = Access::LOCAL_WRITE | Access::MW_BIND;
    bound.mr = device.register(other, &region, rights).expect("a region");
    let op = bound.bind_op(1, Access::REMOTE_WRITE);
    bound.lan.post(bound.b, 1, op, (0, 0));
    bound.lan.run();
    bound.lan.expect_sent(bound.b, &[(1, Status::MwBindErr)]);
}

/// A region with a bound window can't be deregistered; with the window gone it can, and every key is
/// dead then.
#[test]
fn a_region_that_is_bound_stays() {
    let mut bound = Bound::new();
    let device = bound.lan.world.device(1);
    assert!(matches!(
        device.deregister(bound.mr),
        Err(CreateError::InUse { .. })
    ));
    device.dealloc_mw(bound.mw).expect("a bound window may go");
    device.deregister(bound.mr).expect("nothing is bound to it");
    let op = bound.write(0, 1);
    bound.expect_refused(op, 8);
}

/// The name of a window that is gone does not name the window that took its place.
#[test]
fn a_stale_handle_names_nothing() {
    let mut bound = Bound::new();
    let pd = bound.lan.hosts[1].pd;
    let device = bound.lan.world.device(1);
    device.dealloc_mw(bound.mw).expect("it exists");
    // Places are used again in turn; sooner or later one has the old one's place.
    let windows: Vec<Mw> = core::iter::from_fn(|| device.alloc_mw(pd).ok()).collect();
    let reused = windows
        .iter()
        .any(|mw| mw.rkey.0 >> 8 == bound.mw.rkey.0 >> 8);
    assert!(reused, "the place is taken again");
    assert!(matches!(
        device.dealloc_mw(bound.mw),
        Err(CreateError::NoSuchObject(_))
    ));
    let op = bound.bind_op(1, Access::REMOTE_WRITE);
    bound.lan.post(bound.b, 1, op, (0, 0));
    bound.lan.run();
    bound.lan.expect_sent(bound.b, &[(1, Status::MwBindErr)]);
}

/// The key that a window was bound to last is not the key of the region that takes its place.
#[test]
fn a_dead_key_does_not_come_back_as_the_next_regions() {
    let mut bound = Bound::new();
    let key = bound.key(1);
    let released = bound.lan.world.device(1).dealloc_mw(bound.mw);
    released.expect("it exists");
    let pd = bound.lan.hosts[1].pd;
    let region = bound.lan.hosts[1].region.clone();
    let device = bound.lan.world.device(1);
    let rights = roce_tests::rc::all_rights();
    let register = || device.register(pd, &region, rights).ok();
    let keys: Vec<RKey> = core::iter::from_fn(register).map(|mr| mr.rkey).collect();
    assert!(
        keys.iter().any(|found| found.0 >> 8 == key.0 >> 8),
        "the place is taken again"
    );
    assert!(!keys.contains(&key));
}

/// A region that windows are bound to can't be invalidated under them.
#[test]
fn a_region_with_a_window_is_not_invalidated() {
    let mut bound = Bound::new();
    bound.lan.recv(bound.b, 7, (0, 64));
    bound
        .lan
        .post(bound.a, 1, SendOp::SendInv(bound.mr.rkey), (0, 8));
    bound.lan.run();
    bound.lan.expect_sent(bound.a, &[(1, Status::RemAccessErr)]);
    bound.lan.expect_untouched_outside(1, &[]);
}

/// Bug 14: a bind between messages that are resent is executed once. The peer ends the window before the
/// messages are through; a bind that came again would open it again.
#[test]
fn local_requests_are_not_replayed_on_a_retry() {
    let mut bound = Bound::unbound();
    bound.lan.recv(bound.a, 0, (32768, 4096));
    bound.lan.recv(bound.a, 1, (36864, 4096));
    bound.lan.recv(bound.b, 7, (60_000, 8));
    // Nothing arrives at first, so nobody asks before the timeout.
    let lose = Rule::new(Action::Drop, |packet| {
        packet.bth.opcode == Opcode::RC_SEND_ONLY
    });
    bound.lan.rule(lose.from_port(PortId(1)).times(2));
    let bind = bound.bind_op(1, Access::REMOTE_WRITE);
    for (id, op) in [SendOp::Send, bind, SendOp::Send].into_iter().enumerate() {
        bound.lan.post(bound.b, id as u64, op, (0, 8));
    }
    bound.lan.run_for(Duration::from_micros(100));
    bound.lan.expect_sent(bound.b, &[]);
    let invalidate = SendOp::SendInv(bound.key(1));
    bound.lan.post(bound.a, 8, invalidate, (0, 0));
    bound.lan.run();
    bound.lan.expect_sent(bound.a, &[(8, Status::Success)]);
    let done = [0, 1, 2].map(|id| (id, Status::Success));
    bound.lan.expect_sent(bound.b, &done);
    assert_eq!(bound.lan.counter(1, "retransmitted_pkts"), 2);
    let op = bound.write(0, 1);
    bound.lan.post(bound.a, 9, op, (0, 8));
    bound.lan.run();
    bound.lan.expect_sent(bound.a, &[(9, Status::RemAccessErr)]);
}

/// A fenced invalidation waits for the READ before it; one without a fence is executed at once, though it
/// completes in its turn.
#[test]
fn a_fence_holds_a_local_request_back() {
    for fenced in [false, true] {
        let mut bound = Bound::new();
        let read = bound.lan.read_from(0, 0);
        let flags = if fenced {
            SendFlags::SIGNALED | SendFlags::FENCE
        } else {
            SendFlags::SIGNALED
        };
        let lose = Rule::new(Action::Drop, |packet| {
            packet.bth.opcode == Opcode::RC_RDMA_READ_RESPONSE_ONLY
        });
        bound.lan.rule(lose.once());
        bound.lan.post(bound.b, 1, read, (32768, 64));
        let invalidate = SendOp::LocalInv(bound.key(1));
        let posted = bound.lan.try_post(bound.b, 2, invalidate, (0, 0), flags);
        posted.expect("legal");
        bound.lan.run_for(Duration::from_micros(100));
        bound.lan.expect_sent(bound.b, &[]);
        let write = bound.write(0, 1);
        bound.lan.post(bound.a, 3, write, (0, 8));
        bound.lan.run();
        let status = if fenced {
            Status::Success
        } else {
            Status::RemAccessErr
        };
        bound.lan.expect_sent(bound.a, &[(3, status)]);
        if fenced {
            bound
                .lan
                .expect_sent(bound.b, &[(1, Status::Success), (2, Status::Success)]);
        }
    }
}

/// A failed bind behind unacknowledged messages fails in its turn: those before it complete first.
#[test]
fn a_failed_bind_waits_for_what_is_before_it() {
    let mut bound = Bound::new();
    bound.lan.recv(bound.a, 7, (32768, 4096));
    let again = bound.bind_op(2, Access::REMOTE_WRITE);
    bound.lan.post(bound.b, 1, SendOp::Send, (0, 3000));
    bound.lan.post(bound.b, 2, again, (0, 0));
    bound.lan.post(bound.b, 3, SendOp::Send, (0, 8));
    bound.lan.run();
    let done = [
        (1, Status::Success),
        (2, Status::MwBindErr),
        (3, Status::WrFlushErr),
    ];
    bound.lan.expect_sent(bound.b, &done);
    bound.lan.expect_received(bound.a, &[(7, Status::Success)]);
}

/// UC binds windows too; a failed bind stops its send queue only.
#[test]
fn unreliable_connections_bind_windows() {
    let mut bound = Bound::unbound();
    let [a, b] = bound.lan.connected(Service::Uc);
    let bind = bound.bind_op(1, Access::REMOTE_WRITE);
    bound.lan.post(b, 1, bind, (0, 0));
    bound.lan.run();
    let write = bound.write(0, 1);
    bound.lan.post(a, 2, write, (0, 8));
    bound.lan.run();
    bound.lan.expect_bytes(1, AT, &pattern(0, 0, 8));
    bound.lan.post(b, 3, bind, (0, 0));
    bound.lan.run();
    bound
        .lan
        .expect_sent(b, &[(1, Status::Success), (3, Status::MwBindErr)]);
    bound.lan.expect_state(b, QpState::Sqe);
}

/// A READ that the network held back arrives when its answer is long there and the window is invalid: it
/// is for nobody, and the connection goes on.
#[test]
fn a_late_repetition_of_a_read_does_not_need_its_window() {
    let mut bound = Bound::new();
    let late = Duration::from_millis(10);
    let late = Rule::new(Action::Delay(late), |packet| {
        packet.bth.opcode == Opcode::RC_RDMA_READ_REQUEST
    });
    bound.lan.rule(late.once());
    let (addr, rkey) = (bound.mr.addr + AT as u64, bound.key(1));
    let read = SendOp::Read { addr, rkey };
    bound.lan.post(bound.a, 1, read, (32768, LEN as u32));
    // The timeout of 4.2 ms asks again.
    bound.lan.run_for(Duration::from_millis(8));
    bound.lan.expect_sent(bound.a, &[(1, Status::Success)]);
    let invalidate = SendOp::LocalInv(bound.key(1));
    bound.lan.post(bound.b, 2, invalidate, (0, 0));
    bound.lan.run();
    assert_eq!(bound.lan.counter(1, "duplicate_request"), 1);
    assert_eq!(bound.lan.counter(1, "drop_stale_replay"), 1);
    assert_eq!(bound.lan.events(1), []);
    bound.lan.recv(bound.b, 7, (0, 64));
    bound.lan.post(bound.a, 3, SendOp::Send, (0, 64));
    bound.lan.run();
    bound.lan.expect_sent(bound.a, &[(3, Status::Success)]);
    bound.lan.expect_state(bound.b, QpState::Rts);
}
