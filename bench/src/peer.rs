//! The other end: perftest's exchange over TCP, as client and as server, announcing version 6.20.
//!
//! [`Exchange`] speaks single messages, [`Session`] puts them in the order of each test. Every wait is bounded,
//! names its stage when it fails, and calls back while it lasts so that the caller's device keeps turning.

mod channel;
mod connect;
mod exchange;
mod gone;
mod handshake;
mod message;
mod nat;
mod sequence;
mod stream;

use roce_engine::verbs::{Gid, Mtu, Psn, Qpn, RKey};

pub(crate) use channel::DIFFERING;
pub use channel::{QUIET_BOUND, Stage};
pub use connect::{Listener, connect};
pub use exchange::Exchange;
pub use gone::{GONE, Gone};
pub use message::{BwReport, Version};
pub use nat::address_note;
pub use sequence::Session;
pub use stream::{Interest, Stream};

/// What a callback did while the peer was waited for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Idle {
    /// Traffic moved: the bound of a wait during the test starts anew; looks again at once.
    Progress,
    /// Nothing moved; looks again at once.
    Spin,
    /// Nothing moves; may sleep up to a millisecond.
    Rest,
}

/// What the peer has done on TCP that was not read yet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Word {
    /// Nothing.
    None,
    /// It has sent a message. It may have closed its end after that.
    Spoke,
    /// It has closed its end.
    Closed,
}

/// Called again and again while the peer is waited for. An error ends the wait.
pub type OnIdle<'a> = &'a mut dyn FnMut() -> anyhow::Result<Idle>;

/// Does nothing while waiting: for the time before there is a device.
///
/// # Errors
/// Never.
pub const fn rest() -> anyhow::Result<Idle> {
    Ok(Idle::Rest)
}

/// What a QP needs to know about the one at the other end.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Endpoint {
    /// The port's LID, 0 for RoCE.
    pub lid: u16,
    /// How many READs and atomics this end answers at a time.
    pub out: u16,
    /// The QP.
    pub qpn: Qpn,
    /// The first PSN that it sends.
    pub psn: Psn,
    /// The key of its target memory.
    pub rkey: RKey,
    /// The address of its target memory.
    pub vaddr: u64,
    /// Its address.
    pub gid: Gid,
    /// A shared receive queue's number, 0 without XRC.
    pub srqn: u32,
}

/// What an end says about its machine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Params {
    /// Bytes of a page, which perftest takes as the size of the buffer that small messages walk through.
    pub page: u32,
    /// Bytes of a cache line.
    pub cache_line: u32,
    /// The path MTU that it would use.
    pub mtu: Mtu,
}

impl Params {
    /// Returns what this machine says, for a path MTU.
    pub fn of_this_machine(mtu: Mtu) -> Self {
        let line = std::fs::read_to_string(
            "/sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size",
        );
        let cache_line = line
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .filter(|line| message::CACHE_LINES.contains(line))
            .unwrap_or(64);
        let page = u32::try_from(rustix::param::page_size()).unwrap_or(4096);
        Self {
            page,
            cache_line,
            mtu,
        }
    }

    /// Returns what both ends use: the larger page and line, the smaller path MTU.
    #[must_use]
    pub fn agreed_with(self, peer: Self) -> Self {
        Self {
            page: self.page.max(peer.page),
            cache_line: self.cache_line.max(peer.cache_line),
            mtu: self.mtu.min(peer.mtu),
        }
    }
}

#[cfg(test)]
mod tests;
