//! Protection domains and memory regions: a claim on memory becomes a window here, or an error.

use crate::arena::Arena;
use crate::verbs::{
    Access, CreateError, LKey, Mr, Mw, Pd, Qpn, RKey, Region, RegisterError, Sge, Window,
};

/// A key's low byte is its generation, the rest its index: as `ibv_alloc_mw(3)` keys look.
const TAG_BITS: u32 = 8;

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

/// What a key names.
#[derive(Debug)]
enum Entry {
    Region(Registration),
    Window(MemoryWindow),
}

#[derive(Debug)]
struct Registration {
    pd: Pd,
    tag: u8,
    region: Region,
    access: Access,
    remote_valid: bool,
    /// Memory windows that are bound to it.
    windows: u32,
}

/// A type 2 memory window: its owner picks the tag of its key with each binding.
#[derive(Debug)]
struct MemoryWindow {
    pd: Pd,
    /// The tag that it was made with: its owner names it by this one.
    made: u8,
    tag: u8,
    bound: Option<Binding>,
}

/// What a window lets one QP's peer reach.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding {
    /// The key of the region.
    pub(crate) region: u32,
    /// The first byte.
    pub(crate) addr: u64,
    /// How many.
    pub(crate) length: u64,
    /// What the peer may do.
    pub(crate) access: Access,
    /// The QP that it was bound through.
    pub(crate) qpn: Qpn,
}

#[derive(Debug)]
struct Domain {
    users: u32,
}

/// All protection domains and regions of a device.
#[derive(Debug)]
pub(crate) struct MemoryTable {
    domains: Arena<Domain>,
    entries: Arena<Entry>,
}

