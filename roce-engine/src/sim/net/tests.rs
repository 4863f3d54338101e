use super::*;
use core::net::Ipv4Addr;
use core::num::NonZeroU64;

use crate::link::Ipv4Id;
use crate::sim::faults::{Bottleneck, Loss};

#[test]
fn packets_arrive_after_the_latency_and_in_order() {
    let mut net = two_ports(Faults {
        latency: Duration::from_micros(5),
        jitter: Duration::from_micros(50),
        ..Faults::default()
    });
    for n in 0..100 {
        send(&mut net, &[n]);
    }
    net.advance(Instant::from_nanos(4_999));
    assert!(net.take(PortId(1)).is_none());
    assert_eq!(drain(&mut net), (0..100).collect::<Vec<u8>>());
}

#[test]
fn equal_seeds_lose_the_same_packets() {
    let lossy = Faults {
        loss: Loss::Uniform(0.3),
        duplicate: 0.1,
        reorder: 0.2,
        reorder_delay: Duration::from_micros(9),
        ..Faults::default()
    };
    let run = || {
        let mut net = two_ports(lossy);
        (0..200).for_each(|n| send(&mut net, &[n]));
        drain(&mut net)
    };
    let arrived = run();
    assert_eq!(arrived, run());
    assert!(!arrived.is_sorted(), "some were overtaken");
    let missing = (0..200).filter(|n| !arrived.contains(n)).count();
    assert!((30..90).contains(&missing), "{missing}");
    assert!(arrived.len() + missing > 200, "some came twice");
}

#[test]
fn corruption_changes_one_to_three_bits() {
    let mut net = two_ports(Faults {
        corrupt: 1.0,
        ..Faults::default()
    });
    for _ in 0..100 {
        send(&mut net, &[0; 64]);
        net.advance(Instant::from_nanos(1));
        let bytes = net.take(PortId(1)).expect("it arrives").bytes;
        let flipped: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
        assert!(flipped <= 3);
    }
}

#[test]
fn a_full_queue_drops_the_tail_and_marks_before() {
    let mut net = two_ports(Faults {
        bottleneck: Some(Bottleneck {
            bits_per_second: NonZeroU64::new(1_000_000_000).expect("not zero"),
            queue_bytes: 10_000,
            mark_bytes: 5_000,
        }),
        ..Faults::default()
    });
    for _ in 0..20 {
        send(&mut net, &[0; 1000]);
    }
    net.advance(Instant::from_nanos(1_000_000));
    let arrived: Vec<Datagram> = core::iter::from_fn(|| net.take(PortId(1))).collect();
    // Each takes 1,066 bytes of the wire, so ten of them wait before the queue is full.
    assert_eq!(arrived.len(), 9);
    let marked = |datagram: &&Datagram| datagram.meta.traffic_class & CE == CE;
    assert_eq!(arrived.iter().filter(marked).count(), 4);
}

#[test]
fn packets_to_nobody_are_told_apart() {
    let mut net = two_ports(Faults::default());
    net.trace_packets(8);
    let mut datagram = datagram(&[1]);
    datagram.meta.local = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 99));
    net.transmit(PortId(0), datagram, FrameNote::default());
    assert_eq!(
        net.trace().records().next().map(|record| record.fate),
        Some(Fate::NoRoute)
    );
    assert!(net.next_arrival().is_none());
}

fn two_ports(faults: Faults) -> Net {
    let mut net = Net::new(11);
    net.add_port(&[address(1)], faults);
    net.add_port(&[address(2)], Faults::default());
    net
}

fn address(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))
}

fn datagram(bytes: &[u8]) -> Datagram {
    Datagram {
        meta: RxMeta {
            remote: address(1),
            local: address(2),
            source_port: 0xc000,
            traffic_class: 2,
            hop_limit: 64,
            ipv4_id: Ipv4Id::Unknown,
        },
        bytes: bytes.to_vec(),
    }
}

fn send(net: &mut Net, bytes: &[u8]) {
    net.transmit(PortId(0), datagram(bytes), FrameNote::default());
}

fn drain(net: &mut Net) -> Vec<u8> {
    net.advance(Instant::from_nanos(1_000_000));
    core::iter::from_fn(|| net.take(PortId(1)))
        .map(|datagram| datagram.bytes[0])
        .collect()
}
