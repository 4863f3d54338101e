//! perftest's output: banner, addresses, tables, JSON. Byte for byte as version 6.20 prints it, because scripts
//! read it.

mod bandwidth;
mod banner;
mod latency;
mod perftest_json;

pub use bandwidth::{bandwidth_columns, bandwidth_row};
pub use banner::{Facts, addresses, banner, peak_warning, post_list_note, waiting};
pub use latency::{latency_columns, latency_row, sample_lists, timed_columns, timed_row};
pub use perftest_json::{PerftestResult, perftest_json};

/// The line between the parts of the output.
pub const SEPARATOR: &str =
    "---------------------------------------------------------------------------------------";

#[cfg(test)]
mod tests;
