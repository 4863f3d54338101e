//! From time stamps to figures, as perftest computes them. Times are nanoseconds of one clock.

mod cycles;
mod latency;
mod peak;

pub use cycles::nanos_per_cycle;
pub use latency::{LatencyRow, Samples, Summary, TimedLatency};
pub use peak::{PeakInput, peak_nanos_per_message};

use crate::peer::BwReport;

/// What a bandwidth measurement found, in plain units.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bandwidth {
    /// Bytes of a message.
    pub size: u64,
    /// Messages of all QPs.
    pub messages: u64,
    /// What they took, in seconds.
    pub seconds: f64,
    /// Bytes per second at the best stretch; 0 if not measured.
    pub peak: f64,
    /// Bytes per second.
    pub average: f64,
    /// Messages per second.
    pub message_rate: f64,
}

impl Bandwidth {
    /// Computes the figures of `messages` of `size` bytes in `nanos`, and the peak where it was recorded.
    pub fn new(size: u64, messages: u64, nanos: u64, peak: Option<PeakInput<'_>>) -> Self {
        let seconds = nanos as f64 / 1e9;
        let message_rate = if nanos == 0 {
            0.0
        } else {
            messages as f64 / seconds
        };
        let peak = peak
            .and_then(peak_nanos_per_message)
            .map_or(0.0, |nanos| size as f64 * 1e9 / nanos);
        Self {
            size,
            messages,
            seconds,
            peak,
            average: message_rate * size as f64,
            message_rate,
        }
    }

    /// Returns the figures in a unit, as the peer is told them.
    pub fn report(&self, unit: Unit) -> BwReport {
        BwReport {
            size: self.size,
            iterations: self.messages,
            peak: unit.of(self.peak),
            average: unit.of(self.average),
            message_rate: self.message_rate / 1e6,
        }
    }
}

/// The unit of bandwidths in a table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unit {
    /// 2^20 bytes per second, which perftest labels MB/sec.
    Mebibytes,
    /// 10^9 bits per second.
    Gigabits,
}

impl Unit {
    /// Returns the unit that `--report_gbits` chooses.
    pub const fn of_option(report_gbits: bool) -> Self {
        if report_gbits {
            Self::Gigabits
        } else {
            Self::Mebibytes
        }
    }

    /// Converts bytes per second.
    pub const fn of(self, bytes_per_second: f64) -> f64 {
        match self {
            Self::Mebibytes => bytes_per_second / 1_048_576.0,
            Self::Gigabits => bytes_per_second * 8.0 / 1e9,
        }
    }

    /// Returns perftest's label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Mebibytes => "MB/sec",
            Self::Gigabits => "Gb/sec",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn average_is_bytes_over_time() {
        let found = Bandwidth::new(65_536, 5000, 1_000_000_000, None);
        assert!((found.report(Unit::Mebibytes).average - 312.5).abs() < 1e-9);
        assert!((found.report(Unit::Gigabits).average - 2.62144).abs() < 1e-9);
        assert!((found.report(Unit::Gigabits).message_rate - 0.005).abs() < 1e-12);
        assert!(found.peak.abs() < f64::EPSILON);
        assert!(Bandwidth::new(1, 0, 0, None).average.abs() < f64::EPSILON);
    }

    #[test]
    fn peak_is_the_best_stretch() {
        let input = PeakInput {
            posted: &[0, 10, 20, 30],
            completed: &[(1, 1000), (2, 1100), (3, 1150), (4, 4000)],
            step: 1,
        };
        let found = Bandwidth::new(100, 4, 4000, Some(input));
        // Messages 1 to 3 of 4, posted at 0 and complete at 1150, beat all other stretches.
        assert!(
            (found.peak - 100.0 * 3.0 / 1150.0 * 1e9).abs() < 1.0,
            "{}",
            found.peak
        );
    }
}
