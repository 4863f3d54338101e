//! How often a loop that only polls reads the clock.
//!
//! A message is found by polling, so nothing may stand between two polls for long. Reading the clock does where it is
//! a system call, as in many virtual machines; and how long a poll takes depends on the device. So the number of
//! polls between two reads follows the time that they took.

/// Reads closer together than this, in nanoseconds, are too many.
const NEAR: u64 = 8_000;
/// Reads further apart, and not once as when another process had the processor, are too few for what the clock decides.
const FAR: u64 = 32_000;
/// The most polls between two reads.
const MOST: u32 = 4096;

/// Counts polls that took nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stride {
    length: u32,
    left: u32,
    last: u64,
    was_far: bool,
}

impl Stride {
    /// Counts an empty poll. Returns whether the clock is to be read, and the time passed to [`Self::read`].
    #[inline]
    pub const fn is_due(&mut self) -> bool {
        self.left -= 1;
        self.left == 0
    }

    /// Takes the time of the read, and from it when the next is due.
    #[inline]
    pub fn read(&mut self, now: u64) {
        let span = now.saturating_sub(self.last);
        if span < NEAR {
            self.length = (self.length * 2).min(MOST);
        } else if span > FAR && self.was_far {
            self.length = (self.length / 2).max(1);
        }
        self.was_far = span > FAR;
        self.last = now;
        self.left = self.length;
    }
}

impl Default for Stride {
    /// Starts with a read at the first empty poll.
    fn default() -> Self {
        Self {
            length: 1,
            left: 1,
            last: 0,
            was_far: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Polls that take this many nanoseconds each; returns the longest time between two reads of the last thousand.
    fn polls(stride: &mut Stride, now: &mut u64, nanos: u64) -> u64 {
        let mut longest = 0;
        for _ in 0..20_000 {
            *now += nanos;
            if stride.is_due() {
                longest = *now - stride.last;
                stride.read(*now);
            }
        }
        longest
    }

    #[test]
    fn reads_keep_their_distance_whatever_a_poll_takes() {
        let (mut stride, mut now) = (Stride::default(), 0);
        for nanos in [10, 100, 1000, 10, 9000] {
            let apart = polls(&mut stride, &mut now, nanos);
            assert!((NEAR..=FAR).contains(&apart), "{nanos}: {apart}");
        }
        // A poll that sleeps is followed by a read each.
        assert_eq!(polls(&mut stride, &mut now, 500_000), 500_000);
        assert_eq!(stride.length, 1);
    }

    #[test]
    fn one_long_poll_changes_nothing() {
        let (mut stride, mut now) = (Stride::default(), 0);
        polls(&mut stride, &mut now, 100);
        let length = stride.length;
        for _ in 0..100 {
            now += 200_000;
            for _ in 0..2 * length {
                now += 100;
                if stride.is_due() {
                    stride.read(now);
                }
            }
        }
        assert_eq!(stride.length, length);
    }

    #[test]
    fn a_clock_that_stands_still_is_read_now_and_then() {
        let mut stride = Stride::default();
        let reads = (0..3 * MOST).filter(|_| {
            let due = stride.is_due();
            if due {
                stride.read(7);
            }
            due
        });
        assert_eq!(reads.count(), 13 + 1);
    }
}
