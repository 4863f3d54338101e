//! The network: ports, what happens between them, and when it arrives.

use core::cmp::{Ordering, Reverse};
use core::net::IpAddr;
use core::time::Duration;

use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;

use roce_wire::Packet;

use crate::link::{FrameNote, RxMeta};
use crate::sim::faults::{Faults, LossState};
use crate::sim::rng::Rng;
use crate::sim::rule::{Action, Rule};
use crate::sim::trace::{Fate, Record, Trace};
use crate::time::Instant;

/// Names a port of the network.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PortId(pub usize);

/// A packet on its way: BTH to ICRC with the outer header as the receiver will see it.
#[derive(Clone, Debug)]
pub struct Datagram {
    /// The outer header.
    pub meta: RxMeta,
    /// BTH to ICRC.
    pub bytes: Vec<u8>,
}

/// A seeded network in virtual time. It does no IO and never looks at a clock: time is handed in.
#[derive(Debug)]
pub struct Net {
    now: Instant,
    rng: Rng,
    ports: Vec<Port>,
    flights: BinaryHeap<Reverse<Flight>>,
    sequence: u64,
    held: Vec<(PortId, Datagram)>,
    rules: Vec<Rule>,
    spare: Vec<Vec<u8>>,
    trace: Trace,
    sent: u64,
    delivered: u64,
}

impl Net {
    /// Makes a network without ports.
    pub fn new(seed: u64) -> Self {
        Self {
            now: Instant::ZERO,
            rng: Rng::new(seed),
            ports: Vec::new(),
            flights: BinaryHeap::new(),
            sequence: 0,
            held: Vec::new(),
            rules: Vec::new(),
            spare: Vec::new(),
            trace: Trace::default(),
            sent: 0,
            delivered: 0,
        }
    }

    /// Adds a port that answers to `addresses` and whose packets meet `faults`.
    pub fn add_port(&mut self, addresses: &[IpAddr], faults: Faults) -> PortId {
        self.ports.push(Port {
            addresses: addresses.to_vec(),
            faults,
            loss: LossState::default(),
            free_at: Instant::ZERO,
            last_arrival: Instant::ZERO,
            inbox: VecDeque::new(),
        });
        PortId(self.ports.len() - 1)
    }

    /// Changes what happens to the packets that a port sends from here on.
    pub fn set_faults(&mut self, port: PortId, faults: Faults) {
        self.ports[port.0].faults = faults;
    }

    /// Returns what happens to the packets that a port sends.
    pub fn faults(&self, port: PortId) -> Faults {
        self.ports[port.0].faults
    }

    /// Takes away everything that harms packets; delays and rates stay.
    pub fn heal(&mut self) {
        for port in &mut self.ports {
            port.faults = port.faults.healed();
        }
    }

    /// Adds a scripted fault. The first rule that takes a packet decides.
    pub fn add_rule(&mut self, rule: Rule) {
        self.rules.push(rule);
    }

    /// Removes all scripted faults; held packets stay held.
    pub fn clear_rules(&mut self) {
        self.rules.clear();
    }

    /// Sends all held packets on, in the order they were sent in; returns how many.
    pub fn release(&mut self) -> usize {
        let held = core::mem::take(&mut self.held);
        let count = held.len();
        for (from, datagram) in held {
            let due = self.now.after(self.ports[from.0].faults.latency);
            self.fly(due, datagram);
        }
        count
    }

    /// Keeps the last `limit` packets for [`Net::trace`]; 0 keeps none.
    pub fn trace_packets(&mut self, limit: usize) {
        self.trace = Trace::with_limit(limit);
    }

    /// Returns the last packets.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Forgets the packets so far.
    pub fn clear_trace(&mut self) {
        self.trace.clear();
    }

