//! `--pcap`: every frame of each test, with headers that make each ICRC right.

use std::path::{Path, PathBuf};
use std::process::Command;

use roce_wire::Frame;
use roce_wire::frame::IcrcCheck;

use crate::process::{Turn, roce};

/// A packet of a capture file, from its IP header on.
struct Captured {
    packet: Vec<u8>,
    comment: Option<String>,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes(bytes[at..at + 2].try_into().unwrap())
}

/// Reads the enhanced packet blocks of a pcapng file of this machine's byte order.
fn read(path: &Path) -> Vec<Captured> {
    let file = std::fs::read(path).unwrap();
    let mut frames = Vec::new();
    let mut at = 0;
    while at < file.len() {
        let (kind, len) = (word(&file, at), word(&file, at + 4) as usize);
        let block = &file[at..at + len];
        if kind == 6 {
            let captured = word(block, 20) as usize;
            let options = 28 + captured.next_multiple_of(4);
            frames.push(Captured {
                packet: block[28..28 + captured].to_vec(),
                comment: comment(&block[options..len - 4]),
            });
        }
        at += len;
    }
    frames
}

fn comment(options: &[u8]) -> Option<String> {
    let mut at = 0;
    while at < options.len() {
        let (code, len) = (half(options, at), half(options, at + 2) as usize);
        let value = &options[at + 4..at + 4 + len];
        if code == 1 {
            return Some(String::from_utf8(value.to_vec()).unwrap());
        }
        at += 4 + len.next_multiple_of(4);
    }
    None
}

fn file(name: &str) -> PathBuf {
    let name = format!("roce-cli-{}-{name}.pcapng", std::process::id());
    std::env::temp_dir().join(name)
}

/// Returns of how many packets tshark finds the RoCE headers malformed, or nothing where there is no tshark.
/// What it guesses of payloads doesn't count: random data is soon taken for some protocol.
fn malformed(path: &Path) -> Option<usize> {
    let output = Command::new("tshark")
        .args([
            "-Y",
            "_ws.malformed && frame.protocols matches \"infiniband(:data)?(:_ws.malformed)?$\"",
            "-r",
        ])
        .arg(path)
        .output()
        .ok()?;
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8_lossy(&output.stdout).lines().count())
}

#[test]
fn each_frame_of_each_test_is_recorded_with_a_good_icrc() {
    let _turn = Turn::take();
    for (test, at_least) in [
        ("write-bw -n 20", 320),
        ("read-bw -n 20", 320),
        ("send-bw -n 20", 320),
        ("atomic-bw -n 20", 40),
        ("write-lat -n 20", 60),
        ("read-lat -n 20", 40),
        ("send-lat -n 20", 60),
        ("atomic-lat -n 20 --ipv6", 40),
    ] {
        let path = file("each");
        let said = roce(&format!("{test} --lab --pcap {}", path.display()));
        said.assert_code(0);
        let frames = read(&path);
        assert!(frames.len() >= at_least, "{test}: {}", frames.len());
        let line = format!("pcap: {} frames in", frames.len());
        assert!(said.out.contains(&line), "{line}? {}", said.out);
        for frame in &frames {
            let parsed = Frame::parse_ip(&frame.packet).unwrap();
            assert_eq!(parsed.check_icrc(), IcrcCheck::Good, "{test}: {parsed}");
        }
        match malformed(&path) {
            Some(count) => assert_eq!(count, 0, "{test}"),
            None => eprintln!("tshark is not here: its opinion is not asked"),
        }
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn faults_are_in_the_comments_and_the_data_still_arrives() {
    let _turn = Turn::take();
    let path = file("faults");
    let said = roce(&format!(
        "send-bw -n 100 --lab --verify --impair drop=3%,dup=2%,corrupt=1%,seed=11 --pcap {}",
        path.display()
    ));
    said.assert_code(0);
    assert!(
        said.out.contains("100 of 100 messages checked"),
        "{}",
        said.out
    );
    assert!(said.out.contains("packets sent again"), "{}", said.out);
    let frames = read(&path);
    std::fs::remove_file(&path).unwrap();
    let comments: Vec<_> = frames
        .into_iter()
        .filter_map(|frame| frame.comment)
        .collect();
    for part in [
        "retransmission",
        "not sent: dropped on purpose",
        "duplicated on purpose",
        "corrupted on purpose",
        "NAK: ",
    ] {
        let found = comments.iter().any(|comment| comment.contains(part));
        assert!(found, "{part}?");
    }
}

#[test]
fn packets_are_cut_and_the_file_ends_where_asked() {
    let _turn = Turn::take();
    let path = file("cut");
    let said = roce(&format!(
        "write-bw -n 20 --lab --pcap {} --pcap-snaplen 64 --pcap-limit 10000",
        path.display()
    ));
    said.assert_code(0);
    assert!(
        said.out.contains("more beyond --pcap-limit"),
        "{}",
        said.out
    );
    assert!(std::fs::metadata(&path).unwrap().len() <= 10_000);
    let frames = read(&path);
    std::fs::remove_file(&path).unwrap();
    assert!(frames.iter().all(|frame| frame.packet.len() <= 64));
}

#[test]
fn a_file_that_cannot_be_written_is_an_error_of_the_environment() {
    let _turn = Turn::take();
    let said = roce("write-bw -n 20 --lab --pcap /proc/no/such.pcapng");
    said.assert_code(3);
    assert!(said.err.contains("/proc/no/such.pcapng"), "{}", said.err);
}

#[test]
fn traced_packets_are_lines_on_stderr() {
    let _turn = Turn::take();
    let said = roce("write-lat -n 5 --lab --trace packets");
    said.assert_code(0);
    let lines = |part: &str| said.err.lines().filter(|line| line.contains(part)).count();
    assert_eq!(lines("packet > "), 10, "{}", said.err);
    assert_eq!(lines("RC_RDMA_WRITE_ONLY"), 10, "{}", said.err);
    assert_eq!(lines("RC_ACKNOWLEDGE"), 10, "{}", said.err);
}
