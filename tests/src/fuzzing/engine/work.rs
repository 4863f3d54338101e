//! Work requests that were posted, and what their completions must be.

use roce_engine::verbs::{Completion, RKey, Status, WcOpcode};

use super::ledger::{Grant, Ledger, Name};

/// Names a queue that requests are posted to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Queue {
    /// The send queue of QP 0 or 1.
    Send(usize),
    /// The receive queue of QP 0 or 1.
    Recv(usize),
    /// The shared receive queue.
    Shared,
}

impl Queue {
    const fn index(self) -> usize {
        match self {
            Self::Send(n) => n,
            Self::Recv(n) => 2 + n,
            Self::Shared => 4,
        }
    }
}

/// What a posted request promises.
#[derive(Clone, Debug)]
pub(super) struct Posted {
    /// Memory that it lets the engine, or a peer, write.
    pub(super) grants: Vec<Grant>,
    /// Bytes that a receive holds, or that a READ asks for.
    pub(super) capacity: u64,
    /// What it completes as.
    pub(super) opcode: WcOpcode,
    /// Success makes a completion, too.
    pub(super) signaled: bool,
    /// The key that a window gets, or that ends.
    pub(super) key: Option<RKey>,
}

#[derive(Debug)]
struct Outstanding {
    wr_id: u64,
    posted: Posted,
    /// Its QP was reset: a completion may still come, and need not.
    forgotten: bool,
}

/// Everything posted and not completed.
#[derive(Debug, Default)]
pub(super) struct Work {
    queues: [Vec<Outstanding>; 5],
    /// Windows that peers may use, by key.
    windows: Vec<(RKey, Grant)>,
    count: u64,
    /// A completion queue overflowed: its completions are lost.
    pub(super) overflowed: bool,
}

impl Work {
    /// Returns the id of the next request of a queue.
    pub(super) const fn next_id(&self, queue: Queue) -> u64 {
        (queue.index() as u64) << 32 | self.count
    }

    /// Notes that a request was posted under `next_id`.
    pub(super) fn posted(&mut self, queue: Queue, posted: Posted, ledger: &mut Ledger) {
        let wr_id = self.next_id(queue);
        self.count += 1;
        for grant in &posted.grants {
            ledger.grant(grant);
        }
        if posted.opcode == WcOpcode::BindMw {
            // From its turn on and until its key ends, which outlives the request.
            let keys = posted.key.into_iter();
            self.windows.extend(keys.zip(posted.grants.iter().cloned()));
        }
        self.queues[queue.index()].push(Outstanding {
            wr_id,
            posted,
            forgotten: false,
        });
    }

    /// A QP was reset or destroyed: what was posted to it is gone.
    pub(super) fn forget(&mut self, n: usize, ledger: &mut Ledger) {
        for queue in [Queue::Send(n), Queue::Recv(n)] {
            for entry in &mut self.queues[queue.index()] {
                if !core::mem::replace(&mut entry.forgotten, true) {
                    release(&entry.posted, ledger);
                }
            }
        }
    }

    /// Checks a completion against what was posted.
    pub(super) fn completed(&mut self, completion: &Completion, ledger: &mut Ledger) {
        let queue = (completion.wr_id >> 32) as usize;
        let entries = &mut self.queues[queue];
        let Some(at) = entries
            .iter()
            .position(|entry| entry.wr_id == completion.wr_id)
        else {
            panic!("{completion:?} of what was never posted, or completed before");
        };
        let is_send = queue < 2;
        if queue != Queue::Shared.index() {
            // Everything before it is done too: in silence, if nobody asked to be told.
            for earlier in entries.drain(..at) {
                assert!(
                    earlier.forgotten || is_send && !earlier.posted.signaled,
                    "{completion:?} overtook request {:#x}",
                    earlier.wr_id
                );
                if !earlier.forgotten {
                    release(&earlier.posted, ledger);
                }
            }
        }
        let at = if queue == Queue::Shared.index() {
            at
        } else {
            0
        };
        let done = entries.remove(at);
        check(completion, &done.posted, is_send);
        if !done.forgotten {
            release(&done.posted, ledger);
        }
        let ended = match done.posted.opcode {
            WcOpcode::LocalInv if completion.status == Status::Success => done.posted.key,
            WcOpcode::BindMw if completion.status != Status::Success => done.posted.key,
            _ => completion.invalidated,
        };
        if let Some(key) = ended {
            self.end_key(key, ledger);
        }
    }

    /// A key ended: nobody may write through it.
    pub(super) fn end_key(&mut self, key: RKey, ledger: &mut Ledger) {
        self.windows.retain(|(window, grant)| {
            if *window == key {
                ledger.revoke(grant);
            }
            *window != key
        });
        for name in [Name::Open, Name::Atomic] {
            if ledger.mr(name).rkey == key && !ledger.is_frozen(name) {
                ledger.close(name);
            }
        }
    }

    /// The QPs are in error and every completion was taken: nothing of theirs may be left.
    pub(super) fn check_flushed(&self) {
        for (queue, entries) in self.queues[..4].iter().enumerate() {
            for entry in entries {
                // A send that succeeded in silence is never heard of again.
                let silent = queue < 2 && !entry.posted.signaled;
                assert!(
                    silent || entry.forgotten,
                    "request {:#x} never completed",
                    entry.wr_id
                );
            }
        }
    }
}

/// Takes the grants of a request back; those of a window stay until its key ends.
fn release(posted: &Posted, ledger: &mut Ledger) {
    if posted.opcode == WcOpcode::BindMw {
        return;
    }
    for grant in &posted.grants {
        ledger.revoke(grant);
    }
}

fn check(completion: &Completion, posted: &Posted, is_send: bool) {
    if completion.status != Status::Success {
        return;
    }
    if is_send {
        assert_eq!(completion.opcode, posted.opcode, "{completion:?}");
        let expected = match posted.opcode {
            WcOpcode::Read => posted.capacity,
            WcOpcode::CompareSwap | WcOpcode::FetchAdd => 8,
            _ => 0,
        };
        assert_eq!(u64::from(completion.byte_len), expected, "{completion:?}");
        assert!(posted.signaled, "{completion:?} that nobody asked for");
        return;
    }
    match completion.opcode {
        WcOpcode::Recv => assert!(
            u64::from(completion.byte_len) <= posted.capacity,
            "{completion:?} is longer than its receive, {} bytes",
            posted.capacity
        ),
        WcOpcode::RecvWriteImm => assert!(completion.imm.is_some(), "{completion:?}"),
        other => panic!("a receive completed as {other:?}: {completion:?}"),
    }
}
