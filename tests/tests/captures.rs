//! Captures of other stacks, packet by packet, against what an independent program says of them.
//!
//! The committed ones are in `tests/data/captures`. `ROCE_CAPTURES=FOLDER` runs over those too.
#![allow(
    clippy::unwrap_used,
    reason = "a fixture that is wrong should fail its test"
)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use pcap_file::pcap::PcapReader;
use roce_wire::{
    EtherType, Frame, FrameSpec, HeaderTemplate, IPV4_DONT_FRAGMENT, IcrcCheck, IcrcSeed,
    IdRecovery, Network, NotRoce, Opcode, Packet,
};
use serde::Deserialize;

/// The facts beside a capture. Every field that is here is compared.
#[derive(Debug, Default, Deserialize, PartialEq)]
struct Facts {
    packets: u64,
    roce: u64,
    non_roce: BTreeMap<String, u64>,
    icrc_ok: u64,
    icrc_bad: u64,
    #[serde(default)]
    icrc_bad_frames: Vec<u64>,
    /// Packets whose ICRC is the one that rxe writes into a FLUSH.
    #[serde(default)]
    icrc_bad_explained_by_rxe_flush_quirk: u64,
    opcodes: BTreeMap<String, u64>,
    opcode_values: BTreeMap<String, u64>,
    roce_list: Vec<Row>,
}

/// Frame number, opcode, destination QPN, PSN, AckReq, pad, payload length, syndrome, MSN, ICRC.
type Row = (
    u64,
    u8,
    u32,
    u32,
    u8,
    u8,
    usize,
    Option<u8>,
    Option<u32>,
    u8,
);

#[derive(Deserialize)]
struct Capture {
    expect: Facts,
}

#[derive(Default)]
struct Totals {
    captures: u64,
    packets: u64,
    roce: u64,
    icrc_bad: u64,
    recovered: u64,
}

#[test]
fn committed_captures_are_read_as_they_were_made() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/captures");
    check_folder(&folder);
}

#[test]
fn captures_of_a_named_folder_are_read_as_they_were_made() {
    match std::env::var_os("ROCE_CAPTURES") {
        Some(folder) => check_folder(Path::new(&folder)),
        None => println!("skipped: ROCE_CAPTURES names no folder with more captures"),
    }
}

fn check_folder(folder: &Path) {
    let mut totals = Totals::default();
    for pcap in pcaps(folder) {
        let json = fs::read(pcap.with_extension("json")).unwrap_or_else(|error| {
            panic!(
                "{} has no readable facts beside it: {error}",
                pcap.display()
            )
        });
        let Capture { mut expect } = serde_json::from_slice(&json).unwrap();
        let (found, unreadable) = read(&pcap, &mut totals);
        expect.roce_list.retain(|row| !unreadable.contains(&row.0));
        expect.opcodes.retain(|name, _| is_defined(name));
        assert_eq!(found, expect, "{}", pcap.display());
        totals.captures += 1;
        totals.packets += found.packets;
        totals.roce += found.roce;
        totals.icrc_bad += found.icrc_bad;
    }
    println!(
        "{} captures in {}: {} packets, {} RoCE, {} with a bad ICRC, {} IPv4 IDs recovered",
        totals.captures,
        folder.display(),
        totals.packets,
        totals.roce,
        totals.icrc_bad,
        totals.recovered
    );
}

fn pcaps(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{} can't be read: {error}", folder.display()));
    let mut pcaps: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "pcap")
        })
        .collect();
    assert!(!pcaps.is_empty(), "{} has no .pcap file", folder.display());
    pcaps.sort();
    pcaps
}

fn is_defined(name: &str) -> bool {
    Opcode::ALL.iter().any(|opcode| opcode.name() == Some(name))
}

/// Reads a capture into facts, and checks what needs no facts: round trips and recovery.
///
/// Returns also the numbers of frames that corruption on the wire has made unreadable.
fn read(pcap: &Path, totals: &mut Totals) -> (Facts, Vec<u64>) {
    let mut reader = PcapReader::new(File::open(pcap).unwrap()).unwrap();
    let mut facts = Facts::default();
    let mut unreadable = Vec::new();
    let mut cache = IdRecovery::new();
    while let Some(record) = reader.next_packet() {
        let record = record.unwrap();
        facts.packets += 1;
        let at = format!("{}, frame {}", pcap.display(), facts.packets);
        match Frame::parse(&record.data) {
            Ok(frame) => {
                let good = count(&mut facts, &frame);
                let packet = match Packet::parse(frame.packet) {
                    Ok(packet) => packet,
                    Err(error) => {
                        assert!(!good, "{at}: {error}, but the ICRC is good");
                        unreadable.push(facts.packets);
                        continue;
                    }
                };
                facts.roce_list.push(row(facts.packets, &packet, good));
                if !good {
                    facts.icrc_bad_explained_by_rxe_flush_quirk +=
                        u64::from(is_rxe_flush(&frame, &packet));
                }
                check_bytes(&record.data, &frame, &packet, good, &at);
                if good && let Some(on_wire) = frame.ipv4_id() {
                    let seed = frame.icrc_seed().unwrap();
                    check_recovery(&seed, &mut cache, frame.packet, on_wire, &at);
                    totals.recovered += 1;
                }
            }
            Err(reason) => {
                let kind = match reason {
                    NotRoce::Protocol(6) => "tcp".to_owned(),
                    NotRoce::EtherType(EtherType(0x0806)) => "arp".to_owned(),
                    other => other.to_string(),
                };
                *facts.non_roce.entry(kind).or_default() += 1;
            }
        }
    }
    (facts, unreadable)
}

