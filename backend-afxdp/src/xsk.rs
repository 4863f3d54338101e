//! A bound AF_XDP socket with its buffers and rings: whole Ethernet frames in and out.

mod open;

use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::ring::{Consumer, Descriptor, Producer};
use crate::umem::{CHUNK, SLOT, Slot, Umem};

/// Where a frame's packet starts in its slot: the longest headers fit before it, and a packet that
/// starts with a cache line is the fastest to copy and to check.
pub(crate) const PACKET_AT: usize = 128;

/// Descriptors of one frame: 64 KiB in buffers of 3840 bytes, and then some.
const MAX_PIECES: u32 = 32;

/// The longest sleep while the kernel takes no more: nothing tells when it does again.
const QUEUE_RETRY: Duration = Duration::from_millis(1);

/// What the socket counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) received: u64,
    pub(crate) in_pieces: u64,
    pub(crate) oversized: u64,
    pub(crate) sent: u64,
    pub(crate) calls: u64,
    pub(crate) refused: u64,
    pub(crate) no_room: u64,
}

/// What became of a call for the kernel to send.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kicked {
    /// It has taken everything, or needs no call.
    Done,
    /// It has no room for now.
    Later,
    /// The interface is down.
    Down,
}

/// A socket on one queue of an interface.
#[derive(Debug)]
pub(crate) struct Xsk {
    // Dropped before the buffers: the kernel must not use them any more.
    fd: OwnedFd,
    fill: Producer,
    completed: Consumer,
    rx: Consumer,
    tx: Producer,
    umem: Umem,
    /// Where a frame is put together that doesn't fit a slot.
    scratch: Vec<u8>,
    busy_poll: bool,
    /// Frames may come and go in several buffers.
    pub(crate) multi_buffer: bool,
    /// The driver reads and writes the buffers itself.
    pub(crate) zero_copy: bool,
    pub(crate) counters: Counters,
}

impl AsFd for Xsk {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Xsk {
    /// Hands up to `budget` received frames to `sink`; returns how many. Never waits.
    pub(crate) fn receive(
        &mut self,
        budget: usize,
        mut sink: impl FnMut(&[u8]),
    ) -> io::Result<usize> {
        let mut taken = 0;
        while taken < budget && self.rx.available() > 0 {
            let first = self.rx.peek(0);
            if first.more {
                if !self.receive_pieces(&mut sink) {
                    break;
                }
            } else {
                self.rx.advance(1);
                if let Some((slot, at)) = self.umem.filled(first.addr) {
                    let len = (first.len as usize).min(SLOT - at);
                    sink(self.umem.bytes(&slot, at, len));
                    self.give_back(slot);
                }
            }
            taken += 1;
        }
        if taken > 0 {
            self.counters.received += taken as u64;
            self.rx.release();
            self.fill.publish();
        } else if self.busy_poll || self.fill.needs_wakeup() {
            self.wake_receiver()?;
        }
        Ok(taken)
    }

    /// Offers a slot to the kernel again: the ring has room for all slots.
    fn give_back(&mut self, slot: Slot) {
        debug_assert!(self.fill.has_room(1), "the fill ring holds all slots");
        let addr = self.umem.offer(slot);
        self.fill.push_address(addr);
    }

    /// Takes a frame that is in several buffers; returns false if its end isn't there yet.
    fn receive_pieces(&mut self, sink: &mut impl FnMut(&[u8])) -> bool {
        let mut pieces = 1;
        while self.rx.peek(pieces - 1).more {
            if pieces == self.rx.available() && pieces == self.rx.refresh() {
                return false;
            }
            pieces += 1;
        }
        self.counters.in_pieces += 1;
        let first = self.rx.peek(0);
        let total: usize = (0..pieces).map(|at| self.rx.peek(at).len as usize).sum();
        let Some((mut slot, start)) = self.umem.filled(first.addr) else {
            self.rx.advance(pieces);
            return true;
        };
        if start + total <= SLOT {
            let mut end = start + first.len as usize;
            for ahead in 1..pieces {
                let piece = self.rx.peek(ahead);
                let len = piece.len as usize;
                if let Some((next, at)) = self.umem.filled(piece.addr) {
                    self.umem.append(&mut slot, end, &next, at, len);
                    self.give_back(next);
                }
                end += len;
            }
            sink(self.umem.bytes(&slot, start, total));
            self.give_back(slot);
        } else {
            self.scratch.clear();
            let fits = pieces <= MAX_PIECES;
            self.counters.oversized += u64::from(!fits);
            self.keep(fits, slot, start, first.len);
            for ahead in 1..pieces {
                let piece = self.rx.peek(ahead);
                if let Some((next, at)) = self.umem.filled(piece.addr) {
                    self.keep(fits, next, at, piece.len);
                }
            }
            if fits {
                sink(&self.scratch);
            }
        }
        self.rx.advance(pieces);
        true
    }

