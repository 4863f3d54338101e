//! Inputs to start from: captures of the kernel's stack, programs for the engine, exchanges of perftest.

use std::fs::{self, File};
use std::path::Path;

use pcap_file::pcap::PcapReader;
use roce_wire::Frame;

/// Frames that are kept of one capture: its first ones differ, later ones repeat them.
const FRAMES_PER_CAPTURE: usize = 24;
/// Bytes that [`super::wire::reparse`] reads before the packet.
const FLOW_LEN: usize = 15;

/// Returns frames of the committed captures, of every opcode that they have.
///
/// # Panics
///
/// The captures can't be read.
pub fn frames() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/captures");
    let entries = fs::read_dir(&folder).expect("the folder of captures");
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|name| name == "pcap"))
        .collect();
    // The order of a folder is the file system's: inputs must follow from their seed alone.
    paths.sort();
    let mut frames = Vec::new();
    for path in paths {
        let mut reader = PcapReader::new(File::open(&path).expect("a capture")).expect("a pcap");
        let mut kept = 0;
        while let Some(Ok(packet)) = reader.next_packet() {
            if kept < FRAMES_PER_CAPTURE && Frame::parse(&packet.data).is_ok() {
                kept += 1;
                frames.push(packet.data.into_owned());
            }
        }
    }
    assert!(!frames.is_empty(), "no frames in {}", folder.display());
    frames
}

/// Returns the packets of [`frames`], each behind a flow of IPv4 or IPv6.
///
/// # Panics
///
/// As [`frames`].
pub fn packets() -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for (index, bytes) in frames().iter().enumerate() {
        let Ok(frame) = Frame::parse(bytes) else {
            continue;
        };
        let mut input = vec![index as u8; FLOW_LEN];
        input.extend_from_slice(frame.packet);
        packets.push(input);
    }
    packets
}

/// Returns programs for [`super::engine::receive`].
pub fn programs() -> Vec<Vec<u8>> {
    super::engine::seeds()
}

/// Returns streams for [`super::exchange::exchange`].
pub fn streams() -> Vec<Vec<u8>> {
    super::exchange::seeds()
}
