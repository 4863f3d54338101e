//! The IPv4 header without options.

/// Bytes of the header.
pub const LEN: usize = 20;
