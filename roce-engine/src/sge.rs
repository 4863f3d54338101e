//! Walking a scatter/gather list from any byte on: the one copy of each direction.

use crate::mr::{Claim, MemoryTable};
use crate::verbs::{Access, Pd, Sge};

/// An SGE's key, domain, rights or bounds do not allow the access.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Denied;

/// Returns the bytes that a list names in all.
pub(crate) fn total(sges: &[Sge]) -> u64 {
    sges.iter().map(|sge| u64::from(sge.length)).sum()
}

/// Copies `out.len()` bytes from byte `offset` of the list on into `out`.
pub(crate) fn gather(
    memory: &MemoryTable,
    pd: Pd,
    sges: &[Sge],
    offset: u32,
    out: &mut [u8],
) -> Result<(), Denied> {
    let mut done = 0;
    for (claim, len) in pieces(sges, offset, out.len()) {
        let window = memory.local(pd, claim, Access::NONE).ok_or(Denied)?;
        window.copy_out(0, &mut out[done..done + len]);
        done += len;
    }
    if done == out.len() {
        Ok(())
    } else {
        Err(Denied)
    }
}

/// Copies `data` to byte `offset` of the list on; nothing is written if any piece is denied.
pub(crate) fn scatter(
    memory: &MemoryTable,
    pd: Pd,
    sges: &[Sge],
    offset: u32,
    data: &[u8],
) -> Result<(), Denied> {
    for (claim, _) in pieces(sges, offset, data.len()) {
        memory.local(pd, claim, Access::LOCAL_WRITE).ok_or(Denied)?;
    }
    let mut done = 0;
    for (claim, len) in pieces(sges, offset, data.len()) {
        let window = memory.local(pd, claim, Access::LOCAL_WRITE).ok_or(Denied)?;
        window.copy_in(0, &data[done..done + len]);
        done += len;
    }
    if done == data.len() {
        Ok(())
    } else {
        Err(Denied)
    }
}

/// Checks that the bytes may be read, without copying them.
pub(crate) fn readable(
    memory: &MemoryTable,
    pd: Pd,
    sges: &[Sge],
    offset: u32,
    len: usize,
) -> Result<(), Denied> {
    let mut found = 0;
    for (claim, piece) in pieces(sges, offset, len) {
        memory.local(pd, claim, Access::NONE).ok_or(Denied)?;
        found += piece;
    }
    if found == len { Ok(()) } else { Err(Denied) }
}

/// Returns the claims that `len` bytes from `offset` on touch, each with its length.
fn pieces(sges: &[Sge], offset: u32, len: usize) -> impl Iterator<Item = (Claim, usize)> {
    let mut skip = u64::from(offset);
    let mut left = len;
    sges.iter().filter_map(move |sge| {
        let length = u64::from(sge.length);
        if left == 0 || skip >= length {
            skip = skip.saturating_sub(length);
            return None;
        }
        let piece = usize::try_from(length - skip)
            .unwrap_or(usize::MAX)
            .min(left);
        let claim = Claim {
            key: sge.lkey.0,
            // A list that wraps the address space is caught by the bounds check of its region.
            addr: sge.addr.wrapping_add(skip),
            len: piece as u32,
        };
        skip = 0;
        left -= piece;
        Some((claim, piece))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::Region;
    use alloc::vec;

    #[test]
    fn a_list_is_walked_from_any_byte() {
        let mut memory = MemoryTable::new(1, 1, 0);
        let pd = memory.alloc_pd().expect("room");
        let region = Region::zeroed(100, 8).expect("memory");
        region.write(0, &(0..100).collect::<vec::Vec<u8>>());
        let mr = memory
            .register(pd, &region, Access::LOCAL_WRITE)
            .expect("legal");
        let sge = |at: u64, length| Sge {
            addr: mr.addr + at,
            length,
            lkey: mr.lkey,
        };
        let list = [sge(10, 3), sge(50, 0), sge(0, 2), sge(90, 10)];
        assert_eq!(total(&list), 15);
        let mut out = [0; 5];
        gather(&memory, pd, &list, 2, &mut out).expect("inside");
        assert_eq!(out, [12, 0, 1, 90, 91]);
        assert_eq!(gather(&memory, pd, &list, 11, &mut out), Err(Denied));
        scatter(&memory, pd, &list, 4, &[7, 8]).expect("inside");
        assert_eq!((region.load(1), region.load(90)), (7, 8));
        let outside = [sge(99, 2)];
        assert_eq!(scatter(&memory, pd, &outside, 0, &[1, 2]), Err(Denied));
        assert_eq!(region.load(99), 99, "nothing was written");
        assert_eq!(readable(&memory, pd, &list, 0, 15), Ok(()));
        assert_eq!(readable(&memory, pd, &list, 0, 16), Err(Denied));
    }
}
