//! The bandwidth table.

use core::fmt::Write as _;

use super::{SEPARATOR, busy_cell, busy_column};
use crate::peer::BwReport;
use crate::run::watch::End;
use crate::spec::{Form, Op, Spec};
use crate::stats::Unit;

/// Below this average a row in Gb/s has six decimals.
const SMALL: f64 = 0.1;

/// How many decimals a row has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Precision {
    /// Two, and six of the message rate.
    Usual,
    /// Six.
    Fine,
}

impl Precision {
    /// Chooses by the average of one end alone, even for a row that shows the sum of both, as perftest does.
    pub fn of(unit: Unit, average: f64) -> Self {
        if unit == Unit::Gigabits && average < SMALL {
            Self::Fine
        } else {
            Self::Usual
        }
    }
}

/// Returns the line above the rows.
pub fn bandwidth_columns(unit: Unit) -> String {
    let unit = unit.label();
    format!(" #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]")
}

/// Returns a row. Its figures are in the run's unit already: they may come from the peer.
pub fn bandwidth_row(precision: Precision, report: &BwReport) -> String {
    let BwReport {
        size,
        iterations,
        peak,
        average,
        message_rate,
    } = report;
    match precision {
        Precision::Fine => format!(
            " {size:<7}    {iterations}           {peak:<7.6}            {average:<7.6}            {message_rate:<7.6}"
        ),
        Precision::Usual => format!(
            " {size:<7}    {iterations:<10}       {peak:<7.2}            {average:<7.2}\t\t   {message_rate:<7.6}"
        ),
    }
}

/// Returns the two blocks that `--report-both` adds below the sum: what this end sent, and what the peer sent. The
/// separator of the table follows them.
pub fn both_directions(
    spec: &Spec,
    local: &BwReport,
    remote: &BwReport,
    busy: Option<f64>,
) -> String {
    let unit = Unit::of_option(spec.report_gbits);
    let columns = bandwidth_columns(unit) + busy_column(spec);
    // The sources of perftest's tests differ in a space.
    let space = match spec.test.op {
        Op::Atomic => "",
        Op::Write | Op::Read | Op::Send => " ",
    };
    let mut text = String::new();
    for (side, report) in [("Local", local), ("Remote", remote)] {
        let precision = Precision::of(unit, report.average);
        let row = bandwidth_row(precision, report) + &busy_cell(busy);
        let _infallible = writeln!(
            text,
            "{SEPARATOR}\n\n {side} results:{space}\n{SEPARATOR}\n{columns}\n{row}"
        );
    }
    text
}

/// Returns perftest's words about the end of a run that has none by itself. They follow the `^C` of a terminal.
pub const fn endless_end(spec: &Spec, end: End) -> &'static str {
    match end {
        End::User => "\n User stopped traffic",
        End::Peer if spec.is_client() => " Server closed connection",
        End::Peer => " Client closed connection",
    }
}

/// Returns the figure that `--output` asks for; nothing where it asks for the table.
pub fn bandwidth_figure(form: Form, report: &BwReport) -> Option<String> {
    match form {
        Form::Bandwidth => Some(format!("{:.6}", report.average)),
        Form::MessageRate => Some(format!("{:.6}", report.message_rate)),
        Form::Full | Form::Latency => None,
    }
}

/// Says which of the limits of `-w` and `-y` no row reached, in perftest's words; `best` has the best figures.
pub fn missed_limit(spec: &Spec, best: &BwReport) -> Option<String> {
    let unit = Unit::of_option(spec.report_gbits).label();
    if let Some(least) = spec
        .shown
        .least_bandwidth
        .filter(|least| best.average < *least)
    {
        return Some(format!(
            "BW result is below bw limit: {:.2} of {least} {unit}",
            best.average
        ));
    }
    let least = spec
        .shown
        .least_rate
        .filter(|least| best.message_rate < *least)?;
    Some(format!(
        "Msg rate  is below msg_rate limit: {:.6} of {least} Mpps",
        best.message_rate
    ))
}
