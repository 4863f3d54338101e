//! Two processes over the loopback addresses of both families.

use crate::process::{TESTS, Turn, pair, pair_of};

#[test]
fn two_processes_run_every_test_over_both_families() {
    let _turn = Turn::take();
    for host in ["127.0.0.1", "::1"] {
        for test in TESTS {
            let (server, client) = pair(&format!("{test} -n 100 --verify"), host);
            server.assert_code(0);
            client.assert_code(0);
            assert_eq!(client.sizes().len(), 1, "{test} {host}: {client:#?}");
            let checked = "100 of 100 messages checked";
            assert!(
                server.out.contains(checked) || client.out.contains(checked),
                "{test} {host}: {server:#?} {client:#?}"
            );
        }
    }
}

#[test]
fn the_server_of_a_one_way_test_prints_the_clients_row() {
    let _turn = Turn::take();
    let (server, client) = pair("write-bw -n 200", "127.0.0.1");
    let row = |text: &str| {
        let mut lines = text.lines().skip_while(|line| !line.starts_with(" #bytes"));
        lines.nth(1).map(str::to_owned)
    };
    assert!(row(&client.out).is_some());
    assert_eq!(row(&server.out), row(&client.out));
}

#[test]
fn the_smaller_path_mtu_is_used_by_both() {
    let _turn = Turn::take();
    let (server, client) = pair_of("send-bw -m 1024 -n 50", "send-bw -n 50", "127.0.0.1");
    for said in [server, client] {
        said.assert_code(0);
        assert!(said.out.contains("Mtu             : 1024[B]"), "{said:#?}");
    }
}

#[test]
fn data_without_the_pattern_is_called_unchecked_not_damaged() {
    let _turn = Turn::take();
    let (server, client) = pair_of("send-bw -n 50 --verify", "send-bw -n 50", "127.0.0.1");
    client.assert_code(0);
    server.assert_code(0);
    assert!(
        server
            .out
            .contains("verify: 0 of 50 messages checked; not checkable with this peer"),
        "{server:#?}"
    );
}
