//! A memory window that is bound, used and invalidated in rounds, and what a peer reaches through it.

use core::fmt;
use std::collections::VecDeque;

use roce_engine::sim::{Rng, World};
use roce_engine::verbs::{
    Access, Backend, Completion, Mw, Payload, RKey, SendFlags, SendOp, SendWr, Service, Sge,
    Status, WcOpcode,
};

use crate::oracle::{Verdict, region_bytes};
use crate::workload::mixed::plan::{AREA, SOURCE, WINDOWED};
use crate::workload::mixed::setup::{Port, Side};
use crate::workload::setup::{Block, block};

/// One window: its owner is one end of a link, its user the other.
#[derive(Debug)]
pub(super) struct Windows {
    pub(super) link: usize,
    pub(super) owner: usize,
    service: Service,
    mw: Mw,
    /// The owner's memory. It has no rights of its own for peers.
    block: Block,
    /// What it must hold.
    image: Vec<u8>,
    /// WRITEs that may have happened, in whole or in part.
    maybe: Vec<(usize, Vec<u8>)>,
    /// Where the user's READs land.
    sink: Block,
    rounds: u32,
    tag: u32,
    at: usize,
    len: usize,
    access: Access,
    state: State,
    posted: u32,
    /// Requests of each side that are not complete.
    open: [VecDeque<Request>; 2],
    /// The user has asked for something that must be refused.
    pub(super) violated: bool,
    invalidated: bool,
    pub(super) binds: usize,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Idle,
    Binding,
    /// Bound, with so many batches to come.
    Using(u32),
    Invalidating,
    Violating,
    Finished,
}

#[derive(Clone, Debug)]
struct Request {
    number: u32,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Bind,
    LocalInv,
    SendInv,
    Write {
        at: usize,
        data: Vec<u8>,
    },
    Read {
        at: usize,
        len: usize,
    },
    /// What must have no effect.
    Forbidden,
}

impl fmt::Display for Windows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (link, state, rounds, open) = (self.link, self.state, self.rounds, &self.open);
        write!(
            f,
            "window of link {link}: {state:?}, {rounds} rounds left, open: {open:?}"
        )
    }
}

