//! RoCE packets as values.
//!
//! ```text
//! RoCEv2   Ethernet [VLAN] IPv4|IPv6 UDP:4791 | BTH [extended headers] payload [pad] ICRC
//! RoCEv1   Ethernet [VLAN] GRH                | BTH [extended headers] payload [pad] ICRC
//! ```
//!
//! [`Packet`] is what is right of the bar, read by value with its payload borrowed. [`Frame`] walks
//! the left side and [`HeaderTemplate`] writes it. [`icrc`] checks and writes the last four bytes,
//! which cover most of the left side too. `Display` gives packets and frames in one line.
//!
//! ```
//! use core::net::Ipv4Addr;
//! use roce_wire::{
//!     Bth, Ext, Headers, IPV4_DONT_FRAGMENT, IcrcSeed, Opcode, Packet, Psn, Qpn, ROCE_PORT,
//! };
//!
//! let headers = Headers {
//!     bth: Bth::new(Opcode::RC_SEND_ONLY, Qpn::new(0x176), Psn::new(1)),
//!     ext: Ext::NONE,
//! };
//! let mut bytes = [0; 64];
//! let packet = &mut bytes[..headers.packet_len(5)];
//! headers.frame(packet, 5).copy_from_slice(b"hello");
//! let [src, dst] = [Ipv4Addr::new(10, 7, 0, 1), Ipv4Addr::new(10, 7, 0, 2)];
//! let seed = IcrcSeed::new(src.into(), dst.into(), 0xc000, ROCE_PORT);
//! seed.seal(0, IPV4_DONT_FRAGMENT, packet);
//!
//! assert!(seed.verify(0, IPV4_DONT_FRAGMENT, packet));
//! let packet = Packet::parse(packet)?;
//! assert_eq!(packet.payload, b"hello");
//! assert_eq!(
//!     packet.to_string(),
//!     "RC_SEND_ONLY qpn 0x000176 psn 0x000001, 5 bytes + 3 pad"
//! );
//! # Ok::<(), roce_wire::ParseError>(())
//! ```
//!
//! Reading never panics, whatever the bytes are. Writing panics only on a buffer that is shorter
//! than the `len()` of what is written, and writes all of these bytes and no others.
#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

#[cfg(test)]
extern crate std;

pub mod aeth;
pub mod atomic;
pub mod bth;
pub mod checksum;
pub mod cnp;
pub mod cursor;
pub mod deth;
pub mod error;
pub mod ethernet;
pub mod ext;
pub mod frame;
pub mod grh;
pub mod icrc;
pub mod ids;
pub mod imm;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
pub mod opcode;
pub mod packet;
mod pretty;
pub mod psn;
pub mod reth;
pub mod template;
pub mod timing;
pub mod udp;

pub use aeth::{Aeth, NakCode, Syndrome, credits};
pub use atomic::{AtomicAckEth, AtomicEth};
pub use bth::Bth;
pub use cnp::{CNP_LEN, emit_cnp, is_cnp};
pub use deth::Deth;
pub use error::{Malformed, ParseError, Part, Unsupported};
pub use ethernet::{EtherType, Ethernet, Mac, VlanTag};
pub use ext::Ext;
pub use frame::{Frame, IcrcCheck, NotRoce};
pub use grh::{Grh, Network};
pub use icrc::{IPV4_DONT_FRAGMENT, IcrcSeed, IdRecovery, icrc_v1, verify_v1};
pub use ids::{Gid, LKey, Mtu, PKey, QKey, Qpn, RKey};
pub use imm::{Feth, ImmData};
pub use ip::{AddressPair, Ecn};
pub use ipv4::Ipv4;
pub use ipv6::Ipv6;
pub use opcode::{HeaderSet, Opcode, OpcodeInfo, Operation, Position, Transport};
pub use packet::{Headers, ICRC_LEN, Packet, pad_len};
pub use psn::{Msn, Psn};
pub use reth::Reth;
pub use template::{FrameSpec, HeaderTemplate, MAX_OUTER};
pub use udp::{ROCE_PORT, Udp};
