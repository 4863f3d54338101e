//! Memory under watch: who may write where, and what must stay as it is.

use core::ops::Range;

use roce_engine::Engine;
use roce_engine::verbs::{Access, Mr, Pd, Region};

/// The byte of memory that no packet may carry.
pub(super) const SECRET: u8 = 0xd5;
/// So many of them in a row are no accident.
pub(super) const SECRET_RUN: [u8; 8] = [SECRET; 8];

/// Names an area.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Name {
    /// Peers may do everything.
    Open,
    /// For receives and READ answers; peers may do nothing.
    Local,
    /// Peers may read.
    Readable,
    /// Peers may use atomics.
    Atomic,
    /// Peers may do what a window allows.
    Bindable,
    /// Peers may do nothing, and nothing is received here.
    Secret,
    /// Everything is allowed, in another protection domain.
    Foreign,
    /// Everything was allowed; it is deregistered.
    Gone,
}

impl Name {
    pub(super) const ALL: [Self; 8] = [
        Self::Open,
        Self::Local,
        Self::Readable,
        Self::Atomic,
        Self::Bindable,
        Self::Secret,
        Self::Foreign,
        Self::Gone,
    ];

    const fn len(self) -> usize {
        match self {
            Self::Open | Self::Local => 1280,
            Self::Readable | Self::Bindable => 640,
            Self::Atomic | Self::Secret | Self::Foreign | Self::Gone => 256,
        }
    }

    fn access(self) -> Access {
        let remote = Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
        match self {
            Self::Open | Self::Foreign | Self::Gone => Access::LOCAL_WRITE | remote,
            Self::Local => Access::LOCAL_WRITE,
            Self::Readable => Access::REMOTE_READ,
            Self::Atomic => Access::LOCAL_WRITE | Access::REMOTE_ATOMIC,
            Self::Bindable => Access::LOCAL_WRITE | Access::MW_BIND,
            Self::Secret => Access::NONE,
        }
    }

    const fn content(self) -> u8 {
        match self {
            Self::Secret | Self::Foreign | Self::Gone => SECRET,
            _ => 0x11,
        }
    }
}

/// A registered region, what it should hold, and how many reasons there are to write each byte.
#[derive(Debug)]
struct Area {
    region: Region,
    mr: Mr,
    baseline: Vec<u8>,
    grants: Vec<u8>,
    frozen: bool,
}

/// All areas.
#[derive(Debug)]
pub(super) struct Ledger {
    areas: [Area; 8],
}

/// Bytes of an area that may be written for one reason.
pub(super) type Grant = (Name, Range<usize>);

impl Ledger {
    pub(super) fn new(engine: &mut Engine, pd: Pd, foreign: Pd) -> Self {
        let areas = Name::ALL.map(|name| {
            let len = name.len();
            let region = Region::zeroed(len, 8).expect("memory");
            region.fill(0, len, name.content());
            let domain = if name == Name::Foreign { foreign } else { pd };
            let mr = engine
                .register(domain, &region, name.access())
                .expect("a legal registration");
            if name == Name::Gone {
                engine.deregister(mr).expect("nothing uses it");
            }
            Area {
                region,
                mr,
                baseline: vec![name.content(); len],
                grants: vec![0; len],
                frozen: name == Name::Gone,
            }
        });
        Self { areas }
    }

    pub(super) const fn mr(&self, name: Name) -> Mr {
        self.areas[name as usize].mr
    }

    pub(super) const fn is_frozen(&self, name: Name) -> bool {
        self.areas[name as usize].frozen
    }

    /// Returns what of the bytes is in the area, if they start there.
    ///
    /// A piece that reaches beyond its region serves messages that don't reach so far.
    pub(super) fn inside(&self, name: Name, addr: u64, len: u64) -> Option<Range<usize>> {
        let mr = self.mr(name);
        let room = (mr.addr + mr.length).checked_sub(addr)?;
        self.range(name, addr, len.min(room))
    }

    /// Returns the range that an address and a length name, if all of it is in the area.
    pub(super) fn range(&self, name: Name, addr: u64, len: u64) -> Option<Range<usize>> {
        let mr = self.mr(name);
        let offset = addr.checked_sub(mr.addr)?;
        let end = offset.checked_add(len).filter(|&end| end <= mr.length)?;
        Some(offset as usize..end as usize)
    }

    /// Allows writing.
    pub(super) fn grant(&mut self, (name, range): &Grant) {
        for count in &mut self.areas[*name as usize].grants[range.clone()] {
            *count = count.saturating_add(1);
        }
    }

    /// Takes a grant back: from here on the bytes stay as they are, unless there is another grant.
    pub(super) fn revoke(&mut self, (name, range): &Grant) {
        let area = &mut self.areas[*name as usize];
        let mut content = vec![0; range.len()];
        area.region.read(range.start, &mut content);
        for (at, byte) in range.clone().zip(content) {
            area.grants[at] = area.grants[at].saturating_sub(1);
            if area.grants[at] == 0 {
                area.baseline[at] = byte;
            }
        }
    }

    /// Allows peers everything in an area.
    pub(super) fn open(&mut self, name: Name) {
        self.grant(&(name, 0..name.len()));
    }

    /// Takes that back.
    pub(super) fn close(&mut self, name: Name) {
        self.revoke(&(name, 0..name.len()));
    }

    /// The area was deregistered: whatever was granted, it must stay as it is.
    pub(super) fn freeze(&mut self, name: Name) {
        self.check_area(name);
        let area = &mut self.areas[name as usize];
        area.region.read(0, &mut area.baseline);
        area.frozen = true;
    }

    pub(super) fn check(&self) {
        for name in Name::ALL {
            self.check_area(name);
        }
    }

    fn check_area(&self, name: Name) {
        let area = &self.areas[name as usize];
        let mut content = vec![0; name.len()];
        area.region.read(0, &mut content);
        for (at, byte) in content.iter().enumerate() {
            let may_change = area.grants[at] > 0 && !area.frozen;
            assert!(
                may_change || *byte == area.baseline[at],
                "byte {at} of {name:?} is {byte:#04x}, was {:#04x}, and nothing allows that",
                area.baseline[at]
            );
        }
    }
}
