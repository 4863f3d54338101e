//! `roce` on two hosts that a cable joins: network namespaces with a veth pair, as root.
//!
//! Both ends record with `--pcap`; the files are judged by this crate's own ICRC check and by tshark.

use core::time::Duration;
use std::time::Instant;

use roce_tests::ends::{Bench, LIMIT};
use roce_tests::guest::case::Test;
use roce_tests::hosts::{SERVER_V4, SERVER_V6};

#[test]
fn the_eight_tests_cross_the_cable_over_ipv4() {
    let Some(bench) = bench("v4", 1500) else {
        return;
    };
    for test in Test::ALL {
        bench.run_and_judge(test, &[], SERVER_V4, "1024[B]");
    }
}

#[test]
fn the_eight_tests_cross_the_cable_over_ipv6() {
    let Some(bench) = bench("v6", 1500) else {
        return;
    };
    for test in Test::ALL {
        bench.run_and_judge(test, &["--ipv6-addr", "--ipv6"], SERVER_V6, "1024[B]");
    }
}

#[test]
fn a_path_of_4096_bytes_is_used_where_frames_are_large() {
    let Some(bench) = bench("jumbo", 9000) else {
        return;
    };
    for test in [Test::WriteBw, Test::ReadBw, Test::SendBw] {
        bench.run_and_judge(test, &["-b"], SERVER_V4, "4096[B]");
    }
}

#[test]
fn every_message_survives_a_path_that_loses_doubles_and_reorders() {
    let Some(bench) = bench("faults", 1500) else {
        return;
    };
    bench.run_faulty();
}

#[test]
fn a_cut_cable_ends_the_client_with_the_status_and_the_qp() {
    let Some(bench) = bench("cut", 1500) else {
        return;
    };
    let options = ["-D", "30"];
    let _server = bench.start_server(Test::WriteBw, &options, "cut");
    let client = bench.start_client(Test::WriteBw, &options, SERVER_V4, "cut");
    std::thread::sleep(Duration::from_secs(3));
    let cut = Instant::now();
    bench
        .hosts
        .server
        .shell("ip link set eth0 down")
        .expect("the server's interface goes down");
    let reply = client.finish(LIMIT).expect("the client's output");
    assert_eq!(reply.status, 1, "{}", reply.text);
    assert!(
        cut.elapsed() < Duration::from_secs(20),
        "it took {:?}",
        cut.elapsed()
    );
    assert!(
        reply.text.contains("IBV_WC_RETRY_EXC_ERR (12)"),
        "{}",
        reply.text
    );
    assert!(reply.text.contains("QPN 0x"), "{}", reply.text);
}

/// Two hosts, both ends on UDP sockets.
fn bench(name: &str, mtu: u32) -> Option<Bench> {
    let devices = ["udp:eth0"; 2];
    Bench::new(name, mtu, devices, env!("CARGO_TARGET_TMPDIR"))
}
