//! Latency statistics: perftest's own for its table, and plain ones over all samples.

/// The samples of a latency measurement.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Microseconds in time order.
    in_order: Vec<f64>,
    sorted: Vec<f64>,
}

/// A row of perftest's latency table, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LatencyRow {
    /// The smallest sample.
    pub min: f64,
    /// The second largest sample.
    pub max: f64,
    /// The median without the two largest.
    pub typical: f64,
    /// The mean without the two largest.
    pub avg: f64,
    /// The deviation, of which perftest drops the fraction of each sample's microseconds.
    pub stdev: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
}

/// Plain statistics over all samples, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    /// The smallest.
    pub min: f64,
    /// The median.
    pub typical: f64,
    /// The mean.
    pub avg: f64,
    /// The standard deviation.
    pub stdev: f64,
    /// The 99th percentile: that many samples are not above it.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
    /// The largest.
    pub max: f64,
    /// How many.
    pub samples: u64,
}

/// A latency measured over a time instead of sample by sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TimedLatency {
    /// Messages in the sample.
    pub messages: u64,
    /// Microseconds of one.
    pub avg: f64,
    /// Messages per second.
    pub per_second: f64,
}

impl TimedLatency {
    /// Computes the figures; `halved` where a message is one way of a round trip.
    pub fn new(messages: u64, nanos: u64, halved: bool) -> Self {
        Self::in_units(messages, nanos, halved, 1000.0)
    }

    /// Like [`new`](Self::new), the time of a message in units of so many nanoseconds.
    pub fn in_units(messages: u64, nanos: u64, halved: bool, unit: f64) -> Self {
        if messages == 0 || nanos == 0 {
            return Self::default();
        }
        let whole = nanos as f64 / unit / messages as f64;
        Self {
            messages,
            avg: if halved { whole / 2.0 } else { whole },
            per_second: messages as f64 * 1e9 / nanos as f64,
        }
    }
}

impl Samples {
    /// Takes the times of the posts: each sample is the time from one to the next, in microseconds, halved where a
    /// post waits for the peer's answer, which took the other half.
    pub fn from_stamps(stamps: &[u64], halved: bool) -> Self {
        Self::in_units(stamps, halved, 1000.0)
    }

    /// Like [`from_stamps`](Self::from_stamps), in units of so many nanoseconds.
    pub fn in_units(stamps: &[u64], halved: bool, nanos: f64) -> Self {
        let scale = if halved { nanos * 2.0 } else { nanos };
        let in_order: Vec<f64> = stamps
            .windows(2)
            .map(|pair| pair[1].saturating_sub(pair[0]) as f64 / scale)
            .collect();
        let mut sorted = in_order.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        Self { in_order, sorted }
    }

    /// Returns all samples in time order.
    pub fn in_order(&self) -> &[f64] {
        &self.in_order
    }

    /// Returns the samples that perftest keeps, sorted: all but the two largest.
    pub fn kept(&self) -> &[f64] {
        &self.sorted[..self.kept_count()]
    }

    fn kept_count(&self) -> usize {
        let count = self.sorted.len();
        count.saturating_sub(2).max(count.min(1))
    }

    /// Computes perftest's row.
    pub fn row(&self) -> LatencyRow {
        let kept = self.kept();
        let (Some(&min), Some(&last)) = (kept.first(), self.sorted.last()) else {
            return LatencyRow::default();
        };
        let n = kept.len();
        let at = |index: usize| self.sorted.get(index).copied().unwrap_or(last);
        let avg = mean(kept);
        let squares: f64 = kept.iter().map(|x| (avg - x).trunc().powi(2)).sum();
        LatencyRow {
            min,
            max: at(n),
            typical: median(kept),
            avg,
            stdev: (squares / n as f64).sqrt(),
            p99: at((n as f64 * 0.99).ceil() as usize),
            p999: at((n as f64 * 0.999).ceil() as usize),
        }
    }

    /// Computes plain statistics over all samples, if there are any.
    pub fn summary(&self) -> Option<Summary> {
        let sorted = &self.sorted;
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let n = sorted.len();
        let rank = |share: f64| {
            let rank = (n as f64 * share).ceil() as usize;
            sorted.get(rank.saturating_sub(1)).copied().unwrap_or(max)
        };
        let avg = mean(sorted);
        let squares: f64 = sorted.iter().map(|x| (avg - x).powi(2)).sum();
        Some(Summary {
            min,
            typical: median(sorted),
            avg,
            stdev: (squares / n as f64).sqrt(),
            p99: rank(0.99),
            p999: rank(0.999),
            max,
            samples: n as u64,
        })
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn median(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) {
        f64::midpoint(sorted[half - 1], sorted[half])
    } else {
        sorted[half]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(deltas: &[u64], halved: bool) -> Samples {
        let mut now = 17;
        let mut stamps = vec![now];
        for delta in deltas {
            now += delta;
            stamps.push(now);
        }
        Samples::from_stamps(&stamps, halved)
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    }

    #[test]
    fn two_largest_are_dropped_and_max_is_the_second() {
        let row = samples(&[5000, 3000, 90_000, 4000, 40_000, 6000], false).row();
        close(row.min, 3.0);
        close(row.max, 40.0);
        close(row.typical, 4.5);
        close(row.avg, 4.5);
        // Deviations of 1.5, 0.5, 0.5 and 1.5 count as 1, 0, 0 and 1.
        close(row.stdev, 0.5_f64.sqrt());
        // ceil(0.99 * 4) is 4: the first that was dropped.
        close(row.p99, 40.0);
        close(row.p999, 40.0);
    }

    #[test]
    fn thousand_iterations_have_their_percentiles_where_perftest_has_them() {
        let deltas: Vec<u64> = (1..=999).map(|n| n * 1000).collect();
        let row = samples(&deltas, false).row();
        // n is 997: percentiles at 988 and 997, counted from 0.
        close(row.p99, 989.0);
        close(row.p999, 998.0);
        close(row.max, 998.0);
        close(row.typical, 499.0);
    }

    #[test]
    fn one_way_is_half() {
        close(samples(&[8000, 8000, 8000, 8000], true).row().typical, 4.0);
        let timed = TimedLatency::new(1000, 8_000_000, true);
        close(timed.avg, 4.0);
        close(timed.per_second, 125_000.0);
        assert_eq!(TimedLatency::new(0, 5, false), TimedLatency::default());
    }

    #[test]
    fn summary_keeps_all() {
        let summary = samples(&[1000, 3000, 100_000, 2000], false)
            .summary()
            .unwrap();
        close(summary.max, 100.0);
        close(summary.typical, 2.5);
        close(summary.p99, 100.0);
        assert_eq!(summary.samples, 4);
        assert!(summary.stdev > 42.0);
        assert_eq!(samples(&[], false).summary(), None);
    }

    #[test]
    fn few_samples_do_not_panic() {
        for count in 0..5 {
            let deltas = vec![1000; count];
            let row = samples(&deltas, false).row();
            close(row.max, if count == 0 { 0.0 } else { 1.0 });
        }
    }
}
