//! Fixtures of the tests that span crates.

pub mod capture;
pub mod command;
pub mod ends;
pub mod frames;
pub mod fuzzing;
pub mod guest;
pub mod hosts;
pub mod icrc;
pub mod lan;
pub mod namespace;
pub mod needs;
pub mod oracle;
pub mod pair;
pub mod printed;
pub mod process;
pub mod rc;
pub mod table;
pub mod transport;
pub mod workload;
