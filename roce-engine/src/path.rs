//! A resolved path to a peer: what every packet of a QP shares.

use core::net::IpAddr;

use alloc::string::String;
use roce_wire::{Gid, Headers, IPV4_DONT_FRAGMENT, IcrcSeed, Mtu, Qpn};

use crate::link::{Flow, FrameNote, Link};
use crate::verbs::{AddressVector, NO_MULTICAST, PortAttr};

/// The UDP port of RoCEv2.
pub(crate) const ROCE_PORT: u16 = 4791;
/// The first port of the range that RoCEv2 uses for source port entropy.
const FIRST_PORT: u16 = 0xc000;

/// The way to a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    /// Addresses and outer header fields.
    pub(crate) flow: Flow,
    /// The CRC state of what the ICRC covers before the BTH.
    pub(crate) seed: IcrcSeed,
}

/// The way to a peer's QP.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    /// The way to the peer.
    pub(crate) route: Route,
    /// The peer's QP.
    pub(crate) dest_qpn: Qpn,
    /// Payload bytes of a full packet.
    pub(crate) mtu: u32,
    /// The place in the peer table.
    pub(crate) peer: usize,
}

impl Route {
    /// Makes the way from a local GID to an address; `source_port` turns a wanted port into a real one.
    pub(crate) fn new(
        local: Gid,
        address: &AddressVector,
        wanted_port: u16,
        source_port: impl FnOnce(IpAddr, u16) -> u16,
    ) -> Self {
        let (local, remote) = (local.to_ip(), address.dgid.to_ip());
        let source_port = source_port(local, wanted_port);
        let flow = Flow {
            local,
            remote,
            source_port,
            traffic_class: address.traffic_class,
            hop_limit: address.hop_limit,
            flow_label: address.flow_label,
        };
        Self {
            flow,
            seed: IcrcSeed::new(local, remote, source_port, ROCE_PORT),
        }
    }

    /// Writes and seals one packet through the link; false, with nothing changed, if it has no room.
    ///
    /// `copy` writes the payload into exactly `payload` bytes.
    pub(crate) fn send<L: Link>(
        &self,
        link: &mut L,
        headers: &Headers,
        payload: usize,
        note: FrameNote,
        copy: impl FnOnce(&mut [u8]),
    ) -> bool {
        let len = headers.packet_len(payload);
        link.send(&self.flow, len, note, |slot| {
            copy(headers.frame(slot.bytes, payload));
            self.seed.seal(slot.ipv4_id, IPV4_DONT_FRAGMENT, slot.bytes);
        })
    }
}

/// Returns the source port that a QP wants: from the flow label, or from both QPNs as rxe does.
pub(crate) fn source_port(flow_label: u32, local: Qpn, remote: Qpn) -> u16 {
    let label = if flow_label != 0 {
        flow_label & 0x000f_ffff
    } else {
        let mut v = u64::from(local.value()) * u64::from(remote.value());
        v ^= v >> 20;
        v ^= v >> 40;
        (v & 0x000f_ffff) as u32
    };
    let folded = (label & 0x3fff) ^ (label >> 14);
    FIRST_PORT | (folded & 0x3fff) as u16
}

/// Returns the local GID that an address names, or in words why it can't be sent from.
pub(crate) fn local_gid(port: &PortAttr, address: &AddressVector) -> Result<Gid, String> {
    let row = port.gids.iter().find(|row| row.index == address.sgid_index);
    let Some(row) = row else {
        return Err(alloc::format!(
            "GID index {} is not in the GID table, which has {} rows",
            address.sgid_index,
            port.gids.len()
        ));
    };
    if address.dgid.to_ip().is_multicast() {
        return Err(alloc::format!(
            "GID {} is a multicast group: {NO_MULTICAST}",
            address.dgid
        ));
    }
    if row.gid.is_ipv4() != address.dgid.is_ipv4() {
        return Err(alloc::format!(
            "GID {} (index {}) and the peer's GID {} are of different address families: \
             choose another GID index (-x) on one side",
            row.gid,
            row.index,
            address.dgid
        ));
    }
    Ok(row.gid)
}

/// Returns how many packets a message of `length` bytes takes: at least one.
pub(crate) const fn packets(length: u32, mtu: u32) -> u32 {
    if length == 0 { 1 } else { length.div_ceil(mtu) }
}

/// Returns the payload bytes of a path MTU.
pub(crate) const fn mtu_bytes(mtu: Mtu) -> u32 {
    mtu.bytes() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_ports_are_those_of_rxe() {
        // From a capture of rxe 6.12: QPs 0x26 and 0x13d, port 61198.
        assert_eq!(source_port(0, Qpn::new(0x26), Qpn::new(0x13d)), 61198);
        assert_eq!(
            source_port(0, Qpn::new(0x13d), Qpn::new(0x26)),
            61198,
            "the same both ways"
        );
        assert!(source_port(0xf_ffff, Qpn::new(1), Qpn::new(1)) >= FIRST_PORT);
    }
}
