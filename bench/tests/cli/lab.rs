//! `--lab`: each test with both ends, every message checked.

use crate::process::{Turn, roce};

/// Runs in the lab and returns the sizes of the table; something must have been checked, and nothing may be wrong.
fn verified(words: &str, checked: &str) -> Vec<u64> {
    let _turn = Turn::take();
    let said = roce(&format!("{words} --lab --verify"));
    said.assert_code(0);
    let line = format!("verify: {checked} messages checked");
    assert!(said.out.contains(&line), "{words}: {line}?\n{}", said.out);
    said.sizes()
}

#[test]
fn every_test_moves_the_right_bytes() {
    for (words, checked) in [
        ("write-bw -n 300", "300 of 300"),
        ("read-bw -n 300", "300 of 300"),
        ("send-bw -n 300", "300 of 300"),
        ("atomic-bw -n 300", "300 of 300"),
        ("write-lat -n 300", "300 of 300"),
        ("read-lat -n 300", "300 of 300"),
        ("send-lat -n 300", "300 of 300"),
        ("atomic-lat -n 300", "300 of 300"),
    ] {
        assert_eq!(verified(words, checked).len(), 1, "{words}");
    }
}

#[test]
fn all_sizes_run_one_after_the_other() {
    let all: Vec<u64> = (1..=23).map(|power| 1 << power).collect();
    for words in ["write-bw", "read-bw", "send-bw", "write-lat", "send-lat"] {
        // An odd count leaves no receive of one size to the messages of the next.
        let sizes = verified(&format!("{words} -a -n 7"), "161 of 161");
        assert_eq!(sizes, all, "{words}");
    }
}

#[test]
fn odd_sizes_small_path_mtus_and_many_qps_are_exact() {
    for (words, checked) in [
        ("read-bw -m 256 -s 1025 -n 200", "200 of 200"),
        ("write-bw -m 512 -s 100001 -n 50", "50 of 50"),
        ("send-bw -m 1024 -s 4097 -q 5 -n 60", "300 of 300"),
        ("atomic-bw -A CMP_AND_SWAP -q 4 -n 200", "800 of 800"),
        ("atomic-bw -q 3 -o 1 -n 100", "300 of 300"),
        ("write-bw -l 8 -n 160 -s 64", "160 of 160"),
        ("write-bw -s 1 -n 500", "500 of 500"),
    ] {
        verified(words, checked);
    }
}

#[test]
fn both_directions_at_once_are_exact() {
    for words in ["write-bw", "read-bw", "send-bw"] {
        verified(&format!("{words} -b -q 2 -n 150"), "300 of 300");
    }
    // Each atomic of ours by what it returns, and the sum of the peer's.
    verified("atomic-bw -b -q 2 -n 150", "600 of 600");
}

#[test]
fn a_run_by_the_clock_takes_its_time() {
    let _turn = Turn::take();
    for words in [
        "write-bw -b -D 2 --report_gbits",
        "send-bw -D 2",
        "send-bw -b -D 2",
        "read-lat -D 2",
        "write-lat -D 2",
        "send-lat -D 2",
    ] {
        let start = std::time::Instant::now();
        let said = roce(&format!("{words} --lab"));
        said.assert_code(0);
        assert!(start.elapsed().as_secs_f64() >= 2.0, "{words}");
        assert_eq!(said.sizes().len(), 1, "{words}: {}", said.out);
    }
}

#[test]
fn a_lab_over_ipv6_takes_the_ipv6_gid() {
    let _turn = Turn::take();
    let said = roce("write-bw --lab --verify -n 200 --ipv6");
    said.assert_code(0);
    assert!(said.out.contains("GID index       : 1"), "{}", said.out);
    assert!(said.out.contains("200 of 200"), "{}", said.out);
}

#[test]
fn results_are_written_as_json() {
    let _turn = Turn::take();
    let folder = std::env::temp_dir();
    let name = |what: &str| folder.join(format!("roce-cli-{}-{what}.json", std::process::id()));
    let (ours, perftests) = (name("ours"), name("perftest"));
    let said = roce(&format!(
        "read-bw --lab --verify -n 100 --json {} --out_json --out_json_file {}",
        ours.display(),
        perftests.display()
    ));
    said.assert_code(0);
    let read = |path: &std::path::Path| -> serde_json::Value {
        let text = std::fs::read_to_string(path).unwrap();
        std::fs::remove_file(path).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let run = read(&ours);
    assert_eq!(run["verified_bytes"], 100 * 65_536);
    assert_eq!(run["backend"], "udp");
    assert!(run["bandwidth_gbps"].as_f64().unwrap() > 0.0, "{run}");
    let file = read(&perftests);
    assert_eq!(file["results"]["n_iterations"], 100);
    assert_eq!(file["test_info"]["Device"], "udp:lo");
}