impl Windows {
    pub(super) fn new(
        world: &mut World,
        sides: &[Side; 2],
        (link, rounds): (usize, u32),
        service: Service,
        rng: &mut Rng,
    ) -> Self {
        let owner = rng.below(2) as usize;
        let user = 1 - owner;
        let rights = Access::LOCAL_WRITE | Access::MW_BIND;
        let memory = block(world.device(owner), sides[owner].pd, WINDOWED, rights, rng);
        let mw = world.device(owner).alloc_mw(sides[owner].pd);
        let (device, pd) = (world.device(user), sides[user].pd);
        let sink = block(device, pd, WINDOWED, Access::LOCAL_WRITE, rng);
        Self {
            link,
            owner,
            service,
            mw: mw.expect("a window"),
            image: region_bytes(&memory.region, 0..WINDOWED),
            block: memory,
            maybe: Vec::new(),
            sink,
            rounds,
            tag: 0,
            at: 0,
            len: 0,
            access: Access::NONE,
            state: State::Idle,
            posted: 0,
            open: [VecDeque::new(), VecDeque::new()],
            violated: false,
            invalidated: false,
            binds: 0,
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        self.state == State::Finished && self.open.iter().all(VecDeque::is_empty)
    }

    pub(super) const fn posted(&self) -> u32 {
        self.posted
    }

    /// Returns what the owner's memory is.
    pub(super) fn snapshot(&self) -> Vec<u8> {
        region_bytes(&self.block.region, 0..WINDOWED)
    }

    /// One of its queue pairs is gone or in error.
    pub(super) fn stop(&mut self) {
        self.state = State::Finished;
    }

    /// One of its queue pairs is gone, with what it has posted.
    pub(super) fn forget(&mut self, side: usize) {
        for request in core::mem::take(&mut self.open[side]) {
            self.unfinished(request.what);
        }
        self.stop();
    }

    /// Does what comes next.
    pub(super) fn turn(&mut self, world: &mut World, sides: &[Side; 2], rng: &mut Rng) -> Verdict {
        let (owner, user) = (self.owner, 1 - self.owner);
        let quiet = self.open.iter().all(VecDeque::is_empty);
        match self.state {
            State::Idle if self.rounds == 0 => self.state = State::Finished,
            State::Idle => {
                self.rounds -= 1;
                self.bind(world, sides, rng)?;
                self.state = State::Binding;
            }
            State::Binding if quiet => self.state = State::Using(rng.range(1..=3) as u32),
            State::Using(0) if quiet => {
                if self.service == Service::Rc && rng.chance(0.1) {
                    return self.violate(world, sides, rng);
                }
                self.invalidated = false;
                let op = SendOp::LocalInv(self.key());
                if self.service == Service::Rc && rng.chance(0.5) {
                    let op = SendOp::SendInv(self.key());
                    let from = rng.below((SOURCE - AREA) as u64) as usize;
                    let piece = (from, rng.below(AREA as u64) as usize);
                    self.post(world, sides, user, op, piece, What::SendInv)?;
                } else {
                    self.post(world, sides, owner, op, (0, 0), What::LocalInv)?;
                }
                self.state = State::Invalidating;
            }
            State::Using(left) if self.open[user].is_empty() => {
                self.batch(world, sides, rng)?;
                self.state = State::Using(left.saturating_sub(1));
            }
            State::Invalidating if quiet && self.invalidated => {
                self.check()?;
                // The key is dead, and stays so under every later binding.
                (self.len, self.state) = (0, State::Idle);
                if rng.chance(0.15) && self.service == Service::Rc {
                    return self.violate(world, sides, rng);
                }
                if self.service == Service::Uc {
                    self.forbidden(world, sides, rng)?;
                }
            }
            State::Violating if quiet => self.state = State::Finished,
            _ => {}
        }
        Ok(())
    }

    fn key(&self) -> RKey {
        RKey(self.mw.rkey.0 & !0xff | (self.mw.rkey.0 + self.tag) & 0xff)
    }

    fn bind(&mut self, world: &mut World, sides: &[Side; 2], rng: &mut Rng) -> Verdict {
        self.tag += 1;
        self.len = rng.range(1..=WINDOWED as u64) as usize;
        self.at = rng.below((WINDOWED - self.len) as u64 + 1) as usize;
        self.access = Access::REMOTE_WRITE;
        if rng.chance(0.6) {
            self.access = self.access | Access::REMOTE_READ;
        }
        let op = SendOp::BindMw {
            mw: self.mw,
            rkey: self.key(),
            mr: self.block.mr,
            addr: self.block.mr.addr + self.at as u64,
            length: self.len as u64,
            access: self.access,
        };
        self.binds += 1;
        self.post(world, sides, self.owner, op, (0, 0), What::Bind)
    }

    fn batch(&mut self, world: &mut World, sides: &[Side; 2], rng: &mut Rng) -> Verdict {
        let user = 1 - self.owner;
        let rkey = self.key();
        let place = |rng: &mut Rng, windows: &Self| {
            let len = rng.below(windows.len as u64 + 1) as usize;
            let at = windows.at + rng.below((windows.len - len) as u64 + 1) as usize;
            (at, len, windows.block.mr.addr + at as u64)
        };
        let reads = self.service == Service::Rc && self.access.contains(Access::REMOTE_READ);
        if reads && rng.chance(0.4) {
            let (at, len, addr) = place(rng, self);
            let op = SendOp::Read { addr, rkey };
            return self.post(world, sides, user, op, (0, len), What::Read { at, len });
        }
        for _ in 0..rng.range(1..=3) {
            if self.service == Service::Uc && rng.chance(0.3) {
                self.forbidden(world, sides, rng)?;
            }
            let (at, len, addr) = place(rng, self);
            let from = rng.below((SOURCE - len) as u64) as usize;
            let data = region_bytes(&sides[user].source.region, from..from + len);
            let op = SendOp::Write { addr, rkey };
            self.post(
                world,
                sides,
                user,
                op,
                (from, len),
                What::Write { at, data },
            )?;
        }
        Ok(())
    }

    fn violate(&mut self, world: &mut World, sides: &[Side; 2], rng: &mut Rng) -> Verdict {
        self.violated = true;
        self.state = State::Violating;
        self.forbidden(world, sides, rng)
    }

    /// Posts a request that ends before, behind or across the window, or lacks its right or its key.
    fn forbidden(&mut self, world: &mut World, sides: &[Side; 2], rng: &mut Rng) -> Verdict {
        let user = 1 - self.owner;
        let rkey = self.key();
        let start = self.block.mr.addr + self.at as u64;
        let end = start + self.len as u64;
        let len = rng.range(1..=600);
        let addr = match rng.below(5) {
            0 => start.wrapping_sub(len),
            1 => end,
            2 => start.wrapping_sub(1),
            3 => end + 1 - len.min(self.len as u64 + 1),
            _ => 0_u64.wrapping_sub(len),
        };
        // The one that begins just before the window may still end inside of it: it is refused as a whole.
        let reads = self.service == Service::Rc;
        let op = if reads
            && self.len > 0
            && !self.access.contains(Access::REMOTE_READ)
            && rng.chance(0.3)
        {
            SendOp::Read { addr: start, rkey }
        } else {
            SendOp::Write { addr, rkey }
        };
        let piece = match op {
            SendOp::Read { .. } => (0, 1),
            // Exactly one byte more than fits, in the case that ends behind the window.
            _ => (rng.below(SOURCE as u64 - 600) as usize, len as usize),
        };
        self.post(world, sides, user, op, piece, What::Forbidden)
    }

    fn post(
        &mut self,
        world: &mut World,
        sides: &[Side; 2],
        side: usize,
        op: SendOp,
        (from, len): (usize, usize),
        what: What,
    ) -> Verdict {
        let mr = if op.is_fetch() {
            &self.sink.mr
        } else {
            &sides[side].source.mr
        };
        let sge = [Sge {
            addr: mr.addr + from as u64,
            length: len as u32,
            lkey: mr.lkey,
        }];
        let number = self.posted;
        self.posted += 1;
        let request = SendWr {
            wr_id: WINDOW | (self.link as u64) << 32 | u64::from(number),
            op,
            payload: Payload::Sges(if len == 0 { &[] } else { &sge }),
            flags: SendFlags::SIGNALED,
        };
        let port: &Port = &sides[side].ports[self.link];
        self.open[side].push_back(Request { number, what });
        let posted = world.device(side).post_send(port.qp, &[request]);
        posted.map_err(|error| format!("window of link {}: {op:?}: {error}", self.link))
    }

    /// Judges a completion of one of its queue pairs. `may_fail`: the network may have ended it.
    pub(super) fn on_sent(&mut self, side: usize, wc: &Completion, may_fail: bool) -> Verdict {
        let name = format!("window of link {}, side {side}", self.link);
        let Some(request) = self.open[side].pop_front() else {
            return Err(format!("{name}: {wc:?} completes what is not posted"));
        };
        if request.number != wc.wr_id as u32 {
            return Err(format!("{name}: {wc:?} came before {request:?}"));
        }
        let opcode = match request.what {
            What::Bind => WcOpcode::BindMw,
            What::LocalInv => WcOpcode::LocalInv,
            What::SendInv => WcOpcode::Send,
            What::Read { .. } => WcOpcode::Read,
            What::Write { .. } | What::Forbidden => WcOpcode::Write,
        };
        let forbidden = matches!(request.what, What::Forbidden);
        if wc.status != Status::Success {
            let refused = forbidden && wc.status == Status::RemAccessErr;
            self.unfinished(request.what);
            self.stop();
            if refused && self.service == Service::Rc || may_fail {
                return Ok(());
            }
            return Err(format!("{name}: {wc:?}"));
        }
        if forbidden && self.service == Service::Rc {
            return Err(format!("{name}: what the window forbids succeeded: {wc:?}"));
        }
        if wc.opcode != opcode {
            return Err(format!("{name}: {request:?} has the completion {wc:?}"));
        }
        match request.what {
            What::LocalInv => self.invalidated = true,
            What::Write { at, data } if self.service == Service::Rc => {
                self.image[at..at + data.len()].copy_from_slice(&data);
            }
            What::Read { at, len } => {
                let read = region_bytes(&self.sink.region, 0..len);
                if read != self.image[at..at + len] || wc.byte_len as usize != len {
                    return Err(format!(
                        "{name}: a READ of {len} at {at} brought wrong bytes"
                    ));
                }
            }
            what => self.unfinished(what),
        }
        Ok(())
    }

    /// Judges the message that invalidates it.
    pub(super) fn on_received(&mut self, side: usize, wc: &Completion) -> Verdict {
        if side != self.owner || wc.invalidated != Some(self.key()) {
            return Err(format!("window of link {}: {wc:?} arrived", self.link));
        }
        self.invalidated = true;
        Ok(())
    }

    fn unfinished(&mut self, what: What) {
        if let What::Write { at, data } = what {
            self.maybe.push((at, data));
        }
    }

    /// Judges the owner's memory: only what went through the window is written.
    pub(super) fn check(&self) -> Verdict {
        let real = self.snapshot();
        let explained = |at: usize| {
            let mut maybe = self.maybe.iter();
            real[at] == self.image[at]
                || maybe.any(|(start, data)| {
                    at.checked_sub(*start)
                        .and_then(|at| data.get(at))
                        .is_some_and(|byte| *byte == real[at])
                })
        };
        // What is still on its way may be written already.
        let open = self
            .open
            .iter()
            .flatten()
            .any(|r| matches!(r.what, What::Write { .. }));
        match (0..WINDOWED).find(|at| !open && !explained(*at)) {
            Some(at) => Err(format!("window of link {}: wrong byte at {at}", self.link)),
            None => Ok(()),
        }
    }
}

/// Marks the requests of windows.
pub(super) const WINDOW: u64 = 1 << 62;
