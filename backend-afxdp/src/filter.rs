//! What becomes of a received frame: packets for the engine, or a counted drop.

use core::net::IpAddr;

use roce_engine::link::{Ipv4Id, RxMeta};
use roce_wire::{Frame, Mac, Mtu, Network, NotRoce};

use crate::netdev::{Netdev, Own};
use crate::segments::{Segments, Sizes};

/// The shortest packet: BTH and ICRC.
pub(crate) const MIN_PACKET: usize = 16;

/// The longest packet of the largest path MTU.
pub(crate) const MAX_PACKET: usize = Mtu::B4096.bytes() + Mtu::HEADROOM;

/// What was dropped, and why.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Drops {
    pub(crate) not_roce: u64,
    pub(crate) ip_options: u64,
    pub(crate) ip_checksum: u64,
    pub(crate) other_mac: u64,
    pub(crate) other_vlan: u64,
    pub(crate) other_address: u64,
    pub(crate) truncated: u64,
    pub(crate) too_short: u64,
    pub(crate) too_long: u64,
}

/// The checks of one interface.
#[derive(Debug)]
pub(crate) struct Filter {
    mac: Mac,
    own: Vec<Own>,
    /// Whether the interface takes tags off: a frame without one may be of any VLAN then.
    strips_tags: bool,
    sizes: Sizes,
    pub(crate) drops: Drops,
    /// Batches that a sender on this machine left to its device to cut.
    pub(crate) batches: u64,
    pub(crate) packets: u64,
}

impl Filter {
    pub(crate) fn new(mac: Mac, own: &[Own], strips_tags: bool) -> Self {
        Self {
            mac,
            own: own.to_vec(),
            strips_tags,
            sizes: Sizes::default(),
            drops: Drops::default(),
            batches: 0,
            packets: 0,
        }
    }

    /// Takes new addresses.
    pub(crate) fn update(&mut self, netdev: &Netdev) {
        self.mac = netdev.mac;
        self.own.clone_from(&netdev.own);
        self.strips_tags = netdev.strips_tags;
    }

    /// Hands the packets in a frame to `sink`.
    #[inline]
    pub(crate) fn frame(&mut self, bytes: &[u8], sink: &mut impl FnMut(&RxMeta, &[u8])) {
        let Some((frame, meta)) = self.accept(bytes) else {
            return;
        };
        let checksum = frame.udp.map_or(0, |udp| udp.checksum);
        // Only a kernel that leaves cutting to its device sends several packets in one frame, and
        // it can't do so without UDP checksums, which senders of frames leave out.
        if checksum != 0 && frame.packet.len() > MIN_PACKET {
            return self.cut(&frame, meta, sink);
        }
        match frame.packet.len() {
            ..MIN_PACKET => self.drops.too_short += 1,
            MIN_PACKET..=MAX_PACKET => {
                self.packets += 1;
                sink(&meta, frame.packet);
            }
            _ => self.drops.too_long += 1,
        }
    }

    fn accept<'a>(&mut self, bytes: &'a [u8]) -> Option<(Frame<'a>, RxMeta)> {
        let frame = match Frame::parse(bytes) {
            Ok(frame) => frame,
            Err(error) => {
                *match error {
                    NotRoce::Ipv4Options => &mut self.drops.ip_options,
                    NotRoce::Truncated(_) | NotRoce::Lengths => &mut self.drops.truncated,
                    _ => &mut self.drops.not_roce,
                } += 1;
                return None;
            }
        };
        if frame
            .ethernet
            .is_none_or(|ethernet| ethernet.dst != self.mac)
        {
            self.drops.other_mac += 1;
            return None;
        }
        if frame.missing != 0 {
            self.drops.truncated += 1;
            return None;
        }
        if matches!(frame.network, Network::V4(header) if !header.checksum_is_good()) {
            self.drops.ip_checksum += 1;
            return None;
        }
        let (local, remote) = (frame.addresses().dst(), frame.addresses().src());
        self.is_ours(local, &frame)?;
        let ipv4_id = frame
            .ipv4_id()
            .map_or(Ipv4Id::Unknown, |(id, flags)| Ipv4Id::Known { id, flags });
        let meta = RxMeta {
            remote,
            local,
            source_port: frame.src_port(),
            traffic_class: frame.traffic_class(),
            hop_limit: frame.hop_limit(),
            ipv4_id,
        };
        Some((frame, meta))
    }

    fn is_ours(&mut self, local: IpAddr, frame: &Frame<'_>) -> Option<()> {
        // VLAN 0 is a priority without a VLAN.
        let vlan = frame.vlan().map(|tag| tag.id()).filter(|id| *id != 0);
        let any_vlan = self.strips_tags && vlan.is_none();
        let mut rows = self.own.iter();
        if rows.any(|own| own.address == local && (any_vlan || own.vlan == vlan)) {
            return Some(());
        }
        if any_vlan || self.own.iter().any(|own| own.vlan == vlan) {
            self.drops.other_address += 1;
        } else {
            self.drops.other_vlan += 1;
        }
        None
    }

    /// Hands over the packets of a frame that may be a batch.
    fn cut(&mut self, frame: &Frame<'_>, meta: RxMeta, sink: &mut impl FnMut(&RxMeta, &[u8])) {
        let Some(seed) = frame.icrc_seed() else {
            return;
        };
        let (id, flags) = frame.ipv4_id().unwrap_or((0, 0));
        let Some(size) = self.sizes.of(&seed, (id, flags), frame.packet) else {
            // One packet with a wrong ICRC is the engine's to count; a batch can't be.
            if frame.packet.len() <= MAX_PACKET {
                self.packets += 1;
                sink(&meta, frame.packet);
            } else {
                self.drops.too_long += 1;
            }
            return;
        };
        self.batches += u64::from(size < frame.packet.len());
        for (number, packet) in Segments::new(frame.packet, size) {
            if packet.len() < MIN_PACKET {
                self.drops.too_short += 1;
                continue;
            }
            // The device that would have cut it numbers the pieces so.
            let ipv4_id = match meta.ipv4_id {
                Ipv4Id::Known { id, flags } => Ipv4Id::Known {
                    id: id.wrapping_add(number),
                    flags,
                },
                Ipv4Id::Unknown => Ipv4Id::Unknown,
            };
            self.packets += 1;
            sink(&RxMeta { ipv4_id, ..meta }, packet);
        }
    }
}

#[cfg(test)]
mod tests;
