//! Moves messages between two engines in virtual time: what `tests/tests/counts.rs` counts instructions of.
//!
//! `turn OPERATION BYTES MESSAGES`, where OPERATION is write, send, read or add.

use std::process::ExitCode;

use roce_tests::pair::{Pair, Setup};

use roce_engine::verbs::{Mtu, SendOp, Status};

/// Requests that are posted before the completions are taken.
const DEPTH: u64 = 16;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    let run = match &words[..] {
        [_, operation, bytes, messages] => bytes
            .parse()
            .ok()
            .zip(messages.parse().ok())
            .and_then(|(bytes, messages)| turn(operation, bytes, messages)),
        _ => None,
    };
    if run.is_none() {
        eprintln!("usage: turn write|send|read|add BYTES MESSAGES");
        return ExitCode::from(2);
    }
    ExitCode::SUCCESS
}

fn turn(operation: &str, bytes: u32, messages: u64) -> Option<()> {
    let mut pair = Pair::with(|setup: &mut Setup| setup.mtu = [Mtu::B4096; 2]);
    // Packets are not kept: the count is to be the engine's.
    pair.world.net().trace_packets(0);
    let op = match operation {
        "write" => pair.write_to(0, 0),
        "read" => pair.read_from(0, 0),
        "add" => pair.add_to(0, 0, 1),
        "send" => SendOp::Send,
        _ => return None,
    };
    let mut done = 0;
    while done < messages {
        for wr_id in 0..DEPTH {
            if operation == "send" {
                pair.recv(1, wr_id, (0, bytes));
            }
            pair.post(0, wr_id, op, (0, bytes));
        }
        pair.run();
        let completions = pair.sent(0);
        assert!(
            completions
                .iter()
                .all(|done| done.status == Status::Success)
        );
        assert_eq!(completions.len() as u64, DEPTH);
        pair.received(1);
        done += DEPTH;
    }
    Some(())
}
