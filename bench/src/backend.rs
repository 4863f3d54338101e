//! Which device a run uses: `-d`, or what routes to the peer.

mod conflict;
mod device;
mod rdma;

pub(crate) use rdma::relaxed_ordering_warning;

use core::net::{IpAddr, Ipv4Addr};

use anyhow::Result;
use backend_afxdp::XskLink;
use backend_udp::{Config, Endpoint, Interface, Local, OpenError, UdpLink};
use backend_verbs::VerbsDevice;
use roce_engine::link::Link;
use roce_engine::verbs::{Gid, GidEntry, GidKind, LinkLayer, Mtu, PortAttr};

use crate::exit::{environment, usage};
use crate::spec::Spec;
use device::{Device, Kind};

pub use conflict::{hardware_takes, kernel_owns_the_port};

/// The device of a run, before it is opened.
#[derive(Debug)]
pub struct Choice {
    kind: Kind,
    /// The link of an AF_XDP device, which is open early: only then its path MTU is known.
    xsk: Option<XskLink>,
    /// An RDMA device, which is open early for the same reason.
    rdma: Option<VerbsDevice>,
    /// How the link runs, if there is something to say about that.
    how: Option<String>,
    /// The name of the interface or RDMA device.
    name: String,
    /// What limits its path MTU, in words.
    limit: String,
    port: PortAttr,
    /// Our address of the TCP connection.
    local: IpAddr,
    why: String,
}

/// An open device, or the link that one is made of.
#[derive(Debug)]
pub enum Opened {
    /// Over UDP sockets.
    Udp(Box<UdpLink>),
    /// Over an AF_XDP socket.
    Xsk(Box<XskLink>),
    /// An RDMA device.
    Rdma(Box<VerbsDevice>),
}

/// Refuses a device that cannot be, before anybody is waited for.
///
/// # Errors
///
/// This version has no such backend, this machine no such interface, that no such path MTU or GID, or this process
/// no such privilege.
pub fn check(spec: &Spec) -> Result<()> {
    let device = Device::parse(spec)?;
    if device.kind == Kind::Verbs {
        rdma::moves_packets_itself(spec)?;
        return without_peer(spec);
    }
    let Some(name) = &device.interface else {
        return Ok(());
    };
    let failed = |error: String| environment(format!("-d {}:{name}: {error}", device.kind));
    match device.kind {
        Kind::Udp | Kind::Verbs => {
            Interface::named(name).map_err(|error| failed(error.to_string()))?;
            without_peer(spec)
        }
        Kind::Afxdp { .. } => backend_afxdp::check(&device.xsk_config(spec, name))
            .map_err(|error| failed(error.to_string())),
    }
}

/// Checks what does not depend on the peer.
fn without_peer(spec: &Spec) -> Result<()> {
    let choice = Choice::new(spec, IpAddr::V4(Ipv4Addr::UNSPECIFIED))?;
    choice.mtu(spec)?;
    if spec.gid_index.is_some() {
        choice.gid(spec, None)?;
    }
    Ok(())
}

impl Choice {
    /// Chooses the device of a run whose TCP connection has the address `local` here.
    ///
    /// # Errors
    ///
    /// There is no such interface, or it carries no RoCE packet, or it is down or has no carrier.
    pub fn new(spec: &Spec, local: IpAddr) -> Result<Self> {
        let local = local.to_canonical();
        let device = Device::parse(spec)?;
        if device.kind == Kind::Verbs {
            return Self::rdma(&device, spec, local);
        }
        let (interface, why) = match &device.interface {
            Some(name) => (Interface::named(name), String::from("-d names it")),
            None => (
                Interface::with_address(local),
                format!("the connection to the peer has its address {local}"),
            ),
        };
        let interface = interface.map_err(|error| environment(error.to_string()))?;
        let mut choice = Self {
            kind: device.kind,
            xsk: None,
            rdma: None,
            how: hardware_takes(&interface.name),
            port: interface
                .port()
                .map_err(|error| environment(error.to_string()))?,
            name: interface.name.clone(),
            limit: format!("interface {} (MTU {})", interface.name, interface.mtu),
            local,
            why,
        };
        match device.kind {
            Kind::Udp | Kind::Verbs => usable(&interface)?,
            Kind::Afxdp { .. } => choice.open_xsk(&device, spec)?,
        }
        Ok(choice)
    }

    fn open_xsk(&mut self, device: &Device, spec: &Spec) -> Result<()> {
        let config = device.xsk_config(spec, &self.name);
        let link = XskLink::open(&config).map_err(|error| environment(error.to_string()))?;
        self.port = link.port().clone();
        self.how = Some(link.describe());
        self.xsk = Some(link);
        Ok(())
    }

