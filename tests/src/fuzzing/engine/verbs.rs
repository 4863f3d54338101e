//! Verbs calls between the packets: posting, polling, changing states and memory.

use core::time::Duration;
use roce_engine::Instant;
use roce_engine::verbs::{
    Access, Completion, CqError, Payload, QpAttr, QpState, RKey, RecvWr, SendFlags, SendOp, SendWr,
    Service, Sge, WcOpcode,
};

use super::bed::{Bed, QKEY};
use super::ledger::{Grant, Name};
use super::work::{Posted, Queue};
use crate::fuzzing::input::Input;

/// A list of pieces, and what of it the engine may write.
struct Pieces {
    sges: Vec<Sge>,
    grants: Vec<Grant>,
    total: u64,
}

impl Bed {
    /// Returns up to two pieces of memory that is there to be written, or that is not ours to use.
    fn pieces(&self, input: &mut Input<'_>) -> Pieces {
        let mut pieces = Pieces {
            sges: Vec::new(),
            grants: Vec::new(),
            total: 0,
        };
        let count = [1, 1, 2, 0][usize::from(input.u8() >> 6)];
        for _ in 0..count {
            let which = input.u8();
            let name = match which {
                0..=0xdf => Name::Local,
                0xe0..=0xe7 => Name::Open,
                0xe8..=0xef => Name::Readable,
                0xf0..=0xf7 => Name::Foreign,
                _ => Name::Gone,
            };
            let mr = self.ledger.mr(name);
            let length = match input.u8() {
                0..=0x7f => 256,
                0x80..=0xdf => u32::from(input.u16() & 0x3ff),
                0xe0..=0xef => 0,
                _ => input.u32(),
            };
            let addr = mr.addr + u64::from(input.u16()) % (mr.length + 8);
            pieces.total += u64::from(length);
            pieces.sges.push(Sge {
                addr,
                length,
                lkey: mr.lkey,
            });
            let is_writable = matches!(name, Name::Local | Name::Open);
            if let Some(range) = self.ledger.inside(name, addr, length.into())
                && is_writable
            {
                pieces.grants.push((name, range));
            }
        }
        pieces
    }

    /// Posts a receive to a QP or to the shared queue.
    pub(super) fn post_recv(&mut self, n: usize, input: &mut Input<'_>) {
        let pieces = self.pieces(input);
        let side = self.sides[n];
        let queue = if side.has_srq {
            Queue::Shared
        } else {
            Queue::Recv(n)
        };
        let wr = RecvWr {
            wr_id: self.work.next_id(queue),
            sges: &pieces.sges,
        };
        let posted = if side.has_srq {
            self.engine.post_srq_recv(self.srq, &[wr])
        } else {
            self.engine.post_recv(side.qp, &[wr])
        };
        if posted.is_ok() {
            let posted = Posted {
                grants: pieces.grants,
                capacity: pieces.total,
                opcode: WcOpcode::Recv,
                signaled: true,
                key: None,
            };
            self.work.posted(queue, posted, &mut self.ledger);
        }
    }

    /// Posts a send request of any kind.
    pub(super) fn post_send(&mut self, n: usize, input: &mut Input<'_>) {
        let (op, opcode, window) = self.send_op(n, input);
        let mut pieces = self.pieces(input);
        if op.is_atomic() && input.u8() < 0xf0 {
            let mr = self.ledger.mr(Name::Local);
            pieces = Pieces {
                sges: vec![Sge {
                    addr: mr.addr + 8,
                    length: 8,
                    lkey: mr.lkey,
                }],
                grants: vec![(Name::Local, 8..16)],
                total: 8,
            };
        }
        let flags = input.u8();
        let inline = [0x22; 32];
        let payload = if flags & 0xc0 == 0xc0 {
            Payload::Inline(&inline[..usize::from(input.u8() & 31)])
        } else {
            Payload::Sges(&pieces.sges)
        };
        let signaled = flags & 1 == 0 || self.all_signaled();
        let mut set = SendFlags::NONE;
        for (bit, flag) in [(2, SendFlags::SOLICITED), (4, SendFlags::FENCE)] {
            if flags & bit != 0 {
                set = set | flag;
            }
        }
        if flags & 1 == 0 {
            set = set | SendFlags::SIGNALED;
        }
        let queue = Queue::Send(n);
        let wr = SendWr {
            wr_id: self.work.next_id(queue),
            op,
            payload,
            flags: set,
        };
        if self.engine.post_send(self.sides[n].qp, &[wr]).is_err() {
            return;
        }
        let key = match op {
            SendOp::BindMw { rkey, .. } | SendOp::LocalInv(rkey) => Some(rkey),
            _ => None,
        };
        if let SendOp::BindMw { rkey, .. } = op {
            self.window.last = rkey;
        }
        let grants = match window {
            Some(grant) => vec![grant],
            None if op.is_fetch() => pieces.grants,
            None => Vec::new(),
        };
        let posted = Posted {
            grants,
            capacity: pieces.total,
            opcode,
            signaled,
            key,
        };
        self.work.posted(queue, posted, &mut self.ledger);
    }

