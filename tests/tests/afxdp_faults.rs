//! `roce` over AF_XDP when the network changes under a run, and what is left of a run that is killed.

use core::time::Duration;
use std::time::Instant;

use roce_tests::ends::{Bench, LIMIT};
use roce_tests::guest::case::Test;
use roce_tests::hosts::{CLIENT_V4, CLIENT_V6, SERVER_V4, SERVER_V6};
use roce_tests::namespace::Namespace;

/// The kernel's other traffic, a run in between.
const RUN: [&str; 3] = ["-D", "6", "--verify"];

#[test]
fn the_kernel_keeps_its_own_traffic_on_the_interface() {
    let Some(bench) = bench("traffic", 1500) else {
        return;
    };
    for mode in ["driver", "generic"] {
        let options = [&RUN[..], &["--xdp-mode", mode]].concat();
        let server = bench.start_server(Test::WriteBw, &options, mode);
        let client = bench.start_client(Test::WriteBw, &options, SERVER_V4, mode);
        std::thread::sleep(Duration::from_secs(2));
        for (host, v4, v6) in [
            (&bench.hosts.client, SERVER_V4, SERVER_V6),
            (&bench.hosts.server, CLIENT_V4, CLIENT_V6),
        ] {
            assert!(has_program(host), "{mode}");
            // ARP and neighbour discovery from the start, then echoes, fragmented ones too.
            host.shell("ip neigh flush dev eth0").expect("a flush");
            for ping in [
                format!("ping -c 3 -i 0.2 -W 5 {v4}"),
                format!("ping -c 3 -i 0.2 -W 5 {v6}"),
                format!("ping -c 2 -i 0.2 -W 5 -s 4000 {v4}"),
            ] {
                let said = host.shell(&ping).expect(&ping);
                assert!(said.contains(" 0% packet loss"), "{mode} {ping}: {said}");
            }
        }
        // The exchange at the run's end is TCP over the same interface.
        for process in [client, server] {
            let reply = process.finish(LIMIT).expect("its output");
            assert_eq!(reply.status, 0, "{mode}: {}", reply.text);
        }
        assert_clean(&bench);
    }
}

#[test]
fn a_peer_that_moves_to_another_mac_is_followed() {
    let Some(bench) = bench("mac", 1500) else {
        return;
    };
    let server = bench.start_server(Test::WriteBw, &RUN, "mac");
    let client = bench.start_client(Test::WriteBw, &RUN, SERVER_V4, "mac");
    std::thread::sleep(Duration::from_secs(2));
    let host = &bench.hosts.server;
    host.shell("ip link set eth0 address 02:00:00:00:77:99")
        .expect("another MAC");
    // Its own traffic tells the other host.
    host.shell(&format!("ping -c 1 -W 5 {CLIENT_V4}"))
        .expect("an echo");
    for process in [client, server] {
        let reply = process.finish(LIMIT).expect("its output");
        assert_eq!(reply.status, 0, "{}", reply.text);
    }
}

#[test]
fn an_interface_that_comes_back_in_time_goes_on() {
    let Some(bench) = bench("back", 1500) else {
        return;
    };
    // Timeouts of half a second, seven times.
    let options = [&RUN[..], &["-u", "17"]].concat();
    let server = bench.start_server(Test::WriteBw, &options, "back");
    let client = bench.start_client(Test::WriteBw, &options, SERVER_V4, "back");
    std::thread::sleep(Duration::from_secs(2));
    let host = &bench.hosts.client;
    host.shell("ip link set eth0 down && sleep 0.5 && ip link set eth0 up")
        .expect("down and up");
    for process in [client, server] {
        let reply = process.finish(LIMIT).expect("its output");
        assert_eq!(reply.status, 0, "{}", reply.text);
    }
}

#[test]
fn an_interface_that_stays_down_ends_the_run_with_its_status() {
    let Some(bench) = bench("down", 1500) else {
        return;
    };
    for side in ["client", "server"] {
        let server = bench.start_server(Test::WriteBw, &["-D", "30"], side);
        let client = bench.start_client(Test::WriteBw, &["-D", "30"], SERVER_V4, side);
        std::thread::sleep(Duration::from_secs(2));
        let host = match side {
            "client" => &bench.hosts.client,
            _ => &bench.hosts.server,
        };
        let cut = Instant::now();
        host.shell("ip link set eth0 down").expect("it goes down");
        let reply = client.finish(LIMIT).expect("the client's output");
        assert_eq!(reply.status, 1, "{}", reply.text);
        assert!(
            cut.elapsed() < Duration::from_secs(20),
            "{:?}",
            cut.elapsed()
        );
        let status = "IBV_WC_RETRY_EXC_ERR (12)";
        assert!(reply.text.contains(status), "{side}: {}", reply.text);
        drop(server);
        host.shell("ip link set eth0 up").expect("it comes up");
        std::thread::sleep(Duration::from_millis(500));
    }
}

#[test]
fn an_interface_that_is_taken_away_ends_the_run() {
    let Some(bench) = bench("gone", 1500) else {
        return;
    };
    let server = bench.start_server(Test::WriteBw, &["-D", "30"], "gone");
    let client = bench.start_client(Test::WriteBw, &["-D", "30"], SERVER_V4, "gone");
    std::thread::sleep(Duration::from_secs(2));
    let host = &bench.hosts.client;
    host.shell("ip link del eth0").expect("it goes away");
    let reply = client.finish(LIMIT).expect("the client's output");
    assert_eq!(reply.status, 1, "{}", reply.text);
    assert!(reply.text.contains("eth0"), "{}", reply.text);
    drop(server);
}

#[test]
fn killed_runs_leave_nothing_behind() {
    let Some(bench) = bench("killed", 1500) else {
        return;
    };
    let rounds = std::env::var("ROCE_XDP_KILLS").ok();
    let rounds = rounds.and_then(|text| text.parse().ok()).unwrap_or(6);
    for round in 0..rounds {
        let server = bench.start_server(Test::WriteBw, &["-D", "30"], "killed");
        let client = bench.start_client(Test::WriteBw, &["-D", "30"], SERVER_V4, "killed");
        // From before the socket is open to the middle of the run.
        std::thread::sleep(Duration::from_millis(fastrand::u64(1..400)));
        // Dropping a process kills it with a signal that it can't see.
        if round % 2 == 0 {
            drop(client);
            drop(server);
        } else {
            drop(server);
            drop(client);
        }
        assert_clean(&bench);
    }
}

/// Two hosts, both ends on AF_XDP.
fn bench(name: &str, mtu: u32) -> Option<Bench> {
    let devices = ["afxdp:eth0"; 2];
    let name = format!("afxdp-{name}");
    Bench::new(&name, mtu, devices, env!("CARGO_TARGET_TMPDIR"))
}

fn has_program(host: &Namespace) -> bool {
    let text = host.shell("ip link show eth0").expect("the interface");
    text.contains("xdp")
}

/// Asserts that no program is on either host. The kernel takes it off a moment after the last holder's end.
fn assert_clean(bench: &Bench) {
    for host in [&bench.hosts.client, &bench.hosts.server] {
        let deadline = Instant::now() + Duration::from_secs(5);
        while has_program(host) {
            assert!(Instant::now() < deadline, "a program is left on eth0");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
