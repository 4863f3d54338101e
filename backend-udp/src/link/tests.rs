use core::net::Ipv4Addr;
use std::time::Instant;

use roce_wire::icrc::{IPV4_DONT_FRAGMENT, IcrcSeed};

use super::*;
use crate::config::{Endpoint, ROCE_PORT};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn v6() -> IpAddr {
    "::1".parse().unwrap()
}

fn config(port: u16, role: Endpoint) -> Config {
    Config {
        port,
        ..Config::new(Local::Interface("lo".to_owned()), role)
    }
}

fn pair(port: u16) -> (UdpLink, UdpLink) {
    let server = UdpLink::open(config(port, Endpoint::Server)).unwrap();
    let client = UdpLink::open(config(port, Endpoint::Client)).unwrap();
    (server, client)
}

fn flow(link: &mut UdpLink, local: IpAddr) -> Flow {
    Flow {
        local,
        remote: local,
        source_port: link.source_port(local, 0xc123),
        traffic_class: 0x6a,
        hop_limit: 77,
        flow_label: 0x12345,
    }
}

/// Sends a sealed packet to an even QPN with a number in it.
fn send(link: &mut UdpLink, flow: &Flow, len: usize, number: u32) -> bool {
    let seed = IcrcSeed::new(flow.local, flow.remote, flow.source_port, ROCE_PORT);
    link.send(flow, len, FrameNote::default(), |slot| {
        slot.bytes.fill(number as u8);
        slot.bytes[4..8].copy_from_slice(&0x42_u32.to_be_bytes());
        slot.bytes[8..12].copy_from_slice(&number.to_be_bytes());
        seed.seal(slot.ipv4_id, IPV4_DONT_FRAGMENT, slot.bytes);
    })
}

/// One received packet: what a test looks at.
#[derive(Debug)]
struct Seen {
    number: u32,
    len: usize,
    meta: RxMeta,
    /// The Identification that explains its ICRC.
    id: Option<(u16, u16)>,
}

fn collect(link: &mut UdpLink, count: usize) -> Vec<Seen> {
    let mut seen = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(5);
    while seen.len() < count && Instant::now() < deadline {
        link.receive(count - seen.len(), |meta, bytes| {
            let seed = IcrcSeed::new(meta.remote, meta.local, meta.source_port, ROCE_PORT);
            seen.push(Seen {
                number: u32::from_be_bytes(bytes[8..12].try_into().unwrap()),
                len: bytes.len(),
                meta: *meta,
                id: if meta.local.is_ipv6() {
                    seed.verify(0, 0, bytes).then_some((0, 0))
                } else {
                    seed.recover(bytes)
                },
            });
        })
        .unwrap();
        if seen.len() < count {
            link.wait(Some(Duration::from_millis(20))).unwrap();
        }
    }
    seen
}

fn counter(link: &UdpLink, name: &str) -> u64 {
    let counters = link.counters();
    let found = counters.iter().find(|(known, _)| *known == name);
    found.unwrap().1
}

#[test]
fn batches_arrive_in_order_with_their_bounds_and_identifications() {
    let (mut server, mut client) = pair(24_811);
    let flow = flow(&mut client, V4);
    // As the packets of two WRITEs of five path MTUs and one short one.
    let lengths = [4128, 4112, 4112, 4112, 1000, 4128, 4112, 60, 16];
    for (number, len) in (0..).zip(lengths) {
        assert!(send(&mut client, &flow, len, number));
    }
    client.flush().unwrap();
    let seen = collect(&mut server, lengths.len());
    let found: Vec<_> = seen.iter().map(|one| one.len).collect();
    assert_eq!(found, lengths);
    assert!(seen.iter().map(|one| one.number).eq(0..9));
    let ids: Vec<_> = seen.iter().map(|one| one.id.unwrap()).collect();
    // 4128 4112 | 4112 4112 1000 | 4128 4112 | 60 16
    let expected = [0, 1, 0, 1, 2, 0, 1, 0, 1].map(|id| (id, IPV4_DONT_FRAGMENT));
    assert_eq!(ids, expected);
    assert_eq!(counter(&client, "udp_tx_calls"), 1);
    let meta = seen[0].meta;
    assert_eq!((meta.local, meta.remote), (V4, V4));
    assert_eq!(meta.source_port, flow.source_port);
    assert_eq!((meta.traffic_class, meta.hop_limit), (0x6a, 77));
}

