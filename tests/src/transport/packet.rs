//! The headers of one packet, by their offsets.

/// A RoCEv2 packet.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// BTH opcode.
    pub opcode: u8,
    /// Destination QPN.
    pub qpn: u32,
    /// PSN.
    pub psn: u32,
    /// The IP header's TOS or traffic class.
    pub traffic_class: u8,
    /// From the end of the BTH to the ICRC, padding left out.
    body: &'a [u8],
}

/// What a packet is to the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A packet of a SEND, and whether it ends one.
    Send {
        /// Whether the message ends here.
        last: bool,
    },
    /// A packet of a WRITE, and whether it ends one.
    Write {
        /// Whether the message ends here.
        last: bool,
    },
    /// A READ request.
    Read {
        /// Bytes that it asks for.
        length: u64,
    },
    /// FETCH_AND_ADD or CMP_AND_SWAP.
    Atomic {
        /// Whether it is the former.
        fetch_and_add: bool,
    },
    /// ACK, NAK, READ response or atomic answer.
    Response,
}

impl Kind {
    /// The bytes that a request with `payload` bytes asks to move, and whether a message ends with it.
    pub(super) fn account(self, payload: u64) -> (u64, bool) {
        match self {
            Self::Send { last } | Self::Write { last } => (payload, last),
            Self::Read { length } => (length, true),
            Self::Atomic { .. } => (8, true),
            Self::Response => (0, false),
        }
    }
}

/// The operation, without the transport's three bits.
const OPERATION: u8 = 0x1f;

impl<'a> Packet<'a> {
    /// Reads an IP packet to UDP port 4791; nothing if it is none, or too short for its headers.
    #[must_use]
    pub fn parse(ip: &'a [u8]) -> Option<Self> {
        let (header, total, protocol, traffic_class) = match ip.first()? >> 4 {
            4 => (
                usize::from(ip[0] & 0xf) * 4,
                usize::from(be16(ip, 2)?),
                *ip.get(9)?,
                ip[1],
            ),
            6 => (
                40,
                40 + usize::from(be16(ip, 4)?),
                *ip.get(6)?,
                (be16(ip, 0)? >> 4) as u8,
            ),
            _ => return None,
        };
        if protocol != 17 || be16(ip, header + 2)? != 4791 {
            return None;
        }
        let bth = ip.get(header + 8..total.checked_sub(4)?)?;
        let pad = usize::from(*bth.get(1)? >> 4 & 3);
        Some(Self {
            opcode: bth[0],
            qpn: be32(bth, 4)? & 0xff_ffff,
            psn: be32(bth, 8)? & 0xff_ffff,
            traffic_class,
            body: bth.get(12..bth.len().checked_sub(pad)?)?,
        })
    }

    /// Whether it belongs to a reliable connection.
    #[must_use]
    pub fn is_reliable(&self) -> bool {
        self.opcode >> 5 == 0
    }

    /// What it is; nothing if it is neither a request nor a response, as a congestion notification.
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        if !matches!(self.opcode >> 5, 0 | 1 | 3) {
            return None;
        }
        Some(match self.opcode & OPERATION {
            0x00 | 0x01 => Kind::Send { last: false },
            0x02..=0x05 | 0x16 | 0x17 => Kind::Send { last: true },
            0x06 | 0x07 => Kind::Write { last: false },
            0x08..=0x0b => Kind::Write { last: true },
            0x0c => Kind::Read {
                length: u64::from(be32(self.body, 12)?),
            },
            0x0d..=0x12 => Kind::Response,
            0x13 | 0x14 => Kind::Atomic {
                fetch_and_add: self.opcode & OPERATION == 0x14,
            },
            _ => return None,
        })
    }

    /// The address and the rkey, where it carries them.
    #[must_use]
    pub fn remote_place(&self) -> Option<(u64, u32)> {
        match self.opcode & OPERATION {
            0x06 | 0x0a | 0x0b | 0x0c | 0x13 | 0x14 => Some((
                u64::from(be32(self.body, 0)?) << 32 | u64::from(be32(self.body, 4)?),
                be32(self.body, 8)?,
            )),
            _ => None,
        }
    }

    /// The data, without the headers before it.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        let headers = match self.opcode & OPERATION {
            0x03 | 0x05 | 0x09 | 0x16 | 0x17 => 4,
            0x06 | 0x0a => 16,
            0x0b => 20,
            0x0d | 0x0f | 0x10 => 4,
            0x0c => 16,
            0x11 => 4,
            0x12 => 12,
            0x13 | 0x14 => 28,
            _ => 0,
        };
        // A datagram carries its extended header before all others.
        let datagram = if self.opcode >> 5 == 3 { 8 } else { 0 };
        self.body.get(headers + datagram..).unwrap_or(&[])
    }

    /// The syndrome of a NAK or RNR NAK.
    #[must_use]
    pub fn nak(&self) -> Option<u8> {
        let syndrome = *self.body.first()?;
        (self.opcode == 0x11 && syndrome & 0x60 != 0).then_some(syndrome)
    }

    /// The value that an atomic operation found.
    #[must_use]
    pub fn atomic_value(&self) -> Option<u64> {
        (self.opcode == 0x12).then_some(())?;
        Some(u64::from(be32(self.body, 4)?) << 32 | u64::from(be32(self.body, 8)?))
    }

    /// Whether it carries data that was read.
    #[must_use]
    pub fn is_read_response(&self) -> bool {
        matches!(self.opcode, 0x0d..=0x10)
    }
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from(be16(bytes, at)?) << 16 | u32::from(be16(bytes, at + 2)?))
}
