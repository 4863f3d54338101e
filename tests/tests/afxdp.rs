//! `roce` over AF_XDP on two hosts that a cable joins, as root: the eight tests, sizes of frames, where the
//! program runs, and the other backend as a peer.
//!
//! Both ends record with `--pcap`; the files are judged by this crate's own ICRC check and by tshark.

use roce_tests::ends::Bench;
use roce_tests::guest::case::Test;
use roce_tests::hosts::{SERVER_V4, SERVER_V6};

const IPV6: [&str; 2] = ["--ipv6-addr", "--ipv6"];

#[test]
fn the_eight_tests_cross_the_cable_over_ipv4() {
    let Some(bench) = bench("v4", 1500) else {
        return;
    };
    for test in Test::ALL {
        bench.run_and_judge(test, &["--verify"], SERVER_V4, "1024[B]");
    }
}

#[test]
fn the_eight_tests_cross_the_cable_over_ipv6() {
    let Some(bench) = bench("v6", 1500) else {
        return;
    };
    for test in Test::ALL {
        let options = ["--ipv6-addr", "--ipv6", "--verify"];
        bench.run_and_judge(test, &options, SERVER_V6, "1024[B]");
    }
}

#[test]
fn large_frames_cross_in_several_buffers_in_both_modes() {
    for mtu in [4200, 9000] {
        let Some(bench) = bench("jumbo", mtu) else {
            return;
        };
        for mode in ["driver", "generic"] {
            for test in [Test::WriteBw, Test::ReadBw, Test::SendBw] {
                let options = ["-b", "--verify", "--xdp-mode", mode];
                bench.run_and_judge(test, &options, SERVER_V4, "4096[B]");
            }
        }
    }
}

#[test]
fn the_banner_says_how_packets_are_taken_and_why() {
    let Some(bench) = bench("banner", 1500) else {
        return;
    };
    let modes = [
        (
            &["--xdp-mode", "driver"][..],
            "AF_XDP in driver mode (as asked for)",
        ),
        (
            &["--xdp-mode", "generic"][..],
            "AF_XDP in generic mode (as asked for)",
        ),
        (
            &[][..],
            "AF_XDP in generic mode (a veth gains nothing from its driver's)",
        ),
    ];
    for (options, words) in modes {
        let (client, server) = bench.run(Test::WriteLat, options, SERVER_V4);
        for reply in [client, server] {
            assert_eq!(reply.status, 0, "{}", reply.text);
            assert!(reply.text.contains(words), "{}", reply.text);
            assert!(reply.text.contains("no zero-copy"), "{}", reply.text);
        }
    }
}

#[test]
fn batches_of_a_peer_on_sockets_are_taken_apart() {
    // A veth pair hands the other kernel's batches over uncut in generic mode.
    for (devices, name) in [
        (["udp:eth0", "afxdp:eth0"], "from-udp"),
        (["afxdp:eth0", "udp:eth0"], "to-udp"),
    ] {
        let temporary = env!("CARGO_TARGET_TMPDIR");
        let Some(bench) = Bench::new(&format!("afxdp-{name}"), 4200, devices, temporary) else {
            return;
        };
        for test in [Test::WriteBw, Test::ReadBw, Test::SendBw, Test::AtomicBw] {
            for (family, server) in [(&[][..], SERVER_V4), (&IPV6[..], SERVER_V6)] {
                let options = [&["--verify"][..], family].concat();
                let (client, server) = bench.run(test, &options, server);
                for reply in [client, server] {
                    assert_eq!(reply.status, 0, "{name} {test:?}: {}", reply.text);
                    let clean = !reply.text.contains("ICRC errors: ");
                    assert!(clean, "{name} {test:?}: {}", reply.text);
                }
            }
        }
    }
}

#[test]
fn every_message_survives_a_path_that_loses_doubles_and_reorders() {
    let Some(bench) = bench("faults", 1500) else {
        return;
    };
    bench.run_faulty();
}

/// Two hosts, both ends on AF_XDP.
fn bench(name: &str, mtu: u32) -> Option<Bench> {
    let devices = ["afxdp:eth0"; 2];
    let name = format!("afxdp-{name}");
    Bench::new(&name, mtu, devices, env!("CARGO_TARGET_TMPDIR"))
}
