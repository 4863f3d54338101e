//! The interface of a link: its state, its addresses and its GID table.

use core::net::{IpAddr, Ipv6Addr};
use std::io;

use roce_engine::verbs::PortAttr;
use roce_wire::{Mac, Mtu};

use crate::config::Config;
use crate::error::OpenError;
use crate::netlink::{Interface, Netlink};
use crate::program::InPlace;

/// An address that this end has, and on which VLAN.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Own {
    pub(crate) address: IpAddr,
    pub(crate) vlan: Option<u16>,
    /// The interface that has it: ours, or a VLAN on top of it.
    netdev: String,
}

#[cfg(test)]
impl Own {
    pub(crate) fn new(address: IpAddr, vlan: Option<u16>) -> Self {
        let netdev = String::new();
        Self {
            address,
            vlan,
            netdev,
        }
    }
}

/// An interface, and the VLANs on top of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Netdev {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) mac: Mac,
    pub(crate) mtu: usize,
    pub(crate) active: bool,
    /// What kind of virtual interface it is; empty for a real one.
    pub(crate) kind: String,
    pub(crate) queues: u32,
    pub(crate) program: Option<InPlace>,
    /// Whether it takes VLAN tags off what it receives.
    pub(crate) strips_tags: bool,
    /// In the order of the GID table.
    pub(crate) own: Vec<Own>,
    /// Indices of VLAN interfaces on top, and their VLANs.
    vlans: Vec<(u32, u16)>,
}

impl Netdev {
    /// Looks an interface up.
    ///
    /// # Errors
    ///
    /// There is none of this name, or no frame can be sent from it.
    pub(crate) fn named(name: &str, netlink: &mut Netlink) -> Result<Self, OpenError> {
        let list = OpenError::system("list the network interfaces");
        let all = netlink.interfaces().map_err(list)?;
        let Some(found) = all.iter().find(|one| one.name == name) else {
            let known: Vec<_> = all.iter().map(|one| one.name.as_str()).collect();
            return Err(OpenError::NoInterface {
                name: name.to_owned(),
                known: known.join(", "),
            });
        };
        if !found.ethernet {
            let name = name.to_owned();
            return Err(OpenError::NotEthernet { name });
        }
        let mut netdev = Self::of(found);
        let what = format!("list the addresses of {name}");
        netdev
            .refresh(&all, netlink)
            .map_err(OpenError::system(what))?;
        Ok(netdev)
    }

    fn of(one: &Interface) -> Self {
        Self {
            index: one.index,
            name: one.name.clone(),
            mac: one.mac,
            mtu: one.mtu,
            active: one.active,
            kind: one.kind.clone(),
            queues: one.queues,
            program: one.program,
            strips_tags: false,
            own: Vec::new(),
            vlans: Vec::new(),
        }
    }

    /// Looks its addresses up again.
    pub(crate) fn reload(&mut self, netlink: &mut Netlink) -> io::Result<()> {
        let all = netlink.interfaces()?;
        self.refresh(&all, netlink)
    }

    fn refresh(&mut self, all: &[Interface], netlink: &mut Netlink) -> io::Result<()> {
        let on_top = |one: &&Interface| one.vlan.is_some_and(|(below, _)| below == self.index);
        let members = all.iter().filter(|one| one.index == self.index);
        let members: Vec<_> = members.chain(all.iter().filter(on_top)).collect();
        let rows = netlink.addresses()?;
        let mut own: Vec<Own> = Vec::new();
        for member in &members {
            let first = own.len();
            for row in rows.iter().filter(|row| row.index == member.index) {
                if row.ready {
                    own.push(Own {
                        address: row.address,
                        vlan: member
                            .vlan
                            .filter(|_| member.index != self.index)
                            .map(|v| v.1),
                        netdev: member.name.clone(),
                    });
                }
            }
            // As the kernel's GID tables do: the default GID first.
            let default = IpAddr::V6(eui64_link_local(member.mac));
            own[first..].sort_by_key(|row| row.address != default);
        }
        self.strips_tags = crate::sys::strips_vlan_tags(&self.name);
        self.own = own;
        self.vlans = members
            .iter()
            .filter(|one| one.index != self.index)
            .filter_map(|one| Some((one.index, one.vlan?.1)))
            .collect();
        Ok(())
    }

    /// Refuses what can't work, before anything is made.
    ///
    /// # Errors
    ///
    /// It is down, has no such queue, has no address where it should be `addressed`, or carries no
    /// RoCE packet.
    pub(crate) fn check(&self, config: &Config, addressed: bool) -> Result<(), OpenError> {
        let name = || self.name.clone();
        if !self.active {
            return Err(OpenError::Down { name: name() });
        }
        if config.queue >= self.queues {
            return Err(OpenError::NoQueue {
                name: name(),
                queue: config.queue,
                queues: self.queues,
            });
        }
        if addressed && self.own.is_empty() {
            return Err(OpenError::NoAddress { name: name() });
        }
        self.port(Mtu::B4096).map(drop)
    }

    /// Follows what the kernel announces of the interface; returns whether it concerns packets.
    pub(crate) fn follow(&mut self, one: &Interface) -> bool {
        let before = (self.mac, self.active, self.mtu);
        (self.mac, self.active, self.mtu) = (one.mac, one.active, one.mtu);
        before != (self.mac, self.active, self.mtu)
    }

    /// Returns the VLAN of packets that leave from an interface, if they leave through ours:
    /// nothing inside for untagged ones.
    pub(crate) fn vlan_of(&self, index: u32) -> Option<Option<u16>> {
        if index == self.index {
            return Some(None);
        }
        let mut vlans = self.vlans.iter();
        vlans
            .find(|(one, _)| *one == index)
            .map(|(_, id)| Some(*id))
    }

    /// Returns whether an index is that of our interface or of a VLAN on top of it.
    pub(crate) fn concerns(&self, one: &Interface) -> bool {
        one.index == self.index || one.vlan.is_some_and(|(below, _)| below == self.index)
    }

    /// Returns whether it is an interface without hardware.
    pub(crate) fn is_virtual(&self) -> bool {
        !self.kind.is_empty()
    }

    /// Returns the port of a device on this interface that carries path MTUs up to `limit`.
    ///
    /// # Errors
    ///
    /// Its MTU carries no RoCE packet.
    pub(crate) fn port(&self, limit: Mtu) -> Result<PortAttr, OpenError> {
        let carried = Mtu::fitting(self.mtu).ok_or_else(|| OpenError::MtuTooSmall {
            name: self.name.clone(),
            mtu: self.mtu,
        })?;
        let addresses = self.own.iter().map(|own| (own.address, own.netdev.clone()));
        Ok(PortAttr::roce(self.active, carried.min(limit), addresses))
    }
}

fn eui64_link_local(Mac([a, b, c, d, e, f]): Mac) -> Ipv6Addr {
    let word = |high, low| u16::from_be_bytes([high, low]);
    Ipv6Addr::new(
        0xfe80,
        0,
        0,
        0,
        word(a ^ 2, b),
        word(c, 0xff),
        word(0xfe, d),
        word(e, f),
    )
}
