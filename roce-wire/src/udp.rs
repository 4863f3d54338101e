//! The UDP header.

/// Bytes of the header.
pub const LEN: usize = 8;

/// The destination port of RoCEv2.
pub const ROCE_PORT: u16 = 4791;
