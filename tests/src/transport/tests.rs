use super::*;

/// Writes a pcap file of IPv4 packets, each with its time in milliseconds and whether we sent it.
fn capture(name: &str, packets: &[(u64, bool, Vec<u8>)]) -> std::path::PathBuf {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65535, 101] {
        bytes.extend(word.to_le_bytes());
    }
    for (ms, ours, bth) in packets {
        let length = 20 + 8 + bth.len() + 4;
        let mut ip = vec![0x45, 0, 0, length as u8, 0, 0, 0x40, 0, 64, 17, 0, 0];
        ip.extend([10, 0, 0, if *ours { 1 } else { 2 }, 10, 0, 0, 3]);
        ip.extend([0xc0, 0, 0x12, 0xb7, 0, (length - 20) as u8, 0, 0]);
        ip.extend(bth);
        ip.extend([0; 4]);
        for word in [
            (ms / 1000) as u32,
            (ms % 1000 * 1000) as u32,
            length as u32,
            length as u32,
        ] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(ip);
    }
    let path = std::env::temp_dir().join(format!("roce-story-{name}-{}", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    path
}

fn bth(opcode: u8, qpn: u8, psn: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![opcode, 0, 0xff, 0xff, 0, 0, 0, qpn, 0x80, 0, 0, psn];
    bytes.extend(body);
    bytes
}

fn write(psn: u8, address: u8, data: [u8; 4]) -> Vec<u8> {
    let mut body = vec![0; 16];
    (body[7], body[11], body[15]) = (address, 9, 4);
    body.extend(data);
    bth(0x0a, 2, psn, &body)
}

fn story(name: &str, packets: &[(u64, bool, Vec<u8>)]) -> Story {
    story_of(name, Fixed::Memory, packets)
}

fn story_of(name: &str, fixed: Fixed, packets: &[(u64, bool, Vec<u8>)]) -> Story {
    let path = capture(name, packets);
    let us = ["10.0.0.1".parse().unwrap()];
    let end = |qpn| End { qpn, psn: 5 };
    let known = Known {
        mtu: 1024,
        pairs: vec![(end(1), end(2))],
        fixed,
    };
    let story = follow(&path, &us, &known).unwrap();
    std::fs::remove_file(path).unwrap();
    story
}

#[test]
fn a_request_sent_twice_without_a_reason_is_unexplained() {
    let story = story(
        "twice",
        &[
            (0, true, write(5, 0, [1; 4])),
            (1, true, write(5, 0, [1; 4])),
        ],
    );
    assert_eq!((story.ours.resent, story.ours.unexplained), (1, 1));
    assert_eq!((story.ours.bytes, story.ours.messages), (4, 1));
}

#[test]
fn a_nak_explains_what_is_sent_again_until_something_new_is() {
    let nak = bth(0x11, 1, 5, &[0x60, 0, 0, 0]);
    let story = story(
        "nak",
        &[
            (0, true, write(5, 0, [1; 4])),
            (1, true, write(6, 0, [1; 4])),
            (2, false, nak),
            (3, true, write(5, 0, [1; 4])),
            (4, true, write(6, 0, [1; 4])),
            (5, true, write(7, 0, [1; 4])),
            (6, true, write(7, 0, [1; 4])),
        ],
    );
    assert_eq!((story.ours.resent, story.ours.unexplained), (3, 1));
    assert_eq!(story.ours.naks, 1);
}

#[test]
fn a_timers_silence_explains_a_repetition() {
    let story = story(
        "timer",
        &[
            (0, true, write(5, 0, [1; 4])),
            (100, true, write(5, 0, [1; 4])),
        ],
    );
    assert_eq!((story.ours.resent, story.ours.unexplained), (1, 0));
}

#[test]
fn bytes_of_one_place_have_to_agree() {
    let story = story(
        "bytes",
        &[
            (0, true, write(5, 0x40, [1, 2, 3, 4])),
            (1, true, write(6, 0x40, [1, 2, 9, 4])),
        ],
    );
    assert_eq!(story.wrong_data.len(), 1);
    assert!(story.wrong_data[0].contains("0x42"), "{story:?}");
    assert_eq!(story.compared, 4);
}

#[test]
fn sends_from_one_place_have_to_agree_and_have_the_size() {
    let send = |psn, data: &[u8]| bth(0x04, 2, psn, data);
    let fixed = Fixed::Sends(Sends { size: 4, turn: 2 });
    let story = story_of(
        "sends",
        fixed,
        &[
            (0, true, send(5, &[1; 4])),
            (1, true, send(6, &[2; 4])),
            // As the first but one, which was lost before the capture is 7.
            (2, true, send(8, &[2; 4])),
            (3, true, send(9, &[2; 4])),
            (4, true, send(10, &[2; 3])),
            // The second again.
            (5, true, send(6, &[2, 2, 2, 9])),
        ],
    );
    let words = story.wrong_data.join("; ");
    assert_eq!(story.wrong_data.len(), 3, "{words}");
    for part in ["at 0x0 ", "packet 5 of a flow", "at 0x7 "] {
        assert!(words.contains(part), "{part} in {words}");
    }
}

#[test]
fn the_byte_that_counts_is_not_compared() {
    let same = [
        (0, true, write(5, 0x40, [1, 2, 3, 4])),
        (1, true, write(6, 0x40, [1, 2, 3, 5])),
    ];
    let story = story_of("counts", Fixed::MemoryButLastByte, &same);
    assert_eq!(story.wrong_data, Vec::<String>::new());
    let mut other = same;
    other[1].2 = write(6, 0x40, [1, 2, 9, 5]);
    let story = story_of("differs", Fixed::MemoryButLastByte, &other);
    assert_eq!(story.wrong_data.len(), 1);
}

#[test]
fn the_values_that_atomics_find_go_up_by_one() {
    let ask = |psn| {
        let mut body = vec![0; 28];
        body[7] = 8;
        bth(0x14, 2, psn, &body)
    };
    let found = |psn, value| bth(0x12, 1, psn, &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, value]);
    let right = [
        (0, true, ask(5)),
        (1, false, found(5, 7)),
        (2, true, ask(6)),
        (3, false, found(6, 8)),
    ];
    let story_of_right = story("atomics", &right);
    assert_eq!(story_of_right.wrong_data, Vec::<String>::new());
    assert_eq!(story_of_right.compared, 1);
    let mut wrong = right;
    wrong[3].2 = found(6, 7);
    assert_eq!(story("stale", &wrong).wrong_data.len(), 1);
}