#[test]
fn one_link_serves_both_families() {
    let (mut server, mut client) = pair(24_812);
    assert_eq!(
        server.addresses().collect::<Vec<_>>()[..2],
        [V4, v6()],
        "row 0 and row 1"
    );
    for (number, local) in (0..).zip([V4, v6(), V4, v6()]) {
        let flow = flow(&mut client, local);
        for _ in 0..3 {
            assert!(send(&mut client, &flow, 4112, number));
        }
        client.flush().unwrap();
        for one in collect(&mut server, 3) {
            assert_eq!((one.number, one.len), (number, 4112));
            assert!(one.id.is_some(), "the ICRC is right");
            assert_eq!((one.meta.local, one.meta.remote), (local, local));
            assert_eq!((one.meta.traffic_class, one.meta.hop_limit), (0x6a, 77));
        }
    }
    assert_eq!(client.next_event(), None);
}

#[test]
fn parity_decides_who_receives() {
    let (mut server, mut client) = pair(24_813);
    assert_eq!(server.caps().qpn_parity, Some(0));
    assert_eq!(client.caps().qpn_parity, Some(1));
    for local in [V4, v6()] {
        let flow = flow(&mut server, local);
        server.send(&flow, 64, FrameNote::default(), |slot| {
            slot.bytes.fill(0);
            slot.bytes[7] = 0x43;
        });
        server.flush().unwrap();
        assert_eq!(collect(&mut client, 1).len(), 1);
    }
}

#[test]
fn a_silent_peer_is_reported_within_a_second() {
    let mut client = UdpLink::open(config(24_814, Endpoint::Client)).unwrap();
    let there: IpAddr = "127.0.0.77".parse().unwrap();
    let mut flow = flow(&mut client, V4);
    flow.remote = there;
    let start = Instant::now();
    assert!(send(&mut client, &flow, 64, 0));
    client.flush().unwrap();
    let event = loop {
        client.wait(Some(Duration::from_millis(50))).unwrap();
        if let Some(event) = client.next_event() {
            break event;
        }
        assert!(start.elapsed() < Duration::from_secs(1));
    };
    let LinkEvent::Unreachable { remote, reason } = event else {
        panic!("{event:?}")
    };
    assert_eq!(remote, there);
    assert!(reason.starts_with("nobody listens on UDP 24814 at 127.0.0.77"));
}

#[test]
fn a_link_that_spins_hears_of_a_silent_peer_too() {
    let mut client = UdpLink::open(config(24_815, Endpoint::Client)).unwrap();
    let mut flow = flow(&mut client, V4);
    flow.remote = "127.0.0.79".parse().unwrap();
    assert!(send(&mut client, &flow, 64, 0));
    client.flush().unwrap();
    let start = Instant::now();
    loop {
        client.receive(16, |_, _| {}).unwrap();
        if let Some(event) = client.next_event() {
            assert!(
                matches!(event, LinkEvent::Unreachable { remote, .. } if remote == flow.remote)
            );
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(1));
    }
}

#[test]
fn who_is_alone_on_a_shared_address_hears_that_nobody_else_is_there() {
    let (server, mut client) = pair(24_826);
    for local in [V4, v6()] {
        let flow = flow(&mut client, local);
        assert!(send(&mut client, &flow, 64, 0));
        client.flush().unwrap();
        client.receive(16, |_, _| {}).unwrap();
        assert_eq!(client.next_event(), None);
    }
    drop(server);
    for local in [V4, v6()] {
        let flow = flow(&mut client, local);
        assert!(send(&mut client, &flow, 64, 0));
        client.flush().unwrap();
        assert_eq!(client.receive(16, |_, _| {}).unwrap(), 0);
        let Some(LinkEvent::Unreachable { remote, reason }) = client.next_event() else {
            panic!("not told")
        };
        assert_eq!(remote, local);
        assert!(
            reason.contains("nobody else listens on UDP 24826"),
            "{reason}"
        );
    }
    // A QP of its own is reached by loopback.
    let flow = flow(&mut client, V4);
    client.send(&flow, 64, FrameNote::default(), |slot| {
        slot.bytes.fill(0);
        slot.bytes[7] = 0x43;
    });
    client.flush().unwrap();
    assert_eq!(collect(&mut client, 1).len(), 1);
}

