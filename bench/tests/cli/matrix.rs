//! Every test with every option that changes what travels, data verified: in the lab over IPv4, as two processes over IPv6.

use crate::process::{TESTS, Turn, pair, roce};

/// What is added to a test, and the tests that have it: by a part of their name, or all.
const OPTIONS: [(&str, &[&str]); 10] = [
    ("-n 200", &["-"]),
    ("-c UC -n 200", &["write", "send"]),
    ("-c UD -n 200", &["send"]),
    ("--use-srq -n 200", &["send"]),
    ("-e -n 200", &["send", "read", "atomic"]),
    ("-I 64 -s 32 -n 200", &["write", "send"]),
    ("-l 8 -n 400", &["bw"]),
    ("-b -n 200", &["bw"]),
    ("-q 4 -n 200", &["bw"]),
    ("-b -q 4 -n 200", &["bw"]),
];

fn assert_verified(words: &str, text: &str) {
    let line = text.lines().find(|line| line.contains("messages checked"));
    let line = line.unwrap_or_else(|| panic!("{words}: nothing was verified: {text}"));
    assert!(!line.contains("verify: 0 of"), "{words}: {line}");
}

#[test]
fn every_test_and_option_moves_the_right_data() {
    let _turn = Turn::take();
    for test in TESTS {
        for (option, names) in OPTIONS {
            if !names.iter().any(|name| test.contains(name)) {
                continue;
            }
            let words = format!("{test} {option} --verify");
            let lab = roce(&format!("{words} --lab"));
            lab.assert_code(0);
            assert_verified(&words, &lab.out);
            let (server, client) = pair(&words, "::1");
            client.assert_code(0);
            server.assert_code(0);
            assert_verified(&words, &(client.out + &server.out));
        }
    }
}
