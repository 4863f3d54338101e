//! The model itself: it accepts a right run and names each wrong one.

use super::*;
use crate::workload::Layout;

#[test]
fn a_right_run_is_accepted() {
    let mut run = Run::new();
    assert_eq!(run.all(), Ok(()));
}

#[test]
fn a_wrong_byte_anywhere_is_noticed() {
    for place in 0..3 {
        let mut run = Run::new();
        run.complete().unwrap();
        let region = [&run.memory.local, &run.memory.target, &run.memory.received][place].clone();
        for at in 0..region.len() {
            let byte = region.load(at);
            region.store(at, byte ^ 1);
            assert!(run.end().is_err(), "region {place}, byte {at}");
            region.store(at, byte);
        }
        assert_eq!(run.end(), Ok(()));
    }
}

#[test]
fn a_read_that_brings_wrong_bytes_is_noticed() {
    let mut run = Run::new();
    run.memory.local.store(16, 99);
    assert!(
        run.complete()
            .unwrap_err()
            .contains("read a wrong byte at 0")
    );
}

#[test]
fn an_atomic_that_is_executed_twice_is_noticed() {
    let mut run = Run::new();
    run.memory.local.write(20, &6_u64.to_ne_bytes());
    assert!(run.complete().unwrap_err().contains("fetched"));
    let mut run = Run::new();
    run.memory.target.write(0, &7_u64.to_ne_bytes());
    assert!(run.all().unwrap_err().contains("target region"));
}

#[test]
fn completions_out_of_order_or_twice_are_noticed() {
    for order in [&[1, 0][..], &[0, 0], &[0, 4]] {
        let mut run = Run::new();
        let outcome: Verdict = order
            .iter()
            .try_for_each(|index| run.sent(*index, Status::Success));
        assert!(outcome.is_err(), "{order:?}");
    }
    let mut run = Run::new();
    run.sent(0, Status::RetryExcErr).unwrap();
    assert!(
        run.sent(1, Status::Success).is_err(),
        "success after an error"
    );
    let mut run = Run::new();
    run.sent(0, Status::RetryExcErr).unwrap();
    assert!(
        run.sent(2, Status::WrFlushErr).is_err(),
        "a flush that skips one"
    );
}

#[test]
fn a_message_that_comes_twice_is_noticed() {
    let mut run = Run::new();
    run.received(0).unwrap();
    assert!(run.received(0).is_err());
    assert!(run.received(1).unwrap_err().contains("nobody sent"));
}

#[test]
fn a_broken_write_may_leave_its_first_bytes_only() {
    for (bytes, right) in [
        (&[10, 11, 0, 0], true),
        (&[0, 0, 12, 13], false),
        (&[10, 9, 0, 0], false),
    ] {
        let mut run = Run::new();
        run.memory.target.fill(8, 4, 0);
        run.memory.target.write(0, &5_u64.to_ne_bytes());
        run.direction.target = Image::of(&run.memory.target);
        run.memory.target.write(8, bytes);
        run.sent(0, Status::RetryExcErr).unwrap();
        assert_eq!(
            run.direction.on_end(&run.memory, false).is_ok(),
            right,
            "{bytes:?}"
        );
    }
}

/// WRITE of 4 bytes, READ of them, FETCH_ADD, SEND: memory as it is after all of them, and the model
/// that starts from before.
struct Run {
    direction: Direction,
    memory: Memory,
    adds: SharedAdds,
}

impl Run {
    fn new() -> Self {
        let region = |len| Region::zeroed(len, 8).unwrap();
        let memory = Memory {
            local: region(28),
            target: region(16),
            received: region(8),
        };
        memory.local.write(0, &[10, 11, 12, 13]);
        memory.target.write(0, &5_u64.to_ne_bytes());
        let program = program();
        let receives = vec![vec![piece(2, 4)]];
        let name = "test".to_owned();
        let mut direction = Direction::new(name, program, receives, Vec::new(), &memory);
        direction.on_posted(4);
        memory.target.write(8, &[10, 11, 12, 13]);
        memory.target.write(0, &6_u64.to_ne_bytes());
        memory.local.write(16, &[10, 11, 12, 13]);
        memory.local.write(20, &5_u64.to_ne_bytes());
        memory.received.write(2, &[10, 11, 12, 13]);
        Self {
            direction,
            adds: SharedAdds::new(&region(0)),
            memory,
        }
    }

    fn sent(&mut self, index: usize, status: Status) -> Verdict {
        let kinds = [
            (WcOpcode::Write, 0),
            (WcOpcode::Read, 4),
            (WcOpcode::FetchAdd, 8),
        ];
        let (opcode, byte_len) = kinds.get(index).copied().unwrap_or((WcOpcode::Send, 0));
        let wc = Completion {
            status,
            opcode,
            byte_len,
            ..Completion::default()
        };
        self.direction
            .on_send_completion(&self.memory, index, &wc, &mut self.adds)
    }

    fn received(&mut self, index: usize) -> Verdict {
        let wc = Completion {
            opcode: WcOpcode::Recv,
            byte_len: 4,
            ..Completion::default()
        };
        self.direction.on_recv_completion(&self.memory, index, &wc)
    }

    fn complete(&mut self) -> Verdict {
        (0..4).try_for_each(|index| self.sent(index, Status::Success))?;
        self.received(0)
    }

    fn end(&mut self) -> Verdict {
        self.direction.on_end(&self.memory, true)
    }

    fn all(&mut self) -> Verdict {
        self.complete()?;
        self.end()
    }
}

fn program() -> Program {
    let op = |kind, len, pieces: &[Piece], remote| Op {
        kind,
        len,
        pieces: pieces.to_vec(),
        remote,
        flags: SendFlags::SIGNALED,
        inline: false,
    };
    let ops = vec![
        op(Kind::Write, 4, &[piece(0, 4)], 8),
        op(Kind::Read { constant: false }, 4, &[piece(16, 4)], 8),
        op(Kind::FetchAdd { add: 1, old: 5 }, 8, &[piece(20, 8)], 0),
        op(Kind::Send, 4, &[piece(0, 4)], 0),
    ];
    Program {
        ops,
        layout: Layout {
            source: 16,
            local: 28,
            words: 1,
            written: piece(8, 4),
            constant: piece(12, 4),
        },
        words: vec![5],
        invalidations: 0,
    }
}

const fn piece(offset: usize, len: usize) -> Piece {
    Piece { offset, len }
}