#[test]
fn a_pending_error_does_not_cost_the_next_packet() {
    let (mut server, mut client) = pair(24_816);
    let alive = flow(&mut client, V4);
    let mut dead = alive;
    dead.remote = "127.0.0.78".parse().unwrap();
    for number in 0..20 {
        assert!(send(&mut client, &dead, 64, number));
        assert!(send(&mut client, &alive, 64, number));
        client.flush().unwrap();
    }
    let seen = collect(&mut server, 20);
    assert!(seen.iter().map(|one| one.number).eq(0..20));
    assert_eq!(counter(&client, "udp_tx_dropped"), 0);
}

#[test]
fn without_segmentation_every_packet_has_identification_zero() {
    let mut server = UdpLink::open(config(24_817, Endpoint::Server)).unwrap();
    let mut client = UdpLink::open(Config {
        segmentation: false,
        ..config(24_817, Endpoint::Client)
    })
    .unwrap();
    assert_eq!(client.caps().max_batch, 1);
    let flow = flow(&mut client, V4);
    for number in 0..40 {
        assert!(send(&mut client, &flow, 4112, number));
    }
    client.flush().unwrap();
    let seen = collect(&mut server, 40);
    assert_eq!(seen.len(), 40);
    let zero = Some((0, IPV4_DONT_FRAGMENT));
    assert!(seen.iter().all(|one| one.id == zero));
    assert_eq!(counter(&client, "udp_tx_messages"), 40);
}

#[test]
fn refused_batches_are_split_sealed_again_and_told_once() {
    let (mut server, mut client) = pair(24_818);
    for local in [V4, v6()] {
        let flow = flow(&mut client, local);
        // The kernel refuses UDP_SEGMENT without a checksum.
        for socket in client.transmitter.raw_sockets() {
            sys::set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).unwrap();
        }
        client.caps.max_batch = 64;
        for number in 0..30 {
            assert!(send(&mut client, &flow, 1040, number));
        }
        client.flush().unwrap();
        let seen = collect(&mut server, 30);
        assert!(seen.iter().map(|one| one.number).eq(0..30));
        assert!(seen.iter().all(|one| one.id.is_some_and(|(id, _)| id == 0)));
    }
    assert_eq!(client.caps().max_batch, 1);
    assert_eq!(counter(&client, "udp_tx_batches_refused"), 1);
    assert!(matches!(client.next_event(), Some(LinkEvent::Notice(_))));
    assert_eq!(client.next_event(), None);
}

#[test]
fn without_coalescing_batches_arrive_as_packets() {
    let mut server = UdpLink::open(Config {
        coalescing: false,
        ..config(24_819, Endpoint::Server)
    })
    .unwrap();
    let mut client = UdpLink::open(config(24_819, Endpoint::Client)).unwrap();
    for local in [V4, v6()] {
        let flow = flow(&mut client, local);
        for number in 0..15 {
            assert!(send(&mut client, &flow, 4112, number));
        }
        client.flush().unwrap();
        let seen = collect(&mut server, 15);
        // The kernel cut the batch and numbered its pieces.
        for (place, one) in (0..).zip(&seen) {
            assert_eq!((one.number, one.len), (u32::from(place), 4112));
            let id = if local.is_ipv4() { place } else { 0 };
            assert_eq!(one.id.unwrap().0, id);
        }
        assert_eq!(seen.len(), 15);
    }
}

#[test]
fn a_budget_is_kept_and_the_rest_waits() {
    let (mut server, mut client) = pair(24_820);
    let flow = flow(&mut client, V4);
    for number in 0..100 {
        assert!(send(&mut client, &flow, 128, number));
    }
    client.flush().unwrap();
    let mut numbers = Vec::new();
    for budget in [0, 1, 7, 13, 79] {
        let taken = server.receive(budget, |_, bytes| {
            numbers.push(u32::from_be_bytes(bytes[8..12].try_into().unwrap()));
        });
        assert_eq!(taken.unwrap(), budget);
        let start = Instant::now();
        server.wait(Some(Duration::from_millis(50))).unwrap();
        let waited = start.elapsed() >= Duration::from_millis(50);
        assert_eq!(
            waited,
            numbers.len() == 100,
            "sleeps only when all is taken"
        );
    }
    assert!(numbers.iter().copied().eq(0..100));
}

