//! What netlink messages say, as values. Attribute numbers are those of `if_link.h`, `if_addr.h`,
//! `rtnetlink.h` and `neighbour.h`.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use roce_wire::Mac;

use super::message::{Attributes, Message, half, kind, number};
use crate::config::Mode;
use crate::program::InPlace;

/// An interface.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Interface {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) mtu: usize,
    /// Whether its frames start with an Ethernet header.
    pub(crate) ethernet: bool,
    /// Up, and with a carrier.
    pub(crate) active: bool,
    pub(crate) mac: Mac,
    /// What kind of virtual interface it is; empty for a real one.
    pub(crate) kind: String,
    /// The interface below and the VLAN, if it is one.
    pub(crate) vlan: Option<(u32, u16)>,
    /// Receive queues.
    pub(crate) queues: u32,
    pub(crate) program: Option<InPlace>,
}

/// An address of an interface.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct AddressRow {
    pub(crate) index: u32,
    pub(crate) address: IpAddr,
    /// Duplicate address detection has succeeded, or isn't needed.
    pub(crate) ready: bool,
}

/// Where packets go.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Route {
    /// The interface that they leave from.
    pub(crate) index: u32,
    /// The router, if there is one between.
    pub(crate) gateway: Option<IpAddr>,
    /// The destination is an address of this machine.
    pub(crate) is_local: bool,
    /// The largest packet, if the route says so.
    pub(crate) mtu: Option<u32>,
}

/// A neighbour.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Neighbour {
    pub(crate) index: u32,
    pub(crate) ip: IpAddr,
    pub(crate) reach: Reach,
}

/// What the kernel knows of a neighbour.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Reach {
    /// Its address; `sure` if it was confirmed lately.
    At {
        /// The address.
        mac: Mac,
        /// Whether the kernel needs no reminder to look again.
        sure: bool,
    },
    /// It is asked for.
    Asked,
    /// It doesn't answer.
    Silent,
}

/// Something that has changed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Change {
    /// An interface is there, or is another than before.
    Interface(Interface),
    /// An interface is gone.
    InterfaceGone(u32),
    /// An address came or went.
    Addresses,
    /// A route came or went.
    Routes,
    /// The kernel knows something else of a neighbour.
    Neighbour(Neighbour),
    /// The kernel has forgotten a neighbour.
    NeighbourGone {
        /// Its interface.
        index: u32,
        /// Its address.
        ip: IpAddr,
    },
}

pub(super) fn change(message: &Message<'_>) -> Option<Change> {
    match message.kind {
        kind::NEW_LINK => interface(message).map(Change::Interface),
        kind::DEL_LINK => number(message.body, 4).map(Change::InterfaceGone),
        kind::NEW_ADDRESS | kind::DEL_ADDRESS => Some(Change::Addresses),
        kind::NEW_ROUTE | kind::DEL_ROUTE => Some(Change::Routes),
        kind::NEW_NEIGHBOUR => neighbour(message).map(Change::Neighbour),
        kind::DEL_NEIGHBOUR => neighbour(message).map(|gone| Change::NeighbourGone {
            index: gone.index,
            ip: gone.ip,
        }),
        _ => None,
    }
}

/// Reads a `struct ifinfomsg` and its attributes.
pub(super) fn interface(message: &Message<'_>) -> Option<Interface> {
    const ARPHRD_ETHER: u16 = 1;
    const ADDRESS: u16 = 1;
    const NAME: u16 = 3;
    const MTU: u16 = 4;
    const LINK: u16 = 5;
    const LINK_INFO: u16 = 18;
    const RECEIVE_QUEUES: u16 = 32;
    const XDP: u16 = 43;
    let flags = number(message.body, 8)?;
    let up = (libc::IFF_UP | libc::IFF_LOWER_UP) as u32;
    let mut one = Interface {
        index: number(message.body, 4)?,
        name: String::new(),
        mtu: 0,
        ethernet: half(message.body, 2)? == ARPHRD_ETHER,
        active: flags & up == up,
        mac: Mac([0; 6]),
        kind: String::new(),
        vlan: None,
        queues: 1,
        program: None,
    };
    let (mut below, mut vlan) = (None, None);
    for (kind, value) in message.attributes(16) {
        match kind {
            ADDRESS => one.mac = mac(value).unwrap_or(one.mac),
            NAME => one.name = text(value),
            MTU => one.mtu = number(value, 0)? as usize,
            LINK => below = number(value, 0),
            LINK_INFO => (one.kind, vlan) = link_info(value),
            RECEIVE_QUEUES => one.queues = number(value, 0)?,
            XDP => one.program = program(value),
            _ => {}
        }
    }
    one.vlan = below.zip(vlan);
    Some(one)
}

