//! Memory in huge pages (`--use_hugepages`). The kernel maps it, and a region takes a mapping on somebody's word:
//! hence `unsafe`.
#![expect(
    unsafe_code,
    reason = "a mapping is made and vouched for through raw pointers, here"
)]

use core::ffi::c_void;
use core::ptr::{NonNull, null_mut};

use anyhow::Result;
use roce_engine::verbs::Region;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use crate::exit::environment;

/// The size of a huge page where the system does not say: that of x86-64 and of most others.
const USUAL: usize = 2 << 20;

/// Maps zeroed memory of at least `bytes` bytes, in whole huge pages. It stays mapped until the process ends.
///
/// # Errors
///
/// The system has not reserved as many pages; the message says how to.
pub fn zeroed(bytes: usize) -> Result<Region> {
    let page = page_size();
    let len = bytes
        .max(1)
        .checked_next_multiple_of(page)
        .ok_or_else(|| refused(bytes, page, Errno::NOMEM))?;
    let (access, flags) = (
        ProtFlags::READ | ProtFlags::WRITE,
        MapFlags::PRIVATE | MapFlags::HUGETLB,
    );
    // SAFETY: a new mapping at an address of the kernel's choice replaces none.
    let start = unsafe { mmap_anonymous(null_mut::<c_void>(), len, access, flags) }
        .map_err(|errno| refused(len, page, errno))?;
    let start = NonNull::new(start.cast::<u8>()).ok_or_else(|| refused(len, page, Errno::NOMEM))?;
    // SAFETY: the mapping is readable and writable, `len` bytes long, never unmapped, and known to nobody else.
    Ok(unsafe { Region::from_raw(start, len) })
}

fn refused(bytes: usize, page: usize, errno: Errno) -> anyhow::Error {
    let pages = bytes.div_ceil(page);
    environment(format!(
        "Failed to allocate hugepages: no {pages} of {} KiB are free ({errno}): reserve them with sysctl \
         vm.nr_hugepages={pages} (as root, both ends' together if they run here), or leave --use_hugepages out",
        page >> 10
    ))
}

/// Returns the size of the pages that a mapping gets.
fn page_size() -> usize {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    parse(&text).unwrap_or(USUAL)
}

fn parse(meminfo: &str) -> Option<usize> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("Hugepagesize:"))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024).filter(|size| size.is_power_of_two())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::{ENVIRONMENT, status_of};

    #[test]
    fn the_page_size_is_the_systems() {
        let text = "HugePages_Total:       0\nHugepagesize:       2048 kB\nHugetlb: 0 kB\n";
        assert_eq!(parse(text), Some(2 << 20));
        assert_eq!(parse("Hugepagesize: 1048576 kB"), Some(1 << 30));
        for text in ["", "Hugepagesize: 3 kB", "Hugepagesize: many kB"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn pages_that_are_not_there_are_asked_for_by_number() {
        // More than any machine has.
        let error = zeroed(1 << 46).unwrap_err();
        assert_eq!(status_of(&error), ENVIRONMENT);
        let pages = (1 << 46) / page_size();
        let hint = format!("sysctl vm.nr_hugepages={pages} ");
        assert!(error.to_string().contains(&hint), "{error}");
        assert_eq!(status_of(&zeroed(usize::MAX).unwrap_err()), ENVIRONMENT);
    }
}