#[test]
fn a_read_counts_by_what_it_asks_for_and_takes_a_psn_a_packet() {
    let mut body = vec![0; 16];
    (body[14], body[15]) = (0x08, 0x01);
    let story = story(
        "read",
        &[
            (0, true, bth(0x0c, 2, 5, &body)),
            (1, true, bth(0x0c, 2, 8, &body)),
        ],
    );
    assert_eq!((story.ours.bytes, story.ours.messages), (4098, 2));
    assert_eq!(story.ours.resent, 0);
}

#[test]
fn a_peer_may_repeat_what_is_open_and_not_what_was_acknowledged_long_ago() {
    let theirs = |psn| {
        let mut bytes = write(psn, 0, [1; 4]);
        bytes[7] = 1;
        bytes
    };
    let ack = |psn| bth(0x11, 2, psn, &[0x1f, 0, 0, 1]);
    let story = story(
        "peer",
        &[
            (0, false, theirs(5)),
            (1, false, theirs(5)),
            (2, true, ack(5)),
            (30, false, theirs(6)),
            (50, true, ack(6)),
            (100, false, theirs(7)),
            (105, true, ack(7)),
            (140, false, theirs(8)),
            (145, true, ack(8)),
            (155, false, theirs(9)),
            (160, true, ack(9)),
            (161, false, theirs(8)),
            (1219, false, theirs(10)),
            (1220, false, theirs(9)),
            (1221, false, theirs(10)),
        ],
    );
    assert_eq!((story.theirs.resent, story.theirs.unexplained), (4, 1));
}