    /// Returns the path MTU to propose: `-m`, or the largest that the interface carries.
    ///
    /// # Errors
    ///
    /// `-m` is larger than that.
    pub fn mtu(&self, spec: &Spec) -> Result<Mtu> {
        let most = self.port.active_mtu;
        match spec.mtu {
            Some(mtu) if mtu > most => Err(usage(format!(
                "-m {}: {} carries {} at most",
                mtu.bytes(),
                self.limit,
                most.bytes()
            ))),
            Some(mtu) => Ok(mtu),
            None => Ok(most),
        }
    }

    /// Chooses the row of the GID table: `-x`, else the family that the peer has or that was asked for, and of
    /// that the address of the TCP connection before others.
    ///
    /// # Errors
    ///
    /// There is no such row.
    pub fn gid(&self, spec: &Spec, peer: Option<Gid>) -> Result<GidEntry> {
        let rows = &self.port.gids;
        if let Some(index) = spec.gid_index {
            let row = rows
                .iter()
                .find(|row| row.index == index)
                .ok_or_else(|| usage(format!("-x {index}: {}", self.table())))?;
            if spec.ipv6 && row.gid.is_ipv4() {
                return Err(usage(format!(
                    "-x {index} is an IPv4 GID and --ipv6 asks for one of IPv6: leave one of the two out; {}",
                    self.table()
                )));
            }
            return Ok(row.clone());
        }
        if self.port.link_layer == LinkLayer::InfiniBand {
            return Ok(rdma::by_lid());
        }
        let ipv6 = match peer {
            _ if spec.ipv6 => true,
            Some(gid) => !gid.is_ipv4(),
            None => self.local.is_ipv6(),
        };
        let own = Gid::from_ip(self.local);
        rows.iter()
            .filter(|row| row.kind == GidKind::RoceV2 && row.gid.is_ipv4() != ipv6)
            .max_by_key(|row| {
                // The first of equals: `max_by_key` would take the last.
                let order = u8::MAX - row.index;
                (row.gid == own, !is_link_local(row.gid), order)
            })
            .cloned()
            .ok_or_else(|| {
                let family = if ipv6 { "IPv6" } else { "IPv4" };
                environment(format!("no {family} GID: {}", self.table()))
            })
    }

    fn table(&self) -> String {
        let rows: Vec<String> = self
            .port
            .gids
            .iter()
            .map(|row| format!("{} {}", row.index, row.gid.to_ip()))
            .collect();
        format!(
            "the GID table of {} has: {}",
            self.name,
            if rows.is_empty() {
                String::from("nothing")
            } else {
                rows.join(", ")
            }
        )
    }

    /// Opens the link on the address of a row. Returns it with that GID's row in the link's own table.
    ///
    /// # Errors
    ///
    /// UDP port 4791 is taken there, the system refuses a socket, or the address has just gone.
    pub fn open(&mut self, spec: &Spec, row: &GidEntry) -> Result<(Opened, GidEntry)> {
        if let Some(link) = self.xsk.take() {
            return Ok((Opened::Xsk(Box::new(link)), row.clone()));
        }
        if let Some(device) = self.rdma.take() {
            return Ok((Opened::Rdma(Box::new(device)), row.clone()));
        }
        let role = if spec.is_client() {
            Endpoint::Client
        } else {
            Endpoint::Server
        };
        let address = row.gid.to_ip();
        let link = UdpLink::open(Config::new(Local::Address(address), role)).map_err(|error| {
            let hint = match error {
                OpenError::Shared { .. } | OpenError::InUse { .. } => other_loopback(spec, address),
                _ => "",
            };
            environment(format!("{error}{hint}"))
        })?;
        let row = row_of(link.port(), row.gid)
            .ok_or_else(|| environment(format!("{} lost its address {}", self.name(), row.gid)))?;
        Ok((Opened::Udp(Box::new(link)), row))
    }

    /// Returns the device's name, as `-d` takes it.
    pub fn name(&self) -> String {
        match self.kind {
            Kind::Afxdp { queue } if queue > 0 => {
                format!("{}:{}:{queue}", self.kind, self.name)
            }
            _ => format!("{}:{}", self.kind, self.name),
        }
    }

    /// Returns the name of its interface.
    pub fn interface(&self) -> &str {
        &self.name
    }

    /// Returns whether it is InfiniBand or Ethernet.
    pub const fn link_layer(&self) -> LinkLayer {
        self.port.link_layer
    }

    /// Returns what was chosen and why, in one line.
    pub fn reason(&self, row: &GidEntry) -> String {
        let how = self.how.as_ref();
        let address = if row.gid == Gid::default() {
            format!("LID {:#06x}", self.port.lid)
        } else {
            format!("GID index {} ({})", row.index, row.gid.to_ip())
        };
        format!(
            "device {}: {}; {address}{}",
            self.name(),
            self.why,
            how.map_or_else(String::new, |how| format!("; {how}"))
        )
    }
}

