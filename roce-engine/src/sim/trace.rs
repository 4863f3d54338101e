//! What went over a simulated network: for assertions, and for a person after a failure.

use core::fmt;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use roce_wire::Packet;

use crate::link::{FrameNote, RxMeta};
use crate::sim::net::PortId;
use crate::time::Instant;

/// What became of a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fate {
    /// It goes to the receiver as it was sent.
    Sent,
    /// It goes twice.
    Duplicated,
    /// It goes with bits flipped.
    Corrupted,
    /// It goes late; others overtake it.
    Delayed,
    /// A rule holds it.
    Held,
    /// A rule changed it.
    Rewritten,
    /// A rule dropped it.
    Dropped,
    /// The loss model took it.
    Lost,
    /// The bottleneck's queue was full.
    QueueFull,
    /// No port has the destination address.
    NoRoute,
}

/// One packet as its sender gave it to the network.
#[derive(Clone, Debug)]
pub struct Record {
    /// When.
    pub at: Instant,
    /// By whom.
    pub from: PortId,
    /// The outer header.
    pub meta: RxMeta,
    /// The sender's note.
    pub note: FrameNote,
    /// What became of it.
    pub fate: Fate,
    /// BTH to ICRC, before any change by the network.
    pub bytes: Vec<u8>,
}

impl Record {
    /// Returns the packet, if it is one.
    pub fn packet(&self) -> Option<Packet<'_>> {
        Packet::parse(&self.bytes).ok()
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.at.as_nanos();
        write!(
            f,
            "{:>10}.{:03} us  {} > ",
            nanos / 1000,
            nanos % 1000,
            self.from.0
        )?;
        write!(f, "{}  ", self.meta.local)?;
        match self.packet() {
            Some(packet) => describe(f, &packet)?,
            None => write!(f, "{} bytes that are no packet", self.bytes.len())?,
        }
        if self.note.retransmission {
            f.write_str("  again")?;
        }
        if self.fate != Fate::Sent {
            write!(f, "  [{:?}]", self.fate)?;
        }
        Ok(())
    }
}

fn describe(f: &mut fmt::Formatter<'_>, packet: &Packet<'_>) -> fmt::Result {
    let bth = &packet.bth;
    write!(
        f,
        "{} qpn {} psn {} {} bytes",
        bth.opcode,
        bth.dest_qpn,
        bth.psn,
        packet.payload.len()
    )?;
    if let Some(aeth) = packet.ext.aeth {
        write!(f, " {:?} msn {}", aeth.syndrome, aeth.msn.value())?;
    }
    if let Some(reth) = packet.ext.reth {
        write!(f, " {:#x}+{}", reth.addr, reth.length)?;
    }
    if let Some(atomic) = packet.ext.atomic {
        write!(f, " {:#x}", atomic.addr)?;
    }
    f.write_str(if bth.ack_request { " A" } else { "" })?;
    f.write_str(if bth.solicited { " S" } else { "" })
}

/// The last packets of a network, oldest first. Its `Display` is one line a packet.
#[derive(Debug, Default)]
pub struct Trace {
    limit: usize,
    records: VecDeque<Record>,
    forgotten: u64,
}

impl Trace {
    /// Makes a trace that keeps the last `limit` packets; 0 keeps none and costs nothing.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    /// Returns the packets, oldest first.
    pub fn records(&self) -> impl DoubleEndedIterator<Item = &Record> {
        self.records.iter()
    }

    /// Forgets all packets.
    pub fn clear(&mut self) {
        self.records.clear();
    }

    pub(crate) const fn is_on(&self) -> bool {
        self.limit > 0
    }

    pub(crate) fn push(&mut self, record: Record) {
        if self.records.len() >= self.limit {
            self.records.pop_front();
            self.forgotten += 1;
        }
        self.records.push_back(record);
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.forgotten > 0 {
            writeln!(f, "({} earlier packets are not shown)", self.forgotten)?;
        }
        self.records
            .iter()
            .try_for_each(|record| writeln!(f, "{record}"))
    }
}