    fn keep(&mut self, wanted: bool, slot: Slot, at: usize, len: u32) {
        if wanted {
            let len = (len as usize).min(CHUNK);
            self.scratch
                .extend_from_slice(self.umem.bytes(&slot, at, len));
        }
        self.give_back(slot);
    }

    /// Has the driver look for frames, where it waits to be told or is polled from here.
    fn wake_receiver(&mut self) -> io::Result<()> {
        self.counters.calls += 1;
        let nothing: &mut [u8] = &mut [];
        match rustix::net::recv(&self.fd, nothing, RecvFlags::DONTWAIT) {
            Ok(_) | Err(Errno::AGAIN | Errno::INTR | Errno::BUSY | Errno::NOBUFS) => Ok(()),
            // The interface is down, or this kernel has no such call: sending will tell more.
            Err(Errno::NETDOWN | Errno::OPNOTSUPP) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Takes a slot for a frame; nothing if all are on their way.
    #[inline]
    pub(crate) fn reserve(&mut self) -> Option<Slot> {
        if self.umem.free() == 0 {
            self.reap();
        }
        let room = self.tx.has_room(2);
        let slot = if room { self.umem.take_free() } else { None };
        self.counters.no_room += u64::from(slot.is_none());
        slot
    }

    /// Returns bytes of a slot to write.
    #[inline]
    pub(crate) fn bytes_mut(&mut self, slot: &mut Slot, at: usize, len: usize) -> &mut [u8] {
        self.umem.bytes_mut(slot, at, len)
    }

    /// Puts the frame in a slot into the ring; `reserve` has found room.
    #[inline]
    pub(crate) fn send(&mut self, slot: Slot, at: usize, len: usize) {
        let end = at + len;
        let pieces = if end > CHUNK { 2 } else { 1 };
        let addr = self.umem.send(slot, pieces);
        self.tx.push(Descriptor {
            addr: addr + at as u64,
            len: (end.min(CHUNK) - at) as u32,
            more: pieces == 2,
        });
        if pieces == 2 {
            self.tx.push(Descriptor {
                addr: addr + CHUNK as u64,
                len: (end - CHUNK) as u32,
                more: false,
            });
        }
        self.counters.sent += 1;
    }

    /// Takes the slots back that were sent.
    pub(crate) fn reap(&mut self) {
        let count = self.completed.refresh();
        for ahead in 0..count {
            let addr = self.completed.peek_address(ahead);
            self.umem.sent(addr);
        }
        self.completed.advance(count);
        self.completed.release();
    }

    /// Shows the kernel what is in the ring, and calls it if it wants that: once at most.
    pub(crate) fn flush(&mut self) -> io::Result<Kicked> {
        self.tx.publish();
        if !self.tx.is_busy() || !self.tx.needs_wakeup() {
            return Ok(Kicked::Done);
        }
        self.counters.calls += 1;
        let kicked = match rustix::net::send(&self.fd, &[], SendFlags::DONTWAIT) {
            Ok(_) => Kicked::Done,
            Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS | Errno::INTR) => {
                self.counters.refused += 1;
                Kicked::Later
            }
            Err(Errno::NETDOWN) => Kicked::Down,
            Err(errno) => return Err(errno.into()),
        };
        self.reap();
        Ok(kicked)
    }

    /// Sleeps until a frame arrives, `other` is readable, or the time is over.
    pub(crate) fn wait(
        &mut self,
        timeout: Option<Duration>,
        other: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        if self.rx.available() > 0 {
            return Ok(());
        }
        let timeout = if self.tx.is_busy() {
            Some(timeout.unwrap_or(QUEUE_RETRY).min(QUEUE_RETRY))
        } else {
            timeout
        };
        let timeout = timeout.and_then(|time| Timespec::try_from(time).ok());
        self.counters.calls += 1;
        let own = PollFd::new(&self.fd, PollFlags::IN);
        let result = match &other {
            Some(other) => {
                let mut polled = [own, PollFd::new(other, PollFlags::IN)];
                rustix::event::poll(&mut polled, timeout.as_ref())
            }
            None => rustix::event::poll(&mut [own], timeout.as_ref()),
        };
        match result {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Returns what the kernel dropped: for want of buffers, and for want of room in the ring.
    pub(crate) fn kernel_drops(&self) -> (u64, u64) {
        rustix::net::sockopt::xdp_statistics(&self.fd).map_or((0, 0), |all| {
            (
                all.rx_dropped + all.rx_fill_ring_empty_descs.unwrap_or(0),
                all.rx_ring_full.unwrap_or(0),
            )
        })
    }

    /// Asserts that no buffer was lost.
    pub(crate) fn account(&self) {
        self.umem.account(0);
    }
}
