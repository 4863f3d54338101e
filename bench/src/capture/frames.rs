//! Copies of frames on their way to the writer: a piece is one allocation that goes round and round.

use core::net::IpAddr;
use core::time::Duration;

use roce_engine::link::{FrameNote, Ipv4Id, TappedFrame};
use roce_wire::{IPV4_DONT_FRAGMENT, ROCE_PORT};

/// Bytes of a piece.
const BYTES: usize = 128 << 10;
/// Frames of a piece.
const HEADS: usize = 1024;

/// What happened to a frame here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Passage {
    /// It left.
    Sent,
    /// It was kept back on purpose.
    Withheld,
    /// It came.
    Received,
}

/// All of a frame but its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    /// Since 1970.
    pub(super) time: Duration,
    pub(super) passage: Passage,
    pub(super) note: FrameNote,
    pub(super) src: IpAddr,
    pub(super) dst: IpAddr,
    pub(super) src_port: u16,
    pub(super) dst_port: u16,
    pub(super) traffic_class: u8,
    pub(super) hop_limit: u8,
    pub(super) flow_label: u32,
    /// Identification and flags word, where they are known.
    pub(super) ipv4: Option<(u16, u16)>,
    len: usize,
}

/// A piece of a capture.
#[derive(Debug)]
pub(super) struct Frames {
    heads: Vec<Head>,
    bytes: Vec<u8>,
}

/// Returns the packet of a frame, BTH to ICRC.
pub(super) const fn bytes_of<'a>(frame: &TappedFrame<'a>) -> &'a [u8] {
    match frame {
        TappedFrame::Sent { bytes, .. }
        | TappedFrame::Withheld { bytes, .. }
        | TappedFrame::Received { bytes, .. } => bytes,
    }
}

impl Frames {
    /// Makes an empty piece.
    pub(super) fn new() -> Self {
        Self {
            heads: Vec::with_capacity(HEADS),
            bytes: Vec::with_capacity(BYTES),
        }
    }

    /// Returns whether a packet of `len` bytes fits without allocating. One fits an empty piece always.
    pub(super) fn has_room(&self, len: usize) -> bool {
        self.heads.is_empty() || self.heads.len() < HEADS && self.bytes.len() + len <= BYTES
    }

    /// Adds a frame.
    pub(super) fn push(&mut self, time: Duration, frame: &TappedFrame<'_>) {
        let bytes = bytes_of(frame);
        let head = match frame {
            TappedFrame::Sent {
                flow,
                ipv4_id,
                note,
                ..
            } => Head {
                ipv4: Some((*ipv4_id, IPV4_DONT_FRAGMENT)),
                ..outgoing(time, Passage::Sent, flow, *note)
            },
            TappedFrame::Withheld { flow, note, .. } => {
                outgoing(time, Passage::Withheld, flow, *note)
            }
            TappedFrame::Received { meta, .. } => Head {
                time,
                passage: Passage::Received,
                note: FrameNote::default(),
                src: meta.remote,
                dst: meta.local,
                src_port: meta.source_port,
                dst_port: ROCE_PORT,
                traffic_class: meta.traffic_class,
                hop_limit: meta.hop_limit,
                flow_label: 0,
                ipv4: match meta.ipv4_id {
                    Ipv4Id::Known { id, flags } => Some((id, flags)),
                    Ipv4Id::Unknown => None,
                },
                len: 0,
            },
        };
        self.heads.push(Head {
            len: bytes.len(),
            ..head
        });
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the frames.
    pub(super) fn heads(&self) -> &[Head] {
        &self.heads
    }

    /// Returns the frames with their packets.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Head, &[u8])> {
        let mut rest = self.bytes.as_slice();
        self.heads.iter().map(move |head| {
            let (packet, behind) = rest.split_at(head.len);
            rest = behind;
            (head, packet)
        })
    }

    /// Empties the piece and keeps its memory.
    pub(super) fn clear(&mut self) {
        self.heads.clear();
        self.bytes.clear();
    }
}

fn outgoing(
    time: Duration,
    passage: Passage,
    flow: &roce_engine::link::Flow,
    note: FrameNote,
) -> Head {
    Head {
        time,
        passage,
        note,
        src: flow.local,
        dst: flow.remote,
        src_port: flow.source_port,
        dst_port: ROCE_PORT,
        traffic_class: flow.traffic_class,
        hop_limit: flow.hop_limit,
        flow_label: flow.flow_label,
        ipv4: None,
        len: 0,
    }
}
