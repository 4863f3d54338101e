//! Fixtures of the tests that span crates.

pub mod guest;
pub mod oracle;
pub mod pair;
pub mod rc;
pub mod workload;
