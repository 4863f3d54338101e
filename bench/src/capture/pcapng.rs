//! A pcapng file of one interface: three kinds of block (draft-ietf-opsawg-pcapng), in this machine's byte order.

use core::time::Duration;
use std::io::{Result, Write};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// Packets start with an IP header.
const LINKTYPE_RAW: u16 = 101;
const OPTION_COMMENT: u16 = 1;
const OPTION_IF_NAME: u16 = 2;
const OPTION_EPB_FLAGS: u16 = 2;
const OPTION_USER_APPLICATION: u16 = 4;
const OPTION_IF_TSRESOL: u16 = 9;
/// Time stamps count nanoseconds.
const NANOSECONDS: u8 = 9;
/// What readers take a length of 0 for.
const NO_SNAPLEN: u32 = 0;

/// Which way a packet went.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Direction {
    Inbound = 1,
    Outbound = 2,
}

/// A file that grows by a block per packet.
#[derive(Debug)]
pub(super) struct Pcapng<W> {
    out: W,
    snaplen: Option<u32>,
    limit: Option<u64>,
    written: u64,
    block: Vec<u8>,
}

impl<W: Write> Pcapng<W> {
    /// Writes the head of a file. Packets are cut to `snaplen` bytes, and none is added beyond `limit`.
    pub(super) fn start(
        out: W,
        interface: &str,
        snaplen: Option<u32>,
        limit: Option<u64>,
    ) -> Result<Self> {
        let mut file = Self {
            out,
            snaplen,
            limit,
            written: 0,
            block: Vec::new(),
        };
        file.begin(SECTION_HEADER);
        file.block.extend(BYTE_ORDER_MAGIC.to_ne_bytes());
        file.block.extend(1_u16.to_ne_bytes());
        file.block.extend(0_u16.to_ne_bytes());
        // The section's length is not known.
        file.block.extend(u64::MAX.to_ne_bytes());
        let us = concat!("roce ", env!("CARGO_PKG_VERSION"));
        file.option(OPTION_USER_APPLICATION, us.as_bytes());
        file.end()?;
        file.begin(INTERFACE_DESCRIPTION);
        file.block.extend(LINKTYPE_RAW.to_ne_bytes());
        file.block.extend(0_u16.to_ne_bytes());
        file.block
            .extend(snaplen.unwrap_or(NO_SNAPLEN).to_ne_bytes());
        file.option(OPTION_IF_NAME, interface.as_bytes());
        file.option(OPTION_IF_TSRESOL, &[NANOSECONDS]);
        file.end()?;
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
        let stamp = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.begin(ENHANCED_PACKET);
        for word in [
            0,
            (stamp >> 32) as u32,
            stamp as u32,
            kept.len() as u32,
            packet.len() as u32,
        ] {
            self.block.extend(word.to_ne_bytes());
        }
        self.block.extend(kept);
        self.pad();
        self.option(OPTION_EPB_FLAGS, &(direction as u32).to_ne_bytes());
        if let Some(comment) = comment {
            self.option(OPTION_COMMENT, comment.as_bytes());
        }
        // Its options' end and its last length are still to come.
        let size = self.block.len() as u64 + 8;
        if self.limit.is_some_and(|limit| self.written + size > limit) {
            return Ok(false);
        }
        self.end()?;
        Ok(true)
    }

    /// Gives everything to the system.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.out.flush()
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.block.extend(kind.to_ne_bytes());
        // The length is put in at the end.
        self.block.extend(0_u32.to_ne_bytes());
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        // Ours are far shorter than an option can be.
        let value = &value[..value.len().min(1024)];
        self.block.extend(code.to_ne_bytes());
        self.block.extend((value.len() as u16).to_ne_bytes());
        self.block.extend(value);
        self.pad();
    }

    fn pad(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    fn end(&mut self) -> Result<()> {
        // The end of the options.
        self.block.extend(0_u32.to_ne_bytes());
        let len = self.block.len() as u32 + 4;
        self.block[4..8].copy_from_slice(&len.to_ne_bytes());
        self.block.extend(len.to_ne_bytes());
        self.written += u64::from(len);
        self.out.write_all(&self.block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(bytes: &[u8]) -> Vec<u32> {
        let word = |word: &[u8]| u32::from_ne_bytes(word.try_into().unwrap());
        bytes.chunks(4).map(word).collect()
    }

    #[test]
    fn blocks_have_their_length_at_both_ends() {
        let mut bytes = Vec::new();
        let mut file = Pcapng::start(&mut bytes, "lo", Some(5), None).unwrap();
        let time = Duration::new(1, 2);
        let added = file.packet(time, Direction::Outbound, b"abcdefg", Some("why"));
        assert!(added.unwrap());
        let words = words(&bytes);
        let mut at = 0;
        let mut kinds = Vec::new();
        while at < words.len() {
            let len = words[at + 1] as usize / 4;
            assert_eq!(words[at + len - 1], words[at + 1]);
            kinds.push((words[at], at));
            at += len;
        }
        assert_eq!(at, words.len());
        let packet = kinds[2].1;
        assert_eq!(kinds[0].0, SECTION_HEADER);
        assert_eq!(words[kinds[0].1 + 2], BYTE_ORDER_MAGIC);
        assert_eq!(kinds[1].0, INTERFACE_DESCRIPTION);
        assert_eq!(kinds[2].0, ENHANCED_PACKET);
        let stamp = u64::from(words[packet + 3]) << 32 | u64::from(words[packet + 4]);
        assert_eq!(stamp, 1_000_000_002);
        assert_eq!(words[packet + 5..packet + 7], [5, 7], "cut from 7 to 5");
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