fn link_info(value: &[u8]) -> (String, Option<u16>) {
    const KIND: u16 = 1;
    const DATA: u16 = 2;
    const VLAN_ID: u16 = 1;
    let inside = Attributes::inside(value);
    let kind = inside.find(KIND).map(text).unwrap_or_default();
    let vlan = inside
        .find(DATA)
        .filter(|_| kind == "vlan")
        .and_then(|data| Attributes::inside(data).find(VLAN_ID))
        .and_then(|id| half(id, 0));
    (kind, vlan)
}

fn program(value: &[u8]) -> Option<InPlace> {
    const ATTACHED: u16 = 2;
    const ID: u16 = 4;
    const GENERIC: u8 = 2;
    let inside = Attributes::inside(value);
    let mode = match *inside.find(ATTACHED)?.first()? {
        0 => return None,
        GENERIC => Mode::Generic,
        _ => Mode::Driver,
    };
    let id = number(inside.find(ID)?, 0)?;
    Some(InPlace { id, mode })
}

/// Reads a `struct ifaddrmsg` and its attributes.
pub(super) fn address(message: &Message<'_>) -> Option<AddressRow> {
    const ADDRESS: u16 = 1;
    const LOCAL: u16 = 2;
    const FLAGS: u16 = 8;
    const TENTATIVE: u32 = 0x40;
    const DUPLICATE: u32 = 0x08;
    const OPTIMISTIC: u32 = 0x04;
    let attributes = message.attributes(8);
    // On a point-to-point interface the other attribute is the peer's.
    let own = attributes.find(LOCAL).or_else(|| attributes.find(ADDRESS));
    let short = u32::from(*message.body.get(2)?);
    let flags = attributes.find(FLAGS).and_then(|value| number(value, 0));
    let flags = flags.unwrap_or(short);
    let tentative = flags & TENTATIVE != 0 && flags & OPTIMISTIC == 0;
    Some(AddressRow {
        index: number(message.body, 4)?,
        address: ip(own?)?,
        ready: !tentative && flags & DUPLICATE == 0,
    })
}

/// Reads a `struct rtmsg` and its attributes.
pub(super) fn route(message: &Message<'_>) -> Option<Route> {
    const TYPE_LOCAL: u8 = 2;
    const INTERFACE: u16 = 4;
    const GATEWAY: u16 = 5;
    const METRICS: u16 = 8;
    const METRIC_MTU: u16 = 2;
    const VIA: u16 = 18;
    let attributes = message.attributes(12);
    // A router of the other family has its family in front.
    let via = attributes.find(VIA).and_then(|value| value.get(2..));
    let gateway = attributes.find(GATEWAY).or(via).and_then(ip);
    let metrics = attributes.find(METRICS).map(Attributes::inside);
    Some(Route {
        index: number(attributes.find(INTERFACE)?, 0)?,
        gateway: gateway.filter(|ip| !ip.is_unspecified()),
        is_local: *message.body.get(7)? == TYPE_LOCAL,
        mtu: metrics
            .and_then(|metrics| metrics.find(METRIC_MTU))
            .and_then(|value| number(value, 0)),
    })
}

/// Reads a `struct ndmsg` and its attributes.
pub(super) fn neighbour(message: &Message<'_>) -> Option<Neighbour> {
    const DESTINATION: u16 = 1;
    const ADDRESS: u16 = 2;
    const REACHABLE: u16 = 0x02;
    const STALE: u16 = 0x04;
    const DELAY: u16 = 0x08;
    const PROBE: u16 = 0x10;
    const FAILED: u16 = 0x20;
    const NO_ARP: u16 = 0x40;
    const PERMANENT: u16 = 0x80;
    let attributes = message.attributes(12);
    let state = half(message.body, 8)?;
    let mac = attributes.find(ADDRESS).and_then(mac);
    let known = state & (REACHABLE | STALE | DELAY | PROBE | NO_ARP | PERMANENT) != 0;
    Some(Neighbour {
        index: number(message.body, 4)?,
        ip: ip(attributes.find(DESTINATION)?)?,
        reach: match mac.filter(|_| known) {
            Some(mac) => Reach::At {
                mac,
                sure: state & STALE == 0,
            },
            None if state & FAILED != 0 => Reach::Silent,
            None => Reach::Asked,
        },
    })
}

fn text(value: &[u8]) -> String {
    let end = value.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(&value[..end.unwrap_or(value.len())]).into_owned()
}

fn mac(value: &[u8]) -> Option<Mac> {
    <[u8; 6]>::try_from(value).ok().map(Mac)
}

fn ip(value: &[u8]) -> Option<IpAddr> {
    match *value {
        [a, b, c, d] => Some(Ipv4Addr::new(a, b, c, d).into()),
        _ => <[u8; 16]>::try_from(value)
            .ok()
            .map(|octets| Ipv6Addr::from(octets).into()),
    }
}
