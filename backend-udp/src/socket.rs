//! The two kinds of socket and their options.
//!
//! A receive socket is bound to one local address and port 4791, and never sends. Send sockets are
//! *unconnected*, with fragmentation forbidden: only then does the kernel write the IPv4
//! Identification 0, and 0, 1, 2, … into the segments of a batch, which the ICRC has to foretell.

use core::ffi::c_int;
use core::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::config::Config;
use crate::error::OpenError;
use crate::events::Events;
use crate::sys;

/// Makes a receive socket, not bound yet: what arrives after the bind must meet all options.
pub(crate) fn for_receiving(
    address: SocketAddr,
    config: &Config,
    events: &mut Events,
) -> Result<OwnedFd, OpenError> {
    let socket = create(address.is_ipv6())?;
    let fd = socket.as_fd();
    let mut want = |level, name, value, what: &str| {
        if let Err(error) = sys::set_option(fd, level, name, value) {
            events.notice(format!("the system refuses {what}: {error}"));
        }
    };
    if config.coalescing {
        let what = "UDP_GRO (batched receive), throughput will be lower";
        want(libc::IPPROTO_UDP, libc::UDP_GRO, 1, what);
    }
    if address.is_ipv6() {
        const LEVEL: c_int = libc::IPPROTO_IPV6;
        want(LEVEL, libc::IPV6_RECVTCLASS, 1, "IPV6_RECVTCLASS (ECN)");
        want(LEVEL, libc::IPV6_RECVHOPLIMIT, 1, "IPV6_RECVHOPLIMIT");
        let what = "UDP_NO_CHECK6_RX, packets of RoCE NICs over IPv6 will be lost";
        want(libc::IPPROTO_UDP, libc::UDP_NO_CHECK6_RX, 1, what);
    } else {
        want(libc::IPPROTO_IP, libc::IP_RECVTOS, 1, "IP_RECVTOS (ECN)");
        want(libc::IPPROTO_IP, libc::IP_RECVTTL, 1, "IP_RECVTTL");
    }
    set_buffer(
        fd,
        libc::SO_RCVBUFFORCE,
        libc::SO_RCVBUF,
        config.socket_buffer,
    );
    Ok(socket)
}

/// Makes a send socket on a local address and source port.
pub(crate) fn for_sending(
    local: SocketAddr,
    config: &Config,
    events: &mut Events,
) -> io::Result<OwnedFd> {
    let socket = create_raw(local.is_ipv6())?;
    let fd = socket.as_fd();
    let (level, discover, never_fragment, errors) = if local.is_ipv6() {
        (
            libc::IPPROTO_IPV6,
            libc::IPV6_MTU_DISCOVER,
            libc::IPV6_PMTUDISC_DO,
            libc::IPV6_RECVERR,
        )
    } else {
        (
            libc::IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            libc::IP_PMTUDISC_DO,
            libc::IP_RECVERR,
        )
    };
    sys::set_option(fd, level, discover, never_fragment)?;
    if local.is_ipv6() {
        sys::set_option(fd, level, libc::IPV6_DONTFRAG, 1)?;
    }
    if let Err(error) = sys::set_option(fd, level, errors, 1) {
        events.notice(format!(
            "the system refuses IP_RECVERR ({error}): nobody will be told when a peer is unreachable"
        ));
    }
    set_buffer(
        fd,
        libc::SO_SNDBUFFORCE,
        libc::SO_SNDBUF,
        config.socket_buffer,
    );
    rustix::net::bind(fd, &local)?;
    Ok(socket)
}

/// Lets a socket send the flow labels that its messages name; returns whether the system does.
pub(crate) fn allow_flow_labels(socket: BorrowedFd<'_>) -> bool {
    sys::set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_FLOWINFO_SEND, 1).is_ok()
}

/// Returns the socket address of an IP address; a link-local one is in the scope of `index`.
pub(crate) fn scoped(ip: IpAddr, port: u16, index: u32) -> SocketAddr {
    match ip {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => {
            SocketAddrV6::new(v6, port, 0, index).into()
        }
        ip => SocketAddr::new(ip, port),
    }
}

fn create(ipv6: bool) -> Result<OwnedFd, OpenError> {
    let family = if ipv6 { "IPv6" } else { "IPv4" };
    create_raw(ipv6).map_err(OpenError::system(format!(
        "create a UDP socket for {family}"
    )))
}

fn create_raw(ipv6: bool) -> io::Result<OwnedFd> {
    let family = if ipv6 {
        AddressFamily::INET6
    } else {
        AddressFamily::INET
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::DGRAM, flags, None)?;
    if ipv6 {
        sys::set_option(socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
    }
    Ok(socket)
}

fn set_buffer(socket: BorrowedFd<'_>, force: c_int, ask: c_int, bytes: usize) {
    let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
    // Beyond the system's cap only for the privileged; the second never fails, it is capped.
    let _ = sys::set_option(socket, libc::SOL_SOCKET, force, bytes)
        .or_else(|_| sys::set_option(socket, libc::SOL_SOCKET, ask, bytes));
}
