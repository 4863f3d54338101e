//! What a device and its port are.

use core::net::IpAddr;

use alloc::string::String;
use alloc::vec::Vec;

use roce_wire::{Gid, Mtu, PKey};

/// The link layer of a port.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum LinkLayer {
    /// RoCE.
    #[default]
    Ethernet,
    /// InfiniBand.
    InfiniBand,
}

/// The RoCE version of a GID.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum GidKind {
    /// InfiniBand or RoCE v1.
    IbOrRoceV1,
    /// RoCE v2.
    RoceV2,
}

/// A row of a port's GID table.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GidEntry {
    /// The row's number, as `-x` takes it.
    pub index: u8,
    /// The GID.
    pub gid: Gid,
    /// Its RoCE version.
    pub kind: GidKind,
    /// The network interface that it stands for.
    pub netdev: String,
}

/// A port.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PortAttr {
    /// Whether it is up.
    pub active: bool,
    /// InfiniBand or Ethernet.
    pub link_layer: LinkLayer,
    /// The largest path MTU that its netdev carries.
    pub active_mtu: Mtu,
    /// The local identifier; 0 on Ethernet.
    pub lid: u16,
    /// The partition table.
    pub pkeys: Vec<PKey>,
    /// The GID table.
    pub gids: Vec<GidEntry>,
}

impl PortAttr {
    /// Returns the port of a device on an Ethernet interface: one P_Key, and a RoCE v2 GID for each address with the
    /// netdev that has it. Addresses beyond the 256 that a row's number can name are left out.
    pub fn roce(
        active: bool,
        active_mtu: Mtu,
        addresses: impl IntoIterator<Item = (IpAddr, String)>,
    ) -> Self {
        let rows = addresses.into_iter().zip(0..=u8::MAX);
        Self {
            active,
            link_layer: LinkLayer::Ethernet,
            active_mtu,
            lid: 0,
            pkeys: alloc::vec![PKey::DEFAULT],
            gids: rows
                .map(|((address, netdev), index)| GidEntry {
                    index,
                    gid: Gid::from_ip(address),
                    kind: GidKind::RoceV2,
                    netdev,
                })
                .collect(),
        }
    }
}

/// A device's limits.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DeviceAttr {
    /// Its name, as `-d` takes it.
    pub name: String,
    /// The most QPs.
    pub max_qp: u32,
    /// The most send or receive requests of a QP.
    pub max_qp_wr: u32,
    /// The most pieces of a work request.
    pub max_sge: u32,
    /// The most completion queues.
    pub max_cq: u32,
    /// The most entries of a CQ.
    pub max_cqe: u32,
    /// The most memory regions.
    pub max_mr: u32,
    /// The most protection domains.
    pub max_pd: u32,
    /// The most READs and atomics that a QP answers at once.
    pub max_qp_rd_atom: u8,
    /// The most READs and atomics that a QP has outstanding.
    pub max_qp_init_rd_atom: u8,
    /// The most bytes of inline data.
    pub max_inline: u32,
    /// The longest message.
    pub max_message: u32,
    /// What latency tests have copied unless told otherwise.
    pub latency_inline: LatencyInline,
    /// Whether memory can be opened to relaxed ordering.
    pub relaxed_ordering: bool,
}

/// Up to how many bytes the messages of latency tests are worth copying when they are posted, by what they are.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LatencyInline {
    /// WRITEs.
    pub write: u32,
    /// SENDs of a connection.
    pub send: u32,
    /// Datagrams.
    pub datagram: u32,
}
