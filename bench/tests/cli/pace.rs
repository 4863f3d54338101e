//! Options about memory and pace, each by what it changes.

use core::time::Duration;
use std::time::Instant;

use crate::process::{Running, Said, Turn, free_port, pair, roce, server};

/// Returns the keys that one end told the other, in the order of the QPs.
fn keys(said: &Said) -> Vec<&str> {
    said.out
        .lines()
        .filter(|line| line.starts_with(" local address:"))
        .filter_map(|line| line.split(" RKey ").nth(1)?.split(' ').next())
        .collect()
}

/// Returns the last column of the first row: messages per second, in millions.
fn rate(said: &Said) -> f64 {
    let row = said
        .out
        .lines()
        .skip_while(|line| !line.starts_with(" #bytes"))
        .nth(1);
    let rate = row.and_then(|row| row.split_whitespace().last());
    rate.unwrap_or_default().parse().unwrap()
}

#[test]
fn each_qp_has_a_region_of_its_own() {
    let _turn = Turn::take();
    for words in ["write-bw", "read-bw", "write-bw -b"] {
        let words = format!("{words} --mr_per_qp -q 3 -n 60 --verify");
        let (server, client) = pair(&words, "127.0.0.1");
        for said in [&server, &client] {
            said.assert_code(0);
            let mut found = keys(said);
            found.sort_unstable();
            found.dedup();
            assert_eq!(found.len(), 3, "{words}: {said:#?}");
        }
    }
    for words in [
        "send-bw -q 3",
        "send-bw --use-srq -q 2",
        "atomic-bw -b -q 2",
    ] {
        let said = roce(&format!("{words} --mr_per_qp -n 60 --verify --lab"));
        said.assert_code(0);
        assert!(said.out.contains("messages checked"), "{words}: {said:#?}");
        assert!(!said.out.contains("verify: 0 of"), "{words}: {said:#?}");
    }
    let (_, shared) = pair("write-bw -q 3 -n 60", "127.0.0.1");
    assert!(
        keys(&shared).windows(2).all(|two| two[0] == two[1]),
        "{shared:#?}"
    );
}

/// Huge pages that the system has reserved; as many as before when dropped.
struct HugePages {
    before: u64,
}

impl HugePages {
    const FILE: &str = "/proc/sys/vm/nr_hugepages";

    fn count() -> Option<u64> {
        std::fs::read_to_string(Self::FILE)
            .ok()?
            .trim()
            .parse()
            .ok()
    }

    /// Reserves more, where that is allowed and there is memory in one piece.
    fn reserve(more: u64) -> Option<Self> {
        let before = Self::count()?;
        std::fs::write(Self::FILE, (before + more).to_string()).ok()?;
        let pages = Self { before };
        (Self::count()? == before + more).then_some(pages)
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        let _restored = std::fs::write(Self::FILE, self.before.to_string());
    }
}

#[test]
fn huge_pages_are_used_or_asked_for() {
    let _turn = Turn::take();
    // More than any machine has.
    let said = roce("write-bw --use_hugepages -s 2147483647 -q 16384 -n 5 --lab");
    said.assert_code(3);
    let hint = "Failed to allocate hugepages";
    assert!(said.err.contains(hint), "{said:#?}");
    assert!(said.err.contains("sysctl vm.nr_hugepages="), "{said:#?}");
    let Some(_pages) = HugePages::reserve(128) else {
        eprintln!("skipped in part: this machine reserves no huge pages for this user");
        return;
    };
    for words in ["write-bw -q 2 --mr_per_qp", "send-lat", "read-bw -s 1M"] {
        let said = roce(&format!("{words} --use_hugepages -n 60 --verify --lab"));
        said.assert_code(0);
        assert!(said.out.contains("messages checked"), "{words}: {said:#?}");
    }
}

#[test]
fn a_warm_up_goes_ahead_and_counts_for_nothing() {
    let _turn = Turn::take();
    for (words, row, checked) in [
        // A depth of 20 per QP goes ahead.
        ("write-bw -n 20 -q 2 -s 64", "40", "80 of 80"),
        ("read-bw -n 20", "20", "40 of 40"),
        ("atomic-bw -n 20 -b", "20", "80 of 80"),
        // With a list, one list.
        ("write-bw -n 40 -l 8", "40", "48 of 48"),
        ("write-bw -c UC -s 64 -n 20", "20", "40 of 40"),
    ] {
        let said = roce(&format!("{words} --perform_warm_up --verify --lab"));
        said.assert_code(0);
        let line = format!("verify: {checked} messages checked");
        assert!(said.out.contains(&line), "{words}: {line}? {said:#?}");
        let found = said
            .out
            .lines()
            .skip_while(|line| !line.starts_with(" #bytes"))
            .nth(1);
        let iterations = found.and_then(|row| row.split_whitespace().nth(1));
        assert_eq!(iterations, Some(row), "{words}: {said:#?}");
    }
    let sizes = roce("write-bw -a -n 7 --perform_warm_up --verify --lab");
    sizes.assert_code(0);
    assert!(sizes.out.contains("verify: 322 of 322"), "{sizes:#?}");
    let imm = roce("write-bw --write_with_imm --perform_warm_up -n 20 --verify --lab");
    imm.assert_code(0);
    assert!(imm.err.contains("it has no effect"), "{imm:#?}");
}

