//! The cycle counter of the processor, for `-C`. It is read by an instruction of its own, hence `unsafe`.

/// Measures how many nanoseconds a cycle of the time stamp counter takes, which takes some milliseconds. Nothing
/// where there is no such counter, or where it does not run evenly.
#[cfg(target_arch = "x86_64")]
pub fn nanos_per_cycle() -> Option<f64> {
    let [first, second] = [(); 2].map(|()| measure());
    let even = (first - second).abs() < second * TOLERANCE;
    (even && second.is_finite()).then_some(second)
}

/// Nothing: the counter is read on x86-64 only.
#[cfg(not(target_arch = "x86_64"))]
pub const fn nanos_per_cycle() -> Option<f64> {
    None
}

/// How far two measurements may be apart: a counter that is off by more gives no cycles.
#[cfg(target_arch = "x86_64")]
const TOLERANCE: f64 = 0.01;

#[cfg(target_arch = "x86_64")]
fn measure() -> f64 {
    use core::time::Duration;
    use std::time::Instant;

    let (start, before) = (Instant::now(), counter());
    std::thread::sleep(Duration::from_millis(5));
    let (time, after) = (start.elapsed(), counter());
    time.as_nanos() as f64 / after.wrapping_sub(before) as f64
}

#[cfg(target_arch = "x86_64")]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and it only reads.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_is_as_short_as_processors_are_fast() {
        // A loaded machine may take a break between two reads.
        let nanos = (0..10).find_map(|_| nanos_per_cycle()).unwrap();
        assert!((0.1..10.0).contains(&nanos), "{nanos}");
    }
}
