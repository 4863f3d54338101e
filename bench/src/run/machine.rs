//! How busy the whole machine is, for `--cpu_util`.

use std::fs;

/// Where the system counts the time of all processors.
const STAT: &str = "/proc/stat";

/// The time of all processors since the system started, in ticks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MachineTime {
    all: u64,
    idle: u64,
}

impl MachineTime {
    /// Reads the time. Nothing where the system does not tell.
    pub fn read() -> Option<Self> {
        Self::parse(&fs::read_to_string(STAT).ok()?)
    }

    /// Parses the first line: user, nice, system, idle, waiting for input, and others. The time of guests is in
    /// that of users already.
    fn parse(stat: &str) -> Option<Self> {
        let ticks: Vec<u64> = stat
            .lines()
            .next()?
            .strip_prefix("cpu ")?
            .split_whitespace()
            .take(8)
            .map(|field| field.parse().ok())
            .collect::<Option<_>>()?;
        Some(Self {
            all: ticks.iter().sum(),
            idle: ticks.get(3)? + ticks.get(4).unwrap_or(&0),
        })
    }

    /// Returns the share of all processors that was busy since `earlier`, in percent. Nothing if no tick passed.
    pub fn busy_since(self, earlier: Self) -> Option<f64> {
        let all = self.all.saturating_sub(earlier.all);
        let idle = self.idle.saturating_sub(earlier.idle).min(all);
        (all > 0).then(|| (all - idle) as f64 / all as f64 * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_is_of_all_processors() {
        let at = |line| MachineTime::parse(line).unwrap();
        let start = at("cpu  100 0 50 800 50 0 0 0 40 0\ncpu0 1 2 3");
        let end = at("cpu  160 0 60 810 70 0 0 0 99 0\n");
        // Of 100 ticks, 30 were idle.
        assert_eq!(end.busy_since(start), Some(70.0));
        assert_eq!(start.busy_since(start), None);
        for text in ["", "cpu 1 2", "cpu0 1 2 3 4", "cpu  1 2 3 x"] {
            assert_eq!(MachineTime::parse(text), None, "{text}");
        }
        assert!(MachineTime::read().is_some());
    }
}
