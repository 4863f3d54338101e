//! Receive queues, own or shared: each receive is used once, and nothing is written beside it.

use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;

use roce_engine::sim::{Rng, World};
use roce_engine::verbs::{Backend, Qp, RecvWr, Sge, Srq};

use crate::oracle::region_bytes;
use crate::workload::mixed::plan::PoolPlan;
use crate::workload::post::RECEIVE;
use crate::workload::setup::Block;

/// A receive queue.
#[derive(Debug)]
pub(super) struct Pool {
    side: usize,
    number: usize,
    plan: PoolPlan,
    block: Block,
    queue: Queue,
    slots: Vec<Slot>,
    /// The slots of a queue pair's own queue in the order of posting.
    order: VecDeque<usize>,
    posted: u64,
    completed: u64,
    next_at: Duration,
    limit: Limit,
    /// Its queue pair is destroyed.
    dead: bool,
}

/// Where receives are posted to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Queue {
    Own(Qp),
    Shared(Srq),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Slot {
    Free,
    Posted(u64),
}

/// What is known of an SRQ's limit.
#[derive(Clone, Copy, Debug, Default)]
struct Limit {
    armed: u64,
    /// What was posted before it was armed.
    posted: u64,
    /// A receive that was posted later has completed, so that one went while it was armed.
    taken: bool,
}

/// A receive that has completed.
#[derive(Clone, Debug)]
pub(super) struct Landed {
    pub(super) bytes: Vec<u8>,
    /// Its number in the order of posting.
    pub(super) number: u64,
    span: Range<usize>,
}

impl Pool {
    pub(super) fn new(
        side: usize,
        number: usize,
        plan: &PoolPlan,
        block: Block,
        queue: Queue,
    ) -> Self {
        for at in 0..block.region.len() {
            block.region.store(at, FILL);
        }
        Self {
            side,
            number,
            slots: vec![Slot::Free; plan.depth],
            plan: plan.clone(),
            block,
            queue,
            order: VecDeque::new(),
            posted: 0,
            completed: 0,
            next_at: Duration::ZERO,
            limit: Limit::default(),
            dead: false,
        }
    }

    /// Returns the bytes of memory that a pool needs.
    pub(super) const fn bytes(plan: &PoolPlan) -> usize {
        plan.depth * (plan.capacity + GUARD)
    }

    pub(super) const fn srq(&self) -> Option<Srq> {
        match self.queue {
            Queue::Shared(srq) => Some(srq),
            Queue::Own(_) => None,
        }
    }

    pub(super) const fn posted(&self) -> u64 {
        self.posted
    }

    /// Its queue pair was destroyed, with what is posted to it.
    pub(super) fn bury(&mut self) {
        self.dead = true;
    }

    /// Returns whether receives of it are posted.
    pub(super) fn has_posted(&self) -> bool {
        self.slots.iter().any(|slot| *slot != Slot::Free)
    }

    /// Posts some of the free receives, or all.
    pub(super) fn post(
        &mut self,
        world: &mut World,
        rng: &mut Rng,
        all: bool,
    ) -> Result<(), String> {
        let now = Duration::from_nanos(world.now().as_nanos());
        if self.dead || (!all && now < self.next_at) {
            return Ok(());
        }
        self.check_limit()?;
        let free = (0..self.slots.len()).filter(|slot| self.slots[*slot] == Slot::Free);
        let free: Vec<usize> = free.collect();
        let count = if all {
            free.len()
        } else {
            rng.below(free.len() as u64 + 1) as usize
        };
        if count > 0 {
            self.next_at = now + self.plan.pause;
        }
        for slot in &free[..count] {
            self.post_slot(world, rng, *slot)?;
        }
        if let Queue::Shared(srq) = self.queue
            && rng.chance(0.05)
        {
            let limit = rng.below(self.plan.depth as u64 + 1);
            let armed = world.device(self.side).arm_srq(srq, limit as u32);
            armed.map_err(|error| self.wrong(&format!("limit {limit}: {error}")))?;
            self.limit = Limit {
                armed: limit,
                posted: self.posted,
                taken: false,
            };
        }
        Ok(())
    }

