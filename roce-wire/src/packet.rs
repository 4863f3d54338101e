//! A packet from BTH to ICRC: a UDP payload as a value, and back.

use crate::bth::Bth;
use crate::cursor::{Reader, Writer};
use crate::error::{Malformed, ParseError, Part, Unsupported};
use crate::ext::Ext;
use crate::opcode::{OpcodeInfo, Operation};

/// Bytes of the ICRC, the last ones of every packet.
pub const ICRC_LEN: usize = 4;

/// Bytes of an ATOMIC WRITE's payload.
pub const ATOMIC_WRITE_LEN: usize = 8;

/// The reserved bytes of a CNP, between BTH and ICRC.
pub const CNP_RESERVED_LEN: usize = 16;

/// A packet whose headers are values and whose payload is borrowed.
///
/// The ICRC is carried and not checked, since it covers outer headers too: see [`crate::icrc`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Packet<'a> {
    /// The base transport header.
    pub bth: Bth,
    /// The extended headers of its opcode.
    pub ext: Ext,
    /// The data, without pad; for a CNP its 16 reserved bytes.
    pub payload: &'a [u8],
    /// The pad, of which the first `bth.pad` bytes count. Senders leave it 0, receivers ignore it.
    pub pad_bytes: [u8; 3],
    /// The four last bytes as they are on the wire.
    pub icrc: [u8; ICRC_LEN],
}

#[expect(clippy::len_without_is_empty, reason = "there is always a BTH")]
impl<'a> Packet<'a> {
    /// Reads a packet from exactly its bytes, BTH to ICRC.
    ///
    /// # Errors
    ///
    /// The bytes are too few, of an opcode or version that isn't handled, or contradict themselves.
    /// Nothing that depends on the QP (path MTU, message length) is looked at.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(bytes);
        let bth = Bth::from_bytes(reader.array(Part::Bth)?);
        let info = known(&bth)?;
        let icrc = *reader.trailer(Part::Icrc)?;
        let ext = Ext::parse(info.headers, &mut reader)?;
        let rest = reader.rest();
        let pad = usize::from(bth.pad);
        let Some((payload, tail)) = rest
            .len()
            .checked_sub(pad)
            .and_then(|len| rest.split_at_checked(len))
        else {
            return Err(ParseError::Malformed(Malformed::PadBeyondPayload));
        };
        check_payload(&info, rest.len(), payload.len())?;
        let mut pad_bytes = [0; 3];
        for (kept, byte) in pad_bytes.iter_mut().zip(tail) {
            *kept = *byte;
        }
        Ok(Self {
            bth,
            ext,
            payload,
            pad_bytes,
            icrc,
        })
    }

    /// Returns BTH and extended headers.
    pub const fn headers(&self) -> Headers {
        Headers {
            bth: self.bth,
            ext: self.ext,
        }
    }

    /// Returns what the opcode says; a packet that was parsed has one that is defined.
    #[inline]
    pub const fn info(&self) -> Option<OpcodeInfo> {
        self.bth.opcode.info()
    }

    /// Returns the bytes of the packet, BTH to ICRC.
    pub const fn len(&self) -> usize {
        self.headers().len() + self.payload.len() + (self.bth.pad & 3) as usize + ICRC_LEN
    }

    /// Writes the packet as it is, pad bytes and ICRC too; a parsed one gives the parsed bytes.
    ///
    /// # Panics
    ///
    /// `out` is shorter than `len()`. Bytes after that stay as they were.
    pub fn emit_into(&self, out: &mut [u8]) {
        let mut writer = Writer::new(out);
        self.headers().emit_to(&mut writer);
        writer.put(self.payload);
        let [a, b, c] = self.pad_bytes;
        match self.bth.pad & 3 {
            0 => {}
            1 => writer.put(&[a]),
            2 => writer.put(&[a, b]),
            _ => writer.put(&[a, b, c]),
        }
        writer.put(&self.icrc);
    }
}

/// The headers of a packet whose payload is somewhere else.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Headers {
    /// The base transport header.
    pub bth: Bth,
    /// The extended headers; those that the opcode has.
    pub ext: Ext,
}

