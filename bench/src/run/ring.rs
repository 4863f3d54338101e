//! Where successive messages of a QP start in their slot.

/// A place per message: the offset from the slot's start.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ring {
    stride: u64,
    places: u64,
    list: u64,
}

impl Ring {
    /// All messages start where the slot does.
    pub const FIXED: Self = Self {
        stride: 0,
        places: 1,
        list: 0,
    };

    /// Returns perftest's walk of a bandwidth test: small messages go from cache line to cache line through
    /// the cycle buffer, those above half of it stay. A post list longer than 1 is laid out once.
    pub const fn walk(size: u64, cycle: u64, line: u64, post_list: u64) -> Self {
        if size > cycle / 2 {
            return Self::FIXED;
        }
        let stride = if size == 0 {
            line
        } else {
            size.next_multiple_of(line)
        };
        let places = cycle / stride;
        if places < 2 {
            return Self::FIXED;
        }
        Self {
            stride,
            places,
            list: if post_list > 1 { post_list } else { 0 },
        }
    }

    /// Returns places for `count` messages that do not overlap, used in turn.
    pub const fn distinct(stride: u64, count: u64) -> Self {
        Self {
            stride,
            places: if count == 0 { 1 } else { count },
            list: 0,
        }
    }

    /// Returns where message `number` starts.
    #[inline]
    pub const fn offset(self, number: u64) -> u64 {
        if self.places == 1 {
            return 0;
        }
        let index = if self.list == 0 {
            number
        } else {
            number % self.list
        };
        index % self.places * self.stride
    }

    /// Returns how many places are used: the offsets below it are all different.
    pub const fn places(self) -> u64 {
        if self.list > 0 && self.list < self.places {
            self.list
        } else {
            self.places
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets(ring: Ring, n: u64) -> Vec<u64> {
        (0..n).map(|k| ring.offset(k)).collect()
    }

    #[test]
    fn small_messages_walk_through_the_cycle_buffer() {
        let ring = Ring::walk(64, 4096, 64, 1);
        assert_eq!(ring.places(), 64);
        assert_eq!(ring.offset(63), 4032);
        assert_eq!(ring.offset(64), 0);
        assert_eq!(offsets(Ring::walk(8, 4096, 64, 1), 3), [0, 64, 128]);
        assert_eq!(
            offsets(Ring::walk(1025, 4096, 64, 1), 4),
            [0, 1088, 2176, 0]
        );
    }

    #[test]
    fn messages_above_half_of_it_stay() {
        assert_eq!(offsets(Ring::walk(2048, 4096, 64, 1), 3), [0, 2048, 0]);
        assert_eq!(Ring::walk(2049, 4096, 64, 1), Ring::FIXED);
        assert_eq!(offsets(Ring::FIXED, 3), [0, 0, 0]);
    }

    #[test]
    fn a_post_list_is_laid_out_once() {
        assert_eq!(
            offsets(Ring::walk(64, 4096, 64, 3), 7),
            [0, 64, 128, 0, 64, 128, 0]
        );
        assert_eq!(offsets(Ring::walk(2048, 4096, 64, 3), 4), [0, 2048, 0, 0]);
    }

    #[test]
    fn places_are_counted_once() {
        for list in [1, 2, 3, 63, 64, 65, 200] {
            for size in [0, 8, 64, 1025, 2048, 4096] {
                let ring = Ring::walk(size, 4096, 64, list);
                let all: std::collections::BTreeSet<_> = offsets(ring, 500).into_iter().collect();
                assert_eq!(ring.places(), all.len() as u64, "{size} {list}");
                let first = offsets(ring, ring.places());
                assert_eq!(first.len(), all.len(), "{size} {list}");
                assert!(all.iter().eq(&first), "{size} {list}");
            }
        }
    }

    #[test]
    fn distinct_places_come_in_turn() {
        assert_eq!(offsets(Ring::distinct(100, 2), 3), [0, 100, 0]);
        assert_eq!(offsets(Ring::distinct(100, 0), 3), [0, 0, 0]);
    }
}
