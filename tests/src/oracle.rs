//! The reference model of one direction of a connection: a requester's program and the responder.
//!
//! RC executes requests in order, once each, so the model is a sequential interpreter. It is asked at
//! each completion whether that completion may come now and whether memory is what it must be, and
//! at the end whether all memory is what some prefix of the program leaves.

mod atomics;
mod memory;

pub use atomics::{SharedAdds, Swap};
pub(crate) use memory::region_bytes;
pub use memory::{Image, differs};

use core::fmt;

use roce_engine::verbs::{Completion, RKey, Region, SendFlags, Status, WcOpcode};

use crate::workload::{Kind, Op, Piece, Program};

/// What the model found wrong.
pub type Verdict = Result<(), String>;

/// The model of one direction.
#[derive(Debug)]
pub struct Direction {
    name: String,
    program: Program,
    /// The requester's local region as it must be; bytes of open fetches are not known.
    local: Image,
    /// The responder's target region after the first `applied` requests.
    target: Image,
    /// The responder's receive region.
    received: Image,
    /// The pieces of each receive.
    receives: Vec<Vec<Piece>>,
    /// The spare keys of the responder that are to be invalidated.
    spare_keys: Vec<RKey>,
    applied: usize,
    posted: usize,
    completed: usize,
    failed: Option<(usize, Status)>,
    messages: usize,
    receives_flushed: usize,
}

/// The real memory of one direction.
#[derive(Clone, Debug)]
pub struct Memory {
    /// The requester's local region.
    pub local: Region,
    /// The responder's target region.
    pub target: Region,
    /// The responder's receive region.
    pub received: Region,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (done, posted, all) = (self.completed, self.posted, self.program.ops.len());
        let (got, of) = (self.messages, self.expected_messages());
        write!(
            f,
            "{}: {done} of {posted} posted of {all} requests complete, {got} of {of} messages",
            self.name
        )
    }
}

impl Direction {
    /// Makes the model of a program on memory as it is now.
    pub fn new(
        name: String,
        program: Program,
        receives: Vec<Vec<Piece>>,
        spare_keys: Vec<RKey>,
        memory: &Memory,
    ) -> Self {
        let mut direction = Self {
            name,
            local: Image::of(&memory.local),
            target: Image::of(&memory.target),
            received: Image::of(&memory.received),
            program,
            receives,
            spare_keys,
            applied: 0,
            posted: 0,
            completed: 0,
            failed: None,
            messages: 0,
            receives_flushed: 0,
        };
        direction.foresee_constant_reads();
        direction
    }

    /// Returns the next request to post.
    pub const fn posted(&self) -> usize {
        self.posted
    }

    /// Returns how many requests are known to be done.
    pub const fn completed(&self) -> usize {
        self.completed
    }

    /// Returns the error that ended the program, if one did.
    pub const fn failed(&self) -> Option<Status> {
        match self.failed {
            Some((_, status)) => Some(status),
            None => None,
        }
    }

    /// Returns whether all requests are done, and all messages received.
    pub fn is_done(&self) -> bool {
        self.completed == self.program.ops.len() && self.messages == self.expected_messages()
    }

    /// Returns whether every posted request has completed in some way.
    pub const fn is_settled(&self) -> bool {
        self.completed == self.posted
    }

    /// Returns how many requests are known to have succeeded.
    pub fn done(&self) -> usize {
        self.failed.map_or(self.completed, |(first, _)| first)
    }

    /// Notes that `count` more requests are posted.
    pub const fn on_posted(&mut self, count: usize) {
        self.posted += count;
    }

    /// Judges a completion of the requester's send queue.
    pub fn on_send_completion(
        &mut self,
        memory: &Memory,
        index: usize,
        wc: &Completion,
        adds: &mut SharedAdds,
    ) -> Verdict {
        if index < self.completed || index >= self.posted {
            let (name, next) = (&self.name, self.completed);
            return Err(format!(
                "{name}: {index} completed out of turn (next is {next})"
            ));
        }
        if let Some((first, status)) = self.failed {
            if index != self.completed || wc.status != Status::WrFlushErr {
                let text = format!("{} after {status} of {first}", wc.status);
                return self.wrong(index, text);
            }
            self.completed += 1;
            return Ok(());
        }
        let skipped = &self.program.ops[self.completed..index];
        if skipped
            .iter()
            .any(|op| op.flags.contains(SendFlags::SIGNALED))
        {
            return self.wrong(
                index,
                "a signaled request before it has no completion".into(),
            );
        }
        for done in self.completed..index {
            self.on_done(memory, done, adds)?;
        }
        if wc.status == Status::Success {
            self.check_success(index, wc)?;
            self.on_done(memory, index, adds)?;
        } else {
            self.failed = Some((index, wc.status));
        }
        self.completed = index + 1;
        Ok(())
    }

