//! Memory that peers and devices may write at any time. The only `unsafe` of the engine.
//!
//! No reference into a region is ever formed: all access is by copying through raw pointers, so that a
//! peer's (or a device's) concurrent write is at worst a torn value, never undefined aliasing.
#![expect(
    unsafe_code,
    reason = "registered memory is reached through raw pointers only, here"
)]

use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, Ordering};

use alloc::alloc::{alloc_zeroed, dealloc};
use alloc::sync::Arc;
use core::alloc::Layout;

/// The smallest copy after which the bytes behind it are prefetched: packets of large messages.
const PREFETCHED_FROM: usize = 256;

/// The bytes that a prefetch brings.
const CACHE_LINE: usize = 64;

struct Storage {
    ptr: NonNull<u8>,
    len: usize,
    /// What is to be freed, and where that starts.
    owned: Option<(NonNull<u8>, Layout)>,
}

// SAFETY: the storage is plain memory without thread affinity; every access goes through raw copies.
unsafe impl Send for Storage {}
// SAFETY: as above; shared access never forms references to the bytes.
unsafe impl Sync for Storage {}

impl Drop for Storage {
    fn drop(&mut self) {
        if let Some((start, layout)) = self.owned {
            // SAFETY: `start` came from `alloc_zeroed` with this layout and is freed once, here.
            unsafe { dealloc(start.as_ptr(), layout) };
        }
    }
}

/// Memory that its maker vouches for: valid for reads and writes while any clone of this value lives.
#[derive(Clone)]
pub struct Region {
    storage: Arc<Storage>,
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Region({:#x}, {} bytes)", self.addr(), self.len())
    }
}

impl Region {
    /// Allocates zeroed memory of `len` bytes aligned to `align`; `None` if the system has none.
    ///
    /// # Panics
    ///
    /// `align` is not a power of two.
    pub fn zeroed(len: usize, align: usize) -> Option<Self> {
        assert!(align.is_power_of_two());
        // Allocators hand out large zeroed memory untouched, page by page as it is used, but only with
        // their own alignment: beyond it they write the zeros. So the start is moved here.
        let layout = Layout::from_size_align(len.max(1).checked_add(align)?, 16).ok()?;
        // SAFETY: the layout has a size of at least 2.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let ahead = start.as_ptr().align_offset(align);
        if ahead > align {
            // SAFETY: `start` came from `alloc_zeroed` with this layout, and nothing else knows it.
            unsafe { dealloc(start.as_ptr(), layout) };
            return None;
        }
        // SAFETY: `ahead` is at most `align`, which the layout has beside `len`.
        let ptr = unsafe { start.add(ahead) };
        Some(Self {
            storage: Arc::new(Storage {
                ptr,
                len,
                owned: Some((start, layout)),
            }),
        })
    }

    /// Vouches for memory that someone else owns.
    ///
    /// # Safety
    ///
    /// `ptr` is valid for reads and writes of `len` bytes until the last clone of the region and of
    /// every window made from it is dropped, and no Rust reference to these bytes is used meanwhile.
    pub unsafe fn from_raw(ptr: NonNull<u8>, len: usize) -> Self {
        Self {
            storage: Arc::new(Storage {
                ptr,
                len,
                owned: None,
            }),
        }
    }

    /// Returns the address of the first byte.
    pub fn addr(&self) -> u64 {
        self.storage.ptr.as_ptr() as u64
    }

    /// Returns the bytes it has.
    pub fn len(&self) -> usize {
        self.storage.len
    }

    /// Returns whether it has none.
    pub fn is_empty(&self) -> bool {
        self.storage.len == 0
    }

    /// Returns the `len` bytes from `offset` on, or `None` if they are not all inside.
    pub fn window(&self, offset: usize, len: usize) -> Option<Window<'_>> {
        let end = offset.checked_add(len)?;
        (end <= self.storage.len).then_some(Window {
            region: self,
            offset,
            len,
        })
    }

    /// Copies from `offset` on into `out`.
    ///
    /// # Panics
    ///
    /// The range is not inside.
    pub fn read(&self, offset: usize, out: &mut [u8]) {
        self.window(offset, out.len())
            .expect("read inside the region")
            .copy_out(0, out);
    }

    /// Copies `data` to `offset`.
    ///
    /// # Panics
    ///
    /// The range is not inside.
    pub fn write(&self, offset: usize, data: &[u8]) {
        self.window(offset, data.len())
            .expect("write inside the region")
            .copy_in(0, data);
    }

    /// Fills `len` bytes from `offset` on.
    ///
    /// # Panics
    ///
    /// The range is not inside.
    pub fn fill(&self, offset: usize, len: usize, byte: u8) {
        let window = self.window(offset, len).expect("fill inside the region");
        // SAFETY: the window is inside the storage, which lives as long as `self`.
        unsafe { window.ptr().write_bytes(byte, len) };
    }

    /// Asks the processor for bytes that will soon be read; those outside the region are left out.
    #[inline]
    fn prefetch(&self, offset: usize, len: usize) {
        let end = offset.saturating_add(len).min(self.storage.len);
        for line in (offset..end).step_by(CACHE_LINE) {
            // SAFETY: `line` is below the storage's length.
            prefetch_line(unsafe { self.storage.ptr.as_ptr().add(line) });
        }
    }

    /// Returns one byte as it is now; what was written before it is visible too.
    ///
    /// # Panics
    ///
    /// `offset` is not inside.
    #[inline]
    pub fn load(&self, offset: usize) -> u8 {
        let window = self.window(offset, 1).expect("load inside the region");
        // SAFETY: the byte is inside the storage; `AtomicU8` has the layout of a byte.
        let byte = unsafe { AtomicU8::from_ptr(window.ptr()) };
        byte.load(Ordering::Acquire)
    }

