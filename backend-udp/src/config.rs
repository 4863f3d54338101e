//! How a link is opened.

use core::fmt;
use core::net::IpAddr;

/// The UDP port of RoCEv2.
pub const ROCE_PORT: u16 = 4791;

/// Which addresses a link has.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Local {
    /// All addresses of the interface of this name.
    Interface(String),
    /// This address alone. The GID table is still that of its interface, so that row numbers mean
    /// the same, but only this row can be used.
    Address(IpAddr),
}

/// Which of two endpoints that share an address this is: it decides the parity of the QPNs.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Endpoint {
    /// Wants even QPNs, and gets what arrives for QP1.
    Server,
    /// Wants odd QPNs.
    Client,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Server => "server",
            Self::Client => "client",
        })
    }
}

/// What [`UdpLink::open`](crate::UdpLink::open) needs.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the link is.
    pub local: Local,
    /// Which endpoint it is.
    pub role: Endpoint,
    /// The UDP port to receive on and to send to: 4791 but in tests.
    pub port: u16,
    /// Bytes wanted in each socket's buffer; the kernel caps it at `net.core.rmem_max` and
    /// `wmem_max` for who has no CAP_NET_ADMIN.
    pub socket_buffer: usize,
    /// Whether to send batches with `UDP_SEGMENT`. The link turns it off where it is refused.
    pub segmentation: bool,
    /// Whether to receive batches with `UDP_GRO`.
    pub coalescing: bool,
    /// Bytes of packets that wait for a flush.
    pub send_buffer: usize,
}

impl Config {
    /// Returns the configuration that suits any machine.
    pub fn new(local: Local, role: Endpoint) -> Self {
        Self {
            local,
            role,
            port: ROCE_PORT,
            socket_buffer: 4 << 20,
            segmentation: true,
            coalescing: true,
            send_buffer: 512 << 10,
        }
    }
}
