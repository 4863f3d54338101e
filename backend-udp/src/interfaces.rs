//! The machine's network interfaces, their addresses and GID tables.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;

use roce_engine::verbs::PortAttr;
use roce_wire::Mtu;

use crate::error::OpenError;
use crate::sys::{self, RawAddress, RawKind};

/// A network interface.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its index, the scope of its link-local addresses.
    pub index: u32,
    /// Whether it is up and has a carrier.
    pub active: bool,
    /// Whether it was set up; without a carrier nothing is at the other end of its cable.
    pub up: bool,
    /// Whether it is the loopback interface.
    pub loopback: bool,
    /// Its MTU.
    pub mtu: usize,
    /// Its addresses in the order of its GID table.
    pub addresses: Vec<IpAddr>,
    /// For each address the bits of its network's prefix.
    prefixes: Vec<u32>,
}

impl Interface {
    /// Lists the interfaces in the kernel's order. Addresses that are not ready are left out.
    ///
    /// # Errors
    ///
    /// The system does not list them.
    pub fn all() -> Result<Vec<Self>, OpenError> {
        let rows = sys::addresses().map_err(OpenError::system("list the network interfaces"))?;
        // Any socket of this network namespace will do to ask for an MTU.
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
            .or_else(|_| UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)))
            .map_err(OpenError::system("create a UDP socket"))?;
        let unready = unready_addresses();
        let mut interfaces = Vec::new();
        for row in &rows {
            if let RawKind::Link { index, mac } = &row.kind {
                let mtu = sys::interface_mtu(socket.as_fd(), &row.interface)
                    .map_err(OpenError::system(format!("MTU of {}", row.interface)))?;
                interfaces.push(Self::assemble(row, *index, mac, mtu, &rows, &unready));
            }
        }
        Ok(interfaces)
    }

    fn assemble(
        link: &RawAddress,
        index: u32,
        mac: &[u8],
        mtu: usize,
        rows: &[RawAddress],
        unready: &[(u32, Ipv6Addr)],
    ) -> Self {
        let mut pairs: Vec<(IpAddr, u32)> = Vec::new();
        for row in rows.iter().filter(|row| row.interface == link.interface) {
            if let RawKind::Ip { address, mask } = row.kind {
                let ready = !matches!(address, IpAddr::V6(v6) if unready.contains(&(index, v6)));
                if ready && !pairs.iter().any(|(known, _)| *known == address) {
                    pairs.push((address, ones(mask)));
                }
            }
        }
        // As the kernel's GID tables do: the default GID first.
        let default = eui64_link_local(mac).map(IpAddr::V6);
        pairs.sort_by_key(|(address, _)| Some(*address) != default);
        // IFF_RUNNING follows the carrier up to a second late.
        let up = (libc::IFF_UP | libc::IFF_LOWER_UP) as u32;
        let (addresses, prefixes) = pairs.into_iter().unzip();
        Self {
            name: link.interface.clone(),
            index,
            active: link.flags & up == up,
            up: link.flags & libc::IFF_UP as u32 != 0,
            loopback: link.flags & libc::IFF_LOOPBACK as u32 != 0,
            mtu,
            addresses,
            prefixes,
        }
    }

    /// Returns the interface of this name.
    ///
    /// # Errors
    ///
    /// There is none; the error lists those that there are.
    pub fn named(name: &str) -> Result<Self, OpenError> {
        let all = Self::all()?;
        let known = all.iter().map(|one| one.name.as_str()).collect::<Vec<_>>();
        let known = known.join(", ");
        all.into_iter()
            .find(|one| one.name == name)
            .ok_or_else(|| OpenError::NoInterface {
                name: name.to_owned(),
                known,
            })
    }

    /// Returns the interface that has this address, or on loopback its network.
    ///
    /// # Errors
    ///
    /// No interface has it.
    pub fn with_address(address: IpAddr) -> Result<Self, OpenError> {
        let address = address.to_canonical();
        let mut all = Self::all()?;
        let found = all
            .iter()
            .position(|one| one.addresses.contains(&address))
            .or_else(|| {
                all.iter()
                    .position(|one| one.loopback && one.covers(address))
            });
        let Some(found) = found else {
            return Err(OpenError::NotLocal { address });
        };
        let mut interface = all.swap_remove(found);
        if !interface.addresses.contains(&address) {
            interface.addresses.push(address);
            interface.prefixes.push(0);
        }
        Ok(interface)
    }

    /// Returns the local address and the interface that packets to `remote` leave from.
    ///
    /// # Errors
    ///
    /// There is no route.
    pub fn routing_to(remote: SocketAddr) -> Result<(IpAddr, Self), OpenError> {
        let any: IpAddr = match remote {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let route = || -> io::Result<IpAddr> {
            let socket = UdpSocket::bind((any, 0))?;
            socket.connect(remote)?;
            Ok(socket.local_addr()?.ip())
        };
        let local = route().map_err(OpenError::system(format!("route to {}", remote.ip())))?;
        Ok((local, Self::with_address(local)?))
    }

    /// Returns whether a network of this interface contains `address`.
    pub fn covers(&self, address: IpAddr) -> bool {
        let pairs = self.addresses.iter().zip(&self.prefixes);
        pairs
            .filter(|(own, prefix)| own.is_ipv4() == address.is_ipv4() && **prefix > 0)
            .any(|(own, prefix)| {
                let shift = 128 - prefix - if own.is_ipv4() { 96 } else { 0 };
                (bits(*own) ^ bits(address)) >> shift == 0
            })
    }

    /// Returns the port of a device on this interface.
    ///
    /// # Errors
    ///
    /// Its MTU carries no RoCE packet.
    pub fn port(&self) -> Result<PortAttr, OpenError> {
        let active_mtu = Mtu::fitting(self.mtu).ok_or_else(|| OpenError::MtuTooSmall {
            name: self.name.clone(),
            mtu: self.mtu,
        })?;
        let addresses = self
            .addresses
            .iter()
            .map(|address| (*address, self.name.clone()));
        Ok(PortAttr::roce(self.active, active_mtu, addresses))
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn ones(mask: IpAddr) -> u32 {
    bits(mask).count_ones()
}

fn eui64_link_local(mac: &[u8]) -> Option<Ipv6Addr> {
    let &[a, b, c, d, e, f] = mac else {
        return None;
    };
    let octets = [
        0xfe,
        0x80,
        0,
        0,
        0,
        0,
        0,
        0,
        a ^ 2,
        b,
        c,
        0xff,
        0xfe,
        d,
        e,
        f,
    ];
    Some(Ipv6Addr::from(octets))
}

/// Lists the IPv6 addresses that can't be bound: duplicate address detection runs or has failed.
fn unready_addresses() -> Vec<(u32, Ipv6Addr)> {
    let table = std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    table.lines().filter_map(unready_row).collect()
}

fn unready_row(line: &str) -> Option<(u32, Ipv6Addr)> {
    const TENTATIVE: u32 = 0x40;
    const DUPLICATE: u32 = 0x08;
    const OPTIMISTIC: u32 = 0x04;
    let mut words = line.split_ascii_whitespace();
    let address = u128::from_str_radix(words.next()?, 16).ok()?;
    let index = u32::from_str_radix(words.next()?, 16).ok()?;
    let flags = u32::from_str_radix(words.nth(2)?, 16).ok()?;
    let tentative = flags & TENTATIVE != 0 && flags & OPTIMISTIC == 0;
    let unready = tentative || flags & DUPLICATE != 0;
    unready.then(|| (index, Ipv6Addr::from_bits(address)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_the_two_rows_that_scripts_count_on() {
        let lo = Interface::named("lo").unwrap();
        let port = lo.port().unwrap();
        assert_eq!(port.active_mtu, Mtu::B4096);
        let gids: Vec<_> = port.gids.iter().map(|row| row.gid.to_string()).collect();
        assert_eq!(gids[..2], ["::ffff:127.0.0.1", "::1"]);
        assert!(port.gids.iter().all(|row| row.netdev == "lo"));
    }

    #[test]
    fn an_address_of_the_loopback_network_gets_a_row_of_its_own() {
        let address: IpAddr = "127.9.8.7".parse().unwrap();
        let lo = Interface::with_address(address).unwrap();
        assert_eq!(lo.name, "lo");
        assert_eq!(lo.addresses.last(), Some(&address));
        let foreign = Interface::with_address("192.0.2.254".parse().unwrap());
        assert!(matches!(foreign, Err(OpenError::NotLocal { .. })));
    }

    #[test]
    fn the_route_to_a_local_address_starts_at_it() {
        let (local, interface) = Interface::routing_to("127.0.0.1:4791".parse().unwrap()).unwrap();
        assert_eq!(local, IpAddr::V4(Ipv4Addr::LOCALHOST));
        assert!(interface.loopback && interface.active);
    }

    #[test]
    fn an_unknown_interface_is_answered_with_the_known_ones() {
        let error = Interface::named("nosuch0").unwrap_err().to_string();
        assert!(
            error.contains("\"nosuch0\"") && error.contains("lo"),
            "{error}"
        );
    }

    #[test]
    fn the_eui64_address_comes_first_and_a_tentative_one_not_at_all() {
        let row = |kind| RawAddress {
            interface: "eth7".to_owned(),
            flags: (libc::IFF_UP | libc::IFF_LOWER_UP) as u32,
            kind,
        };
        let ip = |address: &str, mask: &str| RawKind::Ip {
            address: address.parse().unwrap(),
            mask: mask.parse().unwrap(),
        };
        let mac = [2, 0xfc, 0, 0, 0, 1];
        let ones = "ffff:ffff:ffff:ffff::";
        let rows = [
            row(ip("10.7.0.1", "255.255.255.0")),
            row(ip("fd00::7", ones)),
            row(ip("fd00::8", ones)),
            row(ip("fe80::fc:ff:fe00:1", ones)),
        ];
        let tentative = "fd000000000000000000000000000008 09 40 00 40 eth7";
        let unready = [unready_row(tentative).unwrap()];
        let link = row(RawKind::Link {
            index: 9,
            mac: mac.to_vec(),
        });
        let one = Interface::assemble(&link, 9, &mac, 1500, &rows, &unready);
        let text: Vec<_> = one.addresses.iter().map(IpAddr::to_string).collect();
        assert_eq!(text, ["fe80::fc:ff:fe00:1", "10.7.0.1", "fd00::7"]);
        assert!(one.covers("10.7.0.200".parse().unwrap()));
        assert!(!one.covers("10.7.1.1".parse().unwrap()));
        assert!(!one.covers("fd01::7".parse().unwrap()));
        assert_eq!(one.port().unwrap().active_mtu, Mtu::B1024);
    }
}
