//! The rate that a sender keeps to (`--rate_limit`): bursts that start at even distances.

use super::clock::MILLISECOND;
use crate::spec::RateLimit;

/// How far off the next burst must be for the device to be slept on: a sleep may end this late.
const REST: u64 = 2 * MILLISECOND;

/// Lets messages go in bursts. Times are nanoseconds of the run's clock.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    gap: u64,
    burst: u64,
    // When the next burst may start.
    next: u64,
    // What is left of this one.
    left: u64,
}

impl Pacer {
    /// Starts with a burst of messages of `size` bytes at `now`.
    pub fn new(limit: &RateLimit, size: u64, now: u64) -> Self {
        Self {
            gap: limit.nanos_per_burst(size),
            burst: u64::from(limit.burst),
            next: now,
            left: 0,
        }
    }

    /// Cuts the requests that a QP has room for to those that may go: whole lists, the last one of a burst too.
    ///
    /// A burst that starts late leaves the later ones where they were, so that the rate holds over the run.
    pub fn cut(&mut self, room: u64, list: u64, now: u64) -> u64 {
        if self.left == 0 {
            if now < self.next {
                return 0;
            }
            self.next = self.next.saturating_add(self.gap);
            self.left = self.burst;
        }
        room.min(self.left.next_multiple_of(list))
    }

    /// Notes that so many were posted.
    pub const fn posted(&mut self, count: u64) {
        self.left = self.left.saturating_sub(count);
    }

    /// Returns whether the next burst is far enough away to sleep until something arrives.
    pub const fn may_rest(&self, now: u64) -> bool {
        self.left > 0 || self.next.saturating_sub(now) > REST
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::RateUnit;

    fn pacer(burst: u32) -> Pacer {
        let limit = RateLimit {
            rate: 1000.0,
            unit: RateUnit::Messages,
            burst,
        };
        Pacer::new(&limit, 64, 0)
    }

    /// Posts as much as may go at each of `times`, of `room` requests in lists.
    fn posted(pacer: &mut Pacer, room: u64, list: u64, times: &[u64]) -> Vec<u64> {
        let post = |now: &u64| {
            let count = pacer.cut(room, list, *now);
            pacer.posted(count);
            count
        };
        times.iter().map(post).collect()
    }

    #[test]
    fn bursts_start_a_gap_apart() {
        // Four messages at 1000 a second: a burst each 4 ms.
        let mut four = pacer(4);
        let times = [0, 1, 3 * MILLISECOND, 4 * MILLISECOND, 5 * MILLISECOND];
        assert_eq!(posted(&mut four, 100, 1, &times), [4, 0, 0, 4, 0]);
    }

    #[test]
    fn a_burst_goes_on_when_there_is_room() {
        let mut four = pacer(4);
        assert_eq!(posted(&mut four, 3, 1, &[0, 1, 2]), [3, 1, 0]);
    }

    #[test]
    fn a_late_burst_does_not_move_the_others() {
        let mut one = pacer(1);
        let late = [0, 2_500_000, 2_500_001, 2_500_002, 2_900_000, 3_000_000];
        assert_eq!(posted(&mut one, 9, 1, &late), [1, 1, 1, 0, 0, 1]);
    }

    #[test]
    fn lists_are_not_torn() {
        let mut four = pacer(4);
        assert_eq!(posted(&mut four, 9, 3, &[0, 1]), [6, 0]);
    }

    #[test]
    fn a_device_is_slept_on_between_distant_bursts_only() {
        let mut pacer = pacer(4);
        assert_eq!(pacer.cut(9, 1, 0), 4);
        assert!(pacer.may_rest(0), "in a burst the queue is full");
        pacer.posted(4);
        assert!(pacer.may_rest(MILLISECOND));
        assert!(!pacer.may_rest(3 * MILLISECOND));
    }
}
