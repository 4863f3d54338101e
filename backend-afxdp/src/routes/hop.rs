//! The next hop of packets between two addresses.

use core::net::IpAddr;
use std::io;
use std::time::Instant;

use roce_wire::Mac;

use crate::netdev::Netdev;
use crate::netlink::{Netlink, Reach};

/// Where a neighbour is, as far as is known.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// There.
    Known {
        /// Its address.
        mac: Mac,
        /// The VLAN that it is on.
        vlan: Option<u16>,
    },
    /// The kernel is asking.
    Asked {
        /// Since then.
        since: Instant,
    },
    /// It doesn't answer.
    Silent,
    /// There is no way: why, for a person.
    Nowhere(String),
}

/// A neighbour that packets are handed to.
#[derive(Clone, Copy, Debug)]
struct Next {
    /// The interface: ours or a VLAN on top of it.
    index: u32,
    ip: IpAddr,
    vlan: Option<u16>,
}

/// The next hop between two addresses.
#[derive(Debug)]
pub(super) struct Hop {
    local: IpAddr,
    pub(super) remote: IpAddr,
    next: Option<Next>,
    place: Place,
    /// The kernel has confirmed it lately.
    sure: bool,
    /// It has to be looked up.
    unknown: bool,
    /// The longest IP packet that the route carries.
    pub(super) limit: usize,
}

impl Hop {
    pub(super) fn new(local: IpAddr, remote: IpAddr) -> Self {
        Self {
            local,
            remote,
            next: None,
            place: Place::Silent,
            sure: false,
            unknown: true,
            limit: usize::MAX,
        }
    }

    pub(super) const fn place(&self) -> &Place {
        &self.place
    }

    pub(super) fn next_ip(&self) -> Option<IpAddr> {
        self.next.map(|next| next.ip)
    }

    pub(super) const fn needs_look_up(&self) -> bool {
        self.unknown
    }

    pub(super) const fn is_waiting(&self) -> bool {
        matches!(self.place, Place::Asked { .. })
    }

    pub(super) fn is_neighbour(&self, index: u32, ip: IpAddr) -> bool {
        self.next
            .is_some_and(|next| next.index == index && next.ip == ip)
    }

    /// Forgets where it is.
    pub(super) const fn forget(&mut self) {
        self.unknown = true;
    }

    /// Asks the kernel for the route and the neighbour.
    pub(super) fn look_up(&mut self, netdev: &Netdev, netlink: &mut Netlink) {
        self.unknown = false;
        self.place = match self.try_look_up(netdev, netlink) {
            Ok(place) => place,
            Err(error) => Place::Nowhere(format!(
                "no route from {} to {}: {error}",
                self.local, self.remote
            )),
        };
    }

    fn try_look_up(&mut self, netdev: &Netdev, netlink: &mut Netlink) -> io::Result<Place> {
        self.next = None;
        let (local, remote) = (self.local, self.remote);
        let route = netlink.route(local, remote)?;
        if route.is_local {
            return Ok(Place::Nowhere(format!(
                "{remote} is an address of this machine, and its packets never reach {}: use -d udp",
                netdev.name
            )));
        }
        let Some(vlan) = netdev.vlan_of(route.index) else {
            return Ok(Place::Nowhere(format!(
                "packets to {remote} leave from another interface than {} (ip route get {remote})",
                netdev.name
            )));
        };
        self.limit = route.mtu.map_or(usize::MAX, |mtu| mtu as usize);
        let next = Next {
            index: route.index,
            ip: route.gateway.unwrap_or(remote),
            vlan,
        };
        self.next = Some(next);
        let known = netlink.neighbour(next.index, next.ip)?;
        let reach = known.map(|neighbour| neighbour.reach);
        match reach {
            Some(Reach::At { mac, sure }) => {
                self.sure = sure;
                Ok(Place::Known {
                    mac,
                    vlan: next.vlan,
                })
            }
            _ => {
                netlink.use_neighbour(next.index, next.ip)?;
                Ok(Place::Asked {
                    since: Instant::now(),
                })
            }
        }
    }

    /// Takes what the kernel has learnt; returns whether headers have to change.
    pub(super) fn learn(&mut self, reach: Reach) -> bool {
        let Some(next) = self.next else { return false };
        match reach {
            Reach::At { mac, sure } => {
                self.sure = sure;
                self.unknown = false;
                let before = match self.place {
                    Place::Known { mac, .. } => Some(mac),
                    _ => None,
                };
                self.place = Place::Known {
                    mac,
                    vlan: next.vlan,
                };
                before != Some(mac)
            }
            Reach::Silent => {
                self.place = Place::Silent;
                true
            }
            Reach::Asked => false,
        }
    }

    /// Has the kernel look again at a neighbour that it isn't sure of, as its own traffic would.
    pub(super) fn remind(&mut self, netlink: &mut Netlink) {
        let stale = !self.sure && matches!(self.place, Place::Known { .. });
        let silent = matches!(self.place, Place::Silent | Place::Asked { .. });
        if let Some(next) = self.next.filter(|_| stale || silent) {
            // If this fails the interface is down or gone, which is announced by itself.
            let _asked = netlink.use_neighbour(next.index, next.ip);
        }
        if matches!(self.place, Place::Nowhere(_)) {
            self.unknown = true;
        }
    }
}
