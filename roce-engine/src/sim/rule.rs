//! Scripted faults: what happens to the n-th packet that looks like this.

use core::fmt;
use core::time::Duration;

use alloc::boxed::Box;

use roce_wire::Packet;

use crate::sim::net::PortId;

/// What a rule does with a packet.
pub enum Action {
    /// The packet disappears.
    Drop,
    /// The packet arrives twice.
    Duplicate,
    /// The packet is this late, and others overtake it.
    Delay(Duration),
    /// The packet waits until [`Net::release`](crate::sim::Net::release).
    Hold,
    /// The packet arrives marked CE.
    MarkCe,
    /// The bytes, BTH to ICRC, arrive changed.
    Rewrite(fn(&mut [u8])),
}

/// One scripted fault. Packets that it matches escape the random faults.
pub struct Rule {
    from: Option<PortId>,
    matches: Box<dyn Fn(&Packet<'_>) -> bool>,
    skip: u32,
    times: u32,
    pub(crate) action: Action,
}

impl Rule {
    /// Makes a rule for every packet that `matches` accepts.
    pub fn new(action: Action, matches: impl Fn(&Packet<'_>) -> bool + 'static) -> Self {
        Self {
            from: None,
            matches: Box::new(matches),
            skip: 0,
            times: u32::MAX,
            action,
        }
    }

    /// Narrows the rule to what one port sends.
    #[must_use]
    pub const fn from_port(mut self, from: PortId) -> Self {
        self.from = Some(from);
        self
    }

    /// Lets the first `skip` matching packets pass.
    #[must_use]
    pub const fn after(mut self, skip: u32) -> Self {
        self.skip = skip;
        self
    }

    /// Ends the rule after this many packets.
    #[must_use]
    pub const fn times(mut self, times: u32) -> Self {
        self.times = times;
        self
    }

    /// Narrows the rule to one packet, the first that matches.
    #[must_use]
    pub const fn once(self) -> Self {
        self.times(1)
    }

    /// Returns how many packets the rule may still take.
    pub const fn left(&self) -> u32 {
        self.times
    }

    pub(crate) fn takes(&mut self, from: PortId, packet: &Packet<'_>) -> bool {
        if self.times == 0 || self.from.is_some_and(|port| port != from) || !(self.matches)(packet)
        {
            return false;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        self.times -= 1;
        true
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("from", &self.from)
            .field("skip", &self.skip)
            .field("times", &self.times)
            .finish_non_exhaustive()
    }
}
