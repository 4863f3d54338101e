//! What needs a network of its own: an unprivileged user and network namespace, where there are.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use std::process::Command;

use backend_udp::{Config, Endpoint, Interface, Local, UdpLink};
use roce_engine::link::{Flow, FrameNote, Link, LinkEvent};
use roce_engine::verbs::Mtu;

/// Tells a copy of this test binary that it is in the namespace.
const INSIDE: &str = "BACKEND_UDP_TEST_INSIDE";

fn ip(arguments: &[&str]) {
    let status = Command::new("ip").args(arguments).status().unwrap();
    assert!(status.success(), "ip {arguments:?}");
}

/// Runs the test of this name again in a new namespace; returns whether this is that run.
fn enter(name: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        ip(&["link", "set", "lo", "up"]);
        return true;
    }
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net"]);
        command
    };
    if !unshare()
        .arg("true")
        .status()
        .is_ok_and(|status| status.success())
    {
        eprintln!("skipped: this machine gives no user and network namespaces");
        return false;
    }
    let inner = unshare()
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, "1")
        .status()
        .unwrap();
    assert!(inner.success(), "the run in the namespace failed");
    false
}

fn send(link: &mut UdpLink, flow: &Flow, len: usize) {
    let note = FrameNote::default();
    assert!(link.send(flow, len, note, |slot| slot.bytes.fill(0)));
}

#[test]
fn a_path_that_became_narrow_is_told_and_batches_stay() {
    if !enter("a_path_that_became_narrow_is_told_and_batches_stay") {
        return;
    }
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let link = |role| UdpLink::open(Config::new(Local::Interface("lo".to_owned()), role)).unwrap();
    let mut server = link(Endpoint::Server);
    let mut client = link(Endpoint::Client);
    ip(&["link", "set", "lo", "mtu", "2000"]);
    assert_eq!(
        Interface::named("lo").unwrap().port().unwrap().active_mtu,
        Mtu::B1024
    );
    let flow = Flow {
        local,
        remote: local,
        source_port: client.source_port(local, 0xc000),
        traffic_class: 0,
        hop_limit: 64,
        flow_label: 0,
    };
    for _ in 0..3 {
        send(&mut client, &flow, 4112);
    }
    client.flush().unwrap();
    let Some(LinkEvent::Unreachable { remote, reason }) = client.next_event() else {
        panic!("not told")
    };
    assert_eq!(remote, local);
    assert!(reason.contains("2000 bytes at most"), "{reason}");
    for _ in 0..30 {
        send(&mut client, &flow, 1040);
    }
    client.flush().unwrap();
    let mut arrived = 0;
    while arrived < 30 {
        let taken = server.receive(64, |_, bytes| assert_eq!(bytes.len(), 1040));
        arrived += taken.unwrap();
        assert!(client.caps().max_batch > 1, "batches were not to blame");
        server.wait(Some(Duration::from_millis(10))).unwrap();
    }
    while let Some(event) = client.next_event() {
        assert!(matches!(event, LinkEvent::Unreachable { .. }), "{event:?}");
    }
}

#[test]
fn an_interface_without_an_address_says_how_to_give_it_one() {
    if !enter("an_interface_without_an_address_says_how_to_give_it_one") {
        return;
    }
    ip(&[
        "link", "add", "bare0", "type", "veth", "peer", "name", "bare1",
    ]);
    let config = Config::new(Local::Interface("bare0".to_owned()), Endpoint::Server);
    let error = UdpLink::open(config).unwrap_err().to_string();
    assert!(
        error.contains("interface bare0 has no usable IP address"),
        "{error}"
    );
}
