//! Who has a queue: a name in the abstract Unix namespace for each, which the kernel takes back
//! when its holder dies.

use std::fs;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use crate::error::OpenError;
use crate::netdev::Netdev;

/// The right to a queue among processes of ours.
#[derive(Debug)]
pub(crate) struct Claim {
    _name: OwnedFd,
}

impl Claim {
    /// Takes the right, or says which process has it.
    pub(crate) fn take(netdev: &Netdev, queue: u32) -> Result<Self, OpenError> {
        let what = || format!("claim queue {queue} of {}", netdev.name);
        let failed = |errno: Errno| OpenError::system(what())(errno);
        let name = format!("roce-afxdp {} queue {queue}", netdev.index);
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(failed)?;
        let socket = socket().map_err(failed)?;
        match rustix::net::bind(&socket, &address) {
            Ok(()) => {
                // Listening is what makes the kernel tell others who holds the name.
                rustix::net::listen(&socket, 8).map_err(failed)?;
                Ok(Self { _name: socket })
            }
            Err(Errno::ADDRINUSE) => Err(OpenError::Busy {
                name: netdev.name.clone(),
                queue,
                holder: holder(&address),
            }),
            Err(errno) => Err(failed(errno)),
        }
    }
}

fn socket() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

fn holder(address: &SocketAddrUnix) -> String {
    let pid = socket().ok().and_then(|socket| {
        rustix::net::connect(&socket, address).ok()?;
        let peer = sockopt::socket_peercred(&socket).ok()?;
        Some(peer.pid.as_raw_nonzero())
    });
    pid.map_or_else(
        || "a process of another user or container".to_owned(),
        |pid| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            match name.trim_end() {
                "" => format!("pid {pid}"),
                name => format!("{name} (pid {pid})"),
            }
        },
    )
}
