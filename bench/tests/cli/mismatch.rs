//! Two ends whose options differ: both end, both fail, and one of them names the cause.

use core::time::Duration;
use std::net::TcpStream;

use crate::process::{Running, Turn, free_port, pair, pair_of, roce, server};

/// Runs two ends that don't fit: each must fail, with its words, if there are any.
fn fails(server_words: &str, client_words: &str, at_server: &str, at_client: &str) {
    let bound = "--connect-timeout 4";
    let (server, client) = pair_of(
        &format!("{server_words} {bound}"),
        &format!("{client_words} {bound}"),
        "127.0.0.1",
    );
    server.assert_code(1);
    client.assert_code(1);
    for (said, words) in [(server, at_server), (client, at_client)] {
        assert!(
            said.err.contains(words),
            "{server_words} / {client_words}: {words}?\n{said:#?}"
        );
    }
}

#[test]
fn counts_of_messages_that_differ_end_the_run() {
    let _turn = Turn::take();
    for test in ["send-bw", "send-lat"] {
        fails(
            &format!("{test} -n 400"),
            &format!("{test} -n 200"),
            "is through with its test",
            "its TCP connection is closed",
        );
    }
    // Without a closing handshake the end that has all it wanted can't know.
    let (server, client) = pair_of("write-lat -n 400", "write-lat -n 200", "127.0.0.1");
    server.assert_code(1);
    client.assert_code(0);
    for part in ["200 more messages", "the same -n"] {
        assert!(server.err.contains(part), "{server:#?}");
    }
}

#[test]
fn a_count_against_a_clock_is_no_result() {
    let _turn = Turn::take();
    fails(
        "send-bw -n 200",
        "send-bw -D 2",
        "more messages than our -n 200",
        "its -n or -D differs",
    );
    fails(
        "send-bw -D 3",
        "send-bw -n 200",
        "its -n or -D differs",
        "its TCP connection is closed",
    );
}

#[test]
fn tests_sizes_and_services_that_differ_end_the_run() {
    let _turn = Turn::take();
    for (server_words, client_words, at_server, at_client) in [
        ("write-bw", "write-lat", "", "nothing has arrived for 4 s"),
        ("write-lat -s 8", "write-lat -s 64", "", ""),
        (
            "write-bw --write_with_imm",
            "write-bw",
            "is through with its test",
            "",
        ),
        ("send-bw -c RC", "send-bw -c UD -s 1024", "-c differs", ""),
        ("send-bw -c UD", "send-bw -c RC", "-c differs", ""),
    ] {
        fails(server_words, client_words, at_server, at_client);
    }
}

#[test]
fn numbers_of_qps_that_differ_are_named_by_both_ends() {
    let _turn = Turn::take();
    for (server_qps, client_qps) in [(2, 4), (4, 2)] {
        for test in ["write-bw", "send-bw"] {
            fails(
                &format!("{test} -q {server_qps}"),
                &format!("{test} -q {client_qps}"),
                "the same -q",
                "the same -q",
            );
        }
    }
}

#[test]
fn directions_that_differ_are_named() {
    let _turn = Turn::take();
    fails(
        "write-bw",
        "write-bw --reversed",
        "--reversed",
        "--reversed",
    );
    fails(
        "write-bw --reversed",
        "write-bw",
        "--reversed",
        "--reversed",
    );
}

#[test]
fn a_port_scan_is_called_one() {
    let port = free_port();
    let server = server("write-bw", port);
    drop(TcpStream::connect(("127.0.0.1", port)).unwrap());
    let said = server.finish();
    said.assert_code(1);
    assert!(said.err.contains("a port scan"), "{said:#?}");
}

#[test]
fn what_a_named_device_lacks_is_said_before_anybody_comes() {
    for (words, text) in [
        ("write-bw -d lo -x 9", "-x 9"),
        ("write-bw -d lo -x 0 --ipv6", "leave one of the two out"),
    ] {
        let said = roce(words);
        said.assert_code(2);
        assert!(said.err.contains(text), "{words}: {said:#?}");
        assert!(!said.out.contains("Waiting"), "{words}: {said:#?}");
    }
}

#[test]
fn a_third_process_on_an_address_is_told_of_another_one() {
    let _turn = Turn::take();
    let port = free_port();
    let words = "send-lat -D 20";
    let _server = server(words, port);
    let _client = Running::start(&format!("{words} -p {port} 127.0.0.1"));
    std::thread::sleep(Duration::from_millis(1000));
    let third = roce("write-bw -n 20 --lab");
    third.assert_code(3);
    let lines: Vec<_> = third.err.lines().collect();
    assert_eq!(lines.len(), 1, "{third:#?}");
    for part in ["shared by two endpoints", "127.0.0.2"] {
        assert!(lines[0].contains(part), "{third:#?}");
    }
    // Both of its hints are true.
    let (server, client) = pair("write-bw -n 20", "127.0.0.2");
    server.assert_code(0);
    client.assert_code(0);
    roce("write-bw -n 20 --lab --bind_source_ip 127.0.0.2").assert_code(0);
}

#[test]
fn who_checks_nothing_does_not_say_that_somebody_does() {
    let _turn = Turn::take();
    let (server, client) = pair_of("write-bw -n 20", "write-bw -n 20 --verify", "127.0.0.1");
    server.assert_code(0);
    client.assert_code(0);
    assert!(
        client
            .out
            .contains("is checked only by a roce peer with --verify"),
        "{client:#?}"
    );
}
