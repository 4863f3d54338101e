//! Protection domains and memory regions: a claim on memory becomes a window here, or an error.

use crate::arena::Arena;
use crate::verbs::{Access, CreateError, LKey, Mr, Pd, RKey, Region, RegisterError, Sge, Window};

/// A key's low byte is its generation, the rest its index: as `ibv_alloc_mw(3)` keys look.
const TAG_BITS: u32 = 8;
const TAG_MASK: u32 = 0xff;

/// An unchecked statement that a key allows access to some bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Claim {
    /// The lkey or rkey.
    pub(crate) key: u32,
    /// The first byte.
    pub(crate) addr: u64,
    /// How many.
    pub(crate) len: u32,
}

impl From<&Sge> for Claim {
    fn from(sge: &Sge) -> Self {
        Self {
            key: sge.lkey.0,
            addr: sge.addr,
            len: sge.length,
        }
    }
}

#[derive(Debug)]
struct Registration {
    pd: Pd,
    region: Region,
    access: Access,
    remote_valid: bool,
}

#[derive(Debug)]
struct Domain {
    users: u32,
}

/// All protection domains and regions of a device.
#[derive(Debug)]
pub(crate) struct MemoryTable {
    domains: Arena<Domain>,
    regions: Arena<Registration>,
}

impl MemoryTable {
    /// Makes an empty table; `seed` picks the first generation of its keys.
    pub(crate) const fn new(max_pd: u32, max_mr: u32, seed: u32) -> Self {
        Self {
            domains: Arena::new(max_pd, 0),
            regions: Arena::new(max_mr, seed),
        }
    }

    /// Makes a protection domain.
    pub(crate) fn alloc_pd(&mut self) -> Result<Pd, CreateError> {
        let limit = self.domains.limit();
        let (index, generation) =
            self.domains
                .insert(Domain { users: 0 })
                .ok_or(CreateError::Exhausted {
                    what: "protection domains",
                    limit,
                })?;
        Ok(Pd(generation << 16 | index))
    }

    /// Destroys a protection domain that nothing uses.
    pub(crate) fn dealloc_pd(&mut self, pd: Pd) -> Result<(), CreateError> {
        let domain = self.domain(pd)?;
        if domain.users > 0 {
            return Err(CreateError::InUse {
                what: "protection domain",
                by: "QP or memory region",
            });
        }
        self.domains.remove(pd.0 & 0xffff);
        Ok(())
    }

    /// Counts a user of a protection domain.
    pub(crate) fn hold_pd(&mut self, pd: Pd) -> Result<(), CreateError> {
        self.domain(pd)?.users += 1;
        Ok(())
    }

    /// Takes a user of a protection domain away.
    pub(crate) fn release_pd(&mut self, pd: Pd) {
        if let Ok(domain) = self.domain(pd) {
            domain.users -= 1;
        }
    }

    fn domain(&mut self, pd: Pd) -> Result<&mut Domain, CreateError> {
        self.domains
            .named_mut(pd.0 & 0xffff, pd.0 >> 16, 0xffff)
            .ok_or(CreateError::NoSuchObject("protection domain"))
    }

    /// Registers a region and mints its key.
    pub(crate) fn register(
        &mut self,
        pd: Pd,
        region: &Region,
        access: Access,
    ) -> Result<Mr, RegisterError> {
        if !access.is_legal() {
            return Err(RegisterError::IllegalAccess);
        }
        self.hold_pd(pd)?;
        let registration = Registration {
            pd,
            region: region.clone(),
            access,
            remote_valid: true,
        };
        let Some((index, generation)) = self.regions.insert(registration) else {
            self.release_pd(pd);
            let limit = self.regions.limit();
            return Err(CreateError::Exhausted {
                what: "memory regions",
                limit,
            }
            .into());
        };
        // Index 0 is skipped so that no key is below 0x100: a zero key is never valid.
        let key = (index + 1) << TAG_BITS | generation & TAG_MASK;
        Ok(Mr {
            handle: key,
            lkey: LKey(key),
            rkey: RKey(key),
            addr: region.addr(),
            length: region.len() as u64,
        })
    }

    /// Ends a registration.
    pub(crate) fn deregister(&mut self, mr: Mr) -> Result<(), CreateError> {
        let (index, tag) =
            Self::split(mr.handle).ok_or(CreateError::NoSuchObject("memory region"))?;
        let registration = self
            .regions
            .named(index, tag, TAG_MASK)
            .ok_or(CreateError::NoSuchObject("memory region"))?;
        let pd = registration.pd;
        self.regions.remove(index);
        self.release_pd(pd);
        Ok(())
    }

