//! RDMA devices, the kernel's rxe among them, as a [`Backend`](roce_engine::verbs::Backend), through libibverbs.
//!
//! The library is loaded at run time (`load.rs`), so that this crate needs nothing to be built, and says what is
//! missing where it is used: the library, the kernel's RDMA, a provider, or a device.
//!
//! How a device differs from our engine over a link:
//!
//! - It progresses by itself: `progress` does nothing, and `wait` sleeps only for a completion queue that is armed.
//!   Otherwise it yields the processor, as a poller's round trip is shorter than a timer's.
//! - Attributes are checked with the engine's table first (`roce_engine::verbs::check_modify`), so that a mistake has
//!   the same words on both; what the device refuses beyond that is told by errno, with what it usually means.
//! - Send requests go through `ibv_wr_*` on the devices on which perftest has them go there, if the provider makes such
//!   a QP; else by `ibv_post_send` ([`Posting`]).
//! - Completions do not say whether they were solicited, and WRITEs of a peer cannot be observed one by one.
//! - Counters are those that the kernel has in `hw_counters`.

#![warn(missing_docs)]

mod backend;
mod convert;
mod device;
mod error;
mod events;
mod flight;
mod identity;
mod info;
mod load;
mod modify;
mod objects;
mod post;
mod raw;
mod slab;
mod sys;
mod sysfs;
mod wait;

pub use device::{Posting, VerbsDevice};
pub use error::OpenError;
pub use info::{DeviceInfo, PortInfo, devices};
pub use sysfs::kernel_devices;