impl MemoryTable {
    /// Makes an empty table; `seed` picks the first generation of its keys.
    pub(crate) const fn new(max_pd: u32, max_mr: u32, seed: u32) -> Self {
        Self {
            domains: Arena::new(max_pd, 0),
            entries: Arena::new(max_mr, seed),
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
        let (index, tag) = self.vacant("memory regions")?;
        self.hold_pd(pd)?;
        let region_len = region.len() as u64;
        self.entries.insert(Entry::Region(Registration {
            pd,
            tag,
            region: region.clone(),
            access,
            remote_valid: true,
            windows: 0,
        }));
        let key = key_of(index, tag);
        Ok(Mr {
            handle: key,
            lkey: LKey(key),
            rkey: RKey(key),
            addr: region.addr(),
            length: region_len,
        })
    }

    /// Ends a registration.
    pub(crate) fn deregister(&mut self, mr: Mr) -> Result<(), CreateError> {
        let no_such = CreateError::NoSuchObject("memory region");
        let Some((index, Entry::Region(registration))) = self.named(mr.handle) else {
            return Err(no_such);
        };
        if registration.windows > 0 {
            return Err(CreateError::InUse {
                what: "memory region",
                by: "memory window",
            });
        }
        let pd = registration.pd;
        self.entries.remove(index);
        self.release_pd(pd);
        Ok(())
    }

    /// Makes an unbound memory window.
    pub(crate) fn alloc_mw(&mut self, pd: Pd) -> Result<Mw, CreateError> {
        let (index, tag) = self.vacant("memory windows")?;
        self.hold_pd(pd)?;
        self.entries.insert(Entry::Window(MemoryWindow {
            pd,
            made: tag,
            tag,
            bound: None,
        }));
        let key = key_of(index, tag);
        Ok(Mw {
            handle: key,
            rkey: RKey(key),
        })
    }

    /// Destroys a memory window, bound or not.
    pub(crate) fn dealloc_mw(&mut self, mw: Mw) -> Result<(), CreateError> {
        let Some((index, window)) = self.window_mut(mw) else {
            return Err(CreateError::NoSuchObject("memory window"));
        };
        let (pd, tag, bound) = (window.pd, window.tag, window.bound.take());
        self.unbound(bound);
        self.entries.remove(index);
        // Peers may know the last key, which must not be that of what takes this place.
        self.entries.skip(index, tag.into(), 0xff);
        self.release_pd(pd);
        Ok(())
    }

    fn window_mut(&mut self, mw: Mw) -> Option<(u32, &mut MemoryWindow)> {
        let (index, made) = split(mw.handle)?;
        match self.entries.at_mut(index)? {
            Entry::Window(window) if window.made == made => Some((index, window)),
            Entry::Window(_) | Entry::Region(_) => None,
        }
    }

    /// Binds a window under a new key; false if the window, the region or the key does not allow it.
    pub(crate) fn bind(&mut self, pd: Pd, mw: Mw, rkey: RKey, binding: Binding) -> bool {
        let Some((index, tag)) = split(rkey.0) else {
            return false;
        };
        let Some((_, Entry::Region(registration))) = self.named(binding.region) else {
            return false;
        };
        let writes = binding.access.contains(Access::REMOTE_WRITE)
            || binding.access.contains(Access::REMOTE_ATOMIC);
        let offset = binding.addr.checked_sub(registration.region.addr());
        let inside = offset
            .and_then(|offset| offset.checked_add(binding.length))
            .is_some_and(|end| end <= registration.region.len() as u64);
        let legal = registration.pd == pd
            && registration.access.contains(Access::MW_BIND)
            && (!writes || registration.access.contains(Access::LOCAL_WRITE))
            && inside
            && binding.length > 0;
        let Some((place, window)) = self.window_mut(mw) else {
            return false;
        };
        // A bound window must be invalidated first: a type 2 window is never re-bound in flight.
        if !legal || index != place || window.pd != pd || window.bound.is_some() {
            return false;
        }
        window.tag = tag;
        window.bound = Some(binding);
        if let Some((region, _)) = split(binding.region)
            && let Some(Entry::Region(registration)) = self.entries.at_mut(region)
        {
            registration.windows += 1;
        }
        true
    }

    /// Returns the window that a claim of the peer names, if key, domain, QP, rights and bounds allow.
    pub(crate) fn remote(
        &self,
        pd: Pd,
        qpn: Qpn,
        claim: Claim,
        need: Access,
    ) -> Option<Window<'_>> {
        match self.named(claim.key)?.1 {
            Entry::Region(registration) => (registration.pd == pd
                && registration.remote_valid
                && registration.access.contains(need))
            .then(|| registration.window(claim))?,
            Entry::Window(window) => {
                let bound = window.bound.filter(|bound| {
                    window.pd == pd && bound.qpn == qpn && bound.access.contains(need)
                })?;
                let offset = claim.addr.checked_sub(bound.addr)?;
                if offset.checked_add(claim.len.into())? > bound.length {
                    return None;
                }
                match self.named(bound.region)?.1 {
                    Entry::Region(registration) => registration.window(claim),
                    Entry::Window(_) => None,
                }
            }
        }
    }