    /// Returns an operation, what it completes as, and what peers may write because of it.
    fn send_op(&self, n: usize, input: &mut Input<'_>) -> (SendOp, WcOpcode, Option<Grant>) {
        let (addr, rkey) = (u64::from(input.u32()) << 3, RKey(input.u32()));
        let choice = input.below(11);
        if self.sides[n].service == Service::Ud {
            let op = SendOp::Datagram {
                ah: self.ah,
                qpn: self.sides[n].dest_qpn,
                qkey: QKEY,
                imm: (choice == 1).then_some([1, 2, 3, 4]),
            };
            return (op, WcOpcode::Send, None);
        }
        let (op, opcode) = match choice {
            0 => (SendOp::Send, WcOpcode::Send),
            1 => (SendOp::SendImm([1, 2, 3, 4]), WcOpcode::Send),
            2 => (SendOp::SendInv(rkey), WcOpcode::Send),
            3 => (SendOp::Write { addr, rkey }, WcOpcode::Write),
            4 => {
                let imm = [4, 3, 2, 1];
                (SendOp::WriteImm { addr, rkey, imm }, WcOpcode::Write)
            }
            5 | 6 => (SendOp::Read { addr, rkey }, WcOpcode::Read),
            7 => {
                let (compare, swap) = (1, 2);
                let op = SendOp::CompareSwap {
                    addr,
                    rkey,
                    compare,
                    swap,
                };
                (op, WcOpcode::CompareSwap)
            }
            8 => (SendOp::FetchAdd { addr, rkey, add: 3 }, WcOpcode::FetchAdd),
            9 => return self.bind(input),
            _ => {
                let names = [Name::Open, Name::Readable, Name::Atomic, Name::Gone];
                let key = match input.u8() {
                    0..=0xbf => self.window.last,
                    other => self.ledger.mr(names[usize::from(other & 3)]).rkey,
                };
                (SendOp::LocalInv(key), WcOpcode::LocalInv)
            }
        };
        (op, opcode, None)
    }

    /// Returns a binding of the window to a part of the area for it.
    fn bind(&self, input: &mut Input<'_>) -> (SendOp, WcOpcode, Option<Grant>) {
        let name = if input.rarely(16) {
            Name::Readable
        } else {
            Name::Bindable
        };
        let mr = self.ledger.mr(name);
        let start = u64::from(input.u16()) % mr.length / 8 * 8;
        let length = match input.u8() {
            choice @ 0..=0xf7 => u64::from(choice) + 8,
            _ => u64::from(input.u32()),
        };
        let mut access = Access::NONE;
        for (bit, right) in [
            (1, Access::REMOTE_WRITE),
            (2, Access::REMOTE_READ),
            (4, Access::REMOTE_ATOMIC),
        ] {
            if input.u8() & bit == 0 {
                access = access | right;
            }
        }
        // The owner picks the low byte of the new key.
        let last = self.window.last.0;
        let rkey = RKey(last & !0xff | last.wrapping_add(1) & 0xff);
        let addr = mr.addr + start;
        let writes =
            access.contains(Access::REMOTE_WRITE) || access.contains(Access::REMOTE_ATOMIC);
        let grant = self
            .ledger
            .range(name, addr, length)
            .filter(|_| writes)
            .map(|range| (name, range));
        let op = SendOp::BindMw {
            mw: self.window.mw,
            rkey,
            mr,
            addr,
            length,
            access,
        };
        (op, WcOpcode::BindMw, grant)
    }

