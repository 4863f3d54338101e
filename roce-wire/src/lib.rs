//! RoCE packets as values.
#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod ids;
pub mod psn;

pub use ids::{Gid, LKey, Mtu, PKey, QKey, Qpn, RKey};
pub use psn::{Msn, Psn};
