//! A link that does harm on purpose: seeded faults between the engine and the wire.
//!
//! Faults happen to packets that are sent, behind the engine's back: as far as it knows they left.
//! Each packet draws its fate from one generator in the order of sending, so a seed and a sequence
//! of packets give the same faults again.

mod fate;
mod held;

use alloc::boxed::Box;
use alloc::vec;
use core::net::IpAddr;
use core::time::Duration;

use roce_wire::Mtu;
use roce_wire::icrc::{IPV4_DONT_FRAGMENT, IcrcSeed};

use super::{
    Fault, Flow, FrameNote, Link, LinkCaps, LinkCounters, LinkError, LinkEvent, RxMeta, Slot,
};
use crate::clock::Clock;
use crate::time::Instant;
use crate::verbs::PortAttr;
use fate::{Fate, Flip, Random};
use held::{Entry, Held};

/// The UDP port that the ICRC of every RoCEv2 packet covers.
const ROCE_PORT: u16 = 4791;

/// The shortest packet that has an ICRC.
const MIN_PACKET: usize = 16;

/// Packets that wait at most. When they are that many the link has no room.
const HELD: usize = 1024;

/// The longest packet that waits: those of the largest path MTU do.
const LONGEST_HELD: usize = Mtu::B4096.bytes() + Mtu::HEADROOM;

/// How long a packet waits to be overtaken when nothing follows.
const OVERTAKEN_BY: Duration = Duration::from_millis(1);

/// How often each fault happens: probabilities from 0 to 1, independent of each other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ImpairConfig {
    /// Seeds all choices.
    pub seed: u64,
    /// A packet is not sent.
    pub drop: f64,
    /// A packet is sent twice.
    pub duplicate: f64,
    /// A packet is overtaken by up to eight later ones; with a delay, it overtakes those that wait.
    pub reorder: f64,
    /// One bit of a packet flips, where the ICRC sees it.
    pub corrupt: f64,
    /// Every packet waits for this long.
    pub delay: Duration,
}

impl ImpairConfig {
    /// Returns whether there is any fault to do.
    pub fn is_active(&self) -> bool {
        self.holds() || self.drop > 0.0 || self.duplicate > 0.0 || self.corrupt > 0.0
    }

    fn holds(&self) -> bool {
        self.reorder > 0.0 || !self.delay.is_zero()
    }
}

/// Faults that were done.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    dropped: u64,
    duplicated: u64,
    reordered: u64,
    corrupted: u64,
    delayed: u64,
}

/// A link around a link that impairs what is sent. Receiving is left alone.
///
/// Without any fault configured it is transparent, so that impaired and plain devices are one type.
#[derive(Debug)]
pub struct Impair<L, C> {
    inner: L,
    clock: C,
    config: ImpairConfig,
    random: Random,
    held: Held,
    /// Packets that got to the inner link or past it: what overtaking is counted in.
    passed: u64,
    /// Where packets are filled that go nowhere, and kept that go twice.
    scratch: Box<[u8]>,
    counters: Counters,
}

impl<L: Link, C: Clock> Impair<L, C> {
    /// Puts faults around a link. The clock times delays.
    pub fn new(inner: L, clock: C, config: ImpairConfig) -> Self {
        let longest = inner.caps().max_packet;
        let held = if config.holds() { HELD } else { 0 };
        let scratch = if config.is_active() { longest } else { 0 };
        Self {
            held: Held::new(held, longest.min(LONGEST_HELD)),
            inner,
            clock,
            random: Random::new(config.seed),
            config,
            passed: 0,
            scratch: vec![0; scratch].into(),
            counters: Counters::default(),
        }
    }

    /// Returns the link.
    pub const fn inner(&self) -> &L {
        &self.inner
    }

    /// Returns the link.
    pub const fn inner_mut(&mut self) -> &mut L {
        &mut self.inner
    }

    /// Returns the link; what is held is lost.
    pub fn into_inner(self) -> L {
        self.inner
    }

    /// Sends what has waited long enough, as far as the inner link has room.
    fn release(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let now = self.clock.now();
        while let Some(entry) = self.held.due(now, self.passed) {
            let bytes = self.held.bytes(&entry);
            if !emit(
                &mut self.inner,
                &entry.flow,
                entry.note,
                bytes,
                0,
                entry.flip,
            ) {
                return;
            }
            self.passed += 1;
            if entry.duplicate {
                self.counters.duplicated += 1;
                self.held.make_duplicate(&entry);
            } else {
                self.held.remove(&entry);
            }
        }
    }

