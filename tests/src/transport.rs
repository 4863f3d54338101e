//! Follows the transport in a capture: what was asked for, what was sent again and why, whether the data agrees.
//!
//! Shares no code with the product: it reads the headers by the offsets of IBTA 9.2 to 9.5, so that a mistake in
//! the product's reading can't hide itself here.

use core::net::IpAddr;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use anyhow::Result;

use crate::frames::each_packet;
use crate::icrc;

mod data;
mod packet;

use data::Memory;
pub use packet::{Kind, Packet};

/// A requester that hears nothing for so long is woken by its ack timer: 67 ms is the time of perftest's `-u 14`.
const TIMER_NS: u64 = 60_000_000;

/// How long an emulated peer may have stood still with our answer in its queue.
const STALL_NS: u64 = 1_000_000_000;

/// What one side asked of the other, all its QPs together.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Side {
    /// Bytes of the messages that it sent, wrote, asked for or changed, each counted once.
    pub bytes: u64,
    /// Messages, each counted once.
    pub messages: u64,
    /// Requests that it sent again.
    pub resent: u64,
    /// Those of them for which there is no reason in the capture.
    pub unexplained: u64,
    /// Sequence NAKs that it received.
    pub naks: u64,
    /// RNR NAKs that it received.
    pub rnr_naks: u64,
    /// Other NAKs that it received.
    pub errors: u64,
}

/// What a capture says of both sides.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Story {
    /// What we asked for.
    pub ours: Side,
    /// What the peer asked for.
    pub theirs: Side,
    /// Where data differs from what it has to be, the first few, in words.
    pub wrong_data: Vec<String>,
    /// Bytes and values that were compared.
    pub compared: u64,
    /// The traffic class bytes that occurred, ours first.
    pub traffic_classes: (Vec<u8>, Vec<u8>),
}

/// A QP as its side announced it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// QPN.
    pub qpn: u32,
    /// The PSN of its first request.
    pub psn: u32,
}

/// What is known of a run before its capture is read.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// The path MTU of every QP.
    pub mtu: u64,
    /// Which QPs talk to each other: ours first.
    pub pairs: Vec<(End, End)>,
    /// What of the data stays the same.
    pub fixed: Fixed,
}

/// Which data of a run stays the same, so that it must agree wherever and however often it passes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fixed {
    /// None.
    #[default]
    Nothing,
    /// Neither side changes the memory that it writes from or that is read.
    Memory,
    /// As [`Self::Memory`], but the last byte of every WRITE counts.
    MemoryButLastByte,
    /// SENDs of one size, from places that come again in turn.
    Sends(Sends),
}

/// How SENDs of one size follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sends {
    /// Bytes of each.
    pub size: u64,
    /// After how many the same place comes again.
    pub turn: u64,
}

/// Reads the story of a capture in which `us` are our addresses.
///
/// # Errors
/// If the file can't be read.
pub fn follow(file: &Path, us: &[IpAddr], known: &Known) -> Result<Story> {
    let mut follower = Follower {
        mtu: known.mtu,
        fixed: known.fixed,
        ..Follower::default()
    };
    // Frames of other QPs are of the runs before and after.
    for (ours, theirs) in &known.pairs {
        follower.requester.insert((true, theirs.qpn), *ours);
        follower.requester.insert((false, ours.qpn), *theirs);
    }
    each_packet(file, |time, bytes| {
        let ours = icrc::source(bytes).is_some_and(|source| us.contains(&source));
        if let Some(packet) = Packet::parse(bytes) {
            follower.take(time, ours, &packet);
        }
    })?;
    let mut story = follower.story;
    story.wrong_data.extend(follower.memory.faults);
    story.compared += follower.memory.compared;
    Ok(story)
}

/// One direction of requests: from a side to a QP of the other.
#[derive(Debug, Default)]
struct Flow {
    /// The PSN after the newest one.
    next: u32,
    /// When it last sent or heard anything: if that is long ago, its timer has run out.
    last_time: u64,
    /// When it last heard an answer, or began to wait for one.
    last_answer: u64,
    /// PSNs that were acknowledged, counted as `passed` is, and when that last grew.
    acked: u64,
    acked_time: u64,
    /// Reasons to go back that came since the last new request.
    reasons: bool,
    /// Where each request began: its first PSN, and the place in the other's memory.
    requests: BTreeMap<u64, Request>,
    /// PSNs that the flow has passed, as a number that does not wrap.
    passed: u64,
}

#[derive(Debug, Clone, Copy)]
struct Request {
    rkey: u32,
    address: u64,
    fetch: bool,
}

#[derive(Debug, Default)]
struct Follower {
    mtu: u64,
    fixed: Fixed,
    /// By (ours, destination QPN).
    flows: HashMap<(bool, u32), Flow>,
    /// The requesting QP of a flow, where it is known.
    requester: HashMap<(bool, u32), End>,
    memory: Memory,
    story: Story,
}

impl Follower {
    fn take(&mut self, time: u64, ours: bool, packet: &Packet<'_>) {
        let Some(&from) = self.requester.get(&(ours, packet.qpn)) else {
            return;
        };
        let classes = match ours {
            true => &mut self.story.traffic_classes.0,
            false => &mut self.story.traffic_classes.1,
        };
        if !classes.contains(&packet.traffic_class) {
            classes.push(packet.traffic_class);
        }
        match packet.kind() {
            Some(Kind::Response) => self.response(time, ours, packet),
            Some(kind) => self.request(time, ours, from, kind, packet),
            None => {}
        }
    }

