//! Fixtures of the tests that span crates.

pub mod guest;