#[test]
fn full_buffers_refuse_a_packet_without_filling_it_and_lose_nothing() {
    for errno in [libc::EAGAIN, libc::ENOBUFS] {
        let (mut server, mut client) = pair(24_821);
        let flow = flow(&mut client, V4);
        client.transmitter.refusal = Some(errno);
        let mut count = 0;
        while send(&mut client, &flow, 4112, count) {
            count += 1;
            client.flush().unwrap();
        }
        assert_eq!(
            count as usize,
            (512 << 10) / 4112,
            "the buffers are bounded"
        );
        let filled = client.send(&flow, 4112, FrameNote::default(), |_| {
            panic!("filled without room")
        });
        assert!(!filled);
        assert_eq!(counter(&client, "udp_tx_no_room"), 2);
        // Neither a full buffer nor a full queue makes a sleep spin.
        let start = Instant::now();
        client.wait(Some(Duration::from_micros(300))).unwrap();
        client.transmitter.refusal = None;
        if errno == libc::ENOBUFS {
            assert!(start.elapsed() >= Duration::from_micros(300));
        }
        client.flush().unwrap();
        assert!(send(&mut client, &flow, 4112, count));
        client.flush().unwrap();
        let seen = collect(&mut server, count as usize + 1);
        assert!(seen.iter().map(|one| one.number).eq(0..=count));
    }
}

#[test]
fn a_packet_that_the_machine_refuses_is_dropped_and_told() {
    let (_server, mut client) = pair(24_822);
    let flow = flow(&mut client, V4);
    for (errno, words) in [
        (libc::EPERM, "firewall"),
        (libc::ENETUNREACH, "no route to 127.0.0.1"),
        (libc::EMSGSIZE, "smaller path MTU"),
    ] {
        client.transmitter.refusal = Some(errno);
        for number in 0..3 {
            assert!(send(&mut client, &flow, 64, number));
        }
        client.flush().unwrap();
        let Some(LinkEvent::Unreachable { reason, .. }) = client.next_event() else {
            panic!("not told")
        };
        assert!(reason.contains(words), "{reason}");
        assert_eq!(client.next_event(), None, "told once");
    }
    assert_eq!(counter(&client, "udp_tx_dropped"), 9);
    assert_eq!(client.caps().max_batch, 64, "batches are not to blame");
}

#[test]
fn odd_datagrams_are_counted_and_dropped() {
    let (mut server, _client) = pair(24_823);
    let foreign = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut long = vec![0; 9000];
    long[7] = 2;
    for bytes in [&[][..], &[0; 7], &[0; 15], &long] {
        foreign.send_to(bytes, "127.0.0.1:24823").unwrap();
    }
    let taken = server.receive(16, |_, bytes| panic!("{bytes:?}"));
    assert_eq!(taken.unwrap(), 0);
    assert_eq!(counter(&server, "udp_rx_too_short"), 3);
    assert_eq!(counter(&server, "udp_rx_too_long"), 1);
}

#[test]
fn source_ports_are_few_and_their_packets_carry_them() {
    let (mut server, mut client) = pair(24_824);
    let mut ports = std::collections::BTreeSet::new();
    for wanted in (0..=u16::MAX).step_by(97) {
        let port = client.source_port(V4, wanted);
        assert!(port >= 0xc000);
        assert_eq!(
            client.source_port(V4, port),
            port,
            "a port that is bound stays"
        );
        ports.insert(port);
    }
    assert_eq!(ports.len(), 8);
    for (number, port) in (0..).zip(&ports) {
        let mut flow = flow(&mut client, V4);
        flow.source_port = *port;
        assert!(send(&mut client, &flow, 64, number));
    }
    client.flush().unwrap();
    let seen = collect(&mut server, 8);
    assert!(seen.iter().map(|one| one.meta.source_port).eq(ports));
}

#[test]
fn a_flow_from_a_foreign_address_is_dropped_and_told() {
    let (_server, mut client) = pair(24_825);
    let mut flow = flow(&mut client, V4);
    flow.local = "192.0.2.200".parse().unwrap();
    assert!(send(&mut client, &flow, 64, 0));
    client.flush().unwrap();
    assert_eq!(counter(&client, "udp_tx_dropped"), 1);
    assert!(matches!(client.next_event(), Some(LinkEvent::Notice(_))));
}
