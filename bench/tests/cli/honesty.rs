//! What is no result is not passed off as one, and what a user must know comes before a long run, not after it.

use std::fs::{self, OpenOptions};
use std::process::{Command, Stdio};

use crate::process::{Said, Turn, free_port, pair_of, roce};

#[test]
fn a_row_of_zeros_is_a_failure() {
    let _turn = Turn::take();
    for test in ["read-lat", "write-bw"] {
        let said = roce(&format!(
            "{test} --lab -D 1 -f 0.45 -u 22 --impair delay=300ms"
        ));
        said.assert_code(1);
        assert!(said.err.contains("nothing was measured"), "{said:#?}");
    }
}

/// What is delayed by the same time leaves in one burst, and a receiver finds all of it in one look.
#[test]
fn a_receiver_of_one_burst_measures_more_than_zero() {
    let _turn = Turn::take();
    for _ in 0..5 {
        let (server, client) = pair_of(
            "send-bw -n 5 -s 64",
            "send-bw -n 5 -s 64 --impair delay=20ms",
            "127.0.0.1",
        );
        client.assert_code(0);
        server.assert_code(0);
        let mut lines = server
            .out
            .lines()
            .skip_while(|line| !line.starts_with(" #bytes"));
        let row = lines.nth(1).unwrap_or_default();
        let rate = row
            .split_whitespace()
            .last()
            .and_then(|rate| rate.parse().ok());
        assert!(rate.is_some_and(|rate: f64| rate > 0.0), "{server:#?}");
    }
}

#[test]
fn datagrams_out_of_order_or_twice_are_not_damage() {
    let _turn = Turn::take();
    for faults in ["dup=2%", "reorder=5%"] {
        let said = roce(&format!(
            "send-bw --lab --verify -c UD -n 500 --impair {faults},seed=5"
        ));
        said.assert_code(0);
        assert!(
            said.out.contains("behind a later one or twice"),
            "{said:#?}"
        );
    }
}

#[test]
fn results_that_can_not_be_printed_are_a_failure() {
    let _turn = Turn::take();
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let said: Said = Command::new(env!("CARGO_BIN_EXE_roce"))
        .args(["write-bw", "--lab", "-n", "20"])
        .stdout(Stdio::from(full))
        .output()
        .unwrap()
        .into();
    said.assert_code(3);
    assert!(
        said.err.contains("writing to the standard output"),
        "{said:#?}"
    );
}

#[test]
fn a_result_file_is_tried_before_the_run_and_left_alone_by_one_that_fails() {
    let port = free_port();
    let folder = std::env::temp_dir();
    let kept = folder.join(format!("roce-kept-{}", std::process::id()));
    let new = folder.join(format!("roce-new-{}", std::process::id()));
    fs::write(&kept, "an older result").unwrap();
    for option in ["--json", "--out_json_file"] {
        // Nobody listens there: it has not come to that.
        let early = roce(&format!(
            "write-bw {option} /nonexistent/x -p {port} 127.0.0.1"
        ));
        early.assert_code(3);
        assert!(early.err.contains("/nonexistent/x"), "{early:#?}");
        for path in [&kept, &new] {
            let path = path.display();
            roce(&format!("write-bw {option} {path} -p {port} 127.0.0.1")).assert_code(1);
        }
        assert_eq!(fs::read_to_string(&kept).unwrap(), "an older result");
        assert!(!new.exists());
        roce(&format!("write-bw {option} - -p {port} 127.0.0.1")).assert_code(2);
    }
    fs::remove_file(kept).unwrap();
}

#[test]
fn a_server_on_any_port_says_which() {
    let said = roce("write-bw -p 0 --connect-timeout 0.2");
    said.assert_code(1);
    let line = said.err.lines().find(|line| line.contains("TCP port"));
    let port = line.and_then(|line| line.split_whitespace().nth(2)?.parse::<u16>().ok());
    assert!(port.is_some_and(|port| port > 0), "{said:#?}");
    roce("write-bw -p 0 127.0.0.1").assert_code(2);
}
