//! Work requests.

use core::ops::BitOr;

use roce_wire::{LKey, QKey, Qpn, RKey};

use super::access::Access;
use super::backend::{Ah, Mr, Mw};

/// One piece of a scatter/gather list.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sge {
    /// Where it starts, as the region's address space counts.
    pub addr: u64,
    /// Its bytes.
    pub length: u32,
    /// The region.
    pub lkey: LKey,
}

/// What a send work request carries.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// Registered memory, read when packets are cut (and again when they are resent).
    Sges(&'a [Sge]),
    /// Bytes copied when the request is posted; the caller may reuse them at once.
    Inline(&'a [u8]),
}

/// The operation of a send work request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SendOp {
    /// SEND: consumes a receive.
    Send,
    /// SEND with immediate data (opaque bytes in network order).
    SendImm([u8; 4]),
    /// SEND that also invalidates a key of the receiver.
    SendInv(RKey),
    /// RDMA WRITE.
    Write {
        /// The peer's address.
        addr: u64,
        /// The peer's key.
        rkey: RKey,
    },
    /// RDMA WRITE that also consumes a receive and delivers immediate data.
    WriteImm {
        /// The peer's address.
        addr: u64,
        /// The peer's key.
        rkey: RKey,
        /// Opaque bytes in network order.
        imm: [u8; 4],
    },
    /// RDMA READ into the SGEs.
    Read {
        /// The peer's address.
        addr: u64,
        /// The peer's key.
        rkey: RKey,
    },
    /// Atomic compare and swap of 8 bytes; the former value goes to the one SGE.
    CompareSwap {
        /// The peer's address, a multiple of 8.
        addr: u64,
        /// The peer's key.
        rkey: RKey,
        /// The value that must be there.
        compare: u64,
        /// The value that replaces it.
        swap: u64,
    },
    /// Atomic fetch and add of 8 bytes; the former value goes to the one SGE.
    FetchAdd {
        /// The peer's address, a multiple of 8.
        addr: u64,
        /// The peer's key.
        rkey: RKey,
        /// What is added, modulo 2^64.
        add: u64,
    },
    /// A datagram: the only operation of UD.
    Datagram {
        /// The way to the peer.
        ah: Ah,
        /// The peer's QP.
        qpn: Qpn,
        /// What the peer compares with its own key; with the high bit set, the QP's own key is sent.
        qkey: QKey,
        /// Opaque bytes in network order.
        imm: Option<[u8; 4]>,
    },
    /// Binds a type 2 memory window to a part of a region. Local: nothing is sent.
    BindMw {
        /// The window.
        mw: Mw,
        /// Its new key: the former one with another low byte.
        rkey: RKey,
        /// The region, registered with `Access::MW_BIND`.
        mr: Mr,
        /// The first byte.
        addr: u64,
        /// How many; 0 can't be bound: a window ends by invalidation.
        length: u64,
        /// What a peer may do.
        access: Access,
    },
    /// Ends a key's use by peers. Local: nothing is sent.
    LocalInv(RKey),
}

impl SendOp {
    /// Returns whether the initiator's SGEs are written (READ and atomics).
    pub const fn is_fetch(self) -> bool {
        matches!(
            self,
            Self::Read { .. } | Self::CompareSwap { .. } | Self::FetchAdd { .. }
        )
    }

    /// Returns whether nothing is sent for it.
    pub const fn is_local(&self) -> bool {
        matches!(self, Self::BindMw { .. } | Self::LocalInv(_))
    }

    /// Returns whether the peer needs a receive for it.
    pub const fn takes_receive(&self) -> bool {
        matches!(
            self,
            Self::Send
                | Self::SendImm(_)
                | Self::SendInv(_)
                | Self::WriteImm { .. }
                | Self::Datagram { .. }
        )
    }

    /// Returns whether this is an atomic.
    pub const fn is_atomic(self) -> bool {
        matches!(self, Self::CompareSwap { .. } | Self::FetchAdd { .. })
    }
}

/// Flags of a send work request.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SendFlags(u8);

impl SendFlags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// A completion is wanted on success (an error always makes one).
    pub const SIGNALED: Self = Self(1);
    /// The receiver's CQ is woken even if it waits for solicited completions only.
    pub const SOLICITED: Self = Self(2);
    /// Starts only when all earlier READs and atomics are complete.
    pub const FENCE: Self = Self(4);

    /// Returns whether all flags of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for SendFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A send work request.
#[derive(Clone, Copy, Debug)]
pub struct SendWr<'a> {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// What to do.
    pub op: SendOp,
    /// With which bytes.
    pub payload: Payload<'a>,
    /// How.
    pub flags: SendFlags,
}

/// A receive work request.
#[derive(Clone, Copy, Debug)]
pub struct RecvWr<'a> {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// Where the message goes.
    pub sges: &'a [Sge],
}
