//! Opcodes: a transport and an operation, and from them the headers that a packet has.

use core::fmt;

mod table;

/// The first byte of a packet. Values without a meaning survive; `info` tells them apart.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Opcode(pub u8);

/// What an opcode says about its packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OpcodeInfo {
    /// The service that the packet belongs to.
    pub transport: Transport,
    /// What it does.
    pub operation: Operation,
    /// Its place in the message.
    pub position: Position,
    /// The headers between BTH and payload.
    pub headers: HeaderSet,
    /// Whether bytes may follow the headers. A CNP's 16 reserved bytes count as its payload.
    pub has_payload: bool,
    /// Whether the packet goes from requester to responder. A CNP is neither: false.
    pub is_request: bool,
}

/// A transport service.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Transport {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// Congestion notification, which belongs to no service.
    Cnp,
}

/// An operation, without its position and its immediate data.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Operation {
    /// SEND, with or without immediate data or invalidation.
    Send,
    /// RDMA WRITE, with or without immediate data.
    Write,
    /// RDMA READ request.
    ReadRequest,
    /// RDMA READ response; it also answers ATOMIC WRITE and FLUSH.
    ReadResponse,
    /// ACK, NAK or RNR NAK.
    Acknowledge,
    /// The answer to CMP_SWAP and FETCH_ADD.
    AtomicAcknowledge,
    /// Atomic compare and swap.
    CompareSwap,
    /// Atomic fetch and add.
    FetchAdd,
    /// ATOMIC WRITE of eight bytes.
    AtomicWrite,
    /// FLUSH of written memory.
    Flush,
    /// Congestion notification.
    Cnp,
}

/// A packet's place in its message.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Position {
    /// More follow.
    First,
    /// Some came before, more follow.
    Middle,
    /// The end of a message of several packets.
    Last,
    /// The whole message.
    Only,
}

impl Position {
    /// Returns whether a message begins here.
    pub const fn is_start(self) -> bool {
        matches!(self, Self::First | Self::Only)
    }

    /// Returns whether a message ends here.
    pub const fn is_end(self) -> bool {
        matches!(self, Self::Last | Self::Only)
    }
}

/// A set of extended headers. Their order on the wire is the order of the constants.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct HeaderSet(u8);

impl HeaderSet {
    /// No header beside the BTH.
    pub const NONE: Self = Self(0);
    /// Datagram header.
    pub const DETH: Self = Self(1);
    /// Flush header.
    pub const FETH: Self = Self(1 << 1);
    /// RDMA header.
    pub const RETH: Self = Self(1 << 2);
    /// Atomic request header.
    pub const ATOMIC: Self = Self(1 << 3);
    /// Acknowledge header.
    pub const AETH: Self = Self(1 << 4);
    /// Atomic response header.
    pub const ATOMIC_ACK: Self = Self(1 << 5);
    /// Immediate data.
    pub const IMM: Self = Self(1 << 6);
    /// The key to invalidate.
    pub const IETH: Self = Self(1 << 7);

    /// Returns the headers of both sets.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the headers of both sets, or of this one only where `present` is false.
    pub(crate) const fn and_if(self, present: bool, other: Self) -> Self {
        if present { self.and(other) } else { self }
    }

    /// Returns whether all headers of `other` are in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the bytes that these headers take together.
    #[inline]
    pub const fn len(self) -> usize {
        LENGTHS[self.0 as usize] as usize
    }

    /// Returns whether no header is in the set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

// Bytes of each of the 256 sets.
static LENGTHS: [u8; 256] = {
    const SIZES: [u8; 8] = [8, 4, 16, 28, 4, 8, 4, 4];
    let mut lengths = [0; 256];
    let mut set = 1;
    while set < lengths.len() {
        let lowest = set.trailing_zeros() as usize;
        lengths[set] = lengths[set & (set - 1)] + SIZES[lowest];
        set += 1;
    }
    lengths
};

impl Opcode {
    /// Returns what the opcode says about its packet, or nothing if it is undefined.
    #[inline]
    pub const fn info(self) -> Option<OpcodeInfo> {
        table::INFO[self.0 as usize]
    }

    /// Returns the opcode of UC that does the same as this one of RC, if UC has it.
    ///
    /// The services differ in the top three bits only; an opcode that UC lacks becomes an undefined one.
    #[inline]
    pub const fn as_uc(self) -> Self {
        Self(self.0 & 0x1f | 0x20)
    }

    /// Returns the name that the kernel and packet analysers use, or nothing if it is undefined.
    pub const fn name(self) -> Option<&'static str> {
        table::name(self)
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "0x{:02x}", self.0),
        }
    }
}

impl fmt::Debug for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests;