#[test]
fn a_limited_sender_keeps_its_rate() {
    let _turn = Turn::take();
    // What the machine is too slow for it can't be asked: only the upper bound is the sender's.
    for (words, most) in [
        (
            "write-bw -s 1K -n 200 --rate_limit 1000 --rate_units p --burst_size 10",
            0.001,
        ),
        (
            "read-bw -s 1K -n 200 --rate_limit 1 --rate_units M --burst_size 10",
            0.001_024,
        ),
        (
            "send-bw -s 1000 -n 200 --rate_limit 0.008 --burst_size 10 -q 2",
            0.001,
        ),
        (
            "write-bw -s 1K -n 200 -l 5 --rate_limit 1000 --rate_units p --burst_size 10",
            0.001,
        ),
        (
            "send-bw -s 64 -D 1 --rate_limit 1000 --rate_units p --burst_size 2",
            0.001,
        ),
    ] {
        let said = roce(&format!("{words} --lab"));
        said.assert_code(0);
        let found = rate(&said);
        // The first burst goes at once: n messages take the time of n less one burst.
        assert!(
            found > 0.0 && found < most * 1.1,
            "{words}: {found} of {most}"
        );
    }
}

#[test]
fn a_run_without_end_is_ended_by_a_signal_at_either_end() {
    let _turn = Turn::take();
    for (words, at_server) in [
        ("write-bw", false),
        ("write-bw", true),
        ("read-bw -b", false),
        ("send-bw", false),
        ("send-bw -c UD", true),
        ("write-bw --write_with_imm", false),
        ("write-bw --reversed", true),
        ("atomic-bw", false),
    ] {
        let words = format!("{words} --run_infinitely -D 1 --connect-timeout 20");
        let port = free_port();
        let server = server(&words, port);
        let client = Running::start(&format!("{words} -p {port} 127.0.0.1"));
        std::thread::sleep(Duration::from_millis(2600));
        if at_server { &server } else { &client }.interrupt();
        let (server, client) = (server.finish(), client.finish());
        let (stopped, left, words_left) = if at_server {
            (&server, &client, " Server closed connection\n")
        } else {
            (&client, &server, " Client closed connection\n")
        };
        stopped.assert_code(0);
        left.assert_code(0);
        assert!(
            stopped.out.contains("\n\n User stopped traffic\n"),
            "{words}: {stopped:#?}"
        );
        assert!(left.out.contains(words_left), "{words}: {left:#?}");
        let rows = |said: &Said| said.sizes().len();
        assert!(
            rows(&client) + rows(&server) >= 1,
            "{words}: {client:#?} {server:#?}"
        );
        assert!(
            client.out.contains("WARNING: BW peak won't be measured"),
            "{client:#?}"
        );
    }
}

#[test]
fn a_lab_without_end_ends_with_its_client() {
    let _turn = Turn::take();
    let lab = Running::start("write-bw --run_infinitely -D 1 --lab --out_json_file rows.json");
    std::thread::sleep(Duration::from_millis(1700));
    let start = Instant::now();
    lab.interrupt();
    let said = lab.finish();
    said.assert_code(0);
    assert!(start.elapsed() < Duration::from_secs(10), "{said:#?}");
    assert!(said.out.contains(" User stopped traffic"), "{said:#?}");
    let rows = std::fs::read_to_string("rows.json").unwrap();
    std::fs::remove_file("rows.json").unwrap();
    assert!(rows.contains("BW_average"), "{rows}");
}

#[test]
fn what_cannot_be_paced_is_refused() {
    for (words, text) in [
        ("write-bw --rate_limit 0", "not a number above 0"),
        ("write-bw --rate_limit 0.1 --rate_units p", "raise the rate"),
        (
            "write-bw -b --write_with_imm --run_infinitely",
            "exclude each other",
        ),
        ("write-bw --typical_pkt_size 64", "--typical_pkt_size"),
    ] {
        let said = roce(words);
        said.assert_code(2);
        assert!(said.err.contains(text), "{words}: {said:#?}");
    }
}
