//! Processor time of this process.

use core::time::Duration;
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

/// Processor time and wall time of a piece of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuTime {
    /// User and system time of all threads.
    pub cpu: Duration,
    /// Time that passed.
    pub wall: Duration,
}

/// A piece of a run in progress.
#[derive(Clone, Copy, Debug)]
pub struct CpuStart {
    cpu: Duration,
    wall: Instant,
}

impl CpuTime {
    /// Starts to count.
    pub fn start() -> CpuStart {
        CpuStart {
            cpu: process_time(),
            wall: Instant::now(),
        }
    }

    /// Returns the share of one processor.
    pub fn percent(&self) -> f64 {
        if self.wall.is_zero() {
            return 0.0;
        }
        self.cpu.as_secs_f64() / self.wall.as_secs_f64() * 100.0
    }
}

impl CpuStart {
    /// Returns what was used since the start.
    pub fn stop(self) -> CpuTime {
        CpuTime {
            cpu: process_time().saturating_sub(self.cpu),
            wall: self.wall.elapsed(),
        }
    }
}

fn process_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_processor_time() {
        let start = CpuTime::start();
        let until = Instant::now() + Duration::from_millis(20);
        while Instant::now() < until {
            core::hint::spin_loop();
        }
        let time = start.stop();
        assert!(time.wall >= Duration::from_millis(20));
        assert!(time.percent() > 1.0, "{time:?}");
    }
}
