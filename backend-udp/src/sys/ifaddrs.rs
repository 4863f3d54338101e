//! Interfaces and their addresses as `getifaddrs` lists them.

use core::ffi::CStr;
use core::mem::MaybeUninit;
use core::net::IpAddr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::wire::parse_name;

/// One row of `getifaddrs`.
#[derive(Clone, Debug)]
pub(crate) struct RawAddress {
    pub(crate) interface: String,
    /// `IFF_*`.
    pub(crate) flags: u32,
    pub(crate) kind: RawKind,
}

/// What a row is about.
#[derive(Clone, Debug)]
pub(crate) enum RawKind {
    /// The interface itself: its index and hardware address.
    Link { index: u32, mac: Vec<u8> },
    /// An address of it and its prefix mask, in the kernel's order.
    Ip { address: IpAddr, mask: IpAddr },
}

/// Lists all interfaces and addresses.
///
/// # Errors
///
/// What the kernel said.
pub(crate) fn addresses() -> io::Result<Vec<RawAddress>> {
    let mut head = core::ptr::null_mut();
    // SAFETY: the call writes one pointer, to a list that is freed below.
    if unsafe { libc::getifaddrs(&raw mut head) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut rows = Vec::new();
    let mut next: *const libc::ifaddrs = head;
    // SAFETY: `next` is null or an entry of the list, which lives until it is freed.
    while let Some(entry) = unsafe { next.as_ref() } {
        rows.extend(row(entry));
        next = entry.ifa_next;
    }
    // SAFETY: `head` came from `getifaddrs`, and no reference into the list is left.
    unsafe { libc::freeifaddrs(head) };
    Ok(rows)
}

fn row(entry: &libc::ifaddrs) -> Option<RawAddress> {
    // SAFETY: an entry's name is a C string that lives as long as the list.
    let name = unsafe { CStr::from_ptr(entry.ifa_name) };
    // SAFETY: an entry's address is null or valid for its family.
    let address = unsafe { entry.ifa_addr.as_ref() }?;
    let kind = match i32::from(address.sa_family) {
        libc::AF_PACKET => {
            let link = entry.ifa_addr.cast::<libc::sockaddr_ll>();
            // SAFETY: the family says that it is a `sockaddr_ll`, and the list aligns it.
            let link = unsafe { link.read_unaligned() };
            let len = usize::from(link.sll_halen).min(link.sll_addr.len());
            RawKind::Link {
                index: u32::try_from(link.sll_ifindex).ok()?,
                mac: link.sll_addr[..len].to_vec(),
            }
        }
        libc::AF_INET => ip::<16>(entry)?,
        libc::AF_INET6 => ip::<28>(entry)?,
        _ => return None,
    };
    Some(RawAddress {
        interface: name.to_string_lossy().into_owned(),
        flags: entry.ifa_flags,
        kind,
    })
}

fn ip<const LEN: usize>(entry: &libc::ifaddrs) -> Option<RawKind> {
    if entry.ifa_netmask.is_null() {
        return None;
    }
    // SAFETY: the family says that the address has `LEN` bytes.
    let address = unsafe { entry.ifa_addr.cast::<[u8; LEN]>().read_unaligned() };
    // SAFETY: a netmask has the length of its address.
    let mask = unsafe { entry.ifa_netmask.cast::<[u8; LEN]>().read_unaligned() };
    Some(RawKind::Ip {
        address: parse_name(&address)?.ip(),
        mask: parse_name(&mask)?.ip(),
    })
}

/// Returns the MTU of an interface of the socket's network namespace.
///
/// # Errors
///
/// What the kernel said.
pub(crate) fn interface_mtu(socket: BorrowedFd<'_>, name: &str) -> io::Result<usize> {
    // SAFETY: all bytes zero is a value of every field.
    let mut request: libc::ifreq = unsafe { MaybeUninit::zeroed().assume_init() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed() as _;
    }
    // SAFETY: the kernel reads and writes one live `ifreq`.
    let result =
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU as _, &raw mut request) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a successful SIOCGIFMTU wrote this member.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    usize::try_from(mtu).map_err(|_| io::ErrorKind::InvalidData.into())
}
