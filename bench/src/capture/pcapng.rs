//! A pcapng file of one interface.

use core::time::Duration;
use std::borrow::Cow;
use std::io::{Error, Result, Write};

use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, Endianness, PcapError};

/// Time stamps count nanoseconds.
const NANOSECONDS: u8 = 9;
/// What readers take a length of 0 for.
const NO_SNAPLEN: u32 = 0;

/// Which way a packet went: the first bits of a block's flags.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Direction {
    Inbound = 1,
    Outbound = 2,
}

/// A file that grows by a block per packet.
pub(super) struct Pcapng<W> {
    out: W,
    // Makes one block at a time, so that its length is known before it is written.
    blocks: PcapNgWriter<Vec<u8>>,
    snaplen: Option<u32>,
    limit: Option<u64>,
    written: u64,
}

impl<W: Write> Pcapng<W> {
    /// Writes the head of a file. Packets are cut to `snaplen` bytes, and none is added beyond `limit`.
    pub(super) fn start(
        out: W,
        interface: &str,
        snaplen: Option<u32>,
        limit: Option<u64>,
    ) -> Result<Self> {
        let us = concat!("roce ", env!("CARGO_PKG_VERSION"));
        let section = SectionHeaderBlock {
            endianness: Endianness::native(),
            options: vec![SectionHeaderOption::UserApplication(us.into())],
            ..SectionHeaderBlock::default()
        };
        let mut blocks =
            PcapNgWriter::with_section_header(Vec::new(), section).map_err(io_error)?;
        blocks
            .write_pcapng_block(InterfaceDescriptionBlock {
                linktype: DataLink::RAW,
                snaplen: snaplen.unwrap_or(NO_SNAPLEN),
                options: vec![
                    InterfaceDescriptionOption::IfName(interface.to_owned().into()),
                    InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
                ],
            })
            .map_err(io_error)?;
        let mut file = Self {
            out,
            blocks,
            snaplen,
            limit,
            written: 0,
        };
        file.hand_on()?;
        Ok(file)
    }

    /// Adds a packet. Returns false where that would go beyond the limit.
    pub(super) fn packet(
        &mut self,
        time: Duration,
        direction: Direction,
        packet: &[u8],
        comment: Option<&str>,
    ) -> Result<bool> {
        let kept = match self.snaplen {
            Some(snaplen) => &packet[..packet.len().min(snaplen as usize)],
            None => packet,
        };
        let mut options = vec![EnhancedPacketOption::Flags(direction as u32)];
        options.extend(comment.map(|text| EnhancedPacketOption::Comment(text.into())));
        self.blocks
            .write_pcapng_block(EnhancedPacketBlock {
                interface_id: 0,
                timestamp: time,
                original_len: u32::try_from(packet.len()).unwrap_or(u32::MAX),
                data: Cow::Borrowed(kept),
                options,
            })
            .map_err(io_error)?;
        self.hand_on()
    }

    /// Gives everything to the system.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.out.flush()
    }

    /// Writes the blocks that were made, unless that goes beyond the limit.
    fn hand_on(&mut self) -> Result<bool> {
        let made = self.blocks.get_mut();
        let written = self.written + made.len() as u64;
        let fits = self.limit.is_none_or(|limit| written <= limit);
        if fits {
            self.written = written;
            self.out.write_all(made)?;
        }
        made.clear();
        Ok(fits)
    }
}

fn io_error(error: PcapError) -> Error {
    match error {
        PcapError::IoError(error) => error,
        other => Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use pcap_file::pcapng::PcapNgReader;
    use pcap_file::pcapng::blocks::Block;

    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let mut bytes = Vec::new();
        let mut file = Pcapng::start(&mut bytes, "lo", Some(5), None).unwrap();
        let time = Duration::new(1_796_030_061, 2);
        let added = file.packet(time, Direction::Outbound, b"abcdefg", Some("why"));
        assert!(added.unwrap());
        let mut reader = PcapNgReader::new(bytes.as_slice()).unwrap();
        let mut blocks = Vec::new();
        while let Some(block) = reader.next_block() {
            blocks.push(block.unwrap().into_owned());
        }
        let [
            Block::InterfaceDescription(interface),
            Block::EnhancedPacket(packet),
        ] = blocks.as_slice()
        else {
            panic!("{blocks:?}");
        };
        assert_eq!(interface.linktype, DataLink::RAW);
        assert_eq!((packet.timestamp, packet.original_len), (time, 7));
        assert_eq!(packet.data, b"abcde".as_slice());
        assert_eq!(
            packet.options,
            [
                EnhancedPacketOption::Flags(2),
                EnhancedPacketOption::Comment("why".into())
            ]
        );
    }

    #[test]
    fn the_limit_is_kept() {
        let mut bytes = Vec::new();
        let mut file = Pcapng::start(&mut bytes, "lo", None, Some(300)).unwrap();
        let mut added = 0;
        for _ in 0..10 {
            let time = Duration::ZERO;
            added += u32::from(
                file.packet(time, Direction::Inbound, &[0; 40], None)
                    .unwrap(),
            );
        }
        assert!(added > 0 && added < 10, "{added}");
        assert!(bytes.len() <= 300);
    }
}
