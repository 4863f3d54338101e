//! The packet reader and writer: any bytes are read or refused, and what was read is written back.

use core::fmt::Write as _;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use roce_wire::{
    Frame, FrameSpec, HeaderTemplate, Headers, IPV4_DONT_FRAGMENT, IcrcCheck, IcrcSeed, IdRecovery,
    MAX_OUTER, Packet, ROCE_PORT,
};

use super::input::Input;

/// Reads bytes as a packet and as a frame of either kind, and prints what comes out.
///
/// # Panics
///
/// The reader panicked, or its parts contradict each other.
pub fn parse(bytes: &[u8]) {
    let mut text = String::new();
    for frame in [Frame::parse(bytes), Frame::parse_ip(bytes)] {
        match frame {
            Ok(frame) => {
                assert!(frame.packet.len() <= bytes.len());
                let check = frame.check_icrc();
                assert_eq!(check == IcrcCheck::Truncated, frame.missing > 0);
                let _infallible = write!(text, "{frame} {check:?} {:?}", frame.vlan());
                packet(frame.packet, &mut text);
            }
            Err(error) => {
                let _infallible = write!(text, "{error}");
            }
        }
    }
    packet(bytes, &mut text);
    assert!(!text.is_empty());
}

fn packet(bytes: &[u8], text: &mut String) {
    let headers = Headers::parse(bytes);
    match Packet::parse(bytes) {
        Ok(packet) => {
            assert_eq!(headers, Ok(packet.headers()));
            assert_eq!(packet.len(), bytes.len());
            assert!(packet.info().is_some());
            let _infallible = write!(text, "{packet}");
        }
        Err(error) => {
            let _infallible = write!(text, "{error}");
        }
    }
}

/// Writes what was read, seals it, checks it and walks the frame around it.
///
/// # Panics
///
/// Something didn't come back as it went.
pub fn reparse(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let flow = Flow::choose(&mut input);
    let packet = input.rest();
    // Whatever the bytes are: no answer about them is a panic.
    let seed = flow.seed();
    let mut recovery = IdRecovery::new();
    let recovered = seed.recover(packet);
    assert_eq!(recovery.recover(&seed, packet), recovered);
    assert_eq!(recovery.recover(&seed, packet), recovered, "from its cache");
    if let Some((id, flags)) = recovered {
        assert!(seed.verify(id, flags, packet));
    }

    let Ok(read) = Packet::parse(packet) else {
        return;
    };
    let mut written = vec![0xa5; packet.len() + 3];
    read.emit_into(&mut written);
    assert_eq!(written[..packet.len()], *packet);
    assert_eq!(written[packet.len()..], [0xa5; 3], "beyond its end");
    written.truncate(packet.len());
    flow.seal_and_walk(&seed, &mut recovery, &mut written);
}

/// Addresses, port and Identification of the packet, and a bit to flip.
struct Flow {
    src: IpAddr,
    dst: IpAddr,
    src_port: u16,
    id: u16,
    flip: u16,
}

impl Flow {
    fn choose(input: &mut Input<'_>) -> Self {
        let v6 = input.u8() & 1 == 1;
        let address = |value: u32| match v6 {
            false => IpAddr::V4(Ipv4Addr::from_bits(value)),
            true => IpAddr::V6(Ipv6Addr::from_bits(0xfd00 << 112 | u128::from(value))),
        };
        Self {
            src: address(input.u32()),
            dst: address(input.u32()),
            src_port: input.u16(),
            id: input.u16(),
            flip: input.u16(),
        }
    }

    fn seed(&self) -> IcrcSeed {
        IcrcSeed::new(self.src, self.dst, self.src_port, ROCE_PORT)
    }

    fn seal_and_walk(&self, seed: &IcrcSeed, recovery: &mut IdRecovery, packet: &mut [u8]) {
        seed.seal(self.id, IPV4_DONT_FRAGMENT, packet);
        assert!(seed.verify(self.id, IPV4_DONT_FRAGMENT, packet));
        let id = if self.src.is_ipv4() {
            (self.id, IPV4_DONT_FRAGMENT)
        } else {
            (0, 0)
        };
        assert_eq!(seed.recover(packet), Some(id));
        assert_eq!(recovery.recover(seed, packet), Some(id));
        self.walk(packet);

        let bit = usize::from(self.flip) % (packet.len() * 8);
        packet[bit / 8] ^= 1 << (bit % 8);
        // The ICRC leaves the congestion byte out, for routers write there.
        let covered = bit / 8 != 4;
        let holds = seed.verify(self.id, IPV4_DONT_FRAGMENT, packet);
        assert_eq!(holds, !covered, "bit {bit}");
    }

    fn walk(&self, packet: &[u8]) {
        let spec = FrameSpec {
            traffic_class: self.flip as u8,
            ..FrameSpec::between(self.src, self.dst, self.src_port).expect("one family")
        };
        let template = HeaderTemplate::new(&spec);
        let mut frame = vec![0; MAX_OUTER + packet.len()];
        template.stamp(&mut frame, packet.len(), self.id);
        frame[template.len()..][..packet.len()].copy_from_slice(packet);
        let read = Frame::parse_ip(&frame).expect("a frame that was made");
        assert_eq!(read.packet, packet);
        assert_eq!(read.addresses(), spec.addresses);
        assert_eq!(read.src_port(), self.src_port);
        assert_eq!(read.traffic_class(), spec.traffic_class);
        assert_eq!(read.check_icrc(), IcrcCheck::Good);
    }
}
