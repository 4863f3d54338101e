//! Socket addresses and control messages as bytes of the kernel's ABI.
//!
//! `struct cmsghdr` is a `size_t` and two `int`s, data follows aligned to a `size_t`; that holds for
//! every libc because the kernel reads it.

use core::ffi::{c_int, c_void};
use core::mem::size_of;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// A `sockaddr_in` or `sockaddr_in6`.
#[derive(Clone)]
pub(crate) struct SocketName {
    bytes: [u8; 28],
    len: libc::socklen_t,
}

impl SocketName {
    pub(super) const CAPACITY: libc::socklen_t = 28;

    pub(super) const fn new() -> Self {
        Self {
            bytes: [0; 28],
            len: 0,
        }
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut c_void {
        self.bytes.as_mut_ptr().cast()
    }

    pub(super) const fn len(&self) -> libc::socklen_t {
        self.len
    }

    pub(super) fn set_len(&mut self, len: libc::socklen_t) {
        self.len = len.min(Self::CAPACITY);
    }

    pub(super) fn set(&mut self, address: SocketAddr, flow_label: u32) {
        self.bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        match address {
            SocketAddr::V4(v4) => {
                self.bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
                self.bytes[4..8].copy_from_slice(&v4.ip().octets());
                self.len = 16;
            }
            SocketAddr::V6(v6) => {
                self.bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
                self.bytes[4..8].copy_from_slice(&(flow_label & 0x000f_ffff).to_be_bytes());
                self.bytes[8..24].copy_from_slice(&v6.ip().octets());
                self.bytes[24..].copy_from_slice(&v6.scope_id().to_ne_bytes());
                self.len = 28;
            }
        }
    }

    pub(super) fn parse(&self) -> Option<SocketAddr> {
        parse_name(&self.bytes[..self.len as usize])
    }
}

pub(super) fn parse_name(bytes: &[u8]) -> Option<SocketAddr> {
    let family = c_int::from(u16::from_ne_bytes(array(bytes, 0)?));
    let port = u16::from_be_bytes(array(bytes, 2)?);
    match family {
        libc::AF_INET => {
            let ip = Ipv4Addr::from(array::<4>(bytes, 4)?);
            Some(SocketAddrV4::new(ip, port).into())
        }
        libc::AF_INET6 => {
            let ip = Ipv6Addr::from(array::<16>(bytes, 8)?);
            let scope = u32::from_ne_bytes(array(bytes, 24)?);
            Some(SocketAddrV6::new(ip, port, 0, scope).into())
        }
        _ => None,
    }
}

/// The per-message options of a send, or what a receive said of them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Header {
    /// The bytes of each segment; 0 if the message is one packet.
    pub(crate) segment: usize,
    /// TOS or traffic class.
    pub(crate) traffic_class: u8,
    /// TTL or hop limit; 0 sends the system's default.
    pub(crate) hop_limit: u8,
}

/// What a socket's error queue said of a packet that it sent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct ErrorReport {
    /// Where the packet was going.
    pub(crate) destination: Option<SocketAddr>,
    pub(crate) errno: i32,
    /// One of `SO_EE_ORIGIN_*`.
    pub(crate) origin: u8,
    pub(crate) icmp_type: u8,
    pub(crate) icmp_code: u8,
    /// The path MTU, of an `EMSGSIZE`.
    pub(crate) info: u32,
    /// Who sent the ICMP error.
    pub(crate) offender: Option<IpAddr>,
}

/// A control message area.
#[derive(Clone)]
pub(crate) struct Control {
    bytes: [u8; Self::CAPACITY],
    len: usize,
}

const WORD: usize = size_of::<usize>();
const HEADER: usize = (WORD + 2 * size_of::<c_int>()).next_multiple_of(WORD);

impl Control {
    /// Room for four small messages, or an error report with its offender's address.
    pub(super) const CAPACITY: usize = 128;

