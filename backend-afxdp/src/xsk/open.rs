//! Making a socket: buffers, rings, and what the interface's driver can do.

use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING,
    XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpOptionsFlags, XdpRingOffset,
    XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::{Counters, Xsk};
use crate::config::Config;
use crate::error::OpenError;
use crate::netdev::Netdev;
use crate::ring::{Consumer, Producer};
use crate::sys::{self, map::Mapping};
use crate::umem::{CHUNK, Umem};

/// A queue stays busy for some milliseconds after its last socket was closed, on a busy machine for longer.
const PATIENCE: Duration = Duration::from_secs(1);

/// The kernel's copies of frames on their way count against the socket's buffer.
const SEND_BUFFER: i32 = 32 << 20;

/// Options of sockets that libc doesn't know (`if_xdp.h`, `socket.h`).
const MAX_TX_SKB_BUDGET: i32 = 9;
const PREFER_BUSY_POLL: i32 = 69;
const BUSY_POLL_BUDGET: i32 = 70;

/// Frames that one call sends at most.
const BUDGET: i32 = 512;

impl Xsk {
    /// Opens a socket on the interface's queue.
    pub(crate) fn open(config: &Config, netdev: &Netdev) -> Result<Self, OpenError> {
        let name = &netdev.name;
        let fd = rustix::net::socket_with(
            AddressFamily::XDP,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(|errno| match errno {
            Errno::PERM => OpenError::Privilege {
                what: "open an AF_XDP socket".to_owned(),
                missing: "CAP_NET_RAW".to_owned(),
                name: name.clone(),
            },
            Errno::AFNOSUPPORT => OpenError::System {
                what: format!(
                    "open an AF_XDP socket: this kernel has none (CONFIG_XDP_SOCKETS), use -d \
                     udp:{name}"
                ),
                source: errno.into(),
            },
            _ => OpenError::system("open an AF_XDP socket")(errno),
        })?;
        let (umem, slots) = Umem::new(config.receive_slots, config.send_slots)
            .map_err(OpenError::system("map packet buffers"))?;
        register(&fd, &umem)?;
        let rings = Rings::map(&fd, config).map_err(OpenError::system("map AF_XDP rings"))?;
        tune(&fd, config);
        let multi_buffer = bind(&fd, config, netdev)?;
        let options = sockopt::xdp_options(&fd)
            .map_err(OpenError::system("read the options of an AF_XDP socket"))?;
        let mut xsk = Self {
            fd,
            fill: rings.fill,
            completed: rings.completed,
            rx: rings.rx,
            tx: rings.tx,
            umem,
            scratch: Vec::with_capacity(super::MAX_PIECES as usize * CHUNK),
            busy_poll: config.busy_poll,
            multi_buffer,
            zero_copy: options.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY),
            counters: Counters::default(),
        };
        for slot in slots {
            xsk.give_back(slot);
        }
        xsk.fill.publish();
        Ok(xsk)
    }
}

fn register(fd: &OwnedFd, umem: &Umem) -> Result<(), OpenError> {
    let (addr, len) = umem.range();
    let registration = XdpUmemReg {
        addr,
        len,
        chunk_size: CHUNK as u32,
        headroom: 0,
        flags: XdpUmemRegFlags::empty(),
        tx_metadata_len: 0,
    };
    sockopt::set_xdp_umem_reg(fd, registration).map_err(|errno| match errno {
        Errno::NOBUFS | Errno::NOMEM => OpenError::LockedMemory {
            wanted: len >> 10,
            limit: locked_memory_limit() >> 10,
        },
        _ => OpenError::system("register packet buffers")(errno),
    })
}

fn locked_memory_limit() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock);
    limit.current.unwrap_or(u64::MAX)
}

struct Rings {
    fill: Producer,
    completed: Consumer,
    rx: Consumer,
    tx: Producer,
}

