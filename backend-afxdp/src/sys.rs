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

/// Returns whether an interface takes the VLAN tags of what it receives off (`rx-vlan-offload` of ethtool) before a
/// program sees the frame; no where it can't be asked.
pub(crate) fn strips_vlan_tags(interface: &str) -> bool {
    /// A `struct ethtool_value`.
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    const GET_FLAGS: u32 = 0x25;
    const RX_VLAN: u32 = 1 << 8;
    let Ok(socket) = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    ) else {
        return false;
    };
    let mut value = Value {
        command: GET_FLAGS,
        data: 0,
    };
    let mut name = [0; libc::IFNAMSIZ];
    for (to, from) in name[..libc::IFNAMSIZ - 1].iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    let mut request = libc::ifreq {
        ifr_name: name,
        ifr_ifru: libc::__c_anonymous_ifr_ifru {
            ifru_data: (&raw mut value).cast(),
        },
    };
    // SAFETY: the request and the value that it points to outlive the call, and the command writes no more than that.
    let status =
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    status == 0 && value.data & RX_VLAN != 0
}

/// Moves the calling thread to a new network namespace; nothing where this process may not.
#[cfg(test)]
pub(crate) fn new_network() -> Option<()> {
    // SAFETY: only the network namespace is unshared, not the table of descriptors.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }.ok()
}