    /// Returns how many packets were given to the network.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns how many packets reached a port.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Moves time to `now` and what has arrived by then to its port.
    pub fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        while let Some(Reverse(flight)) = self.flights.peek()
            && flight.due <= self.now
            && let Some(Reverse(flight)) = self.flights.pop()
        {
            self.delivered += 1;
            self.ports[flight.to.0].inbox.push_back(flight.datagram);
        }
    }

    /// Returns when the next packet arrives.
    pub fn next_arrival(&self) -> Option<Instant> {
        self.flights.peek().map(|Reverse(flight)| flight.due)
    }

    /// Returns whether packets wait to be taken by a port.
    pub fn has_arrivals(&self, port: PortId) -> bool {
        !self.ports[port.0].inbox.is_empty()
    }

    /// Takes the next packet that has arrived at a port.
    pub fn take(&mut self, port: PortId) -> Option<Datagram> {
        self.ports[port.0].inbox.pop_front()
    }

    /// Returns an empty buffer, an old one if there is one.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes a buffer back for later packets.
    pub fn recycle(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARE_BUFFERS {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// Sends a packet from a port through its faults to whoever has the destination address.
    pub fn transmit(&mut self, from: PortId, datagram: Datagram, note: FrameNote) {
        self.sent += 1;
        let mut datagram = datagram;
        let original = self.trace.is_on().then(|| datagram.bytes.clone());
        let meta = datagram.meta;
        let fate = match self.rule_for(from, &datagram) {
            Some(rule) => self.scripted(from, rule, &mut datagram),
            None => self.unscripted(from, &mut datagram),
        };
        let fate = self.forward(from, datagram, fate);
        if let Some(bytes) = original {
            self.trace.push(Record {
                at: self.now,
                from,
                meta,
                note,
                fate,
                bytes,
            });
        }
    }

    /// Puts a packet before a receiver as it is, past all faults, as if it came from `meta.remote`.
    pub fn inject(&mut self, datagram: Datagram) {
        self.fly(self.now, datagram);
    }

    fn rule_for(&mut self, from: PortId, datagram: &Datagram) -> Option<usize> {
        if self.rules.is_empty() {
            return None;
        }
        let packet = Packet::parse(&datagram.bytes).ok()?;
        self.rules
            .iter_mut()
            .position(|rule| rule.takes(from, &packet))
    }

    fn scripted(&mut self, from: PortId, rule: usize, datagram: &mut Datagram) -> Plan {
        let latency = self.ports[from.0].faults.latency;
        match &mut self.rules[rule].action {
            Action::Drop => Plan::gone(Fate::Dropped),
            Action::Duplicate => Plan::in_order(Fate::Sent, latency).twice(),
            Action::Delay(late) => Plan::late(latency + *late),
            Action::Hold => Plan::gone(Fate::Held),
            Action::MarkCe => {
                datagram.meta.traffic_class |= CE;
                Plan::in_order(Fate::Sent, latency)
            }
            Action::Rewrite(change) => {
                change(&mut datagram.bytes);
                Plan::in_order(Fate::Rewritten, latency)
            }
        }
    }

    fn unscripted(&mut self, from: PortId, datagram: &mut Datagram) -> Plan {
        let port = &mut self.ports[from.0];
        let faults = port.faults;
        if port.loss.loses(faults.loss, &mut self.rng) {
            return Plan::gone(Fate::Lost);
        }
        let mut delay = faults.latency;
        if faults.jitter > Duration::ZERO {
            delay += below(faults.jitter, &mut self.rng);
        }
        if let Some(bottleneck) = faults.bottleneck {
            let backlog = port.free_at.since(self.now);
            let waiting = bytes_in(backlog, bottleneck.bits_per_second.get());
            if waiting + datagram.bytes.len() as u64 > bottleneck.queue_bytes && waiting > 0 {
                return Plan::gone(Fate::QueueFull);
            }
            if waiting > bottleneck.mark_bytes {
                mark_ce(&mut datagram.meta);
            }
            let size = datagram.bytes.len() as u64 + OUTER_BYTES;
            port.free_at = self.now.max(port.free_at).after(bottleneck.time_of(size));
            delay += port.free_at.since(self.now);
        }
        if self.rng.chance(faults.mark) {
            mark_ce(&mut datagram.meta);
        }
        let mut plan = Plan::in_order(Fate::Sent, delay);
        if self.rng.chance(faults.reorder) {
            let late = below(faults.reorder_delay, &mut self.rng);
            plan = Plan::late(delay + late);
        }
        if self.rng.chance(faults.duplicate) {
            plan = plan.twice();
        }
        if self.rng.chance(faults.corrupt) {
            flip_bits(&mut datagram.bytes, &mut self.rng);
            plan.fate = Fate::Corrupted;
        }
        plan
    }

    fn forward(&mut self, from: PortId, datagram: Datagram, plan: Plan) -> Fate {
        if self.port_of(datagram.meta.local).is_none() {
            self.recycle(datagram.bytes);
            return Fate::NoRoute;
        }
        if plan.fate == Fate::Held {
            self.held.push((from, datagram));
            return plan.fate;
        }
        let Some(delay) = plan.delay else {
            self.recycle(datagram.bytes);
            return plan.fate;
        };
        let port = &mut self.ports[from.0];
        let mut due = self.now.after(delay);
        if plan.in_order {
            due = due.max(port.last_arrival);
            port.last_arrival = due;
        }
        if plan.twice {
            let mut twin = self.buffer();
            twin.extend_from_slice(&datagram.bytes);
            let meta = datagram.meta;
            let window = self.ports[from.0].faults.reorder_delay;
            let late = below(window, &mut self.rng);
            self.fly(due.after(late), Datagram { meta, bytes: twin });
        }
        self.fly(due, datagram);
        plan.fate
    }

    fn fly(&mut self, due: Instant, datagram: Datagram) {
        let Some(to) = self.port_of(datagram.meta.local) else {
            return;
        };
        self.sequence += 1;
        self.flights.push(Reverse(Flight {
            due,
            sequence: self.sequence,
            to,
            datagram,
        }));
    }

    fn port_of(&self, address: IpAddr) -> Option<PortId> {
        let has = |port: &Port| port.addresses.contains(&address);
        self.ports.iter().position(has).map(PortId)
    }
}

#[derive(Debug)]
struct Port {
    addresses: Vec<IpAddr>,
    faults: Faults,
    loss: LossState,
    free_at: Instant,
    last_arrival: Instant,
    inbox: VecDeque<Datagram>,
}

/// When a packet arrives, if it does.
struct Plan {
    fate: Fate,
    delay: Option<Duration>,
    in_order: bool,
    twice: bool,
}

impl Plan {
    const fn gone(fate: Fate) -> Self {
        Self {
            fate,
            delay: None,
            in_order: false,
            twice: false,
        }
    }

    const fn in_order(fate: Fate, delay: Duration) -> Self {
        Self {
            fate,
            delay: Some(delay),
            in_order: true,
            twice: false,
        }
    }

    const fn late(delay: Duration) -> Self {
        Self {
            fate: Fate::Delayed,
            delay: Some(delay),
            in_order: false,
            twice: false,
        }
    }

    const fn twice(mut self) -> Self {
        self.fate = Fate::Duplicated;
        self.twice = true;
        self
    }
}

#[derive(Debug)]
struct Flight {
    due: Instant,
    sequence: u64,
    to: PortId,
    datagram: Datagram,
}

impl Flight {
    const fn key(&self) -> (Instant, u64) {
        (self.due, self.sequence)
    }
}

impl Eq for Flight {}

impl Ord for Flight {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialEq for Flight {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl PartialOrd for Flight {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn below(limit: Duration, rng: &mut Rng) -> Duration {
    Duration::from_nanos(rng.below(limit.as_nanos() as u64 + 1))
}

fn bytes_in(time: Duration, bits_per_second: u64) -> u64 {
    (time.as_nanos() * u128::from(bits_per_second) / 8_000_000_000) as u64
}

fn flip_bits(bytes: &mut [u8], rng: &mut Rng) {
    if bytes.is_empty() {
        return;
    }
    for _ in 0..rng.range(1..=3) {
        let bit = rng.below(bytes.len() as u64 * 8) as usize;
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

const fn mark_ce(meta: &mut RxMeta) {
    if meta.traffic_class & CE != 0 {
        meta.traffic_class |= CE;
    }
}

/// The ECN field: CE is both bits; either one alone says that the sender understands ECN.
const CE: u8 = 0b11;

/// Ethernet with preamble, FCS and gap, IPv4 and UDP around BTH to ICRC.
const OUTER_BYTES: u64 = 38 + 20 + 8;

const SPARE_BUFFERS: usize = 4096;

#[cfg(test)]
mod tests;