    /// Judges a completion of the responder's receive queue.
    pub fn on_recv_completion(
        &mut self,
        memory: &Memory,
        index: usize,
        wc: &Completion,
    ) -> Verdict {
        if index != self.messages + self.receives_flushed {
            return Err(format!(
                "{}: receive {index} completed out of turn",
                self.name
            ));
        }
        if wc.status == Status::WrFlushErr {
            self.receives_flushed += 1;
            return Ok(());
        }
        if wc.status != Status::Success || self.receives_flushed > 0 {
            return Err(format!(
                "{}: receive {index} completed with {}",
                self.name, wc.status
            ));
        }
        let Some(at) = self.message(index) else {
            return Err(format!(
                "{}: receive {index} got a message nobody sent",
                self.name
            ));
        };
        if at >= self.posted {
            return Err(format!(
                "{}: receive {index} got what is not posted",
                self.name
            ));
        }
        self.messages += 1;
        self.check_message(memory, index, at, wc)
    }

    /// Judges all memory after the run. `expect_all`: nothing may be left over.
    pub fn on_end(&mut self, memory: &Memory, expect_all: bool) -> Verdict {
        if expect_all && !self.is_done() {
            return Err(format!("left over: {self}"));
        }
        self.check_local(memory)?;
        self.check_received(memory)?;
        self.check_target(memory)
    }

    fn check_success(&self, index: usize, wc: &Completion) -> Verdict {
        let op = &self.program.ops[index];
        if !op.flags.contains(SendFlags::SIGNALED) {
            return self.wrong(index, "is unsignaled and completed with success".into());
        }
        let (opcode, bytes) = match op.kind {
            Kind::Send | Kind::SendImm(_) | Kind::SendInv(_) => (WcOpcode::Send, None),
            Kind::Write | Kind::WriteImm(_) => (WcOpcode::Write, None),
            Kind::Read { .. } => (WcOpcode::Read, Some(op.len)),
            Kind::CompareSwap { .. } => (WcOpcode::CompareSwap, Some(8)),
            Kind::FetchAdd { .. } | Kind::SharedAdd { .. } => (WcOpcode::FetchAdd, Some(8)),
        };
        if wc.opcode != opcode || bytes.is_some_and(|bytes| wc.byte_len as usize != bytes) {
            return self.wrong(index, format!("has the completion {wc:?}"));
        }
        Ok(())
    }

    /// Takes a request as executed, and checks what it fetched.
    fn on_done(&mut self, memory: &Memory, index: usize, adds: &mut SharedAdds) -> Verdict {
        self.apply_up_to(index);
        let op = self.program.ops[index].clone();
        if op.fetches() {
            let fetched = memory::gather(&memory.local, &op.pieces);
            match op.kind {
                Kind::Read { .. } => self.check_read(index, &op, &fetched)?,
                Kind::CompareSwap { old, .. } | Kind::FetchAdd { old, .. }
                    if fetched != old.to_ne_bytes() =>
                {
                    return self.wrong(index, format!("fetched {fetched:02x?}, not {old:#x}"));
                }
                Kind::SharedAdd { add } => adds.observe(op.remote, &self.name, add, &fetched),
                _ => {}
            }
            self.local.scatter(&op.pieces, &fetched);
        }
        self.apply_up_to(index + 1);
        Ok(())
    }

    /// A READ sees all requests before it, and perhaps those after it up to the next fence.
    fn check_read(&self, index: usize, op: &Op, fetched: &[u8]) -> Verdict {
        let expected = self.target.slice(op.remote, op.len);
        if fetched == expected {
            return Ok(());
        }
        let mut open = vec![true; op.len];
        for (flag, (a, b)) in open.iter_mut().zip(fetched.iter().zip(expected)) {
            *flag = a != b;
        }
        for later in &self.program.ops[index + 1..self.posted] {
            if later.flags.contains(SendFlags::FENCE) {
                break;
            }
            if !later.writes_target() {
                continue;
            }
            let data = self.local.gather(&later.pieces);
            for (at, byte) in data.iter().enumerate() {
                let at = (later.remote + at).wrapping_sub(op.remote);
                if at < op.len && fetched[at] == *byte {
                    open[at] = false;
                }
            }
        }
        match open.iter().position(|open| *open) {
            Some(at) => self.wrong(index, format!("read a wrong byte at {at} of {}", op.len)),
            None => Ok(()),
        }
    }

