//! The reference model of what one queue pair sends: who may receive which message, and how often.
//!
//! | service | sender | receiver |
//! |---|---|---|
//! | RC | completes in order; errors end it | each message once, in order |
//! | UC | completes everything, in order | whole messages, in order, at most once |
//! | UD | completes everything, in order | whole messages to the right key, in order, at most once |
//!
//! A network that repeats or reorders packets may bring a message of UC or UD twice, or after a later one:
//! a receiver can't tell such a packet from a new one. What arrives is still exactly one that was sent.

use roce_engine::verbs::{Completion, Region, SendFlags, Service, Status, WcOpcode};

use crate::oracle::{Verdict, region_bytes};
use crate::workload::mixed::plan::Op;

/// What one queue pair sends.
#[derive(Debug)]
pub(super) struct Stream {
    name: String,
    service: Service,
    pub(super) ops: Vec<Op>,
    /// The source region's bytes, which never change.
    source: Vec<u8>,
    pub(super) posted: usize,
    pub(super) completed: usize,
    pub(super) failed: Option<(usize, Status)>,
    /// How often each message arrived.
    arrived: Vec<u32>,
    /// The first message, by receiving link, that may arrive next.
    next: Vec<usize>,
    repeats: bool,
}

impl Stream {
    pub(super) fn new(
        name: String,
        service: Service,
        ops: Vec<Op>,
        links: usize,
        source: &Region,
        repeats: bool,
    ) -> Self {
        Self {
            name,
            service,
            arrived: vec![0; ops.len()],
            next: vec![0; links],
            ops,
            source: region_bytes(source, 0..source.len()),
            posted: 0,
            completed: 0,
            failed: None,
            repeats: repeats && service != Service::Rc,
        }
    }

    pub(super) const fn service(&self) -> Service {
        self.service
    }

    /// Returns the bytes of a message.
    pub(super) fn data(&self, op: &Op) -> &[u8] {
        &self.source[op.source..op.source + op.len]
    }

    /// Returns whether everything that was posted has completed.
    pub(super) const fn is_settled(&self) -> bool {
        self.completed == self.posted
    }

    /// Returns how many requests are known to have succeeded.
    pub(super) fn done(&self) -> usize {
        self.failed.map_or(self.completed, |(first, _)| first)
    }

    /// Judges a completion of the send queue.
    pub(super) fn on_sent(&mut self, index: usize, wc: &Completion) -> Verdict {
        let name = &self.name;
        if index < self.completed || index >= self.posted {
            let next = self.completed;
            return Err(format!(
                "{name}: {index} completed out of turn (next is {next})"
            ));
        }
        if let Some((first, status)) = self.failed {
            if index != self.completed || wc.status != Status::WrFlushErr {
                return Err(format!(
                    "{name}: {index}: {} after {status} of {first}",
                    wc.status
                ));
            }
            self.completed += 1;
            return Ok(());
        }
        let signaled = |op: &Op| op.flags.contains(SendFlags::SIGNALED);
        if self.ops[self.completed..index].iter().any(signaled) {
            return Err(format!(
                "{name}: a signaled request before {index} has no completion"
            ));
        }
        if wc.status == Status::Success {
            let op = &self.ops[index];
            let opcode = if op.writes() {
                WcOpcode::Write
            } else {
                WcOpcode::Send
            };
            if wc.opcode != opcode || !signaled(op) {
                return Err(format!(
                    "{name}: {index}, {op:?}, has the completion {wc:?}"
                ));
            }
        } else {
            self.failed = Some((index, wc.status));
        }
        self.completed = index + 1;
        Ok(())
    }

    /// Judges a message that arrived at the other end of link `at`: its bytes, or, of a WRITE, the
    /// target region that it was written to.
    pub(super) fn on_arrival(
        &mut self,
        at: usize,
        wc: &Completion,
        bytes: &[u8],
        target: &Region,
    ) -> Verdict {
        let first = self.next[at];
        let from = if self.repeats { 0 } else { first };
        let candidates = (from..self.posted).filter(|index| {
            let op = &self.ops[*index];
            op.consumes_receive() && op.to == at
        });
        for index in candidates {
            let op = &self.ops[index];
            if op.good_key && self.is(op, wc, bytes, target) {
                self.arrived[index] += 1;
                self.next[at] = first.max(index + 1);
                return Ok(());
            }
            if self.service == Service::Rc {
                return Err(format!(
                    "{}: {op:?} was to arrive, but {wc:?} did",
                    self.name
                ));
            }
        }
        Err(format!(
            "{}: {wc:?} arrived, which nobody sent there, or which came before (next is {first})",
            self.name
        ))
    }

    fn is(&self, op: &Op, wc: &Completion, bytes: &[u8], target: &Region) -> bool {
        let solicited = op.flags.contains(SendFlags::SOLICITED);
        let (opcode, len) = if op.writes() {
            (WcOpcode::RecvWriteImm, 0)
        } else {
            (WcOpcode::Recv, op.len)
        };
        let fields = wc.opcode == opcode && wc.imm == op.imm() && wc.solicited == solicited;
        if !fields || bytes.len() != len {
            return false;
        }
        if op.writes() {
            let written = region_bytes(target, op.slot..op.slot + op.len);
            return wc.byte_len as usize == op.len && written == self.data(op);
        }
        bytes == self.data(op)
    }

    /// Judges the memory that its WRITEs go to, which was `before` at first, and what has arrived.
    pub(super) fn on_end(
        &self,
        target: &Region,
        before: &[u8],
        mtu: usize,
        expect_all: bool,
    ) -> Verdict {
        let mut rest = region_bytes(target, 0..target.len());
        for (index, op) in self.ops.iter().enumerate().filter(|(_, op)| op.writes()) {
            let span = op.slot..op.slot + op.len;
            let (real, data) = (&rest[span.clone()], self.data(op));
            let whole = self.arrived[index] > 0
                || self.service == Service::Rc && index < self.done()
                || expect_all;
            let least = if whole { op.len } else { 0 };
            // Written packet by packet from its start, and perhaps cut off.
            let most = if index < self.posted { op.len } else { 0 };
            let mut ends = (0..=most).step_by(mtu).chain([most]);
            let fits = |end: usize| {
                end >= least
                    && real[..end] == data[..end]
                    && real[end..] == before[span.clone()][end..]
            };
            if !ends.any(fits) {
                let name = &self.name;
                return Err(format!(
                    "{name}: request {index}, {op:?}: wrong bytes in its target"
                ));
            }
            rest[span.clone()].copy_from_slice(&before[span]);
        }
        if rest != before {
            return Err(format!(
                "{}: the target region is written beside all requests",
                self.name
            ));
        }
        self.check_arrivals(expect_all)
    }

    fn check_arrivals(&self, expect_all: bool) -> Verdict {
        for (index, op) in self.ops.iter().enumerate() {
            let missing = op.consumes_receive() && op.good_key && self.arrived[index] == 0;
            let due = expect_all || self.service == Service::Rc && index < self.done();
            if missing && due {
                return Err(format!(
                    "{}: message {index}, {op:?}, never arrived",
                    self.name
                ));
            }
        }
        Ok(())
    }

    /// Returns whether the last message has arrived.
    pub(super) fn has_last(&self) -> bool {
        self.arrived.last().is_none_or(|count| *count > 0)
    }

    /// Returns how many messages arrived.
    pub(super) fn messages(&self) -> usize {
        self.arrived.iter().map(|count| *count as usize).sum()
    }
}

#[cfg(test)]
mod tests;
