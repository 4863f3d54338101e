//! The rounds of a cell in one figure and its spread.

use crate::json::Run;

/// A figure over the rounds of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figure {
    /// The median.
    pub(super) median: f64,
    /// The smallest.
    pub(super) least: f64,
    /// The largest.
    pub(super) most: f64,
    /// How many rounds.
    pub(super) rounds: usize,
}

impl Figure {
    /// Takes the value of each round that has one.
    pub(super) fn of<'a>(
        runs: impl Iterator<Item = &'a Run>,
        value: impl Fn(&Run) -> Option<f64>,
    ) -> Option<Self> {
        let mut values: Vec<f64> = runs.filter_map(value).collect();
        values.sort_unstable_by(f64::total_cmp);
        let (&least, &most) = (values.first()?, values.last()?);
        let half = values.len() / 2;
        let median = if values.len().is_multiple_of(2) {
            f64::midpoint(values[half - 1], values[half])
        } else {
            values[half]
        };
        Some(Self {
            median,
            least,
            most,
            rounds: values.len(),
        })
    }

    /// Returns the range over the median, in percent.
    pub(super) fn range_percent(self) -> f64 {
        if self.median == 0.0 {
            0.0
        } else {
            (self.most - self.least) / self.median * 100.0
        }
    }

    /// Returns the figure with three or four digits, and half its range in percent if there were several rounds.
    pub(super) fn text(self) -> String {
        let number = number(self.median);
        if self.rounds > 1 {
            format!("{number} ±{:.0}%", self.range_percent() / 2.0)
        } else {
            number
        }
    }
}

/// Returns a number with as many decimals as its size asks for.
pub(super) fn number(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}
