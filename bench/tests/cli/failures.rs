//! What goes wrong: the exit status and the words.

use core::time::Duration;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use crate::process::{Running, Said, Turn, free_port, pair_of, roce, server};

/// Kills one end in mid-run and returns what the other said.
fn survivor(words: &str, kill_server: bool) -> Said {
    let _turn = Turn::take();
    let port = free_port();
    let server = server(&format!("{words} -D 30"), port);
    let client = Running::start(&format!("{words} -D 30 -p {port} 127.0.0.1"));
    std::thread::sleep(Duration::from_millis(1500));
    let start = Instant::now();
    let (killed, left) = if kill_server {
        (server, client)
    } else {
        (client, server)
    };
    // Dropping kills with SIGKILL.
    drop(killed);
    let said = left.finish();
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "{words}: {said:#?}"
    );
    said
}

#[test]
fn a_killed_peer_ends_the_other_with_status_qpn_and_cause() {
    for (words, kill_server, status) in [
        ("write-bw", true, "IBV_WC_RETRY_EXC_ERR (12)"),
        ("read-bw", true, "IBV_WC_RETRY_EXC_ERR (12)"),
        ("send-lat", true, "IBV_WC_RETRY_EXC_ERR (12)"),
        ("write-lat", false, "IBV_WC_RETRY_EXC_ERR (12)"),
        ("send-bw", false, "IBV_WC_WR_FLUSH_ERR (5)"),
        ("write-bw", false, "no completion status"),
    ] {
        let said = survivor(words, kill_server);
        said.assert_code(1);
        for part in [status, "QPN 0x", "its TCP connection is closed"] {
            assert!(said.err.contains(part), "{words}: {part}?\n{}", said.err);
        }
    }
}

#[test]
fn options_that_differ_are_named_as_the_cause() {
    let _turn = Turn::take();
    for (server_words, client_words, at_server, at_client) in [
        (
            "send-bw -s 1024",
            "send-bw -s 4096",
            "IBV_WC_LOC_LEN_ERR (1)",
            "IBV_WC_REM_INV_REQ_ERR (9)",
        ),
        (
            "send-bw -s 4096",
            "send-bw -s 1024",
            "1024 bytes where our -s says 4096",
            "",
        ),
        (
            "write-bw",
            "write-bw -s 16M -n 5",
            "memory that QPN",
            "IBV_WC_REM_ACCESS_ERR (10)",
        ),
        (
            "write-bw",
            "read-bw",
            "invalid request",
            "IBV_WC_REM_INV_REQ_ERR (9)",
        ),
        (
            "write-bw -x 1",
            "write-bw",
            "GID families differ",
            "GID families differ",
        ),
    ] {
        let (server, client) = pair_of(server_words, client_words, "127.0.0.1");
        server.assert_code(1);
        client.assert_code(1);
        assert!(server.err.contains(at_server), "{server:#?}");
        assert!(client.err.contains(at_client), "{client:#?}");
    }
}

#[test]
fn a_peer_that_talks_nonsense_is_named_with_its_stage() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let client = Running::start(&format!("write-bw -p {port} 127.0.0.1"));
    let (mut stream, _) = listener.accept().unwrap();
    stream
        .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        .unwrap();
    let said = client.finish();
    said.assert_code(1);
    assert!(said.err.contains("not a perftest peer"), "{}", said.err);
}

#[test]
fn a_peer_that_says_nothing_is_waited_for_no_longer_than_asked() {
    let port = free_port();
    let server = server("write-bw --connect-timeout 1", port);
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let start = Instant::now();
    let said = server.finish();
    said.assert_code(1);
    assert!(start.elapsed() < Duration::from_secs(4), "{said:#?}");
    assert!(said.err.contains("version"), "{}", said.err);
    assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
}

#[test]
fn usage_and_environment_have_their_own_statuses() {
    for (words, code, text) in [
        ("write-bw --frobnicate", 2, "--frobnicate"),
        ("write-bw -D", 2, "--duration"),
        ("write-bw -d nosuch0", 3, "nosuch0"),
        ("write-bw -d afxdp:lo", 3, "afxdp:lo"),
        ("write-bw -d verbs:mlx5_0 --lab", 3, "verbs:mlx5_0"),
    ] {
        let said = roce(words);
        said.assert_code(code);
        assert!(said.err.contains(text), "{words}: {}", said.err);
    }
}

#[test]
fn nobody_at_the_port_is_said_at_once() {
    let start = Instant::now();
    let said = roce(&format!("write-bw -p {} 127.0.0.1", free_port()));
    said.assert_code(1);
    assert!(said.err.contains("connection refused"), "{}", said.err);
    assert!(start.elapsed() < Duration::from_secs(2));
}

#[test]
fn a_signal_ends_a_run_in_order() {
    let _turn = Turn::take();
    let port = free_port();
    let server = server("write-bw -D 30", port);
    let client = Running::start(&format!("write-bw -D 30 -p {port} 127.0.0.1"));
    std::thread::sleep(Duration::from_millis(700));
    client.interrupt();
    let said = client.finish();
    said.assert_code(130);
    let words = said
        .err
        .strip_prefix("roce: interrupted by a signal after ");
    let words = words.unwrap_or_else(|| panic!("{said:#?}"));
    assert!(words.contains("messages of 65536 bytes in"), "{said:#?}");
    assert_eq!(words.lines().count(), 1, "{said:#?}");
    let left = server.finish();
    left.assert_code(1);
    assert!(
        left.err.contains("its TCP connection is closed"),
        "{left:#?}"
    );
    assert!(!left.err.contains("differ"), "{left:#?}");
    let lab = Running::start("read-bw -D 30 --lab");
    std::thread::sleep(Duration::from_millis(1500));
    lab.interrupt();
    let said = lab.finish();
    said.assert_code(130);
    assert_eq!(said.err.lines().count(), 1, "{said:#?}");
}
