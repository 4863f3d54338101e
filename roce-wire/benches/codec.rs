//! What a packet costs in this crate, per payload size.
//!
//! Run with `cargo bench -p roce-wire`.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use roce_wire::{
    AddressPair, Bth, Ext, Frame, FrameSpec, HeaderTemplate, Headers, IPV4_DONT_FRAGMENT, IcrcSeed,
    IdRecovery, Mac, Opcode, Packet, Psn, Qpn, RKey, Reth,
};

const SIZES: [usize; 4] = [0, 64, 1024, 4096];

fn main() {
    divan::main();
}

fn seed() -> IcrcSeed {
    let [src, dst] = [1, 2].map(|host| IpAddr::V4(Ipv4Addr::new(10, 7, 0, host)));
    IcrcSeed::new(src, dst, 0xc123, 4791)
}

fn seed_v6() -> IcrcSeed {
    let [src, dst] = [1, 2].map(|host| IpAddr::V6(Ipv6Addr::new(0xfd07, 0, 0, 0, 0, 0, 0, host)));
    IcrcSeed::new(src, dst, 0xc123, 4791)
}

fn spec() -> FrameSpec {
    FrameSpec {
        ethernet: Some((Mac([2; 6]), Mac([4; 6]))),
        vlan_tci: None,
        addresses: AddressPair::V4 {
            src: Ipv4Addr::new(10, 7, 0, 1),
            dst: Ipv4Addr::new(10, 7, 0, 2),
        },
        src_port: 0xc123,
        traffic_class: 0,
        hop_limit: 64,
        flow_label: 0,
    }
}

fn headers(payload: usize) -> Headers {
    Headers {
        bth: Bth::new(Opcode::RC_RDMA_WRITE_ONLY, Qpn::new(0x176), Psn::new(5)),
        ext: Ext {
            reth: Some(Reth {
                addr: 0x7f00_0000_1000,
                rkey: RKey(0x1234),
                length: payload as u32,
            }),
            ..Ext::NONE
        },
    }
}

/// A packet of RC WRITE ONLY with the Identification `id`.
fn packet(payload: usize, id: u16) -> Vec<u8> {
    let headers = headers(payload);
    let mut bytes = vec![0; headers.packet_len(payload)];
    headers.frame(&mut bytes, payload).fill(0x5a);
    seed().seal(id, IPV4_DONT_FRAGMENT, &mut bytes);
    bytes
}

#[divan::bench(args = SIZES)]
fn parse(bencher: Bencher<'_, '_>, payload: usize) {
    let bytes = packet(payload, 0);
    bencher.bench_local(|| {
        let _ = black_box(&Packet::parse(black_box(&bytes)));
    });
}

#[divan::bench]
fn stamp(bencher: Bencher<'_, '_>) {
    let template = HeaderTemplate::new(&spec());
    let mut bytes = [0; 64];
    bencher.bench_local(|| template.stamp(black_box(&mut bytes), black_box(1044), 7));
}

#[divan::bench]
fn walk_outer_headers(bencher: Bencher<'_, '_>) {
    let template = HeaderTemplate::new(&spec());
    let packet = packet(1024, 7);
    let mut bytes = vec![0; template.len()];
    template.stamp(&mut bytes, packet.len(), 7);
    bytes.extend(packet);
    bencher.bench_local(|| {
        let _ = black_box(&Frame::parse(black_box(&bytes)));
    });
}

#[divan::bench(args = SIZES)]
fn frame(bencher: Bencher<'_, '_>, payload: usize) {
    let headers = headers(payload);
    let mut bytes = packet(payload, 0);
    bencher.bench_local(|| {
        black_box(&headers)
            .frame(black_box(&mut bytes), payload)
            .len()
    });
}

/// What a sender does per packet, except for copying the payload.
#[divan::bench(args = SIZES)]
fn frame_and_seal(bencher: Bencher<'_, '_>, payload: usize) {
    let (seed, headers) = (seed(), headers(payload));
    let mut bytes = packet(payload, 0);
    bencher.bench_local(|| {
        black_box(&headers).frame(black_box(&mut bytes), payload);
        seed.seal(black_box(7), IPV4_DONT_FRAGMENT, &mut bytes);
    });
}

/// What a receiver does per packet before it looks at the QP.
#[divan::bench(args = SIZES)]
fn verify_and_parse(bencher: Bencher<'_, '_>, payload: usize) {
    let seed = seed();
    let bytes = packet(payload, 7);
    bencher.bench_local(|| {
        let bytes = black_box(&bytes);
        let good = seed.verify(black_box(7), IPV4_DONT_FRAGMENT, bytes);
        let _ = black_box(&Packet::parse(bytes));
        good
    });
}

#[divan::bench(args = SIZES)]
fn seal(bencher: Bencher<'_, '_>, payload: usize) {
    let seed = seed();
    let mut bytes = packet(payload, 0);
    bencher
        .counter(BytesCount::new(bytes.len()))
        .bench_local(|| seed.seal(black_box(7), IPV4_DONT_FRAGMENT, black_box(&mut bytes)));
}

#[divan::bench(args = SIZES)]
fn seal_v6(bencher: Bencher<'_, '_>, payload: usize) {
    let seed = seed_v6();
    let mut bytes = packet(payload, 0);
    bencher
        .counter(BytesCount::new(bytes.len()))
        .bench_local(|| seed.seal(0, 0, black_box(&mut bytes)));
}

#[divan::bench(args = SIZES)]
fn verify(bencher: Bencher<'_, '_>, payload: usize) {
    let seed = seed();
    let bytes = packet(payload, 7);
    bencher
        .counter(BytesCount::new(bytes.len()))
        .bench_local(|| seed.verify(black_box(7), IPV4_DONT_FRAGMENT, black_box(&bytes)));
}

#[divan::bench(args = SIZES)]
fn recover_id_zero(bencher: Bencher<'_, '_>, payload: usize) {
    let seed = seed();
    let mut cache = IdRecovery::new();
    let bytes = packet(payload, 0);
    bencher.bench_local(|| cache.recover(&seed, black_box(&bytes)));
}

#[divan::bench(args = SIZES)]
fn recover_cached(bencher: Bencher<'_, '_>, payload: usize) {
    let seed = seed();
    let mut cache = IdRecovery::new();
    let bytes = packet(payload, 0x1234);
    bencher.bench_local(|| cache.recover(&seed, black_box(&bytes)));
}

#[divan::bench(args = SIZES)]
fn recover_uncached(bencher: Bencher<'_, '_>, payload: usize) {
    let seed = seed();
    let bytes = packet(payload, 0x1234);
    bencher.bench_local(|| seed.recover(black_box(&bytes)));
}