    /// Returns the window that a local SGE names, if key, domain, rights and bounds allow it.
    pub(crate) fn local(&self, pd: Pd, claim: Claim, need: Access) -> Option<Window<'_>> {
        match self.named(claim.key)?.1 {
            Entry::Region(registration) => (registration.pd == pd
                && registration.access.contains(need))
            .then(|| registration.window(claim))?,
            Entry::Window(_) => None,
        }
    }

    /// Ends a key's use by peers; false if it may not be ended.
    pub(crate) fn invalidate(&mut self, pd: Pd, qpn: Qpn, rkey: RKey) -> bool {
        if !self.may_invalidate(pd, qpn, rkey) {
            return false;
        }
        let entry = split(rkey.0).and_then(|(index, _)| self.entries.at_mut(index));
        let bound = match entry {
            Some(Entry::Region(registration)) => {
                registration.remote_valid = false;
                None
            }
            Some(Entry::Window(window)) => window.bound.take(),
            None => None,
        };
        self.unbound(bound);
        true
    }

    /// Returns whether a QP may end this key's use.
    pub(crate) fn may_invalidate(&self, pd: Pd, qpn: Qpn, rkey: RKey) -> bool {
        match self.named(rkey.0) {
            // Not under the windows that are bound to it.
            Some((_, Entry::Region(registration))) => {
                registration.pd == pd && registration.remote_valid && registration.windows == 0
            }
            Some((_, Entry::Window(window))) => {
                window.pd == pd && window.bound.is_some_and(|bound| bound.qpn == qpn)
            }
            None => false,
        }
    }

    fn unbound(&mut self, binding: Option<Binding>) {
        if let Some((index, _)) = binding.and_then(|bound| split(bound.region))
            && let Some(Entry::Region(registration)) = self.entries.at_mut(index)
        {
            registration.windows -= 1;
        }
    }

    fn named(&self, key: u32) -> Option<(u32, &Entry)> {
        let (index, tag) = split(key)?;
        let entry = self.entries.at(index)?;
        let found = match entry {
            Entry::Region(registration) => registration.tag,
            Entry::Window(window) => window.tag,
        };
        (found == tag).then_some((index, entry))
    }

    fn vacant(&self, what: &'static str) -> Result<(u32, u8), CreateError> {
        let limit = self.entries.limit();
        let (index, generation) = self
            .entries
            .vacant()
            .ok_or(CreateError::Exhausted { what, limit })?;
        Ok((index, generation as u8))
    }
}

/// Returns the key of an index and a tag. Index 0 gives 0x100, so that no key is ever 0.
const fn key_of(index: u32, tag: u8) -> u32 {
    (index + 1) << TAG_BITS | tag as u32
}

