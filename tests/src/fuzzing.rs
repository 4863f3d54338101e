//! Fuzz targets: functions of any bytes that must return, and must return with their promises kept.
//!
//! libFuzzer runs them from the `fuzz` folder of the crate that each is about; `tests/fuzz_smoke.rs` runs
//! the same functions on any toolchain with inputs that [`mutate`] makes from [`corpus`].

pub mod corpus;
pub mod engine;
pub mod exchange;
pub mod input;
pub mod mutate;
pub mod wire;

/// A function to fuzz.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, also of its binary in a `fuzz` folder.
    pub name: &'static str,
    /// Takes one input; panics if a promise is broken.
    pub run: fn(&[u8]),
    /// Returns inputs worth starting from.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// The longest input that is useful.
    pub max_len: usize,
}

/// Every target there is.
pub const TARGETS: [Target; 4] = [
    Target {
        name: "parse",
        run: wire::parse,
        seeds: corpus::frames,
        max_len: 2048,
    },
    Target {
        name: "reparse",
        run: wire::reparse,
        seeds: corpus::packets,
        max_len: 2048,
    },
    Target {
        name: "receive",
        run: engine::receive,
        seeds: corpus::programs,
        max_len: 1024,
    },
    Target {
        name: "exchange",
        run: exchange::exchange,
        seeds: corpus::streams,
        max_len: 2048,
    },
];