    /// Takes completions and checks each.
    pub(super) fn poll(&mut self, most: usize) {
        let mut out = [Completion::default(); 4];
        for cq in self.cqs {
            let mut taken = 0;
            while taken < most {
                match self.engine.take_completions(cq, &mut out) {
                    Ok(0) => break,
                    Ok(count) => {
                        for completion in &out[..count] {
                            self.work.completed(completion, &mut self.ledger);
                        }
                        taken += count;
                    }
                    Err(CqError::Overflow) => {
                        self.work.overflowed = true;
                        break;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        }
        while self.engine.poll_event().is_some() {}
    }

    /// Moves a QP to another state, or makes it anew.
    pub(super) fn change_state(&mut self, n: usize, input: &mut Input<'_>) {
        let qp = self.sides[n].qp;
        let state = |state| QpAttr {
            state: Some(state),
            ..QpAttr::default()
        };
        let choice = input.below(16);
        let attr = match choice {
            0..=3 => QpAttr {
                sqd_event: Some(true),
                ..state(QpState::Sqd)
            },
            4..=9 => state(QpState::Rts),
            10 => state(QpState::Err),
            11 | 12 => state(QpState::Reset),
            13 => QpAttr {
                max_dest_rd_atomic: Some(input.u8() & 3),
                ..state(QpState::Sqd)
            },
            14 => {
                self.poll(usize::MAX);
                self.engine.destroy_qp(qp).expect("it lives");
                self.work.forget(n, &mut self.ledger);
                self.recreate(n);
                return;
            }
            _ => QpAttr {
                min_rnr_timer: Some(input.u8() & 31),
                ..state(QpState::Rts)
            },
        };
        // What is not legal in this state is refused, and that is as good.
        let changed = self.engine.modify_qp(qp, &attr, |_, wanted| wanted);
        if changed.is_ok() && matches!(choice, 11 | 12) {
            self.work.forget(n, &mut self.ledger);
            self.connect(n);
        }
    }

    /// Ends registrations, arms and resizes queues.
    pub(super) fn change_objects(&mut self, input: &mut Input<'_>) {
        match input.below(12) {
            0 => self
                .engine
                .arm_cq(self.cqs[1], input.u8() & 1 == 1)
                .expect("it lives"),
            1 => drop(self.engine.take_notification(self.cqs[1])),
            2 => drop(
                self.engine
                    .resize_cq(self.cqs[1], u32::from(input.u8()) + 1),
            ),
            3 => drop(self.engine.arm_srq(self.srq, u32::from(input.u8() & 7))),
            4 if self.window.alive => {
                self.engine.dealloc_mw(self.window.mw).expect("it lives");
                self.window.alive = false;
                self.work.end_key(self.window.last, &mut self.ledger);
            }
            choice @ 5..=9 => {
                let names = [
                    Name::Local,
                    Name::Open,
                    Name::Readable,
                    Name::Atomic,
                    Name::Bindable,
                ];
                // Rarely: most of what follows needs memory.
                if input.rarely(4) {
                    self.deregister(names[choice - 5]);
                }
            }
            _ => {}
        }
    }

    fn deregister(&mut self, name: Name) {
        if self.ledger.is_frozen(name) {
            return;
        }
        // What completed before may have been written, and its completion may wait.
        self.poll(usize::MAX);
        if self.engine.deregister(self.ledger.mr(name)).is_ok() {
            self.ledger.freeze(name);
        }
    }

    /// Lets time pass.
    pub(super) fn pass_time(&mut self, input: &mut Input<'_>) {
        let later = |nanos: u64| self.now.after(Duration::from_nanos(nanos));
        let due = self.engine.next_timeout().filter(|&at| at < Instant::NEVER);
        self.now = match (input.below(8), due) {
            (0..=2, Some(at)) => at.max(self.now),
            (3, Some(at)) => Instant::from_nanos(at.as_nanos() - 1).max(self.now),
            (4, _) => later(u64::from(input.u16()) * 1000),
            (5, _) => later(u64::from(input.u8()) * 1_000_000),
            (6, _) => later(10_000_000_000),
            _ => later(input.u16().into()),
        };
    }

    /// Runs the engine's turn over a link with room for so many packets.
    pub(super) fn turn(&mut self, room: usize, force: bool) {
        self.engine.begin_turn();
        self.link.room = room;
        if self.engine.next_timeout().is_some_and(|at| at <= self.now) {
            self.engine.handle_timeout(self.now);
            assert!(
                self.engine.next_timeout().is_none_or(|at| at > self.now),
                "a timer that is due stays due"
            );
        }
        let full = self.engine.transmit(self.now, &mut self.link, force);
        assert!(!full || self.link.room == 0, "a link with room is not full");
    }
}
