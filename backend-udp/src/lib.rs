//! RoCEv2 over plain UDP sockets: no privilege, no kernel module, IPv4 and IPv6.
//!
//! # What the kernel writes, and what that means for the ICRC
//!
//! A slot starts at the BTH; the kernel writes Ethernet, IP and UDP. The ICRC covers parts of those:
//! addresses, ports and lengths are known, TOS, TTL and checksums don't count, and over IPv6 that is
//! all. Over IPv4 the Identification counts too:
//!
//! * **Sending.** From an unconnected socket that forbids fragmentation the kernel writes 0, and
//!   numbers the segments of one `UDP_SEGMENT` message 0, 1, 2, …, so a slot's Identification is its
//!   place in its batch. A NIC that segments UDP by itself (`ethtool -k`: `tx-udp-segmentation`) may
//!   number otherwise, and nothing here finds that out: a peer then takes only the first packet of
//!   each batch. [`Config::segmentation`] turns batches off for such a device.
//! * **Receiving.** A socket doesn't show the Identification; [`Ipv4Id::Unknown`] tells the engine
//!   to check that *some* value explains the ICRC.
//!
//! Batches carry the kernel's UDP checksum, because `UDP_SEGMENT` refuses to go without; a checksum
//! of 0, as RoCE hardware and the kernel's soft-RoCE send, is accepted over IPv6 too.
//!
//! # Sharing an address
//!
//! Two endpoints, usually the server and the client of a test on one machine, can have one address:
//! the parity of the destination QPN tells them apart ([`LinkCaps::qpn_parity`]). They find each
//! other through names in the abstract Unix namespace. A third is refused with the names of both.
//!
//! # What is refused
//!
//! Whatever the system refuses (batches, GRO, error reports, flow labels) is told once as a
//! [`LinkEvent::Notice`], and the rest goes on. ICMP errors come as [`LinkEvent::Unreachable`].
//!
//! [`Ipv4Id::Unknown`]: roce_engine::link::Ipv4Id::Unknown
//! [`LinkCaps::qpn_parity`]: roce_engine::link::LinkCaps::qpn_parity
//! [`LinkEvent::Notice`]: roce_engine::link::LinkEvent::Notice
//! [`LinkEvent::Unreachable`]: roce_engine::link::LinkEvent::Unreachable
#![deny(unsafe_code)]
#![warn(missing_docs)]

mod batch;
mod clock;
mod config;
mod error;
mod events;
mod interfaces;
mod link;
mod receive;
mod share;
mod socket;
#[allow(unsafe_code)]
mod sys;
mod transmit;

pub use clock::MonotonicClock;
pub use config::{Config, Endpoint, Local, ROCE_PORT};
pub use error::OpenError;
pub use interfaces::Interface;
pub use link::UdpLink;
