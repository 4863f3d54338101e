//! Memory that this process shares with the kernel.
//!
//! Rings are read and written as atomics, so a reference to them is sound whatever the kernel does.
//! Packet buffers are handed out as byte slices, which takes a promise: [`Mapping::bytes`].

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64};
use std::io;
use std::os::fd::BorrowedFd;

use rustix::mm::{MapFlags, ProtFlags};

/// A range of mapped memory, unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread, and nothing in it is reachable but
// through atomics and through calls whose callers promise exclusive use.
unsafe impl Send for Mapping {}

// SAFETY: as for `Send`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps zeroed memory of this process.
    pub(crate) fn anonymous(len: usize) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        // SAFETY: the kernel chooses a free range, so no other memory is touched.
        let start =
            unsafe { rustix::mm::mmap_anonymous(core::ptr::null_mut(), len, protection, flags) }?;
        Self::new(start.cast(), len)
    }

    /// Maps a ring of a socket.
    pub(crate) fn of_socket(fd: BorrowedFd<'_>, len: usize, offset: u64) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: the kernel chooses a free range, so no other memory is touched.
        let start =
            unsafe { rustix::mm::mmap(core::ptr::null_mut(), len, protection, flags, fd, offset) }?;
        Self::new(start.cast(), len)
    }

    fn new(start: *mut u8, len: usize) -> io::Result<Self> {
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len })
    }

    /// Returns the address of its first byte.
    pub(crate) fn address(&self) -> u64 {
        self.start.as_ptr().expose_provenance() as u64
    }

    /// Returns its length.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Returns a word.
    ///
    /// # Panics
    ///
    /// It isn't aligned, or not inside of the mapping.
    #[inline]
    pub(crate) fn word32(&self, at: usize) -> &AtomicU32 {
        let pointer = self.pointer(at, size_of::<u32>(), size_of::<u32>());
        // SAFETY: the word is inside of the mapping, which lives as long as `self`, and aligned;
        // mapped memory is initialised, and whoever shares it uses it as an atomic, too.
        unsafe { AtomicU32::from_ptr(pointer.cast()) }
    }

    /// Returns a double word.
    ///
    /// # Panics
    ///
    /// As `word32`.
    #[inline]
    pub(crate) fn word64(&self, at: usize) -> &AtomicU64 {
        let pointer = self.pointer(at, size_of::<u64>(), size_of::<u64>());
        // SAFETY: as in `word32`.
        unsafe { AtomicU64::from_ptr(pointer.cast()) }
    }

    /// Returns bytes.
    ///
    /// # Safety
    ///
    /// Nobody writes to them while the borrow lasts: neither the kernel nor a `bytes_mut`.
    ///
    /// # Panics
    ///
    /// They aren't all inside of the mapping.
    #[inline]
    pub(crate) unsafe fn bytes(&self, at: usize, len: usize) -> &[u8] {
        let pointer = self.pointer(at, len, 1);
        // SAFETY: the range is inside of the mapping, initialised, and the caller promises that it
        // doesn't change.
        unsafe { core::slice::from_raw_parts(pointer, len) }
    }

    /// Returns bytes to write.
    ///
    /// # Safety
    ///
    /// Nobody else reads or writes them while the borrow lasts.
    ///
    /// # Panics
    ///
    /// As `bytes`.
    #[inline]
    #[expect(
        clippy::mut_from_ref,
        reason = "the caller promises that it is the only user"
    )]
    pub(crate) unsafe fn bytes_mut(&self, at: usize, len: usize) -> &mut [u8] {
        let pointer = self.pointer(at, len, 1);
        // SAFETY: the range is inside of the mapping, initialised, and the caller promises to be
        // its only user.
        unsafe { core::slice::from_raw_parts_mut(pointer, len) }
    }

    #[inline]
    fn pointer(&self, at: usize, len: usize, align: usize) -> *mut u8 {
        let inside = at.checked_add(len).is_some_and(|end| end <= self.len);
        assert!(
            inside && at.is_multiple_of(align),
            "{len} bytes at {at} are not in a mapping of {} bytes",
            self.len
        );
        // SAFETY: the offset is inside of the mapping, as was just checked.
        unsafe { self.start.as_ptr().add(at) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by this value and nothing borrows from it any more.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "a mapping can be unmapped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::Ordering;

    #[test]
    fn words_and_bytes_see_the_same_memory() {
        let map = Mapping::anonymous(4096).unwrap();
        map.word64(8)
            .store(0x0807_0605_0403_0201, Ordering::Relaxed);
        // SAFETY: nobody else uses this mapping.
        let bytes = unsafe { map.bytes(8, 8) };
        assert_eq!(bytes, 0x0807_0605_0403_0201_u64.to_ne_bytes());
        assert_eq!(map.address() % 4096, 0);
    }

    #[test]
    #[should_panic(expected = "are not in a mapping")]
    fn what_lies_outside_is_refused() {
        let map = Mapping::anonymous(4096).unwrap();
        map.word64(4096 - 4);
    }
}
