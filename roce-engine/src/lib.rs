//! The RoCEv2 transport as a state machine without IO.
#![no_std]
#![deny(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;

pub mod clock;
pub mod link;
pub mod time;
pub mod verbs;

pub use time::Instant;