    fn check_message(
        &mut self,
        memory: &Memory,
        index: usize,
        at: usize,
        wc: &Completion,
    ) -> Verdict {
        let op = &self.program.ops[at];
        let imm = match op.kind {
            Kind::SendImm(imm) | Kind::WriteImm(imm) => Some(imm),
            _ => None,
        };
        let invalidated = match op.kind {
            Kind::SendInv(spare) => Some(self.spare_keys[spare]),
            _ => None,
        };
        let opcode = if op.writes_target() {
            WcOpcode::RecvWriteImm
        } else {
            WcOpcode::Recv
        };
        let solicited = op.flags.contains(SendFlags::SOLICITED);
        if (
            wc.opcode,
            wc.byte_len as usize,
            wc.imm,
            wc.invalidated,
            wc.solicited,
        ) != (opcode, op.len, imm, invalidated, solicited)
        {
            return self.wrong(at, format!("arrived in receive {index} as {wc:?}"));
        }
        if !op.writes_target() {
            let data = self.local.gather(&op.pieces);
            self.received.scatter(&self.receives[index], &data);
        }
        for piece in &self.receives[index] {
            let real = memory::bytes(&memory.received, *piece);
            if let Some(offset) = differs(&real, self.received.slice(piece.offset, piece.len)) {
                return self.wrong(
                    at,
                    format!("receive {index} is wrong at {offset} of {piece:?}"),
                );
            }
        }
        Ok(())
    }

    fn check_local(&self, memory: &Memory) -> Verdict {
        let open = self
            .program
            .ops
            .iter()
            .skip(self.done())
            .filter(|op| op.fetches());
        let unknown: Vec<Piece> = open.flat_map(|op| op.pieces.iter().copied()).collect();
        match self.local.differs_outside(&memory.local, &unknown) {
            Some(at) => Err(format!("{}: the local region is wrong at {at}", self.name)),
            None => Ok(()),
        }
    }

    fn check_received(&self, memory: &Memory) -> Verdict {
        // A message that broke off may have left its first packets in the receive that was next.
        let open = self
            .receives
            .get(self.messages)
            .cloned()
            .unwrap_or_default();
        let open = if self.done() == self.program.ops.len() {
            Vec::new()
        } else {
            open
        };
        match self.received.differs_outside(&memory.received, &open) {
            Some(at) => Err(format!(
                "{}: the receive region is wrong at {at}",
                self.name
            )),
            None => Ok(()),
        }
    }

    /// The target is what the first `k` requests leave, with perhaps a part of the next one.
    fn check_target(&mut self, memory: &Memory) -> Verdict {
        let real = memory::whole(&memory.target);
        self.apply_up_to(self.done());
        loop {
            let messages = self.program.ops[..self.applied].iter();
            let consumed = messages.filter(|op| op.consumes_receive()).count();
            if consumed == self.messages && self.matches_partly(&real) {
                return Ok(());
            }
            if self.applied >= self.posted {
                let at = differs(&real, self.target.all());
                return Err(format!(
                    "{}: the target region is wrong (at {at:?})",
                    self.name
                ));
            }
            self.apply_up_to(self.applied + 1);
        }
    }

    fn matches_partly(&self, real: &[u8]) -> bool {
        let Some(first) = differs(real, self.target.all()) else {
            return true;
        };
        let Some(op) = self.program.ops[..self.posted].get(self.applied) else {
            return false;
        };
        // A WRITE is placed packet by packet, lowest address first, and may have broken off.
        let data = self.local.gather(&op.pieces);
        let last = real
            .iter()
            .zip(self.target.all())
            .rposition(|(a, b)| a != b);
        let placed = last.map_or(0, |last| (last + 1).saturating_sub(op.remote));
        op.writes_target()
            && first >= op.remote
            && placed <= data.len()
            && real[op.remote..op.remote + placed] == data[..placed]
    }

    fn apply_up_to(&mut self, count: usize) {
        while self.applied < count {
            let op = &self.program.ops[self.applied];
            match op.kind {
                Kind::Write | Kind::WriteImm(_) => {
                    let data = self.local.gather(&op.pieces);
                    self.target.write(op.remote, &data);
                }
                Kind::CompareSwap { compare, swap, old } => {
                    let value = if compare == old { swap } else { old };
                    self.target.write(op.remote, &value.to_ne_bytes());
                }
                Kind::FetchAdd { add, old } => {
                    self.target
                        .write(op.remote, &old.wrapping_add(add).to_ne_bytes());
                }
                _ => {}
            }
            self.applied += 1;
        }
    }

    /// What a fenced request sends on is known before: it was read from where nobody writes.
    fn foresee_constant_reads(&mut self) {
        for op in &self.program.ops {
            if let Kind::Read { constant: true } = op.kind {
                let data = self.target.slice(op.remote, op.len).to_vec();
                self.local.scatter(&op.pieces, &data);
            }
        }
    }

    fn message(&self, index: usize) -> Option<usize> {
        let ops = self.program.ops.iter().enumerate();
        ops.filter(|(_, op)| op.consumes_receive())
            .nth(index)
            .map(|(at, _)| at)
    }

    fn expected_messages(&self) -> usize {
        self.program
            .ops
            .iter()
            .filter(|op| op.consumes_receive())
            .count()
    }

    fn wrong(&self, index: usize, text: String) -> Verdict {
        Err(format!(
            "{}: request {index}, {:?} of {} bytes, {text}",
            self.name, self.program.ops[index].kind, self.program.ops[index].len
        ))
    }
}

#[cfg(test)]
mod tests;
