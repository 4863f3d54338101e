//! The bandwidth table.

use crate::peer::BwReport;
use crate::stats::Unit;

/// Below this average a row in Gb/s has six decimals.
const SMALL: f64 = 0.1;

/// Returns the line above the rows.
pub fn bandwidth_columns(unit: Unit) -> String {
    let unit = unit.label();
    format!(" #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]")
}

/// Returns a row. Its figures are in `unit` already: they may come from the peer.
pub fn bandwidth_row(unit: Unit, report: &BwReport) -> String {
    let BwReport {
        size,
        iterations,
        peak,
        average,
        message_rate,
    } = report;
    if unit == Unit::Gigabits && *average < SMALL {
        format!(
            " {size:<7}    {iterations}           {peak:<7.6}            {average:<7.6}            {message_rate:<7.6}"
        )
    } else {
        format!(
            " {size:<7}    {iterations:<10}       {peak:<7.2}            {average:<7.2}\t\t   {message_rate:<7.6}"
        )
    }
}
