//! Judges the RoCE frames of a capture file: the ICRC by a check of this crate's own, the form by tshark.

use core::net::IpAddr;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::icrc::{self, Verdict};

/// Larger than any frame here; a longer record means a broken file.
const MAX_FRAME: u32 = 1 << 18;

/// What a capture holds.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Findings {
    /// RoCE frames that we sent.
    pub ours: u64,
    /// RoCE frames that others sent.
    pub theirs: u64,
    /// Descriptions of frames of ours with a wrong ICRC or that can't be checked, the first few.
    pub our_faults: Vec<String>,
    /// How many frames of ours are at fault.
    pub our_bad: u64,
    /// How many frames of others are; they show that the check itself is sound.
    pub their_bad: u64,
}

/// Checks every frame of a pcap file; ours come from one of the addresses `us`.
///
/// # Errors
/// If the file can't be read, or is no pcap file of Ethernet frames or IP packets.
pub fn judge(file: &Path, us: &[IpAddr]) -> Result<Findings> {
    let mut findings = Findings::default();
    let mut number = 0u64;
    each_packet(file, |_, packet| {
        number += 1;
        let fault = match icrc::check(packet) {
            Verdict::NotRoce => return,
            Verdict::Good => None,
            Verdict::Bad { computed, carried } => {
                Some(format!("ICRC {carried:#010x} in place of {computed:#010x}"))
            }
            Verdict::Unsound(what) => Some(what.to_owned()),
        };
        let ours = icrc::source(packet).is_some_and(|source| us.contains(&source));
        let (frames, bad) = match ours {
            true => (&mut findings.ours, &mut findings.our_bad),
            false => (&mut findings.theirs, &mut findings.their_bad),
        };
        *frames += 1;
        *bad += u64::from(fault.is_some());
        if let Some(what) = fault.filter(|_| ours && findings.our_faults.len() < 5) {
            findings.our_faults.push(format!("frame {number}: {what}"));
        }
    })?;
    Ok(findings)
}

/// Walks a little-endian pcap file and hands over each frame's time in nanoseconds and the frame without its
/// link header.
///
/// # Errors
/// If the file can't be read, or is no pcap file of Ethernet frames or IP packets.
pub fn each_packet(file: &Path, mut take: impl FnMut(u64, &[u8])) -> Result<()> {
    const ETHERNET: u32 = 1;
    const RAW_IP: u32 = 101;
    let name = file.display();
    let opened = File::open(file).with_context(|| format!("cannot read {name}"))?;
    let mut reader = BufReader::new(opened);
    let mut head = [0u8; 24];
    reader
        .read_exact(&mut head)
        .with_context(|| format!("{name} is no pcap file"))?;
    let tick = match le_u32(&head, 0) {
        0xa1b2_c3d4 => 1000,
        0xa1b2_3c4d => 1,
        _ => bail!("{name} is no pcap file of this machine"),
    };
    let raw = match le_u32(&head, 20) {
        ETHERNET => false,
        RAW_IP => true,
        other => bail!("{name} holds frames of link type {other}"),
    };
    let mut record = [0u8; 16];
    let mut frame = Vec::new();
    loop {
        match reader.read_exact(&mut record) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error).with_context(|| format!("cannot read {name}")),
        }
        let length = le_u32(&record, 8);
        ensure!(length <= MAX_FRAME, "{name} has a record of {length} bytes");
        frame.resize(length as usize, 0);
        reader
            .read_exact(&mut frame)
            .with_context(|| format!("{name} is cut"))?;
        let time =
            u64::from(le_u32(&record, 0)) * 1_000_000_000 + u64::from(le_u32(&record, 4)) * tick;
        let packet = match raw {
            true => &frame,
            false => icrc::inside_ethernet(&frame),
        };
        take(time, packet);
    }
}

