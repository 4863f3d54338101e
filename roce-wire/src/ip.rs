//! What IPv4 and IPv6 have in common.

/// The protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;