    fn side(&mut self, ours: bool) -> &mut Side {
        match ours {
            true => &mut self.story.ours,
            false => &mut self.story.theirs,
        }
    }

    fn request(&mut self, time: u64, ours: bool, from: End, kind: Kind, packet: &Packet<'_>) {
        let span = match kind {
            Kind::Read { length } => length.div_ceil(self.mtu).max(1),
            _ => 1,
        };
        let new = || Flow {
            next: from.psn,
            last_time: time,
            last_answer: time,
            ..Flow::default()
        };
        let flow = self.flows.entry((ours, packet.qpn)).or_insert_with(new);
        let ahead = packet.psn.wrapping_sub(flow.next) & 0xff_ffff;
        // Frames of two directions are captured on two processors: their times may cross.
        let silent = time.saturating_sub(flow.last_time.min(flow.last_answer)) >= TIMER_NS;
        flow.last_time = time;
        if ahead >= 1 << 23 && packet.is_reliable() {
            flow.reasons |= silent;
            // The clock of an emulated peer runs on while its processor waits for ours, so its timer may run out
            // at any time. What it may not do is to repeat what was acknowledged long before.
            let index = flow.passed.saturating_sub((1 << 24) - u64::from(ahead));
            let open = index >= flow.acked || time.saturating_sub(flow.acked_time) < STALL_NS;
            let explained = flow.reasons || !ours && open;
            self.contents(ours, kind, index, packet);
            let side = self.side(ours);
            side.resent += 1;
            side.unexplained += u64::from(!explained);
            return;
        }
        if flow.acked == flow.passed {
            flow.last_answer = time;
        }
        // What lies between was lost before the capture; the sender has to be told.
        flow.passed += u64::from(ahead);
        flow.reasons = false;
        let at = flow.passed;
        flow.passed += span;
        flow.next = packet.psn.wrapping_add(span as u32) & 0xff_ffff;
        if let Some((address, rkey)) = packet.remote_place() {
            let fetch = kind
                == Kind::Atomic {
                    fetch_and_add: true,
                };
            flow.requests.insert(
                at,
                Request {
                    rkey,
                    address,
                    fetch,
                },
            );
            // Answers to what was asked long ago have come.
            while flow.requests.len() > 4096 {
                flow.requests.pop_first();
            }
        }
        self.contents(ours, kind, at, packet);
        let (bytes, message) = kind.account(packet.payload().len() as u64);
        let side = self.side(ours);
        side.bytes += bytes;
        side.messages += u64::from(message);
    }

    /// Compares what a request carries, which is packet `at` of its flow.
    fn contents(&mut self, ours: bool, kind: Kind, at: u64, packet: &Packet<'_>) {
        let mut payload = packet.payload();
        match (kind, self.fixed) {
            (Kind::Send { .. }, Fixed::Sends(Sends { size, turn })) => {
                let packets = size.div_ceil(self.mtu).max(1);
                let (message, offset) = (at / packets, at % packets * self.mtu);
                // No two places overlap.
                let address = message % turn * size + offset;
                let key = (ours, packet.qpn);
                self.memory.compare(key, address, payload);
                if payload.len() as u64 != (size - offset).min(self.mtu) {
                    let length = payload.len();
                    self.memory.fault(format!(
                        "packet {at} of a flow of SENDs carries {length} bytes"
                    ));
                }
            }
            (Kind::Write { last }, Fixed::Memory | Fixed::MemoryButLastByte) => {
                let Some(flow) = self.flows.get(&(ours, packet.qpn)) else {
                    return;
                };
                let Some((&first, request)) = flow.requests.range(..=at).next_back() else {
                    return;
                };
                if last && self.fixed == Fixed::MemoryButLastByte {
                    payload = payload.split_last().map_or(payload, |(_, rest)| rest);
                }
                let address = request.address + (at - first) * self.mtu;
                self.memory.compare((ours, request.rkey), address, payload);
            }
            _ => {}
        }
    }

    fn response(&mut self, time: u64, ours: bool, packet: &Packet<'_>) {
        // The flow that it answers: the other side's, from the QP that this one goes to.
        let flow_key = (self.requester.iter())
            .find(|&(&(asked_by_us, _), from)| asked_by_us != ours && from.qpn == packet.qpn)
            .map(|(&key, _)| key);
        let Some(key) = flow_key.filter(|key| self.flows.contains_key(key)) else {
            return;
        };
        if let Some(nak) = packet.nak() {
            let side = self.side(!ours);
            match nak {
                0x20..=0x3f => side.rnr_naks += 1,
                0x60 => side.naks += 1,
                _ => side.errors += 1,
            }
        }
        let Some(flow) = self.flows.get_mut(&key) else {
            return;
        };
        flow.last_answer = time;
        flow.reasons |= packet.nak().is_some();
        let back = u64::from(flow.next.wrapping_sub(packet.psn) & 0xff_ffff);
        let Some(at) = flow.passed.checked_sub(back) else {
            return;
        };
        if at >= flow.acked && packet.nak().is_none() {
            (flow.acked, flow.acked_time) = (at + 1, time);
        }
        let Some((&first, request)) = flow.requests.range(..=at).next_back() else {
            return;
        };
        let (key, place) = ((ours, request.rkey), request.address);
        if let Some(value) = packet.atomic_value() {
            if first == at {
                self.memory.changed(key, place, at, value, request.fetch);
            }
        } else if self.fixed == Fixed::Memory && packet.is_read_response() {
            let address = place + (at - first) * self.mtu;
            self.memory.compare(key, address, packet.payload());
        }
    }
}

#[cfg(test)]
mod tests;