#[expect(clippy::len_without_is_empty, reason = "there is always a BTH")]
impl Headers {
    /// Reads the headers alone, of a packet whose end may be missing.
    ///
    /// # Errors
    ///
    /// As [`Packet::parse`], but nothing after the headers is looked at.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(bytes);
        let bth = Bth::from_bytes(reader.array(Part::Bth)?);
        let info = known(&bth)?;
        let ext = Ext::parse(info.headers, &mut reader)?;
        Ok(Self { bth, ext })
    }

    /// Returns the bytes of the headers.
    #[inline]
    pub const fn len(&self) -> usize {
        Bth::LEN + self.ext.len()
    }

    /// Returns the headers with the pad count that a payload of `payload_len` bytes needs.
    #[must_use]
    #[inline]
    pub const fn padded_for(mut self, payload_len: usize) -> Self {
        self.bth.pad = pad_len(payload_len) as u8;
        self
    }

    /// Returns the bytes, BTH to ICRC, of a packet with these headers and so much payload.
    #[inline]
    pub const fn packet_len(&self, payload_len: usize) -> usize {
        self.len() + payload_len + pad_len(payload_len) + ICRC_LEN
    }

    /// Writes the headers, and nothing after the first `len()` bytes.
    ///
    /// # Panics
    ///
    /// `out` is shorter than `len()`.
    #[inline]
    pub fn emit(&self, out: &mut [u8]) {
        self.emit_to(&mut Writer::new(out));
    }

    /// Writes headers and zero pad into a packet's bytes and returns where its payload goes.
    ///
    /// The pad count is set from `payload_len`. The ICRC's place is left alone: seal it after the
    /// payload is written.
    ///
    /// # Panics
    ///
    /// `packet` is shorter than `packet_len(payload_len)`.
    #[inline]
    pub fn frame<'p>(&self, packet: &'p mut [u8], payload_len: usize) -> &'p mut [u8] {
        let mut writer = Writer::new(packet);
        self.padded_for(payload_len).emit_to(&mut writer);
        let payload = writer.skip(payload_len);
        writer.skip(pad_len(payload_len)).fill(0);
        assert!(writer.room() >= ICRC_LEN, "no room for the ICRC");
        payload
    }

    #[inline]
    fn emit_to(&self, writer: &mut Writer<'_>) {
        debug_assert!(
            self.bth
                .opcode
                .info()
                .is_none_or(|info| info.headers == self.ext.headers()),
            "{} doesn't have the headers {:?}",
            self.bth.opcode,
            self.ext
        );
        writer.put(&self.bth.to_bytes());
        self.ext.emit(writer);
    }
}

/// Returns the pad bytes, 0 to 3, that follow a payload.
#[inline]
pub const fn pad_len(payload_len: usize) -> usize {
    payload_len.wrapping_neg() & 3
}

/// Returns what the opcode says, before any length is looked at.
#[inline]
fn known(bth: &Bth) -> Result<OpcodeInfo, ParseError> {
    let Some(info) = bth.opcode.info() else {
        return Err(ParseError::Unsupported(Unsupported::Opcode(bth.opcode)));
    };
    if bth.version != 0 {
        return Err(ParseError::Unsupported(Unsupported::BthVersion(
            bth.version,
        )));
    }
    Ok(info)
}

#[inline]
fn check_payload(info: &OpcodeInfo, padded: usize, payload: usize) -> Result<(), ParseError> {
    let fault = if !info.has_payload && padded != 0 {
        Malformed::UnexpectedPayload
    } else if !padded.is_multiple_of(4) {
        Malformed::Unaligned
    } else {
        let required = match info.operation {
            Operation::AtomicWrite => ATOMIC_WRITE_LEN,
            Operation::Cnp => CNP_RESERVED_LEN,
            _ => return Ok(()),
        };
        if payload == required {
            return Ok(());
        }
        Malformed::PayloadLength
    };
    Err(ParseError::Malformed(fault))
}

#[cfg(test)]
mod tests;