/// Returns the index and the tag of a key.
fn split(key: u32) -> Option<(u32, u8)> {
    Some(((key >> TAG_BITS).checked_sub(1)?, key as u8))
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

    const QP: Qpn = Qpn::new(0x101);

    fn table() -> (MemoryTable, Pd, Mr) {
        let mut table = MemoryTable::new(4, 4, 0xab);
        let pd = table.alloc_pd().expect("room");
        let region = Region::zeroed(64, 8).expect("memory");
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let mr = table.register(pd, &region, access).expect("legal");
        (table, pd, mr)
    }

    #[test]
    fn the_name_of_a_destroyed_domain_is_dead_and_its_place_is_not() {
        let mut table = MemoryTable::new(1, 4, 0);
        let old = table.alloc_pd().expect("room");
        table.dealloc_pd(old).expect("nothing uses it");
        let new = table.alloc_pd().expect("its place");
        let region = Region::zeroed(64, 8).expect("memory");
        assert!(table.register(new, &region, Access::NONE).is_ok());
        assert!(table.register(old, &region, Access::NONE).is_err());
        assert!(table.dealloc_pd(old).is_err());
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
                .remote(pd, QP, claim(mr.addr, 64), Access::REMOTE_WRITE)
                .is_some()
        );
        assert!(
            table
                .remote(pd, QP, claim(mr.addr, 65), Access::REMOTE_WRITE)
                .is_none()
        );
        assert!(
            table
                .remote(pd, QP, claim(mr.addr + 64, 0), Access::REMOTE_WRITE)
                .is_some()
        );
        assert!(
            table
                .remote(pd, QP, claim(mr.addr - 1, 1), Access::REMOTE_WRITE)
                .is_none()
        );
        assert!(
            table
                .remote(pd, QP, claim(u64::MAX, 2), Access::REMOTE_WRITE)
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
        assert!(
            table
                .remote(other, QP, claim, Access::REMOTE_WRITE)
                .is_none()
        );
        assert!(table.remote(pd, QP, claim, Access::REMOTE_READ).is_none());
        let stale = Claim {
            key: claim.key ^ 1,
            ..claim
        };
        assert!(table.remote(pd, QP, stale, Access::REMOTE_WRITE).is_none());
        let zero = Claim { key: 0, ..claim };
        assert!(table.remote(pd, QP, zero, Access::REMOTE_WRITE).is_none());
        table.deregister(mr).expect("exists");
        assert!(table.remote(pd, QP, claim, Access::REMOTE_WRITE).is_none());
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
        assert!(table.invalidate(pd, QP, mr.rkey));
        assert!(!table.invalidate(pd, QP, mr.rkey));
        assert!(table.remote(pd, QP, claim, Access::REMOTE_WRITE).is_none());
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

    fn bound_window() -> (MemoryTable, Pd, Mr, Mw, Binding) {
        let mut table = MemoryTable::new(4, 4, 0x11);
        let pd = table.alloc_pd().expect("room");
        let region = Region::zeroed(64, 8).expect("memory");
        let access = Access::LOCAL_WRITE | Access::MW_BIND;
        let mr = table.register(pd, &region, access).expect("legal");
        let mw = table.alloc_mw(pd).expect("room");
        let binding = Binding {
            region: mr.rkey.0,
            addr: mr.addr + 8,
            length: 16,
            access: Access::REMOTE_WRITE,
            qpn: QP,
        };
        assert!(table.bind(pd, mw, mw.rkey, binding));
        (table, pd, mr, mw, binding)
    }

    #[test]
    fn a_window_lets_one_qp_reach_a_part() {
        let (table, pd, mr, mw, _) = bound_window();
        let claim = |addr, len| Claim {
            key: mw.rkey.0,
            addr,
            len,
        };
        let write = Access::REMOTE_WRITE;
        assert!(
            table
                .remote(pd, QP, claim(mr.addr + 8, 16), write)
                .is_some()
        );
        assert!(table.remote(pd, QP, claim(mr.addr + 7, 1), write).is_none());
        assert!(
            table
                .remote(pd, QP, claim(mr.addr + 8, 17), write)
                .is_none()
        );
        assert!(
            table
                .remote(pd, QP, claim(mr.addr + 8, 1), Access::REMOTE_READ)
                .is_none()
        );
        assert!(
            table
                .remote(pd, Qpn::new(0x103), claim(mr.addr + 8, 1), write)
                .is_none()
        );
        assert!(
            table
                .local(pd, claim(mr.addr + 8, 1), Access::NONE)
                .is_none()
        );
    }

    #[test]
    fn a_window_is_bound_once_and_ends_by_invalidation() {
        let (mut table, pd, mr, mw, binding) = bound_window();
        assert!(!table.bind(pd, mw, mw.rkey, binding), "bound already");
        assert!(matches!(
            table.deregister(mr),
            Err(CreateError::InUse { .. })
        ));
        assert!(
            !table.invalidate(pd, Qpn::new(0x103), mw.rkey),
            "another QP's window"
        );
        assert!(table.invalidate(pd, QP, mw.rkey));
        let claim = Claim {
            key: mw.rkey.0,
            addr: mr.addr + 8,
            len: 1,
        };
        assert!(table.remote(pd, QP, claim, Access::REMOTE_WRITE).is_none());
        let outside = Binding {
            length: 57,
            ..binding
        };
        assert!(!table.bind(pd, mw, mw.rkey, outside));
        let foreign = RKey(mw.rkey.0 + 0x100);
        assert!(
            !table.bind(pd, mw, foreign, binding),
            "another window's key"
        );
        assert!(
            table.bind(pd, mw, RKey(mw.rkey.0 ^ 0x55), binding),
            "again, with a new key"
        );
        assert!(
            table.remote(pd, QP, claim, Access::REMOTE_WRITE).is_none(),
            "the old key is dead"
        );
        table.dealloc_mw(mw).expect("exists");
        table.deregister(mr).expect("nothing is bound to it");
        table.dealloc_pd(pd).expect("unused");
    }
}