/// Adds a RoCE packet to the facts and returns whether its ICRC is good.
fn count(facts: &mut Facts, frame: &Frame<'_>) -> bool {
    let good = frame.check_icrc() == IcrcCheck::Good;
    facts.roce += 1;
    if good {
        facts.icrc_ok += 1;
    } else {
        facts.icrc_bad += 1;
        facts.icrc_bad_frames.push(facts.packets);
    }
    if let Some(opcode) = frame.packet.first().copied().map(Opcode) {
        let value = format!("0x{:02x}", opcode.0);
        *facts.opcode_values.entry(value).or_default() += 1;
        if let Some(name) = opcode.name() {
            *facts.opcodes.entry(name.to_owned()).or_default() += 1;
        }
    }
    good
}

fn row(number: u64, packet: &Packet<'_>, good: bool) -> Row {
    let bth = &packet.bth;
    (
        number,
        bth.opcode.0,
        bth.dest_qpn.value(),
        bth.psn.value(),
        u8::from(bth.ack_request),
        bth.pad,
        packet.payload.len(),
        packet.ext.aeth.map(|aeth| aeth.syndrome.to_raw()),
        packet.ext.aeth.map(|aeth| aeth.msn.value()),
        u8::from(good),
    )
}

/// Returns whether a FLUSH has the ICRC of rxe, which hashes its headers masked and once more raw.
fn is_rxe_flush(frame: &Frame<'_>, packet: &Packet<'_>) -> bool {
    let (Opcode::RC_FLUSH, Some(udp), Network::V4(mut ip)) =
        (packet.bth.opcode, frame.udp, frame.network)
    else {
        return false;
    };
    ip.tos = 0xff;
    ip.ttl = 0xff;
    ip.checksum = 0xffff;
    let masked_udp = roce_wire::Udp {
        checksum: 0xffff,
        ..udp
    };
    let headers = &frame.packet[..frame.packet.len() - roce_wire::ICRC_LEN];
    let mut masked = headers.to_vec();
    masked[4] = 0xff;
    let mut crc = crc32fast::Hasher::new();
    for bytes in [
        &[0xff; 8][..],
        &ip.to_bytes(),
        &masked_udp.to_bytes(),
        &masked,
        headers,
    ] {
        crc.update(bytes);
    }
    packet.icrc == crc.finalize().to_le_bytes()
}

/// Writes the frame again from what was read and compares every byte.
fn check_bytes(bytes: &[u8], frame: &Frame<'_>, packet: &Packet<'_>, good: bool, at: &str) {
    let mut out = vec![0xa5; frame.packet.len()];
    packet.emit_into(&mut out);
    assert_eq!(out, frame.packet, "{at}");
    if !good {
        // Corruption may be in outer fields that a sender doesn't choose.
        return;
    }
    let ethernet = frame.ethernet.unwrap();
    let template = HeaderTemplate::new(&FrameSpec {
        ethernet: Some((ethernet.src, ethernet.dst)),
        vlan_tci: frame.vlan().map(|tag| tag.tci),
        addresses: frame.addresses(),
        src_port: frame.src_port(),
        traffic_class: frame.traffic_class(),
        hop_limit: frame.hop_limit(),
        flow_label: match frame.network {
            Network::V6(header) => header.flow_label,
            Network::V4(_) | Network::Grh(_) => 0,
        },
    });
    let (id, _) = frame.ipv4_id().unwrap_or((0, 0));
    let mut out = vec![0xa5; bytes.len()];
    template.stamp(&mut out, packet.len(), id);
    // The one field that neither the ICRC nor, if it is corrupted, rxe looks at.
    let checksum = template.len() - 2..template.len();
    out[checksum.clone()].copy_from_slice(&bytes[checksum]);
    let sealed = &mut out[template.len()..];
    let payload = packet.headers().frame(sealed, packet.payload.len());
    payload.copy_from_slice(packet.payload);
    let seed = frame.icrc_seed().unwrap();
    seed.seal(id, IPV4_DONT_FRAGMENT, sealed);
    assert_eq!(out, bytes, "{at}");
}

fn check_recovery(
    seed: &IcrcSeed,
    cache: &mut IdRecovery,
    packet: &[u8],
    on_wire: (u16, u16),
    at: &str,
) {
    assert_eq!(seed.recover(packet), Some(on_wire), "{at}");
    assert_eq!(cache.recover(seed, packet), Some(on_wire), "{at}");
}
