//! Options that say how messages follow each other.

use clap::{Args, ValueEnum};

use crate::cli::values;
use crate::spec::RateUnit;

/// Who limits a rate.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
#[value(rename_all = "UPPER")]
pub(in crate::cli) enum RateLimiter {
    /// The device
    Hw,
    /// This program
    Sw,
    /// The device, packet by packet
    Pp,
}

/// How messages follow each other.
#[derive(Args, Debug)]
#[command(next_help_heading = "Pace")]
pub(in crate::cli) struct PaceArgs {
    /// WRITEs carry an immediate and use up receives
    #[arg(long = "write_with_imm")]
    pub(in crate::cli) write_with_imm: bool,
    /// SENDs carry an immediate
    #[arg(long = "send_with_imm")]
    pub(in crate::cli) send_with_imm: bool,
    /// The server sends to the client
    #[arg(long)]
    pub(in crate::cli) reversed: bool,
    /// Fill the queues once before measuring
    #[arg(long = "perform_warm_up")]
    pub(in crate::cli) perform_warm_up: bool,
    /// Microseconds between two messages
    #[arg(long = "latency_gap", value_name = "US", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub(in crate::cli) latency_gap: Option<u32>,
    /// Run until stopped, with a row every -D seconds, or 5
    #[arg(long = "run_infinitely")]
    pub(in crate::cli) run_infinitely: bool,
    /// Limit the sender's rate, in units of --rate_units
    #[arg(long = "rate_limit", value_name = "RATE", value_parser = values::rate)]
    pub(in crate::cli) rate_limit: Option<f64>,
    /// Unit of --rate_limit: M for MiB/s, g for Gb/s, p for messages per second [default: g]
    #[arg(long = "rate_units", value_name = "UNIT", requires = "rate_limit", value_parser = values::rate_unit)]
    pub(in crate::cli) rate_units: Option<RateUnit>,
    /// Who limits: SW, the only one here, as no device is in between [default: SW]
    #[arg(
        long = "rate_limit_type",
        value_name = "TYPE",
        requires = "rate_limit",
        hide_possible_values = true
    )]
    pub(in crate::cli) rate_limit_type: Option<RateLimiter>,
    /// Messages of a limited sender that go at once [default: -t]
    #[arg(long = "burst_size", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(in crate::cli) burst_size: Option<u32>,
}
