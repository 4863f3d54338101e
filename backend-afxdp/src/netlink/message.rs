//! Netlink messages as bytes: headers, attributes, and their alignment.

use core::net::IpAddr;
use std::io;

/// Message types of `rtnetlink.h`, and the two that end an answer.
pub(super) mod kind {
    pub(crate) const ERROR: u16 = 2;
    pub(crate) const DONE: u16 = 3;
    pub(crate) const NEW_LINK: u16 = 16;
    pub(crate) const DEL_LINK: u16 = 17;
    pub(crate) const GET_LINK: u16 = 18;
    pub(crate) const SET_LINK: u16 = 19;
    pub(crate) const NEW_ADDRESS: u16 = 20;
    pub(crate) const DEL_ADDRESS: u16 = 21;
    pub(crate) const GET_ADDRESS: u16 = 22;
    pub(crate) const NEW_ROUTE: u16 = 24;
    pub(crate) const DEL_ROUTE: u16 = 25;
    pub(crate) const GET_ROUTE: u16 = 26;
    pub(crate) const NEW_NEIGHBOUR: u16 = 28;
    pub(crate) const DEL_NEIGHBOUR: u16 = 29;
    pub(crate) const GET_NEIGHBOUR: u16 = 30;
}

/// Flags of requests.
pub(super) const ACK: u16 = 0x04;
pub(super) const CREATE: u16 = 0x400;
pub(super) const DUMP: u16 = 0x300;
const REQUEST: u16 = 0x01;
const MULTI: u16 = 0x02;

const HEADER: usize = 16;

/// A request in the making.
#[derive(Debug)]
pub(super) struct Builder {
    bytes: Vec<u8>,
}

