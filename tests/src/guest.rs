//! A real peer: Debian's kernel with soft-RoCE and stock perftest, in a QEMU guest.
//!
//! ```text
//!  this process                         namespace (anonymous)            guest (QEMU, tcg)
//!  ┌──────────────┐  nsenter    ┌──────────────────────────────┐   ┌─────────────────────────┐
//!  │ test         ├────────────▶│ roce ── tap0 192.168.77.1    ├───┤ eth0 192.168.77.2, rxe0 │
//!  │              │             │         │ dumpcap            │   │ ib_write_bw, …          │
//!  └──────┬───────┘             └──────────────────────────────┘   └───────────▲─────────────┘
//!         └───────────────────── virtio port: "run this" ──────────────────────┘
//! ```
//!
//! Nothing survives the test, however it ends: the namespace has no name and goes with its last
//! process, its holder leaves when our end of a pipe closes, QEMU gets the kernel's parent-death
//! signal, and the guest powers off when the control port hangs up.

pub mod case;
pub mod choice;
pub mod control;
pub mod duel;
mod image;
mod inside;
pub mod judge;
pub mod machine;
pub mod matrix;
pub mod monitor;

pub use inside::Inside;
pub use machine::{Guest, Image};

/// The wire between us and the guest.
pub mod net {
    /// Our end of the wire.
    pub const TAP: &str = "tap0";
    /// Our MAC address, by which a capture tells our frames from the guest's.
    pub const OUR_MAC: [u8; 6] = [0x02, 0, 0, 0, 0x77, 0x01];
    /// The guest's MAC address.
    pub const GUEST_MAC: [u8; 6] = [0x02, 0, 0, 0, 0x77, 0x02];
    /// Our IPv4 address.
    pub const OUR_V4: &str = "192.168.77.1";
    /// The guest's IPv4 address.
    pub const GUEST_V4: &str = "192.168.77.2";
    /// Our IPv6 address.
    pub const OUR_V6: &str = "fd77::1";
    /// The guest's IPv6 address.
    pub const GUEST_V6: &str = "fd77::2";

    /// The guest's `ip`, by its path: busybox's shell takes its own applets for bare names.
    pub const GUEST_IP: &str = "/usr/bin/ip";
    /// The guest's `tc`.
    pub const GUEST_TC: &str = "/usr/sbin/tc";

    /// The link-local address that the kernel makes of a MAC address.
    #[must_use]
    pub fn link_local(mac: [u8; 6]) -> core::net::IpAddr {
        let [a, b, c, d, e, f] = mac.map(u16::from);
        let words = [
            0xfe80,
            0,
            0,
            0,
            (a ^ 2) << 8 | b,
            c << 8 | 0xff,
            0xfe00 | d,
            e << 8 | f,
        ];
        core::net::Ipv6Addr::from(words).into()
    }
}
