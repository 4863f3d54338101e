//! The frame seam: what a device sends and receives through.
//!
//! A slot starts at the BTH and ends after the ICRC. The link owns everything outside of that
//! (Ethernet, IP, UDP), because for some links the kernel writes it. Since the ICRC covers the IPv4
//! Identification, a link names the ID that a slot will carry before the engine seals it.
//!
//! Middlewares ([`Tap`], [`Impair`]) are links around links.

pub mod impair;
#[cfg(test)]
mod memory;
pub mod tap;

use core::fmt;
use core::net::IpAddr;
use core::time::Duration;

use alloc::string::String;

use crate::verbs::PortAttr;

pub use impair::{Impair, ImpairConfig};
pub use tap::{FrameSink, Tap, TappedFrame};

/// What a link needs to address a packet. Equal flows may share a batch.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Flow {
    /// The source address.
    pub local: IpAddr,
    /// The destination address, of the same family.
    pub remote: IpAddr,
    /// The UDP source port that [`Link::source_port`] gave; constant for a QP so that ECMP keeps
    /// its order.
    pub source_port: u16,
    /// DSCP and ECN: IPv4 TOS or IPv6 traffic class.
    pub traffic_class: u8,
    /// IPv4 TTL or IPv6 hop limit.
    pub hop_limit: u8,
    /// The IPv6 flow label (20 bits); ignored over IPv4.
    pub flow_label: u32,
}

/// Room for one packet, BTH to ICRC.
#[derive(Debug)]
pub struct Slot<'a> {
    /// Exactly the bytes that were asked for; their content is undefined before.
    pub bytes: &'a mut [u8],
    /// The IPv4 Identification this packet will carry (DF is set); meaningless over IPv6.
    pub ipv4_id: u16,
}

/// Why a packet is sent: for captures and traces, never for the protocol.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct FrameNote {
    /// The packet's PSN was sent before.
    pub retransmission: bool,
    /// What is done to it on purpose.
    pub fault: Option<Fault>,
}

/// What a middleware does to a packet on purpose.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// It is not sent.
    Dropped,
    /// It is a second copy.
    Duplicated,
    /// It overtakes, or is overtaken by, packets that were sent before or after it.
    Reordered,
    /// It waited.
    Delayed,
    /// One of its bits is flipped.
    Corrupted,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dropped => "dropped on purpose",
            Self::Duplicated => "duplicated on purpose",
            Self::Reordered => "reordered on purpose",
            Self::Delayed => "delayed on purpose",
            Self::Corrupted => "corrupted on purpose",
        })
    }
}

/// What a link knows of the IPv4 Identification of a packet that it received.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ipv4Id {
    /// The header was seen: flags and fragment word are as given, so the ICRC is checked exactly.
    Known {
        /// The Identification.
        id: u16,
        /// The 16 bits of flags and fragment offset.
        flags: u16,
    },
    /// A socket received it. The ICRC is checked for *some* ID (see `roce_wire::icrc`).
    Unknown,
}

/// The outer header fields of a received packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RxMeta {
    /// The source address.
    pub remote: IpAddr,
    /// The destination address.
    pub local: IpAddr,
    /// The UDP source port.
    pub source_port: u16,
    /// TOS or traffic class, with the ECN bits.
    pub traffic_class: u8,
    /// TTL or hop limit as received; 0 if the link doesn't know.
    pub hop_limit: u8,
    /// The IPv4 Identification; `Unknown` is exact for IPv6, which has none.
    pub ipv4_id: Ipv4Id,
}

/// What a link can do.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LinkCaps {
    /// The longest packet, BTH to ICRC, that the link carries.
    pub max_packet: usize,
    /// The most packets that share one system call; 1 if the link has no batches.
    pub max_batch: usize,
    /// Whether received packets come with their IPv4 header, so that ICRCs are checked to 32 bits.
    pub exact_icrc: bool,
    /// The low bit that this endpoint's QPNs must have, where two endpoints share an address.
    pub qpn_parity: Option<u32>,
}

/// Something that a link learnt and its device's user should know.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LinkEvent {
    /// An ICMP error or its like: packets to `remote` don't arrive.
    Unreachable {
        /// Who was sent to.
        remote: IpAddr,
        /// What the network said, in words.
        reason: String,
    },
    /// Something that a person should read once (a feature the system refused, a fall-back).
    Notice(String),
}

/// An error of the environment below the engine: what was attempted, on what, and the errno's text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LinkError {
    /// What failed, on which object, and what to do.
    pub message: String,
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for LinkError {}

/// Counters that a link keeps; every drop has one.
pub type LinkCounters = alloc::vec::Vec<(&'static str, u64)>;

/// Carries packets between the engine and a network.
pub trait Link {
    /// Returns what the link can do.
    fn caps(&self) -> &LinkCaps;

    /// Returns the port: its state, path MTU and GID table.
    fn port(&self) -> &PortAttr;

    /// Makes ready to send from `local` with a source port near `wanted`; returns the actual port.
    ///
    /// The ICRC covers the source port, and a link over sockets has only the ports that it could
    /// bind. Ask once per flow, before its first packet, and put the answer in [`Flow`].
    fn source_port(&mut self, local: IpAddr, wanted: u16) -> u16 {
        let _ = local;
        wanted
    }

    /// Hands up to `budget` received packets (BTH to ICRC) to `sink`; returns how many. Never blocks.
    ///
    /// # Errors
    ///
    /// The socket or interface is gone. A bad packet is no error: the link counts and drops it.
    fn receive<F>(&mut self, budget: usize, sink: F) -> Result<usize, LinkError>
    where
        F: FnMut(&RxMeta, &[u8]);

    /// Reserves a slot of exactly `len` bytes for a packet of `flow` and lets `fill` write it.
    ///
    /// Returns false, without calling `fill`, when there is no room: the caller has changed nothing
    /// yet and tries again in a later turn. The packet may stay in the link until `flush`.
    fn send<F>(&mut self, flow: &Flow, len: usize, note: FrameNote, fill: F) -> bool
    where
        F: FnOnce(&mut Slot<'_>);

    /// Gives everything filled to the kernel: one system call where the link can.
    ///
    /// # Errors
    ///
    /// As `receive`. What the kernel has no room for now stays for the next flush.
    fn flush(&mut self) -> Result<(), LinkError>;

    /// Sleeps until a packet may have arrived, room may have come, or `timeout` has passed.
    ///
    /// # Errors
    ///
    /// As `receive`.
    fn wait(&mut self, timeout: Option<Duration>) -> Result<(), LinkError>;

    /// Hears of a packet that a middleware above has not let through: for captures.
    fn withheld(&mut self, flow: &Flow, note: FrameNote, bytes: &[u8]) {
        let _ = (flow, note, bytes);
    }

    /// Returns the next thing that the user should know.
    fn next_event(&mut self) -> Option<LinkEvent> {
        None
    }

    /// Returns the link's own counters, name and value.
    fn counters(&self) -> LinkCounters {
        LinkCounters::new()
    }
}
