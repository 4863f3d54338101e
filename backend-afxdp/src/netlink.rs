//! The kernel's routing socket: what interfaces, addresses, routes and neighbours there are, and
//! what changes.

mod message;
mod parse;

use core::net::IpAddr;
use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use message::{Builder, Message, kind};
pub(crate) use parse::{AddressRow, Change, Interface, Neighbour, Reach, Route};

/// Bytes of a receive: the kernel never sends more at a time.
const BUFFER: usize = 64 << 10;

/// How long to wait for an answer, which a healthy kernel gives at once.
const PATIENCE: Duration = Duration::from_secs(2);

/// A routing socket.
#[derive(Debug)]
pub(crate) struct Netlink {
    fd: OwnedFd,
    buffer: Vec<u8>,
    sequence: u32,
}

impl Netlink {
    /// Opens a socket to ask on.
    pub(crate) fn new() -> io::Result<Self> {
        Self::open(0)
    }

    /// Opens a socket that hears of changes.
    pub(crate) fn monitor() -> io::Result<Self> {
        /// Groups 1 (links), 3 (neighbours), 5 and 9 (addresses), 7 and 11 (routes).
        const GROUPS: u32 = 1 | 1 << 2 | 1 << 4 | 1 << 8 | 1 << 6 | 1 << 10;
        Self::open(GROUPS)
    }

    fn open(groups: u32) -> io::Result<Self> {
        let fd = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            None,
        )?;
        rustix::net::bind(&fd, &SocketAddrNetlink::new(0, groups))?;
        Ok(Self {
            fd,
            buffer: vec![0; BUFFER],
            sequence: 0,
        })
    }

    /// Lists the interfaces.
    pub(crate) fn interfaces(&mut self) -> io::Result<Vec<Interface>> {
        let request = Builder::new(kind::GET_LINK, message::DUMP).link(0);
        self.ask(request, parse::interface)
    }

    /// Lists all addresses.
    pub(crate) fn addresses(&mut self) -> io::Result<Vec<AddressRow>> {
        let request = Builder::new(kind::GET_ADDRESS, message::DUMP).address();
        self.ask(request, parse::address)
    }

    /// Looks up the route of packets from one address to another.
    pub(crate) fn route(&mut self, from: IpAddr, to: IpAddr) -> io::Result<Route> {
        let request = Builder::new(kind::GET_ROUTE, 0).route(from, to);
        let found = self.ask(request, parse::route)?;
        let found = found.into_iter().next();
        found.ok_or_else(|| io::Error::from_raw_os_error(libc::ENETUNREACH))
    }

    /// Looks up a neighbour; nothing if the kernel doesn't know it.
    pub(crate) fn neighbour(&mut self, index: u32, ip: IpAddr) -> io::Result<Option<Neighbour>> {
        let request = Builder::new(kind::GET_NEIGHBOUR, 0).neighbour(index, ip, 0);
        match self.ask(request, parse::neighbour) {
            Ok(found) => Ok(found.into_iter().next()),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes the kernel find out where a neighbour is, or whether it is still there, as if it had
    /// something to send.
    pub(crate) fn use_neighbour(&mut self, index: u32, ip: IpAddr) -> io::Result<()> {
        const USE: u8 = 0x01;
        let flags = message::CREATE | message::ACK;
        let request = Builder::new(kind::NEW_NEIGHBOUR, flags).neighbour(index, ip, USE);
        self.ask(request, |_| None::<()>).map(drop)
    }

    /// Takes an XDP program off that was attached without a link.
    pub(crate) fn detach_xdp(&mut self, index: u32, mode: u32) -> io::Result<()> {
        let request = Builder::new(kind::SET_LINK, message::ACK)
            .link(index)
            .detach_xdp(mode);
        self.ask(request, |_| None::<()>).map(drop)
    }

    /// Sends a request and collects what its answers say.
    fn ask<T>(
        &mut self,
        request: Builder,
        mut read: impl FnMut(&Message<'_>) -> Option<T>,
    ) -> io::Result<Vec<T>> {
        self.sequence = self.sequence.wrapping_add(1);
        let sequence = self.sequence;
        rustix::net::send(&self.fd, &request.finish(sequence), SendFlags::empty())?;
        let mut found = Vec::new();
        loop {
            self.wait_for_answer()?;
            let (filled, len) =
                rustix::net::recv(&self.fd, &mut self.buffer[..], RecvFlags::DONTWAIT)?;
            for message in Message::all(&self.buffer[..filled.min(len)]) {
                if message.sequence != sequence {
                    continue;
                }
                match message.kind {
                    kind::ERROR => return message.error().map(|()| found),
                    kind::DONE => return Ok(found),
                    _ => found.extend(read(&message)),
                }
                if !message.is_part {
                    return Ok(found);
                }
            }
        }
    }

    fn wait_for_answer(&self) -> io::Result<()> {
        let mut polled = [PollFd::new(&self.fd, PollFlags::IN)];
        let patience = Timespec::try_from(PATIENCE).map_err(io::Error::other)?;
        match rustix::event::poll(&mut polled, Some(&patience)) {
            Ok(0) => Err(io::ErrorKind::TimedOut.into()),
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Takes the changes that were announced since the last call, never waiting. Returns false if
    /// some were lost, so that everything has to be looked up again.
    pub(crate) fn changes(&mut self, mut on: impl FnMut(Change)) -> bool {
        loop {
            match rustix::net::recv(&self.fd, &mut self.buffer[..], RecvFlags::DONTWAIT) {
                Ok((filled, len)) => Message::all(&self.buffer[..filled.min(len)])
                    .filter_map(|message| parse::change(&message))
                    .for_each(&mut on),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
    }
}

impl AsFd for Netlink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_found_with_its_address_and_its_route() {
        let mut netlink = Netlink::new().unwrap();
        let interfaces = netlink.interfaces().unwrap();
        let lo = interfaces.iter().find(|one| one.name == "lo").unwrap();
        assert!(lo.mtu >= 1500 && !lo.ethernet, "{lo:?}");
        let localhost: IpAddr = "127.0.0.1".parse().unwrap();
        let addresses = netlink.addresses().unwrap();
        let own = addresses.iter().find(|row| row.address == localhost);
        assert_eq!(own.map(|row| row.index), Some(lo.index));
        let route = netlink.route(localhost, localhost).unwrap();
        assert!(route.is_local);
        assert_eq!(netlink.neighbour(lo.index, localhost).unwrap(), None);
    }

    #[test]
    fn an_interface_that_is_not_there_is_an_error_with_its_number() {
        let mut netlink = Netlink::new().unwrap();
        let ip: IpAddr = "192.0.2.1".parse().unwrap();
        assert!(netlink.use_neighbour(0x7fff_fff0, ip).is_err());
    }
}
