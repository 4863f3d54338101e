//! The latency tables.

use core::fmt::Write as _;

use super::SEPARATOR;
use crate::spec::Spec;
use crate::stats::{LatencyRow, Samples, TimedLatency};

/// Returns the line above the rows.
pub const fn latency_columns() -> &'static str {
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   \
     99% percentile[usec]   99.9% percentile[usec] "
}

/// Returns a row.
pub fn latency_row(size: u64, iterations: u64, row: &LatencyRow) -> String {
    let LatencyRow {
        min,
        max,
        typical,
        avg,
        stdev,
        p99,
        p999,
    } = row;
    format!(
        " {size:<7} {iterations}          {min:<7.2}        {max:<7.2}      {typical:<7.2}  \t       {avg:<7.2}     \t\
         {stdev:<7.2}\t\t{p99:<7.2} \t\t{p999:<7.2}"
    )
}

/// Returns the line above the rows of a run by the clock.
pub const fn timed_columns() -> &'static str {
    " #bytes        #iterations       t_avg[usec]    tps average"
}

/// Returns a row of a run by the clock.
pub fn timed_row(size: u64, row: &TimedLatency) -> String {
    let TimedLatency {
        messages,
        avg,
        per_second,
    } = row;
    format!(" {size:<7}       {messages}            {avg:<7.2}        {per_second:<7.2}")
}

/// Returns the figure that `--output latency` asks for.
pub fn latency_figure(avg: f64) -> String {
    format!("{avg:.6}")
}

/// Returns the lists of samples that `-U` and `-H` ask for, with the separator and the columns that follow them;
/// nothing if neither does.
pub fn sample_lists(spec: &Spec, samples: &Samples) -> String {
    let mut text = String::new();
    let unit = if spec.shown.cycles { "cycles" } else { "usec" };
    if spec.unsorted {
        list(&mut text, unit, samples.in_order());
    }
    if spec.histogram {
        list(&mut text, unit, samples.kept());
    }
    if !text.is_empty() {
        let _infallible = writeln!(text, "{SEPARATOR}\n{}", latency_columns());
    }
    text
}

fn list(text: &mut String, unit: &str, samples: &[f64]) {
    let _infallible = writeln!(text, "#, {unit}");
    for (number, sample) in (1_u64..).zip(samples) {
        let _infallible = writeln!(text, "{number}, {}", general(*sample));
    }
}

/// Formats as C's `%g`: six significant digits, no trailing zeros, an exponent where it is shorter.
fn general(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let scientific = format!("{value:.5e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text.to_owned()
        }
    };
    if (-4..6).contains(&exponent) {
        let decimals = usize::try_from(5 - exponent).unwrap_or(0);
        trimmed(&format!("{value:.decimals$}"))
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", trimmed(mantissa), exponent.unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (3.0, "3"),
            (3.25, "3.25"),
            (12.3456789, "12.3457"),
            (999_999.0, "999999"),
            (1_234_567.0, "1.23457e+06"),
            (0.000_123_456_7, "0.000123457"),
            (0.000_01, "1e-05"),
            (100.0, "100"),
        ] {
            assert_eq!(general(value), text);
        }
    }
}
