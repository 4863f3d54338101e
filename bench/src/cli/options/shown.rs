//! Options that say what is reported.

use std::path::PathBuf;

use clap::Args;

use crate::cli::values;
use crate::spec::Form;

/// What is reported.
#[derive(Args, Debug)]
#[command(next_help_heading = "Report")]
pub(in crate::cli) struct ShownArgs {
    /// Gb/s instead of MiB/s
    #[arg(long = "report_gbits")]
    pub(in crate::cli) report_gbits: bool,
    /// No peak
    #[arg(short = 'N', long = "noPeak")]
    pub(in crate::cli) no_peak: bool,
    /// Each direction of -b, too
    #[arg(long = "report-both")]
    pub(in crate::cli) report_both: bool,
    /// Fail with status 4 below this average, in the unit of the table
    #[arg(short = 'w', long = "limit_bw", value_name = "BW", value_parser = values::amount)]
    pub(in crate::cli) limit_bw: Option<f64>,
    /// Fail with status 4 below this message rate, in millions per second
    #[arg(short = 'y', long = "limit_msgrate", value_name = "RATE", value_parser = values::amount)]
    pub(in crate::cli) limit_msgrate: Option<f64>,
    /// List the samples, sorted
    #[arg(short = 'H', long = "report-histogram", alias = "report-histogrm")]
    pub(in crate::cli) histogram: bool,
    /// List the samples in time order
    #[arg(short = 'U', long = "report-unsorted")]
    pub(in crate::cli) unsorted: bool,
    /// Cycles of the time stamp counter instead of microseconds
    #[arg(short = 'C', long = "report-cycles")]
    pub(in crate::cli) cycles: bool,
    /// How busy the machine was (with -D)
    #[arg(long = "cpu_util")]
    pub(in crate::cli) cpu_util: bool,
    /// Print only one figure
    #[arg(long, value_name = "FIGURE", value_parser = values::form)]
    pub(in crate::cli) output: Option<Form>,
    /// No CPU frequency warnings: accepted, there are none
    #[arg(short = 'F', long = "CPU-freq")]
    pub(in crate::cli) cpu_freq: bool,
    /// Write perftest's JSON, to perftest_out.json if no file is given
    #[arg(long = "out_json")]
    pub(in crate::cli) out_json: bool,
    /// Write perftest's JSON to this file
    #[arg(long = "out_json_file", value_name = "FILE", value_parser = values::file)]
    pub(in crate::cli) out_json_file: Option<PathBuf>,
    /// Write the result with units in its names to this file
    #[arg(long, value_name = "FILE", value_parser = values::file)]
    pub(in crate::cli) json: Option<PathBuf>,
    /// Show the version
    #[arg(short = 'V', long)]
    pub(in crate::cli) version: bool,
}
