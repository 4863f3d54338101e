//! The extended headers of a packet as one value.

use crate::aeth::Aeth;
use crate::atomic::{AtomicAckEth, AtomicEth};
use crate::cursor::{Reader, Writer};
use crate::deth::Deth;
use crate::error::{ParseError, Part};
use crate::ids::RKey;
use crate::imm::{Feth, ImmData};
use crate::opcode::HeaderSet;
use crate::reth::Reth;

/// The headers between BTH and payload, each present or not. The fields are in wire order.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Ext {
    /// Datagram header.
    pub deth: Option<Deth>,
    /// Flush header.
    pub feth: Option<Feth>,
    /// RDMA header.
    pub reth: Option<Reth>,
    /// Atomic request header.
    pub atomic: Option<AtomicEth>,
    /// Acknowledge header.
    pub aeth: Option<Aeth>,
    /// Atomic response header.
    pub atomic_ack: Option<AtomicAckEth>,
    /// Immediate data.
    pub imm: Option<ImmData>,
    /// The key that a SEND invalidates.
    pub ieth: Option<RKey>,
}

impl Ext {
    /// No extended header.
    pub const NONE: Self = Self {
        deth: None,
        feth: None,
        reth: None,
        atomic: None,
        aeth: None,
        atomic_ack: None,
        imm: None,
        ieth: None,
    };

    /// Reads the headers of a set.
    ///
    /// # Errors
    ///
    /// The bytes end inside of one of them.
    #[inline]
    pub fn parse(headers: HeaderSet, reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let mut ext = Self::NONE;
        if headers.is_empty() {
            return Ok(ext);
        }
        if headers.contains(HeaderSet::DETH) {
            ext.deth = Some(Deth::from_bytes(reader.array(Part::Deth)?));
        }
        if headers.contains(HeaderSet::FETH) {
            ext.feth = Some(Feth::from_bytes(reader.array(Part::Feth)?));
        }
        if headers.contains(HeaderSet::RETH) {
            ext.reth = Some(Reth::from_bytes(reader.array(Part::Reth)?));
        }
        if headers.contains(HeaderSet::ATOMIC) {
            ext.atomic = Some(AtomicEth::from_bytes(reader.array(Part::AtomicEth)?));
        }
        if headers.contains(HeaderSet::AETH) {
            ext.aeth = Some(Aeth::from_bytes(reader.array(Part::Aeth)?));
        }
        if headers.contains(HeaderSet::ATOMIC_ACK) {
            ext.atomic_ack = Some(AtomicAckEth::from_bytes(reader.array(Part::AtomicAckEth)?));
        }
        if headers.contains(HeaderSet::IMM) {
            ext.imm = Some(*reader.array(Part::ImmDt)?);
        }
        if headers.contains(HeaderSet::IETH) {
            ext.ieth = Some(RKey(u32::from_be_bytes(*reader.array(Part::Ieth)?)));
        }
        Ok(ext)
    }

    /// Writes the headers that are present.
    ///
    /// # Panics
    ///
    /// The writer has less room than `len()`.
    #[inline]
    pub fn emit(&self, writer: &mut Writer<'_>) {
        if let Some(deth) = self.deth {
            writer.put(&deth.to_bytes());
        }
        if let Some(feth) = self.feth {
            writer.put(&feth.to_bytes());
        }
        if let Some(reth) = self.reth {
            writer.put(&reth.to_bytes());
        }
        if let Some(atomic) = self.atomic {
            writer.put(&atomic.to_bytes());
        }
        if let Some(aeth) = self.aeth {
            writer.put(&aeth.to_bytes());
        }
        if let Some(atomic_ack) = self.atomic_ack {
            writer.put(&atomic_ack.to_bytes());
        }
        if let Some(imm) = self.imm {
            writer.put(&imm);
        }
        if let Some(ieth) = self.ieth {
            writer.put(&ieth.0.to_be_bytes());
        }
    }

    /// Returns which headers are present.
    #[inline]
    pub const fn headers(&self) -> HeaderSet {
        HeaderSet::NONE
            .and_if(self.deth.is_some(), HeaderSet::DETH)
            .and_if(self.feth.is_some(), HeaderSet::FETH)
            .and_if(self.reth.is_some(), HeaderSet::RETH)
            .and_if(self.atomic.is_some(), HeaderSet::ATOMIC)
            .and_if(self.aeth.is_some(), HeaderSet::AETH)
            .and_if(self.atomic_ack.is_some(), HeaderSet::ATOMIC_ACK)
            .and_if(self.imm.is_some(), HeaderSet::IMM)
            .and_if(self.ieth.is_some(), HeaderSet::IETH)
    }

    /// Returns the bytes that the present headers take.
    #[inline]
    pub const fn len(&self) -> usize {
        self.headers().len()
    }

    /// Returns whether no header is present.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.headers().is_empty()
    }
}
