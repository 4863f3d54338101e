//! The acknowledge header: ACK with credits, RNR NAK with a delay, NAK with a reason.

use core::fmt;

use crate::cursor::u24;
use crate::psn::Msn;

/// The acknowledge header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Aeth {
    /// What is said about the request.
    pub syndrome: Syndrome,
    /// How many messages the responder has completed, modulo 2^24.
    pub msn: Msn,
}

impl Aeth {
    /// Bytes on the wire.
    pub const LEN: usize = 4;

    /// Reads the header.
    #[inline]
    pub const fn from_bytes(bytes: &[u8; Self::LEN]) -> Self {
        let [syndrome, m0, m1, m2] = *bytes;
        Self {
            syndrome: Syndrome::from_raw(syndrome),
            msn: Msn::new(u24([m0, m1, m2])),
        }
    }

    /// Writes the header.
    #[inline]
    pub const fn to_bytes(self) -> [u8; Self::LEN] {
        ((self.syndrome.to_raw() as u32) << 24 | self.msn.value()).to_be_bytes()
    }
}

/// What an acknowledgement says.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Syndrome {
    /// Received; the code says for how many more messages there are receives (see `credits`).
    Ack {
        /// Five bits.
        credits: u8,
    },
    /// No receive was posted; try again after the coded delay (see `timing::rnr_delay`).
    Rnr {
        /// Five bits.
        timer: u8,
    },
    /// Refused.
    Nak(NakCode),
    /// A value that the specification reserves, whole.
    Reserved(u8),
}

impl Syndrome {
    /// An ACK that doesn't limit the requester.
    pub const ACK_UNLIMITED: Self = Self::Ack {
        credits: credits::UNLIMITED,
    };

    /// Reads a syndrome; every byte has one.
    pub const fn from_raw(raw: u8) -> Self {
        let value = raw & 0x1f;
        match raw >> 5 {
            0 => Self::Ack { credits: value },
            1 => Self::Rnr { timer: value },
            3 => Self::Nak(NakCode::from_raw(raw)),
            _ => Self::Reserved(raw),
        }
    }

    /// Writes the syndrome.
    pub const fn to_raw(self) -> u8 {
        match self {
            Self::Ack { credits } => credits & 0x1f,
            Self::Rnr { timer } => 0x20 | timer & 0x1f,
            Self::Nak(code) => code.to_raw(),
            Self::Reserved(raw) => raw,
        }
    }
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum NakCode {
    /// A packet is missing before this one.
    SequenceError,
    /// The request is not one that the responder can take.
    InvalidRequest,
    /// Key, rights or range of the remote memory.
    RemoteAccess,
    /// The responder failed on its own side.
    RemoteOperational,
    /// Reliable datagram only.
    InvalidRdRequest,
    /// A code without a meaning; the whole syndrome, 0x65 to 0x7f.
    Unknown(u8),
}

impl NakCode {
    /// Reads the code of a syndrome byte.
    pub const fn from_raw(raw: u8) -> Self {
        match raw {
            0x60 => Self::SequenceError,
            0x61 => Self::InvalidRequest,
            0x62 => Self::RemoteAccess,
            0x63 => Self::RemoteOperational,
            0x64 => Self::InvalidRdRequest,
            _ => Self::Unknown(raw),
        }
    }

    /// Returns the whole syndrome byte.
    pub const fn to_raw(self) -> u8 {
        match self {
            Self::SequenceError => 0x60,
            Self::InvalidRequest => 0x61,
            Self::RemoteAccess => 0x62,
            Self::RemoteOperational => 0x63,
            Self::InvalidRdRequest => 0x64,
            Self::Unknown(raw) => 0x60 | raw & 0x1f,
        }
    }
}

impl fmt::Display for NakCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SequenceError => f.write_str("PSN sequence error"),
            Self::InvalidRequest => f.write_str("invalid request"),
            Self::RemoteAccess => f.write_str("remote access error"),
            Self::RemoteOperational => f.write_str("remote operational error"),
            Self::InvalidRdRequest => f.write_str("invalid RD request"),
            Self::Unknown(raw) => write!(f, "unknown reason 0x{raw:02x}"),
        }
    }
}

/// The five-bit code of end-to-end credits: not linear, and 31 stands for no limit.
pub mod credits {
    /// The code that doesn't limit the requester: also right for queues that share their receives.
    pub const UNLIMITED: u8 = 31;

    /// Returns the messages that a code grants, or nothing if it doesn't limit them.
    pub const fn decode(code: u8) -> Option<u16> {
        match code {
            0..UNLIMITED => Some(TABLE[code as usize]),
            _ => None,
        }
    }

    /// Returns the code that grants as many of `messages` as can be said, never more.
    pub fn encode(messages: usize) -> u8 {
        (TABLE.partition_point(|granted| usize::from(*granted) <= messages) - 1) as u8
    }

    // Up to 4 by ones, then every power of two and the middle between it and the next one.
    const TABLE: [u16; 31] = {
        let mut table = [
            0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            0, 0, 0, 0,
        ];
        let mut code = 14;
        while code < table.len() {
            table[code] = table[code - 2] * 2;
            code += 1;
        }
        table
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_syndrome_survives() {
        for raw in 0..=255 {
            assert_eq!(Syndrome::from_raw(raw).to_raw(), raw);
        }
        assert_eq!(Syndrome::from_raw(0x1f), Syndrome::ACK_UNLIMITED);
        assert_eq!(Syndrome::from_raw(0x2c), Syndrome::Rnr { timer: 12 });
        assert_eq!(
            Syndrome::from_raw(0x62),
            Syndrome::Nak(NakCode::RemoteAccess)
        );
        assert_eq!(Syndrome::from_raw(0x40), Syndrome::Reserved(0x40));
    }

    #[test]
    fn acknowledge_header_is_syndrome_then_msn() {
        let aeth = Aeth {
            syndrome: Syndrome::Nak(NakCode::SequenceError),
            msn: Msn::new(0x01_0203),
        };
        assert_eq!(aeth.to_bytes(), [0x60, 1, 2, 3]);
        assert_eq!(Aeth::from_bytes(&aeth.to_bytes()), aeth);
    }

    #[test]
    fn credits_never_promise_more_than_there_is() {
        for messages in 0..=40_000 {
            let code = credits::encode(messages);
            assert!(usize::from(credits::decode(code).unwrap()) <= messages);
            if let Some(more) = credits::decode(code + 1) {
                assert!(usize::from(more) > messages);
            }
        }
        assert_eq!(credits::decode(13), Some(96));
        assert_eq!(credits::decode(14), Some(128));
        assert_eq!(credits::decode(23), Some(3072));
        assert_eq!(credits::decode(30), Some(32768));
        assert_eq!(credits::decode(credits::UNLIMITED), None);
    }
}
