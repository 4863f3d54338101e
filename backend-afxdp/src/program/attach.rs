//! Putting the program on an interface, or joining one of ours that is there.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use crate::config::{Config, Mode};
use crate::error::OpenError;
use crate::netdev::Netdev;
use crate::netlink::Netlink;
use crate::program::{self, NAME, Target};
use crate::sys::bpf;

/// The queues that the map of sockets has room for.
const QUEUES: u32 = 64;

/// Flags of `if_link.h`.
const MODE_GENERIC: u32 = 1 << 1;
const MODE_DRIVER: u32 = 1 << 2;

/// The program on an interface. Whoever has such a value keeps it there: when the last process
/// that does ends, however it ends, the kernel takes the program off.
#[derive(Debug)]
pub(crate) struct Attached {
    map: OwnedFd,
    _link: OwnedFd,
    /// Where it runs.
    pub(crate) mode: Mode,
    /// Why there, or what else a person should know.
    pub(crate) reason: String,
}

impl Attached {
    /// Puts the program on the interface.
    pub(crate) fn new(
        config: &Config,
        netdev: &Netdev,
        netlink: &mut Netlink,
    ) -> Result<Self, OpenError> {
        if let Some(place) = netdev.program {
            if let Some(shared) = Self::join(netdev, place) {
                return Ok(shared);
            }
            if !config.replace_program {
                return Err(in_place(netdev, place.id));
            }
            displace(netdev, place, netlink)?;
        }
        let map = bpf::socket_map(NAME, QUEUES)
            .map_err(refused("make a map of AF_XDP sockets", &netdev.name))?;
        let code = program::code(Target::Sockets(map.as_raw_fd()));
        let loaded = bpf::load_xdp(NAME, &code, true)
            // Kernels before 5.18 know no frames in several buffers.
            .or_else(|_| bpf::load_xdp(NAME, &code, false))
            .map_err(refused("load the XDP program", &netdev.name))?;
        let (link, mode, reason) = attach(config, netdev, &loaded)?;
        Ok(Self {
            map,
            _link: link,
            mode,
            reason,
        })
    }

    /// Joins our program that another process put on the interface.
    fn join(netdev: &Netdev, place: InPlace) -> Option<Self> {
        let program = bpf::program(place.id).ok()?;
        let (info, map) = bpf::program_info(program.as_fd()).ok()?;
        if info.name() != NAME {
            return None;
        }
        let map = bpf::map(map?).ok()?;
        let link = link_of(netdev.index, place.id)?;
        Some(Self {
            map,
            _link: link,
            mode: place.mode,
            reason: "as another process of roce on this interface has it".to_owned(),
        })
    }

    /// Sends what arrives on a queue to a socket.
    pub(crate) fn register(
        &self,
        queue: u32,
        socket: impl AsFd,
        netdev: &Netdev,
    ) -> Result<(), OpenError> {
        let what = format!(
            "give the frames of {} queue {queue} to a socket",
            netdev.name
        );
        bpf::put_socket(self.map.as_fd(), queue, socket.as_fd()).map_err(OpenError::system(what))
    }
}

/// An XDP program that is on an interface.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct InPlace {
    /// Its number.
    pub(crate) id: u32,
    /// Where it runs.
    pub(crate) mode: Mode,
}

fn attach(
    config: &Config,
    netdev: &Netdev,
    program: &OwnedFd,
) -> Result<(OwnedFd, Mode, String), OpenError> {
    let (first, why) = match config.mode {
        Some(mode) => (mode, "as asked for".to_owned()),
        None if netdev.is_virtual() => (
            Mode::Generic,
            format!("a {} gains nothing from its driver's", netdev.kind),
        ),
        None => (Mode::Driver, "the driver has it".to_owned()),
    };
    let try_one = |mode| {
        let flags = match mode {
            Mode::Driver => MODE_DRIVER,
            Mode::Generic => MODE_GENERIC,
        };
        bpf::attach_xdp(program.as_fd(), netdev.index, flags)
    };
    let error = match try_one(first) {
        Ok(link) => return Ok((link, first, why)),
        Err(error) => error,
    };
    match error.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => {
            // Somebody was faster than the look at the interface.
            return Err(in_place(netdev, 0));
        }
        Some(libc::EPERM) => return Err(refused("attach the XDP program", &netdev.name)(error)),
        _ => {}
    }
    if first == Mode::Driver && config.mode.is_none() {
        let why = format!("the driver refuses XDP: {error}");
        if let Ok(link) = try_one(Mode::Generic) {
            return Ok((link, Mode::Generic, why));
        }
    }
    let what = format!("attach the XDP program to {} in {first}", netdev.name);
    Err(OpenError::system(what)(error))
}

/// Takes another program off.
fn displace(netdev: &Netdev, place: InPlace, netlink: &mut Netlink) -> Result<(), OpenError> {
    let what = format!("displace XDP program {} of {}", place.id, netdev.name);
    let done = match link_of(netdev.index, place.id) {
        Some(link) => bpf::detach(link.as_fd()),
        None => {
            let flags = match place.mode {
                Mode::Driver => MODE_DRIVER,
                Mode::Generic => MODE_GENERIC,
            };
            netlink.detach_xdp(netdev.index, flags)
        }
    };
    done.map_err(OpenError::system(what))
}

/// Finds the link that holds a program on an interface.
fn link_of(index: u32, program: u32) -> Option<OwnedFd> {
    let mut id = 0;
    while let Some(next) = bpf::next_link(id) {
        id = next;
        let Ok(link) = bpf::link(id) else { continue };
        if bpf::xdp_link_info(link.as_fd()) == Some((program, index)) {
            return Some(link);
        }
    }
    None
}

fn in_place(netdev: &Netdev, id: u32) -> OpenError {
    let name = bpf::program(id)
        .and_then(|fd| bpf::program_info(fd.as_fd()))
        .map(|(info, _)| info.name())
        .ok()
        .filter(|name| !name.is_empty());
    OpenError::Program {
        name: netdev.name.clone(),
        program: name.map_or_else(|| format!("number {id}"), |name| format!("{name:?} ({id})")),
    }
}

/// Words a refusal of the `bpf` call.
fn refused(what: &str, interface: &str) -> impl FnOnce(io::Error) -> OpenError {
    let (what, name) = (what.to_owned(), interface.to_owned());
    move |source| match source.raw_os_error() {
        Some(libc::EPERM) => OpenError::Privilege {
            what,
            missing: "CAP_BPF or CAP_NET_ADMIN in the first user namespace".to_owned(),
            name,
        },
        _ => OpenError::System { what, source },
    }
}

#[cfg(test)]
mod tests;
