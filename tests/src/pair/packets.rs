//! Packets as tests look at them, and an ICRC that shares no code with the product.

use core::net::IpAddr;

use roce_engine::Instant;
use roce_engine::link::{Ipv4Id, RxMeta};
use roce_engine::sim::{Fate, World};
use roce_wire::{AtomicEth, Bth, Ext, HeaderSet, IPV4_DONT_FRAGMENT, Opcode, RKey, Reth};

/// A packet that was sent.
#[derive(Clone, Debug)]
pub struct Seen {
    /// When.
    pub at: Instant,
    /// Its base header.
    pub bth: Bth,
    /// Its other headers.
    pub ext: Ext,
    /// Its payload.
    pub payload: Vec<u8>,
    /// What the network did with it.
    pub fate: Fate,
    /// Whether its sender says that it was sent before.
    pub again: bool,
    /// Its outer header.
    pub meta: RxMeta,
    /// All its bytes.
    pub bytes: Vec<u8>,
}

impl Seen {
    /// Returns the opcode.
    pub const fn opcode(&self) -> Opcode {
        self.bth.opcode
    }

    /// Returns the PSN's value.
    pub const fn psn(&self) -> u32 {
        self.bth.psn.value()
    }

    /// Returns the syndrome byte, if there is an AETH.
    pub fn syndrome(&self) -> Option<u8> {
        self.ext.aeth.map(|aeth| aeth.syndrome.to_raw())
    }
}

/// Returns the packets that a port sent.
pub fn seen(world: &World, port: usize) -> Vec<Seen> {
    let net = world.net();
    let of_port = net.trace().records().filter(|record| record.from.0 == port);
    let look = |record: &roce_engine::sim::Record| {
        let packet = record.packet()?;
        Some(Seen {
            at: record.at,
            bth: packet.bth,
            ext: packet.ext,
            payload: packet.payload.to_vec(),
            fate: record.fate,
            again: record.note.retransmission,
            meta: record.meta,
            bytes: record.bytes.clone(),
        })
    };
    of_port.filter_map(look).collect()
}

/// Returns the extended headers of an opcode, naming this memory; an atomic adds or stores 2.
///
/// # Panics
///
/// The opcode is not defined.
pub fn named(opcode: Opcode, addr: u64, rkey: RKey, length: u32) -> Ext {
    let headers = opcode.info().expect("a defined opcode").headers;
    Ext {
        reth: headers
            .contains(HeaderSet::RETH)
            .then_some(Reth { addr, rkey, length }),
        atomic: headers.contains(HeaderSet::ATOMIC).then_some(AtomicEth {
            addr,
            rkey,
            swap_add: 2,
            compare: 0,
        }),
        imm: headers.contains(HeaderSet::IMM).then_some([0; 4]),
        ieth: headers.contains(HeaderSet::IETH).then_some(rkey),
        ..Ext::NONE
    }
}

/// Writes the right ICRC into a packet's last four bytes.
pub fn seal(meta: &RxMeta, packet: &mut [u8]) {
    let icrc = icrc_of(meta, packet);
    let start = packet.len() - 4;
    packet[start..].copy_from_slice(&icrc.to_le_bytes());
}

/// Computes a packet's ICRC from its outer header, bit by bit.
pub fn icrc_of(meta: &RxMeta, packet: &[u8]) -> u32 {
    let udp_len = packet.len() as u16 + 8;
    let mut covered = vec![0xff; 8];
    match (meta.remote, meta.local) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let (id, flags) = match meta.ipv4_id {
                Ipv4Id::Known { id, flags } => (id, flags),
                Ipv4Id::Unknown => (0, IPV4_DONT_FRAGMENT),
            };
            covered.extend([0x45, 0xff]);
            covered.extend((udp_len + 20).to_be_bytes());
            covered.extend(id.to_be_bytes());
            covered.extend(flags.to_be_bytes());
            covered.extend([0xff, 17, 0xff, 0xff]);
            covered.extend(from.octets());
            covered.extend(to.octets());
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            covered.extend([0x6f, 0xff, 0xff, 0xff]);
            covered.extend(udp_len.to_be_bytes());
            covered.extend([17, 0xff]);
            covered.extend(from.octets());
            covered.extend(to.octets());
        }
        _ => panic!("addresses of two families"),
    }
    covered.extend(meta.source_port.to_be_bytes());
    covered.extend(4791_u16.to_be_bytes());
    covered.extend(udp_len.to_be_bytes());
    covered.extend([0xff, 0xff]);
    let congestion = covered.len() + 4;
    covered.extend(&packet[..packet.len() - 4]);
    covered[congestion] = 0xff;
    crc32(&covered)
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, bit: u32| {
        let carry = (crc ^ bit) & 1;
        crc >> 1 ^ if carry == 1 { 0xedb8_8320 } else { 0 }
    };
    let bits = bytes
        .iter()
        .flat_map(|byte| (0..8).map(move |bit| u32::from(byte >> bit & 1)));
    !bits.fold(u32::MAX, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slow_crc_is_crc_32() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }
}
