//! Two connected queue pairs on two simulated devices: what most scenarios need.

mod end;
mod packets;
mod rogue;

pub use end::{End, Setup};
pub use packets::{Seen, icrc_of, named, seal, seen};
pub use rogue::Rogue;

use core::time::Duration;

use roce_engine::sim::{Bound, Ended, Rule, World};
use roce_engine::verbs::{
    Backend, Completion, Payload, PostError, QpState, SendFlags, SendOp, SendWr, Status,
};

use crate::rc::address;

/// Two devices, a QP on each, connected to each other. A failing test prints the packets.
#[derive(Debug)]
pub struct Pair {
    /// The devices and their network.
    pub world: World,
    /// The ends, by device.
    pub ends: [End; 2],
}

impl Pair {
    /// Makes a pair with the defaults of [`Setup`].
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// Makes a pair after `change` to the defaults.
    pub fn with(change: impl FnOnce(&mut Setup)) -> Self {
        let mut setup = Setup::default();
        change(&mut setup);
        let mut world = World::new(1);
        let ends = [0, 1].map(|side| End::new(&mut world, &setup, side));
        for side in 0..2 {
            let qpn = ends[1 - side].qpn;
            let attributes = setup.attributes(side, address(setup.ipv6, 1 - side), qpn);
            let connected = attributes.connect(world.device(side), ends[side].qp);
            connected.expect("legal attributes");
        }
        world.net().trace_packets(TRACE);
        Self { world, ends }
    }

    /// Adds a scripted fault.
    pub fn rule(&mut self, rule: Rule) {
        self.world.net().add_rule(rule);
    }

    /// Posts a signaled request over `len` bytes from `offset` of the side's memory.
    pub fn post(&mut self, side: usize, wr_id: u64, op: SendOp, at: (usize, u32)) {
        self.post_flags(side, wr_id, op, at, SendFlags::SIGNALED);
    }

    /// Posts a request with these flags.
    pub fn post_flags(
        &mut self,
        side: usize,
        wr_id: u64,
        op: SendOp,
        at: (usize, u32),
        flags: SendFlags,
    ) {
        self.try_post(side, wr_id, op, at, flags)
            .expect("the request is legal");
    }

    /// Posts a request.
    ///
    /// # Errors
    ///
    /// As `Backend::post_send`.
    pub fn try_post(
        &mut self,
        side: usize,
        wr_id: u64,
        op: SendOp,
        (offset, len): (usize, u32),
        flags: SendFlags,
    ) -> Result<(), PostError> {
        let end = &self.ends[side];
        let sges = [end.sge(offset, len)];
        let request = SendWr {
            wr_id,
            op,
            payload: Payload::Sges(&sges),
            flags,
        };
        self.world.device(side).post_send(end.qp, &[request])
    }

    /// Posts a receive of `len` bytes at `offset` of the side's memory.
    pub fn recv(&mut self, side: usize, wr_id: u64, (offset, len): (usize, u32)) {
        self.ends[side].recv(&mut self.world, side, wr_id, (offset, len));
    }

    /// Returns a WRITE to `offset` of the other side's memory.
    pub fn write_to(&self, side: usize, offset: usize) -> SendOp {
        let mr = &self.ends[1 - side].mr;
        SendOp::Write {
            addr: mr.addr + offset as u64,
            rkey: mr.rkey,
        }
    }

    /// Returns a READ from `offset` of the other side's memory.
    pub fn read_from(&self, side: usize, offset: usize) -> SendOp {
        let mr = &self.ends[1 - side].mr;
        SendOp::Read {
            addr: mr.addr + offset as u64,
            rkey: mr.rkey,
        }
    }

    /// Returns a fetch and add on `offset` of the other side's memory.
    pub fn add_to(&self, side: usize, offset: usize, add: u64) -> SendOp {
        let mr = &self.ends[1 - side].mr;
        SendOp::FetchAdd {
            addr: mr.addr + offset as u64,
            rkey: mr.rkey,
            add,
        }
    }

    /// Runs until nothing can happen any more.
    ///
    /// # Panics
    ///
    /// Something still happens after ten virtual minutes.
    pub fn run(&mut self) {
        let ended = self.world.run_for(Duration::from_secs(600));
        assert_eq!(ended, Ended::Idle, "the world comes to rest");
    }

    /// Runs for this long at most.
    pub fn run_for(&mut self, time: Duration) -> Ended {
        self.world.run_for(time)
    }

    /// Runs until the condition is true.
    ///
    /// # Panics
    ///
    /// It never becomes true.
    pub fn run_until(&mut self, mut condition: impl FnMut(&mut World) -> bool) {
        let bound = Bound::time(Duration::from_secs(600));
        let ended = self.world.run_until(bound, |world| condition(world));
        assert_eq!(ended, Ended::Met, "the condition becomes true");
    }

    /// Takes the completions of a side's send queue.
    pub fn sent(&mut self, side: usize) -> Vec<Completion> {
        self.ends[side].poll_sent(&mut self.world, side)
    }

    /// Takes the completions of a side's receive queue.
    pub fn received(&mut self, side: usize) -> Vec<Completion> {
        self.ends[side].poll_received(&mut self.world, side)
    }

    /// Asserts the completions of a side's send queue, in order.
    pub fn expect_sent(&mut self, side: usize, expected: &[(u64, Status)]) {
        assert_eq!(
            outcomes(&self.sent(side)),
            expected,
            "send completions of side {side}"
        );
    }

    /// Asserts the completions of a side's receive queue, in order.
    pub fn expect_received(&mut self, side: usize, expected: &[(u64, Status)]) {
        assert_eq!(
            outcomes(&self.received(side)),
            expected,
            "receive completions of side {side}"
        );
    }

    /// Asserts that a side's QP is in this state.
    pub fn expect_state(&mut self, side: usize, state: QpState) {
        assert_eq!(self.ends[side].state(&mut self.world, side), state);
    }

    /// Returns the packets that a side sent so far.
    pub fn packets(&self, side: usize) -> Vec<Seen> {
        seen(&self.world, side)
    }

    /// Returns a counter of a side's device.
    pub fn counter(&mut self, side: usize, name: &str) -> u64 {
        counter(&mut self.world, side, name)
    }
}

impl Default for Pair {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.world.net().trace());
        }
    }
}

/// Returns ids and statuses.
pub fn outcomes(completions: &[Completion]) -> Vec<(u64, Status)> {
    completions.iter().map(|wc| (wc.wr_id, wc.status)).collect()
}

/// Returns a counter of a device.
///
/// # Panics
///
/// It has none of this name.
pub fn counter(world: &mut World, side: usize, name: &str) -> u64 {
    let all = world.device(side).counters();
    let found = all.iter().find(|(counter, _)| *counter == name);
    found.unwrap_or_else(|| panic!("no counter {name}")).1
}

/// Packets that a failing test prints.
const TRACE: usize = 4000;
