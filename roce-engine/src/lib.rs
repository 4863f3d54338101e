//! The RoCEv2 transport as a state machine without IO.
//!
//! Two seams, not to be mixed: [`link::Link`] speaks packets and is what the engine sends and receives
//! through; [`verbs::Backend`] speaks verbs and is what a benchmark or an application uses.
//! [`device::SoftDevice`] turns a link into a backend; a real RDMA device is a backend by itself.
//!
//! [`engine::Engine`] describes a turn. Nothing here knows of sockets, threads or clocks: the caller
//! hands in packets, time and seeds, so that everything can be replayed in virtual time.
//!
//! Layer rule, checked by a test: modules import only from those to their left.
//! `verbs ← time, stats, config, arena ← link, clock ← mr, cq ← sge, recv_queue, deadlines, congestion ←
//! srq, peers, path ← shared ← qp ← engine ← device ← sim`.
#![no_std]
#![deny(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;

mod arena;
pub mod clock;
pub mod config;
mod congestion;
mod cq;
mod deadlines;
pub mod device;
pub mod engine;
pub mod link;
mod mr;
mod path;
mod peers;
mod qp;
mod recv_queue;
mod sge;
mod shared;
#[cfg(feature = "sim")]
pub mod sim;
mod srq;
pub mod stats;
pub mod time;
pub mod verbs;

pub use config::EngineConfig;
pub use device::SoftDevice;
pub use engine::Engine;
pub use time::Instant;
