//! Whole frames without a protocol: what a link is measured against, and tests speak with.

use core::time::Duration;
use std::io;

use roce_wire::Mac;

use crate::config::Config;
use crate::error::OpenError;
use crate::opened::Opened;
use crate::xsk::{Kicked, PACKET_AT};

/// Where a frame starts in its buffer: as a link's frames over IPv4 do.
const AT: usize = PACKET_AT - 42;

/// An AF_XDP socket whose frames are the caller's.
#[derive(Debug)]
pub struct Bare {
    opened: Opened,
}

impl Bare {
    /// Opens an interface's queue. The interface needs no address.
    ///
    /// # Errors
    ///
    /// As [`XskLink::open`](crate::XskLink::open).
    pub fn open(config: &Config) -> Result<Self, OpenError> {
        Opened::new(config, false).map(|opened| Self { opened })
    }

    /// Returns the interface's MAC.
    pub const fn mac(&self) -> Mac {
        self.opened.netdev.mac
    }

    /// Lets `fill` write a frame of `len` bytes, to be sent at the next flush. Returns false if
    /// there is no room.
    ///
    /// # Panics
    ///
    /// The frame is longer than two buffers.
    pub fn send(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) -> bool {
        let xsk = &mut self.opened.xsk;
        let Some(mut slot) = xsk.reserve() else {
            return false;
        };
        fill(xsk.bytes_mut(&mut slot, AT, len));
        xsk.send(slot, AT, len);
        true
    }

    /// Gives the frames to the kernel, with one system call at most. Returns whether it had room
    /// for all.
    ///
    /// # Errors
    ///
    /// The interface is down or gone.
    pub fn flush(&mut self) -> io::Result<bool> {
        match self.opened.xsk.flush()? {
            Kicked::Done => Ok(true),
            Kicked::Later => Ok(false),
            Kicked::Down => Err(io::Error::from_raw_os_error(libc::ENETDOWN)),
        }
    }

    /// Hands up to `budget` received frames to `sink`; returns how many. Never waits.
    ///
    /// # Errors
    ///
    /// The interface is gone.
    pub fn receive(&mut self, budget: usize, sink: impl FnMut(&[u8])) -> io::Result<usize> {
        self.opened.xsk.receive(budget, sink)
    }

    /// Sleeps until a frame arrives or the time is over.
    ///
    /// # Errors
    ///
    /// As `receive`.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<()> {
        self.opened.xsk.wait(Some(timeout), None)
    }
}
