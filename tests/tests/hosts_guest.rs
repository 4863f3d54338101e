//! What takes a kernel with more modules than a test's machine may have, in the guest of Linux 6.12: the comparison of
//! soft-RoCE with both userspace paths, VLANs, and a network that loses.
#![expect(clippy::unwrap_used, reason = "a step that fails ends the test")]

use core::time::Duration;

use roce_tests::guest::{Guest, Inside, net};
use roce_tests::process::Reply;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(240);
/// Addresses of the lab's server on its VLAN.
const VLAN_V4: &str = "192.168.78.2";
const VLAN_V6: &str = "fd78::2";

#[test]
fn three_paths_vlans_and_losses_in_one_kernel() {
    let Some(mut inside) =
        Inside::boot("hosts_guest", "trixie", env!("CARGO_TARGET_TMPDIR")).unwrap()
    else {
        return;
    };
    let guest = &mut inside.guest;

    three_columns(guest);
    temporary_rxe(guest);
    vlans(guest);
    losses(guest);
    inside.end().unwrap();
}

/// Soft-RoCE, AF_XDP and UDP sockets in one table, and what they moved was looked at.
fn three_columns(guest: &mut Guest) {
    let said = guest
        .run("roce compare --quick --verify --report /tmp/report", LIMIT)
        .unwrap();
    assert_eq!(said.status, 0, "{}", said.text);
    println!("{}", said.text);
    let file = guest.must("cat /tmp/report/compare.json").unwrap();
    let file: Value = serde_json::from_str(&file).unwrap();
    let columns: Vec<&str> = file["columns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| column["backend"].as_str().unwrap())
        .collect();
    assert_eq!(columns, ["udp", "afxdp", "verbs:rxe0"]);
    for column in columns {
        let runs: Vec<&Value> = file["runs"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|run| run["backend"] == column)
            .collect();
        assert_eq!(runs.len(), 9, "{column}");
        let checked = runs
            .iter()
            .filter(|run| run["verified_bytes"].as_u64() > Some(0));
        assert!(checked.count() >= 4, "{column}: {runs:#?}");
    }
    assert!(
        said.text.contains("between two network namespaces"),
        "{}",
        said.text
    );
}

/// A device that is there for the comparison, and gone after it.
fn temporary_rxe(guest: &mut Guest) {
    let said = guest
        .run(
            "rdma link delete rxe0 && roce compare --quick --create-rxe eth0 --tests write-lat --backends verbs && \
             rdma link",
            LIMIT,
        )
        .unwrap();
    assert_eq!(said.status, 0, "{}", said.text);
    let (table, left) = said.text.split_once("CPU: of").unwrap();
    assert!(table.contains("soft-RoCE to itself"), "{table}");
    assert!(!left.contains("link roce"), "{left}");
}

/// Both ends in the lab's hosts; returns what the client and the server said.
fn pair(guest: &mut Guest, [client, server]: [&str; 2], port: u16, host: &str) -> [Reply; 2] {
    let line = format!(
        "(roce lab exec server roce {server} -p {port} >/tmp/server.out 2>&1; echo $? >/tmp/server.status) & \
         for i in $(seq 200); do {ip} netns exec roce-server \
         grep -q ':{port:04X} .*:0000 0A ' /proc/net/tcp /proc/net/tcp6 && break; usleep 50000; done; \
         roce lab exec client roce {client} -p {port} {host}; status=$?; wait; exit $status",
        ip = net::GUEST_IP
    );
    let client = guest.run(&line, LIMIT).unwrap();
    let server = guest
        .run("cat /tmp/server.out; exit $(cat /tmp/server.status)", LIMIT)
        .unwrap();
    [client, server]
}

fn both_end_well(what: &str, [client, server]: &[Reply; 2]) {
    assert_eq!(
        (client.status, server.status),
        (0, 0),
        "{what}\n{}\n{}",
        client.text,
        server.text
    );
}

/// Tagged frames: made and taken by our program on both sides, and on one side by the kernel.
fn vlans(guest: &mut Guest) {
    guest.must("roce lab up --vlan 7 --mtu 4204").unwrap();
    let mut port = 20_515;
    for (host, family) in [(VLAN_V4, ""), (VLAN_V6, "--ipv6 --ipv6-addr")] {
        for devices in [
            ["afxdp:eth0", "afxdp:eth0"],
            ["afxdp:eth0", "udp:eth0.7"],
            ["udp:eth0.7", "afxdp:eth0"],
        ] {
            for test in ["write-bw -s 65536", "read-lat", "send-bw -s 5000"] {
                port += 1;
                let words =
                    devices.map(|device| format!("{test} -n 100 --verify {family} -d {device}"));
                let said = pair(guest, words.each_ref().map(String::as_str), port, host);
                both_end_well(&format!("{words:?}"), &said);
                let text = format!("{}{}", said[0].text, said[1].text);
                assert!(text.contains("100 of 100 messages"), "{text}");
                assert!(text.contains("Mtu             : 4096[B]"), "{text}");
            }
        }
    }
    guest.must("roce lab down").unwrap();
}

/// What the network loses is sent again; netem stands in the way of sockets only.
fn losses(guest: &mut Guest) {
    guest.must("roce lab up --netem 'loss 2%' --steer").unwrap();
    let words = "write-bw -s 8192 -n 400 --verify -d udp:eth0";
    let said = pair(guest, [words, words], 21_515, "192.168.77.2");
    both_end_well(words, &said);
    assert!(
        said[0].text.contains("packets sent again"),
        "{}",
        said[0].text
    );
    guest.must("roce lab down").unwrap();
    assert!(!guest.must("ls /run/netns").unwrap().contains("roce-"));
}
