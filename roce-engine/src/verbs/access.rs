//! What may be done to a memory region or through a QP.

use core::ops::BitOr;

/// A set of access rights. Local read is always granted.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Access(u8);

impl Access {
    /// Local read only.
    pub const NONE: Self = Self(0);
    /// Receives, READ responses and atomic results may be written here.
    pub const LOCAL_WRITE: Self = Self(1);
    /// A peer may WRITE.
    pub const REMOTE_WRITE: Self = Self(2);
    /// A peer may READ.
    pub const REMOTE_READ: Self = Self(4);
    /// A peer may use atomics.
    pub const REMOTE_ATOMIC: Self = Self(8);
    /// A memory window may be bound.
    pub const MW_BIND: Self = Self(16);
    /// The device may write here in any order, which a peer's WRITE has then only with its completion. A hint about
    /// regions: where there is nothing to reorder it changes nothing.
    pub const RELAXED_ORDERING: Self = Self(32);

    /// Returns whether all rights of `other` are in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether the set is legal for a region: remote write or atomic needs local write.
    pub const fn is_legal(self) -> bool {
        self.0 & (Self::REMOTE_WRITE.0 | Self::REMOTE_ATOMIC.0) == 0
            || self.0 & Self::LOCAL_WRITE.0 != 0
    }
}

impl BitOr for Access {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_write_needs_local_write() {
        assert!(!Access::REMOTE_WRITE.is_legal());
        assert!(!Access::REMOTE_ATOMIC.is_legal());
        assert!((Access::REMOTE_WRITE | Access::LOCAL_WRITE).is_legal());
        assert!(Access::REMOTE_READ.is_legal());
    }
}
