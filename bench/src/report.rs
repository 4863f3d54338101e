//! perftest's output: banner, addresses, tables, JSON. Byte for byte as version 6.20 prints it, because scripts
//! read it.

mod bandwidth;
mod banner;
mod latency;
mod perftest_json;

pub use bandwidth::{
    Precision, bandwidth_columns, bandwidth_figure, bandwidth_row, both_directions, endless_end,
    missed_limit,
};
pub use banner::{Facts, addresses, banner, peak_warning, post_list_note, waiting};
pub use latency::{
    latency_columns, latency_figure, latency_row, sample_lists, timed_columns, timed_row,
};
pub use perftest_json::{PerftestResult, perftest_json};

use crate::spec::Spec;

/// The line between the parts of the output.
pub const SEPARATOR: &str =
    "---------------------------------------------------------------------------------------";

/// Returns what `--cpu_util` adds to the line above the rows.
pub const fn busy_column(spec: &Spec) -> &'static str {
    if spec.shown.cpu_util {
        "    CPU_Util[%]"
    } else {
        ""
    }
}

/// Returns what `--cpu_util` adds to a row, if it was measured.
pub fn busy_cell(busy: Option<f64>) -> String {
    busy.map_or_else(String::new, |percent| format!("\t    {percent:<3.2}"))
}

#[cfg(test)]
mod tests;