    /// Sets one byte.
    ///
    /// # Panics
    ///
    /// `offset` is not inside.
    #[inline]
    pub fn store(&self, offset: usize, value: u8) {
        let window = self.window(offset, 1).expect("store inside the region");
        // SAFETY: the byte is inside the storage; `AtomicU8` has the layout of a byte.
        let byte = unsafe { AtomicU8::from_ptr(window.ptr()) };
        byte.store(value, Ordering::Release);
    }
}

/// A checked piece of a region: the only way from a key and an address to bytes.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    region: &'a Region,
    offset: usize,
    len: usize,
}

impl Window<'_> {
    fn ptr(&self) -> *mut u8 {
        // SAFETY: `offset` is at most the storage's length (checked when the window was made).
        unsafe { self.region.storage.ptr.as_ptr().add(self.offset) }
    }

    fn at(&self, offset: usize, len: usize) -> *mut u8 {
        let end = offset.checked_add(len);
        assert!(
            end.is_some_and(|end| end <= self.len),
            "access inside the window"
        );
        // SAFETY: the assertion keeps the pointer inside the window, which is inside the storage.
        unsafe { self.ptr().add(offset) }
    }

    /// Returns the bytes it has.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether it has none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies `data` to `offset` of the window, lowest address first.
    ///
    /// # Panics
    ///
    /// The range is not inside.
    pub fn copy_in(&self, offset: usize, data: &[u8]) {
        let to = self.at(offset, data.len());
        // SAFETY: `to` has room for `data` (checked by `at`); `copy` allows overlap.
        unsafe { core::ptr::copy(data.as_ptr(), to, data.len()) };
    }

    /// Copies from `offset` of the window into `out`, and prefetches as many bytes behind them.
    ///
    /// Those are the message's next packet, fetched while this one is sealed and sent. A message larger than
    /// the caches is otherwise copied at the pace of memory: the processor's own prefetching starts anew on
    /// each page, which at path MTU 4096 is each packet.
    ///
    /// # Panics
    ///
    /// The range is not inside.
    pub fn copy_out(&self, offset: usize, out: &mut [u8]) {
        let from = self.at(offset, out.len());
        // SAFETY: `from` has the bytes (checked by `at`); `copy` allows overlap.
        unsafe { core::ptr::copy(from, out.as_mut_ptr(), out.len()) };
        if out.len() >= PREFETCHED_FROM {
            self.region
                .prefetch(self.offset + offset + out.len(), out.len());
        }
    }

    /// Adds to the 8 bytes of the window, modulo 2^64, and returns what was there.
    ///
    /// # Panics
    ///
    /// The window is not 8 bytes long.
    pub fn fetch_add(&self, add: u64) -> u64 {
        self.update(|old| old.wrapping_add(add))
    }

    /// Replaces the 8 bytes of the window if they are `compare`, and returns what was there.
    ///
    /// # Panics
    ///
    /// The window is not 8 bytes long.
    pub fn compare_swap(&self, compare: u64, swap: u64) -> u64 {
        self.update(|old| if old == compare { swap } else { old })
    }

    // Atomic among this device's operations (one thread owns it), as `IBV_ATOMIC_HCA` promises.
    fn update(&self, change: impl FnOnce(u64) -> u64) -> u64 {
        assert_eq!(self.len, 8, "an atomic is 8 bytes");
        let mut bytes = [0; 8];
        self.copy_out(0, &mut bytes);
        let old = u64::from_ne_bytes(bytes);
        self.copy_in(0, &change(old).to_ne_bytes());
        old
    }
}

#[inline]
fn prefetch_line(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch accesses nothing in the eyes of the program and faults on no address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_stay_inside() {
        let region = Region::zeroed(16, 8).expect("memory");
        assert!(region.window(8, 9).is_none());
        assert!(region.window(usize::MAX, 2).is_none());
        assert!(region.window(16, 0).is_some());
    }

    #[test]
    fn a_copy_up_to_the_end_of_the_region_has_nothing_behind_it_to_fetch() {
        let region = Region::zeroed(PREFETCHED_FROM + 100, 64).expect("memory");
        let mut out = [1; PREFETCHED_FROM];
        for offset in [0, 50, 100] {
            let window = region.window(offset, PREFETCHED_FROM).expect("inside");
            window.copy_out(0, &mut out);
            assert_eq!(out, [0; PREFETCHED_FROM]);
        }
        region.prefetch(usize::MAX, 1);
        region.prefetch(region.len(), usize::MAX);
    }

    #[test]
    fn memory_is_aligned_and_zero_to_its_last_byte() {
        let region = Region::zeroed((1 << 24) + 1, 1 << 21).expect("memory");
        assert_eq!(region.addr() % (1 << 21), 0);
        assert_eq!((region.load(0), region.load(1 << 24)), (0, 0));
        let small = Region::zeroed(0, 4096).expect("memory");
        assert_eq!((small.addr() % 4096, small.len()), (0, 0));
    }

    #[test]
    fn atomics_return_what_was_there() {
        let region = Region::zeroed(16, 8).expect("memory");
        let window = region.window(8, 8).expect("inside");
        assert_eq!(window.fetch_add(u64::MAX), 0);
        assert_eq!(window.fetch_add(2), u64::MAX);
        assert_eq!(window.compare_swap(1, 9), 1);
        assert_eq!(window.compare_swap(1, 7), 9);
        region.store(0, 5);
        assert_eq!(region.load(0), 5);
    }

    #[test]
    #[should_panic(expected = "inside the window")]
    fn a_copy_beyond_the_window_panics() {
        let region = Region::zeroed(16, 8).expect("memory");
        region.window(0, 4).expect("inside").copy_in(1, &[0; 4]);
    }
}