impl Rings {
    fn map(fd: &OwnedFd, config: &Config) -> io::Result<Self> {
        // Every slot has a place wherever it may be; a slot to send takes two descriptors.
        // The kernel shows what arrived before it shows how far it is in the fill ring (`xsk_flush` in
        // net/xdp/xsk.c): a slot may come back while the place that it came from still looks taken.
        let fill = config.receive_slots * 2;
        let rx = config.receive_slots;
        let tx = config.send_slots * 2;
        let completed = config.send_slots * 2;
        sockopt::set_xdp_umem_fill_ring_size(fd, fill)?;
        sockopt::set_xdp_umem_completion_ring_size(fd, completed)?;
        sockopt::set_xdp_rx_ring_size(fd, rx)?;
        sockopt::set_xdp_tx_ring_size(fd, tx)?;
        let offsets = sockopt::xdp_mmap_offsets(fd)?;
        let map = |offset: &XdpRingOffset, entry: usize, size: u32, page: u64| {
            let len = offset.desc as usize + entry * size as usize;
            Mapping::of_socket(fd.as_fd(), len, page).map(Arc::new)
        };
        let fill_map = map(&offsets.fr, 8, fill, XDP_UMEM_PGOFF_FILL_RING)?;
        let completed_map = map(&offsets.cr, 8, completed, XDP_UMEM_PGOFF_COMPLETION_RING)?;
        let rx_map = map(&offsets.rx, 16, rx, XDP_PGOFF_RX_RING)?;
        let tx_map = map(&offsets.tx, 16, tx, XDP_PGOFF_TX_RING)?;
        Ok(Self {
            fill: Producer::new(fill_map, &offsets.fr, fill),
            completed: Consumer::new(completed_map, &offsets.cr, completed),
            rx: Consumer::new(rx_map, &offsets.rx, rx),
            tx: Producer::new(tx_map, &offsets.tx, tx),
        })
    }
}

/// Sets what makes it faster where the kernel has it.
fn tune(fd: &OwnedFd, config: &Config) {
    let set = |level, name, value| {
        // Older kernels and less privileged processes do without.
        let _refused = sys::set_option(fd.as_fd(), level, name, value);
    };
    set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, SEND_BUFFER);
    set(libc::SOL_XDP, MAX_TX_SKB_BUDGET, BUDGET);
    if config.busy_poll {
        set(libc::SOL_SOCKET, PREFER_BUSY_POLL, 1);
        set(libc::SOL_SOCKET, libc::SO_BUSY_POLL, 20);
        set(libc::SOL_SOCKET, BUSY_POLL_BUDGET, 64);
    }
}

/// Binds, with the most that driver and kernel can do; returns whether frames may have several
/// buffers.
fn bind(fd: &OwnedFd, config: &Config, netdev: &Netdev) -> Result<bool, OpenError> {
    let zero_copy = [
        SocketAddrXdpFlags::XDP_ZEROCOPY,
        SocketAddrXdpFlags::XDP_COPY,
    ];
    let several = [SocketAddrXdpFlags::XDP_USE_SG, SocketAddrXdpFlags::empty()];
    let mut last = Errno::INVAL;
    for copying in &zero_copy[usize::from(!config.zero_copy)..] {
        for buffers in &several[usize::from(!config.multi_buffer)..] {
            let flags = SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP | *copying | *buffers;
            let address = SocketAddrXdp::new(flags, netdev.index, config.queue);
            match bind_patiently(fd, &address) {
                Ok(()) => return Ok(!buffers.is_empty()),
                Err(errno) => last = errno,
            }
            if last == Errno::BUSY {
                return Err(OpenError::Busy {
                    name: netdev.name.clone(),
                    queue: config.queue,
                    holder: "another program".to_owned(),
                });
            }
        }
    }
    Err(match last {
        Errno::NETDOWN => OpenError::Down {
            name: netdev.name.clone(),
        },
        Errno::PERM => OpenError::Privilege {
            what: format!("bind an AF_XDP socket to {}", netdev.name),
            missing: "CAP_NET_RAW".to_owned(),
            name: netdev.name.clone(),
        },
        _ => {
            let what = format!(
                "bind an AF_XDP socket to {} queue {}",
                netdev.name, config.queue
            );
            OpenError::system(what)(last)
        }
    })
}

fn bind_patiently(fd: &OwnedFd, address: &SocketAddrXdp) -> Result<(), Errno> {
    let start = Instant::now();
    loop {
        match rustix::net::bind(fd, address) {
            Err(Errno::BUSY) if start.elapsed() < PATIENCE => {
                thread::sleep(Duration::from_millis(2));
            }
            other => return other,
        }
    }
}
