//! Two endpoints on one address, told apart by the low bit of the destination QPN.
//!
//! Both bind with `SO_REUSEPORT`; a classic BPF program picks the socket by its index in the group.
//! The kernel numbers a group's sockets in the order of their binds and closes gaps, so of two
//! sockets the one that came last has index 1 whatever came and went before. Each newcomer replaces
//! the group's program by "my parity: 1, the other: 0". That stays right for as long as both live;
//! when one is left, it has index 0, and an index that isn't there makes the kernel take the only one.
//!
//! It holds only while there are never three, so [`bind`] runs under a [`Gate`] and needs a
//! [`Claim`] on a parity. Both are names in the abstract Unix namespace: bound to the network
//! namespace exactly as UDP ports are, released by the kernel when a process dies, and they say who
//! holds them to any user.

mod claim;
mod holder;

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::Instant;

use crate::config::Endpoint;
use crate::error::OpenError;
use crate::sys;
use claim::{Claim, ClaimError, Gate};

/// A receive socket that is bound, and the claim that lets it share its address.
#[derive(Debug)]
pub(crate) struct SharedSocket {
    // Closed in this order: who finds the claim free must find the group smaller.
    socket: OwnedFd,
    _claim: Option<Claim>,
    pub(crate) address: IpAddr,
}

impl AsFd for SharedSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The receive sockets of a link.
pub(crate) struct Bound {
    pub(crate) sockets: Vec<SharedSocket>,
    /// The low bit of this endpoint's QPNs; none if the addresses are not shared.
    pub(crate) parity: Option<u32>,
    pub(crate) notice: Option<String>,
}

/// Binds a socket that `create` makes to each of `addresses`, in the parity of `role` or, if that
/// is taken, in the other one.
///
/// # Errors
///
/// An address is taken, by two endpoints or by somebody who doesn't share it.
pub(crate) fn bind(
    addresses: &[SocketAddr],
    role: Endpoint,
    mut create: impl FnMut(SocketAddr) -> Result<OwnedFd, OpenError>,
) -> Result<Bound, OpenError> {
    let Some(port) = addresses.first().map(SocketAddr::port) else {
        return Ok(Bound {
            sockets: Vec::new(),
            parity: None,
            notice: None,
        });
    };
    let (_gate, parity, claims, notice) = match Gate::enter(port) {
        Ok(gate) => {
            let (parity, claims) = claim_all(addresses, role)?;
            (Some(gate), Some(parity), claims, None)
        }
        Err(ClaimError::Held(holder)) => {
            let seconds = claim::PATIENCE.as_secs();
            return Err(OpenError::Busy {
                port,
                holder,
                seconds,
            });
        }
        Err(ClaimError::Unavailable(error)) => {
            let notice = format!(
                "the system refuses Unix sockets ({error}): no second endpoint can share the \
                 addresses of this one"
            );
            (None, None, Vec::new(), Some(notice))
        }
    };
    let mut claims = claims.into_iter();
    let mut sockets = Vec::with_capacity(addresses.len());
    for address in addresses {
        let claim = claims.next();
        let socket = create(*address)?;
        if let Some(parity) = parity {
            share(socket.as_fd(), *address, parity)?;
        } else {
            bind_socket(socket.as_fd(), *address)?;
        }
        sockets.push(SharedSocket {
            socket,
            _claim: claim,
            address: address.ip(),
        });
    }
    Ok(Bound {
        sockets,
        parity,
        notice,
    })
}

fn claim_all(addresses: &[SocketAddr], role: Endpoint) -> Result<(u32, Vec<Claim>), OpenError> {
    let wanted = match role {
        Endpoint::Server => 0,
        Endpoint::Client => 1,
    };
    let mut blockers = Vec::new();
    for parity in [wanted, wanted ^ 1] {
        let claims: Result<Vec<_>, _> = addresses
            .iter()
            .map(|address| Claim::take(*address, parity).map_err(|error| (*address, error)))
            .collect();
        match claims {
            Ok(claims) => return Ok((parity, claims)),
            Err((address, ClaimError::Held(holder))) => blockers.push((address, holder)),
            Err((address, ClaimError::Unavailable(source))) => {
                let what = format!("claim a share of {address}");
                return Err(OpenError::System { what, source });
            }
        }
    }
    let holders: Vec<_> = blockers.iter().map(|(_, holder)| holder.as_str()).collect();
    let address = blockers[0].0;
    Err(OpenError::Shared {
        address: address.ip(),
        port: address.port(),
        holders: holders.join(" and "),
    })
}

fn share(socket: BorrowedFd<'_>, address: SocketAddr, parity: u32) -> Result<(), OpenError> {
    sys::set_option(socket, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)
        .map_err(OpenError::system(format!("share {address} (SO_REUSEPORT)")))?;
    wait_for_room(address)?;
    bind_socket(socket, address)?;
    sys::attach_selector(socket, &mut selector(parity)).map_err(OpenError::system(format!(
        "share {address} by the parity of QPNs (SO_ATTACH_REUSEPORT_CBPF)"
    )))
}

/// Waits until at most one socket is bound: a process that was killed leaves its claim and its
/// sockets in no particular order.
fn wait_for_room(address: SocketAddr) -> Result<(), OpenError> {
    let start = Instant::now();
    loop {
        let count = holder::bound_to(address);
        if count < 2 {
            return Ok(());
        }
        if start.elapsed() > Duration::from_secs(1) {
            return Err(in_use(address));
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn bind_socket(socket: BorrowedFd<'_>, address: SocketAddr) -> Result<(), OpenError> {
    rustix::net::bind(socket, &address).map_err(|errno| {
        if errno == rustix::io::Errno::ADDRINUSE {
            in_use(address)
        } else {
            let what = format!("bind UDP {address}");
            OpenError::system(what)(io::Error::from(errno))
        }
    })
}

fn in_use(address: SocketAddr) -> OpenError {
    OpenError::InUse {
        address: address.ip(),
        port: address.port(),
        holder: holder::of_port(address),
    }
}

/// Returns the program for a newcomer of this parity. Offset 0 is the BTH.
fn selector(parity: u32) -> [libc::sock_filter; 6] {
    const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
    const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const IF_SET: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let op = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    [
        op(LOAD_WORD, 0, 0, 4),
        op(AND, 0, 0, 0x00ff_ffff),
        // QP1 has an odd number, and the server is even.
        op(IF_EQUAL, 2, 0, 1),
        op(IF_SET, 0, 1, 1),
        op(RETURN, 0, 0, parity),
        op(RETURN, 0, 0, parity ^ 1),
    ]
}

#[cfg(test)]
mod tests;