/// Names another address where there always is one.
fn other_loopback(spec: &Spec, taken: IpAddr) -> &'static str {
    match (taken, spec.is_client()) {
        (IpAddr::V4(v4), _) if !v4.is_loopback() => "",
        (IpAddr::V6(_), _) => "",
        (_, true) => {
            "; all of 127.0.0.0/8 is this machine: connect to 127.0.0.2, or --lab --bind_source_ip 127.0.0.2"
        }
        (_, false) => "; all of 127.0.0.0/8 is this machine: let the client connect to 127.0.0.2",
    }
}

/// Refuses an interface that moves no packets.
fn usable(interface: &Interface) -> Result<()> {
    let name = &interface.name;
    match (interface.active, interface.up) {
        (true, _) => Ok(()),
        (false, true) => Err(environment(format!(
            "interface {name} has no carrier: plug its cable in, or set the other end up"
        ))),
        (false, false) => Err(environment(format!(
            "interface {name} is down: ip link set {name} up"
        ))),
    }
}

/// Returns the row of a GID. Numbers move when an address comes or goes, or when a new interface's link-local
/// address passes its duplicate check: only the GID itself names the same thing in two tables.
fn row_of(port: &PortAttr, gid: Gid) -> Option<GidEntry> {
    port.gids.iter().find(|row| row.gid == gid).cloned()
}

fn is_link_local(gid: Gid) -> bool {
    match gid.to_ip() {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::status_of;
    use crate::spec::Test;

    fn spec(device: &str) -> Spec {
        Spec {
            device: Some(device.to_owned()),
            ..Spec::new(Test::ALL[0])
        }
    }

    #[test]
    fn backends_that_are_not_here_are_refused_by_name() {
        for device in ["afxdp:nosuch0", "verbs:mlx5_0", "sim", "dpdk:0", "nosuch0"] {
            let error = check(&spec(device)).unwrap_err();
            assert_eq!(status_of(&error), crate::exit::ENVIRONMENT, "{device}");
            assert!(error.to_string().contains(device), "{error}");
        }
        for device in ["udp", "udp:lo", "lo"] {
            check(&spec(device)).unwrap();
        }
    }

    #[test]
    fn an_interface_that_is_up_may_have_no_carrier() {
        let mut interface = Interface::named("lo").unwrap();
        usable(&interface).unwrap();
        interface.active = false;
        let error = usable(&interface).unwrap_err();
        assert!(error.to_string().contains("lo has no carrier"), "{error}");
        interface.up = false;
        let error = usable(&interface).unwrap_err();
        assert!(error.to_string().contains("ip link set lo up"), "{error}");
        assert_eq!(status_of(&error), crate::exit::ENVIRONMENT);
    }

    #[test]
    fn the_row_follows_the_connection_and_the_peer() {
        let plain = spec("udp");
        let choice = Choice::new(&plain, "127.0.0.1".parse().unwrap()).unwrap();
        assert_eq!(choice.name(), "udp:lo");
        assert_eq!(choice.gid(&plain, None).unwrap().index, 0);
        let v6 = Gid::from_ip("fd00::1".parse().unwrap());
        assert_eq!(choice.gid(&plain, Some(v6)).unwrap().index, 1);
        let sixth = Spec {
            gid_index: Some(77),
            ..plain.clone()
        };
        let error = choice.gid(&sixth, None).unwrap_err();
        assert!(error.to_string().contains("0 127.0.0.1"), "{error}");
        let other = Choice::new(&plain, "127.9.9.9".parse().unwrap()).unwrap();
        assert_eq!(
            other.gid(&plain, None).unwrap().gid.to_ip().to_string(),
            "127.9.9.9"
        );
    }

    #[test]
    fn a_row_whose_number_moved_is_found_by_its_gid() {
        let before = UdpLink::open(Config::new(
            Local::Address("127.0.0.1".parse().unwrap()),
            Endpoint::Client,
        ))
        .unwrap()
        .port()
        .clone();
        let row = before.gids[0].clone();
        let mut after = before.clone();
        let mut newcomer = row.clone();
        newcomer.gid = Gid::from_ip("fe80::1".parse().unwrap());
        after.gids.insert(0, newcomer);
        for (index, row) in after.gids.iter_mut().enumerate() {
            row.index = u8::try_from(index).unwrap();
        }
        let moved = row_of(&after, row.gid).unwrap();
        assert_eq!((moved.gid, moved.index), (row.gid, row.index + 1));
        after.gids.remove(usize::from(moved.index));
        assert!(row_of(&after, row.gid).is_none());
    }

    #[test]
    fn a_path_mtu_beyond_the_interface_is_a_usage_error() {
        let mut spec = spec("lo");
        let choice = Choice::new(&spec, "127.0.0.1".parse().unwrap()).unwrap();
        assert_eq!(choice.mtu(&spec).unwrap(), Mtu::B4096);
        spec.mtu = Some(Mtu::B256);
        assert_eq!(choice.mtu(&spec).unwrap(), Mtu::B256);
    }
}
