//! 24-bit packet and message sequence numbers with serial arithmetic.

use core::fmt;

const MASK: u32 = 0x00ff_ffff;

/// A packet sequence number: 24 bits, compared by signed distance, so it has no `Ord`.
///
/// Half of the space (2^23) lies ahead of a number and half behind it.
#[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
pub struct Psn(u32);

impl Psn {
    /// Makes a PSN from the low 24 bits of `value`.
    pub const fn new(value: u32) -> Self {
        Self(value & MASK)
    }

    /// Returns the 24-bit value.
    pub const fn value(self) -> u32 {
        self.0
    }

    /// Returns the PSN `n` packets later, modulo 2^24.
    pub const fn add(self, n: u32) -> Self {
        Self(self.0.wrapping_add(n) & MASK)
    }

    /// Returns the PSN `n` packets earlier, modulo 2^24.
    pub const fn sub(self, n: u32) -> Self {
        Self(self.0.wrapping_sub(n) & MASK)
    }

    /// Returns the PSN that follows.
    pub const fn next(self) -> Self {
        self.add(1)
    }

    /// Returns the PSN before this one.
    pub const fn prev(self) -> Self {
        self.sub(1)
    }

    /// Returns the signed distance `self - base` in packets, from -2^23 to 2^23 - 1.
    pub const fn distance_from(self, base: Self) -> i32 {
        ((self.0.wrapping_sub(base.0) << 8) as i32) >> 8
    }

    /// Returns whether this PSN is ahead of `other` by serial arithmetic.
    pub const fn is_after(self, other: Self) -> bool {
        self.distance_from(other) > 0
    }

    /// Returns whether this PSN is behind `other` by serial arithmetic.
    pub const fn is_before(self, other: Self) -> bool {
        self.distance_from(other) < 0
    }

    /// Returns whether this PSN lies in the `len` packets that start at `first` (modulo 2^24).
    pub const fn is_in(self, first: Self, len: u32) -> bool {
        (self.0.wrapping_sub(first.0) & MASK) < len
    }
}

impl fmt::Debug for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:06x}", self.0)
    }
}

impl fmt::Display for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:06x}", self.0)
    }
}

/// A message sequence number: counts completed requests at the responder, modulo 2^24.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Msn(u32);

impl Msn {
    /// Makes an MSN from the low 24 bits of `value`.
    pub const fn new(value: u32) -> Self {
        Self(value & MASK)
    }

    /// Returns the 24-bit value.
    pub const fn value(self) -> u32 {
        self.0
    }

    /// Returns the MSN that follows.
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1) & MASK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_is_signed_and_wraps() {
        let first = Psn::new(0xff_fffe);
        assert_eq!(first.add(5), Psn::new(3));
        assert_eq!(Psn::new(3).distance_from(first), 5);
        assert_eq!(first.distance_from(Psn::new(3)), -5);
        assert!(Psn::new(0).is_after(Psn::new(0xff_ffff)));
        assert!(Psn::new(0x80_0000).is_before(Psn::new(0)));
        assert!(Psn::new(0x7f_ffff).is_after(Psn::new(0)));
    }

    #[test]
    fn a_window_may_span_the_wrap() {
        assert!(Psn::new(1).is_in(Psn::new(0xff_ffff), 3));
        assert!(!Psn::new(2).is_in(Psn::new(0xff_ffff), 3));
        assert!(!Psn::new(5).is_in(Psn::new(5), 0));
    }

    #[test]
    fn values_are_cut_to_24_bits() {
        assert_eq!(Psn::new(0x0100_0001).value(), 1);
        assert_eq!(Msn::new(0xff_ffff).next(), Msn::new(0));
        assert_eq!(Psn::new(0).prev().value(), 0xff_ffff);
    }
}