impl Builder {
    pub(super) fn new(kind: u16, flags: u16) -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags | REQUEST).to_ne_bytes());
        Self { bytes }
    }

    /// Puts a `struct ifinfomsg`.
    pub(super) fn link(mut self, index: u32) -> Self {
        self.bytes.extend([0; 4]);
        self.bytes.extend(index.to_ne_bytes());
        self.bytes.extend([0; 8]);
        self
    }

    /// Puts a `struct ifaddrmsg` that asks for everything.
    pub(super) fn address(mut self) -> Self {
        self.bytes.extend([0; 8]);
        self
    }

    /// Puts a `struct rtmsg` with both addresses.
    pub(super) fn route(mut self, from: IpAddr, to: IpAddr) -> Self {
        const SOURCE: u16 = 2;
        const DESTINATION: u16 = 1;
        let bits = if to.is_ipv4() { 32 } else { 128 };
        self.bytes.extend([family(to), bits, bits]);
        self.bytes.extend([0; 9]);
        self.attribute(DESTINATION, &octets(to));
        self.attribute(SOURCE, &octets(from));
        self
    }

    /// Puts a `struct ndmsg` with the neighbour's address.
    pub(super) fn neighbour(mut self, index: u32, ip: IpAddr, flags: u8) -> Self {
        const DESTINATION: u16 = 1;
        self.bytes.extend([family(ip), 0, 0, 0]);
        self.bytes.extend(index.to_ne_bytes());
        self.bytes.extend([0, 0, flags, 0]);
        self.attribute(DESTINATION, &octets(ip));
        self
    }

    /// Asks for no program in a mode.
    pub(super) fn detach_xdp(mut self, mode: u32) -> Self {
        const XDP: u16 = 43 | 0x8000;
        const FD: u16 = 1;
        const FLAGS: u16 = 3;
        let mut inner = Self { bytes: Vec::new() };
        inner.attribute(FD, &(-1_i32).to_ne_bytes());
        inner.attribute(FLAGS, &mode.to_ne_bytes());
        self.attribute(XDP, &inner.bytes);
        self
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        let len = (4 + value.len()) as u16;
        self.bytes.extend(len.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// Returns the finished message.
    pub(super) fn finish(mut self, sequence: u32) -> Vec<u8> {
        let len = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&len.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }
}

fn family(ip: IpAddr) -> u8 {
    match ip {
        IpAddr::V4(_) => libc::AF_INET as u8,
        IpAddr::V6(_) => libc::AF_INET6 as u8,
    }
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// A received message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message<'a> {
    pub(super) kind: u16,
    pub(super) sequence: u32,
    /// More messages of the same answer follow.
    pub(super) is_part: bool,
    /// What follows the header.
    pub(super) body: &'a [u8],
}

impl<'a> Message<'a> {
    /// Splits what was received; bytes that are no message end it.
    pub(super) fn all(mut bytes: &'a [u8]) -> impl Iterator<Item = Self> {
        core::iter::from_fn(move || {
            let len = number(bytes, 0)? as usize;
            let body = bytes.get(HEADER..len)?;
            let message = Self {
                kind: half(bytes, 4)?,
                sequence: number(bytes, 8)?,
                is_part: half(bytes, 6)? & MULTI != 0,
                body,
            };
            bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
            Some(message)
        })
    }

    /// Reads the answer that a request has failed, or hasn't.
    pub(super) fn error(&self) -> io::Result<()> {
        match number(self.body, 0).map(u32::cast_signed) {
            Some(0) => Ok(()),
            Some(code) => Err(io::Error::from_raw_os_error(code.saturating_neg())),
            None => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Splits the attributes behind a structure of `fixed` bytes.
    pub(super) fn attributes(&self, fixed: usize) -> Attributes<'a> {
        Attributes {
            rest: self.body.get(fixed..).unwrap_or_default(),
        }
    }
}

/// Attributes, one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attributes<'a> {
    rest: &'a [u8],
}

impl<'a> Attributes<'a> {
    /// Splits the attributes inside of another.
    pub(super) const fn inside(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    /// Returns the value of the first attribute of a kind.
    pub(super) fn find(mut self, wanted: u16) -> Option<&'a [u8]> {
        self.find_map(|(kind, value)| (kind == wanted).then_some(value))
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        const KIND: u16 = 0x3fff;
        let len = usize::from(half(self.rest, 0)?);
        let kind = half(self.rest, 2)? & KIND;
        let value = self.rest.get(4..len)?;
        self.rest = self.rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    }
}

pub(super) fn half(bytes: &[u8], at: usize) -> Option<u16> {
    let field = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_ne_bytes(*field))
}

pub(super) fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*field))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_is_read_back() {
        let ip: IpAddr = "fd00::7".parse().unwrap();
        let bytes = Builder::new(kind::GET_NEIGHBOUR, ACK)
            .neighbour(9, ip, 1)
            .finish(77);
        let all: Vec<_> = Message::all(&bytes).collect();
        let [message] = all.as_slice() else {
            panic!("{all:?}")
        };
        assert_eq!((message.kind, message.sequence), (kind::GET_NEIGHBOUR, 77));
        assert_eq!(number(message.body, 4), Some(9));
        let address = message.attributes(12).find(1).unwrap();
        assert_eq!(address, octets(ip));
    }

    #[test]
    fn cut_messages_and_attributes_end_the_walk() {
        let ip: IpAddr = "10.0.0.1".parse().unwrap();
        let whole = Builder::new(kind::GET_ROUTE, 0).route(ip, ip).finish(1);
        for len in 0..whole.len() {
            assert_eq!(Message::all(&whole[..len]).count(), 0, "{len}");
        }
        let message = Message::all(&whole).next().unwrap();
        for len in 12..message.body.len() {
            let cut = Message {
                body: &message.body[..len],
                ..message
            };
            assert!(cut.attributes(12).count() <= 2);
        }
        let endless = [0_u8; 64];
        assert_eq!(Message::all(&endless).count(), 0);
        assert_eq!(Attributes::inside(&endless).count(), 0);
    }
}