    /// Returns the window that a claim of the peer names, if key, domain, rights and bounds allow it.
    pub(crate) fn remote(&self, pd: Pd, claim: Claim, need: Access) -> Option<Window<'_>> {
        let registration = self.find(pd, claim.key)?;
        (registration.remote_valid && registration.access.contains(need))
            .then(|| registration.window(claim))?
    }

    /// Returns the window that a local SGE names, if key, domain, rights and bounds allow it.
    pub(crate) fn local(&self, pd: Pd, claim: Claim, need: Access) -> Option<Window<'_>> {
        let registration = self.find(pd, claim.key)?;
        registration
            .access
            .contains(need)
            .then(|| registration.window(claim))?
    }

    /// Ends a key's use by peers, as SEND with invalidate asks; false if it may not.
    pub(crate) fn invalidate(&mut self, pd: Pd, rkey: RKey) -> bool {
        let Some((index, tag)) = Self::split(rkey.0) else {
            return false;
        };
        match self.regions.named_mut(index, tag, TAG_MASK) {
            Some(registration) if registration.pd == pd && registration.remote_valid => {
                registration.remote_valid = false;
                true
            }
            _ => false,
        }
    }

    /// Returns whether SEND with invalidate may name this key.
    pub(crate) fn may_invalidate(&self, pd: Pd, rkey: RKey) -> bool {
        self.find(pd, rkey.0)
            .is_some_and(|registration| registration.remote_valid)
    }

    fn find(&self, pd: Pd, key: u32) -> Option<&Registration> {
        let (index, tag) = Self::split(key)?;
        self.regions
            .named(index, tag, TAG_MASK)
            .filter(|registration| registration.pd == pd)
    }

    fn split(key: u32) -> Option<(u32, u32)> {
        Some(((key >> TAG_BITS).checked_sub(1)?, key & TAG_MASK))
    }
}

impl Registration {
    fn window(&self, claim: Claim) -> Option<Window<'_>> {
        let offset = claim.addr.checked_sub(self.region.addr())?;
        self.region
            .window(usize::try_from(offset).ok()?, claim.len as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> (MemoryTable, Pd, Mr) {
        let mut table = MemoryTable::new(4, 4, 0xab);
        let pd = table.alloc_pd().expect("room");
        let region = Region::zeroed(64, 8).expect("memory");
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let mr = table.register(pd, &region, access).expect("legal");
        (table, pd, mr)
    }

    #[test]
    fn bounds_are_exact_and_do_not_overflow() {
        let (table, pd, mr) = table();
        let claim = |addr, len| Claim {
            key: mr.rkey.0,
            addr,
            len,
        };
        assert!(
            table
                .remote(pd, claim(mr.addr, 64), Access::REMOTE_WRITE)
                .is_some()
        );
        assert!(
            table
                .remote(pd, claim(mr.addr, 65), Access::REMOTE_WRITE)
                .is_none()
        );
        assert!(
            table
                .remote(pd, claim(mr.addr + 64, 0), Access::REMOTE_WRITE)
                .is_some()
        );
        assert!(
            table
                .remote(pd, claim(mr.addr - 1, 1), Access::REMOTE_WRITE)
                .is_none()
        );
        assert!(
            table
                .remote(pd, claim(u64::MAX, 2), Access::REMOTE_WRITE)
                .is_none()
        );
    }

    #[test]
    fn rights_domains_and_tags_count() {
        let (mut table, pd, mr) = table();
        let claim = Claim {
            key: mr.rkey.0,
            addr: mr.addr,
            len: 1,
        };
        let other = table.alloc_pd().expect("room");
        assert!(table.remote(other, claim, Access::REMOTE_WRITE).is_none());
        assert!(table.remote(pd, claim, Access::REMOTE_READ).is_none());
        let stale = Claim {
            key: claim.key ^ 1,
            ..claim
        };
        assert!(table.remote(pd, stale, Access::REMOTE_WRITE).is_none());
        let zero = Claim { key: 0, ..claim };
        assert!(table.remote(pd, zero, Access::REMOTE_WRITE).is_none());
        table.deregister(mr).expect("exists");
        assert!(table.remote(pd, claim, Access::REMOTE_WRITE).is_none());
        assert!(table.deregister(mr).is_err());
    }

    #[test]
    fn invalidation_ends_remote_use_only() {
        let (mut table, pd, mr) = table();
        let claim = Claim {
            key: mr.rkey.0,
            addr: mr.addr,
            len: 1,
        };
        assert!(table.invalidate(pd, mr.rkey));
        assert!(!table.invalidate(pd, mr.rkey));
        assert!(table.remote(pd, claim, Access::REMOTE_WRITE).is_none());
        assert!(table.local(pd, claim, Access::LOCAL_WRITE).is_some());
    }

    #[test]
    fn a_domain_in_use_stays() {
        let (mut table, pd, mr) = table();
        assert!(matches!(
            table.dealloc_pd(pd),
            Err(CreateError::InUse { .. })
        ));
        table.deregister(mr).expect("exists");
        table.dealloc_pd(pd).expect("unused");
        assert!(table.dealloc_pd(pd).is_err());
    }
}