    fn drop_packet(
        &mut self,
        flow: &Flow,
        len: usize,
        note: FrameNote,
        fill: impl FnOnce(&mut Slot<'_>),
    ) {
        let bytes = &mut self.scratch[..len];
        fill(&mut Slot { bytes, ipv4_id: 0 });
        let fault = Some(Fault::Dropped);
        self.inner
            .withheld(flow, FrameNote { fault, ..note }, bytes);
        self.counters.dropped += 1;
        self.passed += 1;
    }

    /// Returns whether a packet is to be held: to be overtaken, or, unless it is to overtake, for the
    /// delay.
    fn waits(&self, fate: &Fate) -> bool {
        fate.reorder == self.config.delay.is_zero()
    }

    /// Keeps a packet for later; returns false if there is no room.
    fn hold(
        &mut self,
        flow: &Flow,
        len: usize,
        note: FrameNote,
        fate: &Fate,
        fill: impl FnOnce(&mut Slot<'_>),
    ) -> bool {
        let now = self.clock.now();
        let delayed = !self.config.delay.is_zero();
        let (fault, due, after) = if delayed {
            (Fault::Delayed, now.after(self.config.delay), u64::MAX)
        } else {
            let after = self.passed + 1 + fate.distance;
            (Fault::Reordered, now.after(OVERTAKEN_BY), after)
        };
        // A flipped bit is the news, not that the packet waited.
        let fault = fate.flip.map_or(fault, |_| Fault::Corrupted);
        let entry = Entry {
            note: FrameNote {
                fault: Some(fault),
                ..note
            },
            due,
            after,
            flip: fate.flip,
            duplicate: fate.duplicate,
            flow: *flow,
            place: 0,
        };
        let Some(bytes) = self.held.add(entry, len) else {
            return false;
        };
        fill(&mut Slot { bytes, ipv4_id: 0 });
        if delayed {
            self.counters.delayed += 1;
        } else {
            self.counters.reordered += 1;
        }
        self.counters.corrupted += u64::from(fate.flip.is_some());
        true
    }

    /// Sends a packet at once, with what else is its fate.
    fn pass(
        &mut self,
        flow: &Flow,
        len: usize,
        note: FrameNote,
        fate: &Fate,
        fill: impl FnOnce(&mut Slot<'_>),
    ) -> bool {
        let overtakes = fate.reorder && !self.held.is_empty();
        let fault = match fate.flip {
            Some(_) => Some(Fault::Corrupted),
            None => overtakes.then_some(Fault::Reordered),
        };
        let copy = &mut self.scratch[..len];
        let mut sealed_for = 0;
        let sent = self
            .inner
            .send(flow, len, FrameNote { fault, ..note }, |slot| {
                fill(slot);
                if fate.duplicate {
                    copy.copy_from_slice(slot.bytes);
                    sealed_for = slot.ipv4_id;
                }
                if let Some(flip) = fate.flip {
                    flip.apply(slot.bytes);
                }
            });
        if !sent {
            return false;
        }
        self.passed += 1;
        self.counters.reordered += u64::from(overtakes);
        self.counters.corrupted += u64::from(fate.flip.is_some());
        if fate.duplicate {
            let fault = Some(Fault::Duplicated);
            let note = FrameNote { fault, ..note };
            // Without room for the copy there is none: duplicates are never owed.
            if emit(&mut self.inner, flow, note, copy, sealed_for, None) {
                self.counters.duplicated += 1;
                self.passed += 1;
            }
        }
        true
    }
}

/// Sends a finished packet that was sealed for one Identification and goes out with another.
fn emit<L: Link>(
    link: &mut L,
    flow: &Flow,
    note: FrameNote,
    bytes: &[u8],
    sealed_for: u16,
    flip: Option<Flip>,
) -> bool {
    link.send(flow, bytes.len(), note, |slot| {
        slot.bytes.copy_from_slice(bytes);
        let stale = flow.local.is_ipv4() && slot.ipv4_id != sealed_for;
        if stale && bytes.len() >= MIN_PACKET {
            let seed = IcrcSeed::new(flow.local, flow.remote, flow.source_port, ROCE_PORT);
            seed.seal(slot.ipv4_id, IPV4_DONT_FRAGMENT, slot.bytes);
        }
        if let Some(flip) = flip {
            flip.apply(slot.bytes);
        }
    })
}

impl<L: Link, C: Clock> Link for Impair<L, C> {
    fn caps(&self) -> &LinkCaps {
        self.inner.caps()
    }

    fn port(&self) -> &PortAttr {
        self.inner.port()
    }

    fn source_port(&mut self, local: IpAddr, wanted: u16) -> u16 {
        self.inner.source_port(local, wanted)
    }

    fn receive<F>(&mut self, budget: usize, sink: F) -> Result<usize, LinkError>
    where
        F: FnMut(&RxMeta, &[u8]),
    {
        self.inner.receive(budget, sink)
    }

    fn send<F>(&mut self, flow: &Flow, len: usize, note: FrameNote, fill: F) -> bool
    where
        F: FnOnce(&mut Slot<'_>),
    {
        if !self.config.is_active() {
            return self.inner.send(flow, len, note, fill);
        }
        self.release();
        // The draw counts only once the packet is taken: one that is refused comes again.
        let mut random = self.random;
        let fate = Fate::draw(&mut random, &self.config, len);
        let taken = if fate.drop {
            self.drop_packet(flow, len, note, fill);
            true
        } else if self.waits(&fate) && len <= LONGEST_HELD {
            self.hold(flow, len, note, &fate, fill)
        } else {
            self.pass(flow, len, note, &fate, fill)
        };
        if taken {
            self.random = random;
        }
        taken
    }

    fn flush(&mut self) -> Result<(), LinkError> {
        self.release();
        self.inner.flush()
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<(), LinkError> {
        let now = self.clock.now();
        let timeout = match self.held.next_due() {
            // What is due and could not leave waits for room, as the inner link does.
            Some(due) if due > now => {
                let left = due.since(now);
                Some(timeout.map_or(left, |timeout| timeout.min(left)))
            }
            _ => timeout,
        };
        self.inner.wait(timeout)
    }

    fn withheld(&mut self, flow: &Flow, note: FrameNote, bytes: &[u8]) {
        self.inner.withheld(flow, note, bytes);
    }

    fn next_event(&mut self) -> Option<LinkEvent> {
        self.inner.next_event()
    }

    fn counters(&self) -> LinkCounters {
        let mut counters = self.inner.counters();
        if self.config.is_active() {
            counters.extend([
                ("impair_dropped", self.counters.dropped),
                ("impair_duplicated", self.counters.duplicated),
                ("impair_reordered", self.counters.reordered),
                ("impair_corrupted", self.counters.corrupted),
                ("impair_delayed", self.counters.delayed),
            ]);
        }
        counters
    }
}

#[cfg(test)]
mod tests;
