//! What is wrong with bytes that claim to be a RoCE packet.

use core::fmt;

use crate::opcode::Opcode;

/// The reason why bytes are not a packet that this crate can name.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ParseError {
    /// The bytes end inside of this part.
    Truncated(Part),
    /// The bytes are of a kind that this crate doesn't read.
    Unsupported(Unsupported),
    /// The bytes contradict themselves.
    Malformed(Malformed),
}

/// A part of a frame that can be cut short.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Part {
    /// The Ethernet header.
    Ethernet,
    /// An 802.1Q or 802.1ad tag.
    VlanTag,
    /// The IPv4 header.
    Ipv4,
    /// The IPv6 header.
    Ipv6,
    /// The global route header of RoCEv1.
    Grh,
    /// The UDP header.
    Udp,
    /// The base transport header.
    Bth,
    /// The datagram header.
    Deth,
    /// The flush header.
    Feth,
    /// The RDMA header.
    Reth,
    /// The atomic request header.
    AtomicEth,
    /// The acknowledge header.
    Aeth,
    /// The atomic response header.
    AtomicAckEth,
    /// The immediate data.
    ImmDt,
    /// The key that a SEND invalidates.
    Ieth,
    /// The invariant CRC.
    Icrc,
}

/// Something valid that this crate doesn't read.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Unsupported {
    /// An opcode that is undefined, or of a transport that isn't handled (RD, XRC).
    Opcode(Opcode),
    /// A transport header version other than 0.
    BthVersion(u8),
}

/// A contradiction inside of a packet.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Malformed {
    /// The pad count is larger than what follows the headers.
    PadBeyondPayload,
    /// Payload and pad are no multiple of four bytes.
    Unaligned,
    /// The opcode carries no payload, but bytes follow its headers.
    UnexpectedPayload,
    /// The opcode's payload has one legal length and this isn't it.
    PayloadLength,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated(part) => write!(f, "truncated {part}"),
            Self::Unsupported(what) => write!(f, "unsupported {what}"),
            Self::Malformed(what) => write!(f, "malformed packet: {what}"),
        }
    }
}

impl core::error::Error for ParseError {}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ethernet => "Ethernet header",
            Self::VlanTag => "VLAN tag",
            Self::Ipv4 => "IPv4 header",
            Self::Ipv6 => "IPv6 header",
            Self::Grh => "GRH",
            Self::Udp => "UDP header",
            Self::Bth => "BTH",
            Self::Deth => "DETH",
            Self::Feth => "FETH",
            Self::Reth => "RETH",
            Self::AtomicEth => "AtomicETH",
            Self::Aeth => "AETH",
            Self::AtomicAckEth => "AtomicAckETH",
            Self::ImmDt => "ImmDt",
            Self::Ieth => "IETH",
            Self::Icrc => "ICRC",
        })
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opcode(opcode) => write!(f, "opcode 0x{:02x}", opcode.0),
            Self::BthVersion(version) => write!(f, "BTH version {version}"),
        }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PadBeyondPayload => "the pad count exceeds the bytes after the headers",
            Self::Unaligned => "payload and pad are no multiple of 4 bytes",
            Self::UnexpectedPayload => "bytes follow the headers of an opcode without payload",
            Self::PayloadLength => "the payload's length is not the one that the opcode has",
        })
    }
}