    fn post_slot(&mut self, world: &mut World, rng: &mut Rng, slot: usize) -> Result<(), String> {
        let span = self.span(slot);
        if region_bytes(&self.block.region, span.clone())
            .iter()
            .any(|byte| *byte != FILL)
        {
            return Err(self.wrong(&format!("receive {slot} was written while it was free")));
        }
        // In two pieces, so that a header or a message crosses from one to the other.
        let cut = rng.below(span.len() as u64 + 1) as usize;
        let sge = |offset: usize, len: usize| Sge {
            addr: self.block.mr.addr + (span.start + offset) as u64,
            length: len as u32,
            lkey: self.block.mr.lkey,
        };
        let sges = [sge(0, cut), sge(cut, span.len() - cut)];
        let wr_id =
            RECEIVE | (self.number as u64) << 48 | (self.posted & 0xffff_ffff) << 16 | slot as u64;
        let request = [RecvWr { wr_id, sges: &sges }];
        let device = world.device(self.side);
        let posted = match self.queue {
            Queue::Own(qp) => device.post_recv(qp, &request),
            Queue::Shared(srq) => device.post_srq_recv(srq, &request),
        };
        posted.map_err(|error| self.wrong(&format!("receive {slot}: {error}")))?;
        self.slots[slot] = Slot::Posted(self.posted);
        self.order.push_back(slot);
        self.posted += 1;
        Ok(())
    }

    /// Takes a completion of one of its receives.
    pub(super) fn take(&mut self, wr_id: u64) -> Result<Landed, String> {
        let slot = (wr_id & 0xffff) as usize;
        let number = wr_id >> 16 & 0xffff_ffff;
        if self.slots.get(slot) != Some(&Slot::Posted(number)) {
            let text = format!("receive {number} in {slot} completed, which is not posted");
            return Err(self.wrong(&text));
        }
        if self.srq().is_none() && self.order.pop_front() != Some(slot) {
            return Err(self.wrong(&format!("receive {number} completed out of turn")));
        }
        self.slots[slot] = Slot::Free;
        self.completed += 1;
        self.limit.taken |= number >= self.limit.posted;
        let span = self.span(slot);
        let landed = Landed {
            bytes: region_bytes(&self.block.region, span.clone()),
            number,
            span,
        };
        Ok(landed)
    }

    /// Ends a receive whose first bytes are a message's. `clean`: nothing else may be in it.
    pub(super) fn release(&self, landed: &Landed, used: usize, clean: bool) -> Result<(), String> {
        let rest = &landed.bytes[used..];
        if clean && rest.iter().any(|byte| *byte != FILL) {
            let text = format!("receive {} is written behind its message", landed.number);
            return Err(self.wrong(&text));
        }
        for at in landed.span.clone() {
            self.block.region.store(at, FILL);
        }
        Ok(())
    }

    /// Takes the event of an SRQ's limit: once after it was armed.
    pub(super) fn on_limit(&mut self) -> Result<(), String> {
        if self.limit.armed == 0 {
            return Err(self.wrong("a limit event that was not asked for"));
        }
        self.limit.armed = 0;
        Ok(())
    }

    /// Judges its memory and its limit. `untouched`: receives that are posted have no byte either.
    pub(super) fn on_end(&self, untouched: bool) -> Result<(), String> {
        let bytes = region_bytes(&self.block.region, 0..self.block.region.len());
        let dirty = |span: Range<usize>| bytes[span].iter().any(|byte| *byte != FILL);
        for (slot, state) in self.slots.iter().enumerate() {
            let span = self.span(slot);
            if dirty(span.end..span.end + GUARD) {
                return Err(self.wrong(&format!("something was written behind receive {slot}")));
            }
            if (untouched || *state == Slot::Free) && dirty(span) {
                return Err(self.wrong(&format!("receive {slot} was written without a message")));
            }
        }
        self.check_limit()
    }

    /// All events so far were taken. When the last receive went, no more were left than now.
    fn check_limit(&self) -> Result<(), String> {
        let left = self.posted - self.completed;
        if self.limit.armed > left && self.limit.taken {
            let text = format!("{left} are left without an event: {:?}", self.limit);
            return Err(self.wrong(&text));
        }
        Ok(())
    }

    /// Returns a copy of its memory.
    pub(super) fn snapshot(&self) -> Vec<u8> {
        region_bytes(&self.block.region, 0..self.block.region.len())
    }

    fn span(&self, slot: usize) -> Range<usize> {
        let start = slot * (self.plan.capacity + GUARD);
        start..start + self.plan.capacity
    }

    fn wrong(&self, text: &str) -> String {
        format!("side {}, receive queue {}: {text}", self.side, self.number)
    }
}

/// Returns the pool that a receive belongs to.
pub(super) const fn pool_of(wr_id: u64) -> usize {
    (wr_id >> 48 & 0x7fff) as usize
}

/// What receives hold before a message comes.
const FILL: u8 = 0x5a;

/// Bytes behind each receive that nobody may write.
const GUARD: usize = 8;
