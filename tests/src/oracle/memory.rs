//! Copies of regions, and how they differ from the real ones.

use core::ops::Range;

use roce_engine::verbs::Region;

use crate::workload::Piece;

/// What a region must contain.
#[derive(Clone, Debug)]
pub struct Image {
    bytes: Vec<u8>,
}

impl Image {
    /// Copies a region.
    pub fn of(region: &Region) -> Self {
        Self {
            bytes: whole(region),
        }
    }

    /// Returns all bytes.
    pub fn all(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns a part.
    pub fn slice(&self, offset: usize, len: usize) -> &[u8] {
        &self.bytes[offset..offset + len]
    }

    /// Returns the bytes of the pieces, one after the other.
    pub fn gather(&self, pieces: &[Piece]) -> Vec<u8> {
        let parts = pieces
            .iter()
            .map(|piece| self.slice(piece.offset, piece.len));
        parts.collect::<Vec<_>>().concat()
    }

    /// Replaces a part.
    pub fn write(&mut self, offset: usize, data: &[u8]) {
        self.bytes[offset..offset + data.len()].copy_from_slice(data);
    }

    /// Spreads `data` over the pieces; it may end before they do.
    pub fn scatter(&mut self, pieces: &[Piece], data: &[u8]) {
        let mut rest = data;
        for piece in pieces {
            let (part, after) = rest.split_at(piece.len.min(rest.len()));
            self.write(piece.offset, part);
            rest = after;
        }
    }

    /// Returns where the real region differs, apart from the `open` pieces.
    pub fn differs_outside(&self, real: &Region, open: &[Piece]) -> Option<usize> {
        let mut real = whole(real);
        for piece in open {
            let span = piece.offset..piece.offset + piece.len;
            real[span.clone()].copy_from_slice(&self.bytes[span]);
        }
        differs(&real, &self.bytes)
    }
}

/// Returns the first place where two byte strings differ.
pub fn differs(a: &[u8], b: &[u8]) -> Option<usize> {
    if a == b {
        return None;
    }
    let place = a.iter().zip(b).position(|(a, b)| a != b);
    Some(place.unwrap_or_else(|| a.len().min(b.len())))
}

/// Reads a whole region.
pub(super) fn whole(region: &Region) -> Vec<u8> {
    let all = Piece {
        offset: 0,
        len: region.len(),
    };
    bytes(region, all)
}

/// Reads a span of a region.
pub(crate) fn region_bytes(region: &Region, span: Range<usize>) -> Vec<u8> {
    let piece = Piece {
        offset: span.start,
        len: span.len(),
    };
    bytes(region, piece)
}

/// Reads a piece of a region.
pub(super) fn bytes(region: &Region, piece: Piece) -> Vec<u8> {
    let mut bytes = vec![0; piece.len];
    region.read(piece.offset, &mut bytes);
    bytes
}

/// Reads pieces of a region, one after the other.
pub(super) fn gather(region: &Region, pieces: &[Piece]) -> Vec<u8> {
    pieces
        .iter()
        .flat_map(|piece| bytes(region, *piece))
        .collect()
}
