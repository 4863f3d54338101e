//! What only `unsafe` can do: memory shared with the kernel, the `bpf` call, raw socket options.

use core::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

pub(crate) mod bpf;
pub(crate) mod map;

/// Sets an integer option of a socket.
pub(crate) fn set_option(
    fd: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: c_int,
) -> io::Result<()> {
    // SAFETY: the pointer and the length are those of a live integer, which the kernel only reads.
    let status = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<c_int>() as libc::socklen_t,
        )
    };
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Moves the calling thread to a new network namespace; nothing where this process may not.
#[cfg(test)]
pub(crate) fn new_network() -> Option<()> {
    // SAFETY: only the network namespace is unshared, not the table of descriptors.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }.ok()
}
