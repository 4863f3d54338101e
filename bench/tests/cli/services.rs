//! Services beyond reliable connections, and what else a QP can be made with.

use crate::process::{Said, Turn, pair, roce};

/// Returns the counts of the line "received N of M messages": it must be there.
fn received(text: &str) -> (u64, u64) {
    let line = text.lines().find(|line| line.contains("received "));
    let line = line.unwrap_or_else(|| panic!("no count of what arrived: {text}"));
    let mut numbers = line
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|word| word.parse().ok());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

/// Each message that arrived was compared.
fn assert_all_checked(said: &Said, count: u64) {
    let line = format!("verify: {count} of {count} messages checked");
    assert!(said.out.contains(&line), "{line}? {said:#?}");
}

#[test]
fn unreliable_services_check_what_arrives_over_both_families() {
    let _turn = Turn::take();
    for host in ["127.0.0.1", "::1"] {
        for words in [
            "send-bw -c UD -s 1024",
            "send-bw -c UC -s 5000",
            "send-bw -c UD -b",
            "send-lat -c UD -s 64",
            "send-lat -c UC",
        ] {
            let (server, client) = pair(&format!("{words} -n 200 --verify"), host);
            client.assert_code(0);
            server.assert_code(0);
            // The loopback interface drops what does not fit its socket.
            let (arrived, sent) = received(&server.out);
            assert_eq!(sent, 200, "{words}: {server:#?}");
            assert!(arrived > 0 && arrived <= sent, "{words}: {server:#?}");
            assert_all_checked(&server, arrived);
        }
        let (server, client) = pair("write-bw -c UC -s 5000 -n 200 --verify", host);
        client.assert_code(0);
        server.assert_code(0);
        assert!(!server.out.contains("verify: 0 of"), "{server:#?}");
    }
}

#[test]
fn losses_of_unreliable_services_are_counted_and_end_a_run_in_order() {
    let _turn = Turn::take();
    for words in [
        "send-bw -c UD",
        "send-bw -c UC -s 4096",
        "send-lat -c UD",
        "write-lat -c UC",
    ] {
        let said = roce(&format!(
            "{words} -n 500 --lab --verify --impair drop=5%,seed=3"
        ));
        said.assert_code(0);
        let (arrived, sent) = received(&said.out);
        assert!(arrived > 0 && arrived < sent, "{words}: {said:#?}");
        assert!(said.out.contains("does not send again"), "{said:#?}");
        assert_all_checked(&said, arrived);
    }
}

#[test]
fn datagrams_have_the_size_of_the_path_at_most() {
    let _turn = Turn::take();
    let said = roce("send-bw -c UD -a -n 20 -m 1024 --lab");
    said.assert_code(0);
    let sizes: Vec<u64> = (1..=10).map(|power| 1 << power).collect();
    assert_eq!(said.sizes(), sizes, "{said:#?}");
    let said = roce("send-bw -c UD -s 2048 -m 1024 -n 20 --lab");
    said.assert_code(2);
    assert!(said.err.contains("-s 1024 or less"), "{said:#?}");
}

#[test]
fn queues_events_inline_data_and_immediates_move_the_right_bytes() {
    let _turn = Turn::take();
    for (words, checked) in [
        ("send-bw --use-srq -q 3", 600),
        ("send-lat --use-srq", 200),
        ("send-bw -I 64 -s 64", 200),
        ("write-lat -I 64 -s 64", 200),
        ("send-bw -e", 200),
        ("send-lat -e", 200),
        ("read-bw -e", 200),
        ("send-bw --send_with_imm", 200),
        ("send-lat --send_with_imm", 200),
        ("write-bw --write_with_imm", 200),
        ("write-lat --write_with_imm", 200),
        ("send-bw --reversed", 200),
        ("write-bw --reversed", 200),
        ("write-bw --retry_count 5 -S 3 --flow_label 77", 200),
    ] {
        let said = roce(&format!("{words} -n 200 --lab --verify"));
        said.assert_code(0);
        assert_all_checked(&said, checked);
    }
}

#[test]
fn a_gap_between_posts_is_in_the_latency() {
    let _turn = Turn::take();
    let said = roce("read-lat -n 50 --latency_gap 2000 --lab --verify");
    said.assert_code(0);
    assert_all_checked(&said, 50);
    let row = said.out.lines().find(|line| line.starts_with(" 2 "));
    let least = row.unwrap().split_whitespace().nth(2).unwrap();
    assert!(least.parse::<f64>().unwrap() >= 2000.0, "{said:#?}");
}

#[test]
fn writes_with_an_immediate_go_in_all_sizes() {
    let _turn = Turn::take();
    let all: Vec<u64> = (1..=23).map(|power| 1 << power).collect();
    for words in ["write-bw", "write-lat", "write-bw -b"] {
        let said = roce(&format!("{words} --write_with_imm -a -n 7 --lab --verify"));
        said.assert_code(0);
        assert_all_checked(&said, 161);
        assert_eq!(said.sizes(), all, "{words}");
    }
}

#[test]
fn a_row_beyond_the_partition_table_is_a_usage_error() {
    let _turn = Turn::take();
    let said = roce("write-bw --pkey_index 9 -n 20 --lab");
    said.assert_code(2);
    let words = "--pkey_index 9: the partition table of the device has 1 row, counted from 0";
    assert!(said.err.contains(words), "{said:#?}");
}

#[test]
fn lost_writes_are_counted_at_the_end_that_is_written_to() {
    let _turn = Turn::take();
    for verify in ["", "--verify"] {
        let said = roce(&format!(
            "write-bw -c UC -s 4096 -n 500 {verify} --lab --impair drop=5%,seed=3"
        ));
        said.assert_code(0);
        let (arrived, sent) = received(&said.out);
        assert!(arrived > 0 && arrived < sent && sent == 500, "{said:#?}");
    }
    let said = roce("write-bw -c UC -s 64 -n 300 -b -q 2 --lab");
    said.assert_code(0);
    assert_eq!(received(&said.out).1, 600, "{said:#?}");
}
