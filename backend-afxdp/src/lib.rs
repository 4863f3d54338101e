//! RoCEv2 over AF_XDP sockets: whole Ethernet frames of our own on a real interface.
//!
//! # What it takes
//!
//! CAP_NET_RAW for the socket, CAP_NET_ADMIN and CAP_BPF for the XDP program, and an Ethernet
//! interface. Path MTU 4096 takes frames in several buffers, which Linux has since 6.6; without
//! them it is 2048. Driver mode, zero-copy and large frames are each used where the system has
//! them, and [`XskLink::describe`] says what is used and why.
//!
//! # What the kernel still does
//!
//! The program takes UDP packets to port 4791 and nothing else. ARP, neighbour discovery, TCP and
//! routing stay the kernel's: the link asks it by netlink where a packet goes next, has it resolve
//! neighbours, and follows what it announces, so that addresses, routes and MACs may change during
//! a run. While the interface is down packets are lost and counted.
//!
//! # Checksums
//!
//! Frames leave with an IPv4 header checksum and without a UDP checksum, as RoCE hardware sends
//! them; the ICRC covers more. Received IPv4 header checksums are checked, UDP checksums are not:
//! a kernel on the same machine leaves them to a device that there is not.
//!
//! # Batches of other senders
//!
//! A kernel that sends over an interface without wires may hand over datagrams of up to 64 KiB that
//! its device was to cut. They are cut here: a packet's length is the one with which its ICRC is
//! right.
#![deny(unsafe_code)]
#![warn(missing_docs)]

mod bare;
mod config;
mod error;
mod events;
mod filter;
mod holder;
mod link;
mod netdev;
mod netlink;
mod opened;
mod privilege;
mod program;
mod ring;
mod routes;
#[cfg(test)]
mod sandbox;
mod segments;
#[allow(unsafe_code)]
mod sys;
#[allow(unsafe_code)]
mod umem;
mod xsk;

pub use bare::Bare;
pub use config::{Config, Mode};
pub use error::OpenError;
pub use link::XskLink;
pub use opened::check;
