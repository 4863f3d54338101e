//! Names that one process holds at a time.

use core::net::SocketAddr;
use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::Instant;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::holder;
use crate::sys;

/// How long to wait for another process that is opening a link. It takes about a second at most.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Why a name could not be taken.
#[derive(Debug)]
pub(super) enum ClaimError {
    /// Somebody has it: who, in words.
    Held(String),
    /// The system gives no such names.
    Unavailable(io::Error),
}

/// The right to one parity of QPNs on one address.
#[derive(Debug)]
pub(super) struct Claim {
    _name: OwnedFd,
}

impl Claim {
    pub(super) fn take(address: SocketAddr, parity: u32) -> Result<Self, ClaimError> {
        let half = if parity == 0 { "even" } else { "odd" };
        let name = take(&format!("roce-udp {address} {half}"))?;
        Ok(Self { _name: name })
    }
}

/// The right to open links on a port.
#[derive(Debug)]
pub(super) struct Gate {
    _name: OwnedFd,
}

impl Gate {
    pub(super) fn enter(port: u16) -> Result<Self, ClaimError> {
        let start = Instant::now();
        loop {
            match take(&format!("roce-udp {port} gate")) {
                Ok(name) => return Ok(Self { _name: name }),
                Err(ClaimError::Held(_)) if start.elapsed() < PATIENCE => {
                    thread::sleep(Duration::from_millis(1));
                }
                Err(error) => return Err(error),
            }
        }
    }
}

fn take(name: &str) -> Result<OwnedFd, ClaimError> {
    let unavailable = |errno| ClaimError::Unavailable(io::Error::from(errno));
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(unavailable)?;
    let socket = unix_socket().map_err(unavailable)?;
    match rustix::net::bind(&socket, &address) {
        Ok(()) => {
            // Listening is what makes the kernel tell others who holds the name.
            rustix::net::listen(&socket, 8).map_err(unavailable)?;
            Ok(socket)
        }
        Err(rustix::io::Errno::ADDRINUSE) => Err(ClaimError::Held(who_holds(&address))),
        Err(errno) => Err(unavailable(errno)),
    }
}

fn unix_socket() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

fn who_holds(address: &SocketAddrUnix) -> String {
    let pid = unix_socket().ok().and_then(|socket| {
        rustix::net::connect(&socket, address).ok()?;
        sys::peer_pid(socket.as_fd())
    });
    pid.map_or_else(
        || "a process of another user or container".to_owned(),
        holder::describe,
    )
}
