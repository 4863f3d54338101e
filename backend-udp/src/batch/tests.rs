use core::net::{IpAddr, Ipv4Addr};

use super::*;

fn flow(remote: u8) -> Flow {
    Flow {
        local: IpAddr::V4(Ipv4Addr::LOCALHOST),
        remote: IpAddr::V4(Ipv4Addr::new(127, 0, 0, remote)),
        source_port: 0xc000,
        traffic_class: 0,
        hop_limit: 64,
        flow_label: 0,
    }
}

fn put(batches: &mut Batches, remote: u8, len: usize) -> Option<u16> {
    let (bytes, place) = batches.reserve(&flow(remote), 0, len, MAX_SEGMENTS)?;
    assert_eq!(bytes.len(), len);
    bytes.fill(place as u8);
    Some(place)
}

fn lengths(batches: &Batches) -> Vec<(usize, usize)> {
    let due = batches.due(0);
    due.map(|one| (one.bytes.len(), one.segment)).collect()
}

#[test]
fn a_longer_packet_opens_a_batch_and_a_shorter_one_closes_it() {
    let mut batches = Batches::new(1 << 20);
    let places: Vec<_> = [4128, 4112, 4112, 100, 4112, 4112]
        .map(|len| put(&mut batches, 1, len).unwrap())
        .to_vec();
    assert_eq!(places, [0, 1, 0, 1, 0, 1]);
    assert_eq!(
        lengths(&batches),
        [(8240, 4128), (4212, 4112), (8224, 4112)]
    );
}

#[test]
fn another_flow_opens_a_batch() {
    let mut batches = Batches::new(1 << 20);
    assert_eq!(put(&mut batches, 1, 64), Some(0));
    assert_eq!(put(&mut batches, 2, 64), Some(0));
    assert_eq!(put(&mut batches, 2, 64), Some(1));
    assert_eq!(lengths(&batches), [(64, 0), (128, 64)]);
}

#[test]
fn a_batch_is_bounded_in_packets_and_bytes() {
    let mut batches = Batches::new(1 << 20);
    for index in 0..130 {
        assert_eq!(put(&mut batches, 1, 20), Some(index % 64));
    }
    let mut batches = Batches::new(1 << 20);
    let places: Vec<_> = (0..16)
        .map(|_| put(&mut batches, 1, 4112).unwrap())
        .collect();
    assert_eq!(places.iter().max(), Some(&14));
    assert!(lengths(&batches).iter().all(|(len, _)| *len <= MAX_PAYLOAD));
}

#[test]
fn the_arena_fills_up_and_is_empty_after_all_was_sent() {
    let mut batches = Batches::new(MAX_PAYLOAD);
    let mut count = 0;
    while put(&mut batches, 1, 4112).is_some() {
        count += 1;
    }
    assert_eq!(count, 15);
    assert_eq!(batches.sent(0, 1), 15);
    batches.recycle();
    assert!(batches.is_empty());
    assert_eq!(put(&mut batches, 1, 4112), Some(0));
}

#[test]
fn batches_are_bounded_in_number() {
    let mut batches = Batches::new(1 << 20);
    for index in 0..MAX_BATCHES {
        assert_eq!(put(&mut batches, (index % 2) as u8, 16), Some(0));
    }
    assert_eq!(put(&mut batches, 2, 16), None);
}

#[test]
fn what_was_sent_is_due_no_more_and_takes_no_more_packets() {
    let mut batches = Batches::new(1 << 20);
    for remote in [1, 2, 3] {
        put(&mut batches, remote, 64).unwrap();
    }
    assert_eq!(batches.sent(0, 2), 2);
    assert_eq!(batches.due(0).next().unwrap().flow.remote, flow(3).remote);
    assert_eq!(batches.sent(0, 1), 1);
    assert_eq!(put(&mut batches, 3, 64), Some(0));
    assert_eq!(lengths(&batches), [(64, 0)]);
}

#[test]
fn a_split_batch_is_due_packet_by_packet_with_identification_zero() {
    let mut batches = Batches::new(1 << 20);
    let flow = flow(1);
    let seed = IcrcSeed::new(flow.local, flow.remote, flow.source_port, ROCE_PORT);
    for len in [256, 256, 256, 40] {
        let (bytes, place) = batches.reserve(&flow, 0, len, MAX_SEGMENTS).unwrap();
        bytes.fill(0x5a);
        seed.seal(place, IPV4_DONT_FRAGMENT, bytes);
    }
    assert!(batches.split_first(0));
    assert!(!batches.split_first(0), "it is split already");
    assert_eq!(lengths(&batches), [(256, 0), (256, 0), (256, 0), (40, 0)]);
    for message in batches.due(0) {
        assert!(seed.verify(0, IPV4_DONT_FRAGMENT, message.bytes));
    }
    assert_eq!(batches.sent(0, 3), 3);
    assert_eq!(lengths(&batches), [(40, 0)]);
    assert!(batches.first_is_split(0));
    assert_eq!(batches.sent(0, 1), 1);
    batches.recycle();
    assert!(batches.is_empty());
}