fn le_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Has tshark dissect the file and returns the frames that we sent and it calls malformed.
///
/// Its guesses about what a payload might be are set aside, for they say nothing of our headers: data that
/// counts, pads or is random is soon taken for RPC-over-RDMA, an EtherType or Fibre Channel (one random
/// payload of 4,000), and found malformed as that. They begin where the RoCE headers end, so only a frame
/// whose innermost protocol is InfiniBand counts.
/// Of a long file the first 20,000 frames are looked at: tshark takes a second for as many.
///
/// # Errors
/// If tshark fails.
pub fn malformed(file: &Path, us: &[IpAddr]) -> Result<Vec<String>> {
    let ours: Vec<String> = us
        .iter()
        .map(|ip| match ip {
            IpAddr::V4(ip) => format!("ip.src == {ip}"),
            IpAddr::V6(ip) => format!("ipv6.src == {ip}"),
        })
        .collect();
    let filter = format!(
        "_ws.malformed && udp.dstport == 4791 && ({}) && \
         frame.protocols matches \"infiniband(:data)?(:_ws.malformed)?$\"",
        ours.join(" || ")
    );
    let output = Command::new("tshark")
        .arg("-r")
        .arg(file)
        .args(["-c", "20000", "-n", "-Y", &filter])
        .output()
        .context("cannot run tshark")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "tshark failed on {}: {}",
        file.display(),
        stderr.trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| line.trim().to_owned())
        .collect())
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use pcap_file::pcap::{PcapPacket, PcapWriter};

    use super::*;
    use crate::needs;

    /// An Ethernet frame from 10.0.0.1 to UDP port 4791 of 10.0.0.2.
    fn frame(body: &[&[u8]]) -> Vec<u8> {
        let body = body.concat();
        let udp = 8 + body.len() as u8;
        let mut frame = b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02\x08\0".to_vec();
        frame.extend([0x45, 0, 0, 20 + udp, 0, 0, 0x40, 0, 64, 17, 0, 0]);
        frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0xc3, 0x50, 0x12, 0xb7, 0, udp, 0, 0]);
        frame.extend(body);
        frame
    }

    /// An RC SEND Only with this payload.
    fn send(payload: &[u8]) -> Vec<u8> {
        let pad = payload.len().wrapping_neg() % 4;
        let bth = [4, (pad as u8) << 4, 0xff, 0xff, 0, 0, 0, 0x11, 0, 0, 0, 1];
        frame(&[&bth, payload, &[0; 3][..pad], b"icrc"])
    }

    #[test]
    fn a_guess_about_a_payload_makes_no_header_malformed() {
        if !needs::is_on_path("tshark") {
            eprintln!("tshark is not here: its opinion is not asked");
            return;
        }
        // Random bytes that tshark 4.0 takes for Fibre Channel over InfiniBand.
        let fibre =
            *b"\x62\x29\x8d\x5c\x34\x88\xb2\x98\x54\xf8\xdc\x66\x3a\x09\x4e\x39\x82\x03\x40\xf8\
            \xbf\xfb\xb0\x00\xbc\xa1\xdf\xcd\x56\xb3\x80\x35\x42";
        let guesses = [
            send(&fibre),
            send(b"x"),
            send(&[]),
            send(&[0x08, 0x00, 0, 0, 9, 9, 9, 9]),
            send(&[0x86, 0xdd, 0, 0, 9, 9, 9, 9]),
        ];
        // A WRITE whose RETH is cut, and half a BTH.
        let write = [10, 0, 0xff, 0xff, 0, 0, 0, 0x11, 0, 0, 0, 1];
        let broken = [frame(&[&write, b"abcdefgh"]), frame(&[&write[..6]])];

        let file = std::env::temp_dir().join(format!("roce-guesses-{}.pcap", std::process::id()));
        let mut writer = PcapWriter::new(File::create(&file).unwrap()).unwrap();
        for frame in guesses.iter().chain(&broken) {
            let packet = PcapPacket::new(Duration::ZERO, frame.len() as u32, frame);
            writer.write_packet(&packet).unwrap();
        }
        drop(writer);
        let found = malformed(&file, &["10.0.0.1".parse().unwrap()]).unwrap();
        std::fs::remove_file(&file).unwrap();
        let numbers: Vec<&str> = found
            .iter()
            .filter_map(|line| line.split(' ').next())
            .collect();
        assert_eq!(numbers, ["6", "7"], "{found:?}");
    }
}