    pub(super) const fn new() -> Self {
        Self {
            bytes: [0; Self::CAPACITY],
            len: 0,
        }
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut c_void {
        self.bytes.as_mut_ptr().cast()
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Takes the `size_t` of glibc and the `socklen_t` of musl.
    pub(super) fn set_len(&mut self, len: impl TryInto<usize>) {
        self.len = len.try_into().unwrap_or(0).min(Self::CAPACITY);
    }

    pub(super) fn write(&mut self, ipv6: bool, header: &Header) {
        self.len = 0;
        let class = c_int::from(header.traffic_class).to_ne_bytes();
        let hops = c_int::from(header.hop_limit).to_ne_bytes();
        let (level, class_name, hops_name) = if ipv6 {
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, libc::IPV6_HOPLIMIT)
        } else {
            (libc::IPPROTO_IP, libc::IP_TOS, libc::IP_TTL)
        };
        if header.traffic_class != 0 {
            self.push(level, class_name, &class);
        }
        if header.hop_limit != 0 {
            self.push(level, hops_name, &hops);
        }
        if header.segment != 0 {
            let segment = (header.segment as u16).to_ne_bytes();
            self.push(libc::IPPROTO_UDP, libc::UDP_SEGMENT, &segment);
        }
    }

    fn push(&mut self, level: c_int, name: c_int, data: &[u8]) {
        let at = &mut self.bytes[self.len..];
        at[..WORD].copy_from_slice(&(HEADER + data.len()).to_ne_bytes());
        at[WORD..WORD + 4].copy_from_slice(&level.to_ne_bytes());
        at[WORD + 4..WORD + 8].copy_from_slice(&name.to_ne_bytes());
        at[HEADER..HEADER + data.len()].copy_from_slice(data);
        self.len += HEADER + data.len().next_multiple_of(WORD);
    }

    pub(super) fn read(&self) -> Header {
        let mut header = Header::default();
        self.each(|level, name, data| match (level, name) {
            // The kernel reports the TOS as one byte, and everything else as an `int`.
            (libc::IPPROTO_IP, libc::IP_TOS) => {
                header.traffic_class = data.first().copied().unwrap_or(0);
            }
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => header.traffic_class = int(data) as u8,
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                header.hop_limit = int(data) as u8;
            }
            (libc::IPPROTO_UDP, libc::UDP_GRO) => {
                header.segment = usize::try_from(int(data)).unwrap_or(0);
            }
            _ => {}
        });
        header
    }

    pub(super) fn read_error(&self, destination: Option<SocketAddr>) -> ErrorReport {
        let mut report = ErrorReport {
            destination,
            ..ErrorReport::default()
        };
        self.each(|level, name, data| {
            let error = matches!(
                (level, name),
                (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
            );
            if error && data.len() >= 16 {
                report.errno = int(data);
                report.origin = data[4];
                report.icmp_type = data[5];
                report.icmp_code = data[6];
                report.info = int(&data[8..]) as u32;
                report.offender = parse_name(&data[16..]).map(|name| name.ip());
            }
        });
        report
    }

    fn each(&self, mut f: impl FnMut(c_int, c_int, &[u8])) {
        let mut rest = &self.bytes[..self.len];
        while let Some(len) = array(rest, 0).map(usize::from_ne_bytes) {
            if len < HEADER || len > rest.len() {
                return;
            }
            f(
                int(&rest[WORD..]),
                int(&rest[WORD + 4..]),
                &rest[HEADER..len],
            );
            rest = rest.get(len.next_multiple_of(WORD)..).unwrap_or(&[]);
        }
    }
}

fn int(bytes: &[u8]) -> c_int {
    array(bytes, 0).map_or(0, c_int::from_ne_bytes)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_the_round_trip() {
        for text in ["10.7.0.1:4791", "[fd00::7]:4791"] {
            let mut name = SocketName::new();
            let address: SocketAddr = text.parse().unwrap();
            name.set(address, 0);
            assert_eq!(name.parse(), Some(address));
        }
        assert_eq!(parse_name(&[]), None);
        assert_eq!(parse_name(&[2, 0, 1]), None);
    }

    #[test]
    fn control_messages_have_the_layout_of_libc() {
        let mut control = Control::new();
        let header = Header {
            segment: 4112,
            traffic_class: 0x6a,
            hop_limit: 64,
        };
        control.write(true, &header);
        // SAFETY: this macro computes from its argument alone.
        let space = |len| unsafe { libc::CMSG_SPACE(len) } as usize;
        assert_eq!(control.len(), 2 * space(4) + space(2));
        let mut seen = Vec::new();
        control.each(|level, name, data| seen.push((level, name, data.len())));
        assert_eq!(
            seen,
            [
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, 4),
                (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, 4),
                (libc::IPPROTO_UDP, libc::UDP_SEGMENT, 2),
            ]
        );
        assert_eq!(control.read().traffic_class, 0x6a);
        assert_eq!(control.read().hop_limit, 64);
    }

    #[test]
    fn a_length_that_lies_ends_the_reading() {
        for len in [0, HEADER - 1, 1 << 20] {
            let mut control = Control::new();
            control.push(libc::IPPROTO_UDP, libc::UDP_GRO, &9_i32.to_ne_bytes());
            control.bytes[..WORD].copy_from_slice(&len.to_ne_bytes());
            assert_eq!(control.read(), Header::default());
        }
    }
}
