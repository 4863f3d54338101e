//! A connected QP as the loops use it: where its messages are, and how many went and came.

use anyhow::{Context as _, Result};
use roce_engine::verbs::{
    Backend, Payload, Psn, Qp, Qpn, RKey, RecvWr, SendFlags, SendOp, SendWr, Sge,
};

use super::buffers::Lane;
use super::ring::Ring;

/// Requests of one call at most.
const BURST: usize = 16;
/// In a work request's id: this is a receive.
const RECEIVE: u64 = 1 << 63;
const INDEX_SHIFT: u32 = 48;
const NUMBER: u64 = (1 << INDEX_SHIFT) - 1;

/// A work request's id: which flow, which message, and whether it is a receive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WrId {
    /// The flow's index, below 2^15.
    pub flow: usize,
    /// The message's number in this measurement.
    pub number: u64,
    /// A receive.
    pub receive: bool,
}

impl WrId {
    /// Returns the number that a work request carries.
    #[inline]
    pub const fn encode(self) -> u64 {
        (self.flow as u64) << INDEX_SHIFT
            | self.number & NUMBER
            | if self.receive { RECEIVE } else { 0 }
    }

    /// Reads the number of a completion.
    #[inline]
    pub const fn decode(id: u64) -> Self {
        Self {
            flow: ((id & !RECEIVE) >> INDEX_SHIFT) as usize,
            number: id & NUMBER,
            receive: id & RECEIVE != 0,
        }
    }
}

/// What every request of a measurement is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Action {
    /// RDMA WRITE.
    Write,
    /// RDMA READ.
    Read,
    /// SEND.
    Send,
    /// FETCH_AND_ADD of 1.
    Add,
    /// CMP_AND_SWAP, comparing 0 and swapping 0.
    Swap,
}

impl Action {
    #[inline]
    const fn op(self, addr: u64, rkey: RKey) -> SendOp {
        match self {
            Self::Write => SendOp::Write { addr, rkey },
            Self::Read => SendOp::Read { addr, rkey },
            Self::Send => SendOp::Send,
            Self::Add => SendOp::FetchAdd { addr, rkey, add: 1 },
            Self::Swap => SendOp::CompareSwap {
                addr,
                rkey,
                compare: 0,
                swap: 0,
            },
        }
    }
}

/// Which requests are signaled: every `every`-th, and the last.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Signal {
    /// The moderation, at least 1.
    pub every: u64,
    /// The number of the last request, if there is one.
    pub last: Option<u64>,
}

impl Signal {
    #[inline]
    fn flags(self, number: u64) -> SendFlags {
        if (number + 1).is_multiple_of(self.every) || self.last == Some(number) {
            SendFlags::SIGNALED
        } else {
            SendFlags::NONE
        }
    }
}

/// A connected QP, in one measurement.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Its place among the flows.
    pub index: usize,
    /// Names the QP to the backend.
    pub qp: Qp,
    /// Our QP.
    pub qpn: Qpn,
    /// The first PSN that we send.
    pub psn: Psn,
    /// Local memory of what is sent or fetched.
    pub tx: Lane,
    /// Local memory of what is received.
    pub rx: Lane,
    /// The peer's memory.
    pub addr: u64,
    /// Its key.
    pub rkey: RKey,
    /// How messages walk through the peer's memory.
    pub walk: Ring,
    /// Messages that it sent in earlier measurements.
    pub before: u64,
    /// Requests posted.
    pub posted: u64,
    /// Requests that are complete.
    pub completed: u64,
    /// Receives posted.
    pub offered: u64,
    /// Messages received.
    pub received: u64,
}

impl Flow {
    /// Posts the next `count` requests of `size` bytes.
    ///
    /// # Errors
    ///
    /// The device refuses one.
    #[inline]
    pub fn post<B: Backend>(
        &mut self,
        backend: &mut B,
        action: Action,
        size: u32,
        count: u64,
        signal: Signal,
    ) -> Result<()> {
        let mut left = count;
        while left >= BURST as u64 {
            self.post_array::<B, BURST>(backend, action, size, signal)?;
            left -= BURST as u64;
        }
        while left > 0 {
            self.post_array::<B, 1>(backend, action, size, signal)?;
            left -= 1;
        }
        Ok(())
    }

    #[inline]
    fn post_array<B: Backend, const N: usize>(
        &mut self,
        backend: &mut B,
        action: Action,
        size: u32,
        signal: Signal,
    ) -> Result<()> {
        let first = self.posted;
        let sges: [Sge; N] = core::array::from_fn(|i| self.tx.sge(first + i as u64, size));
        let requests: [SendWr<'_>; N] = core::array::from_fn(|i| {
            let number = first + i as u64;
            SendWr {
                wr_id: WrId {
                    flow: self.index,
                    number,
                    receive: false,
                }
                .encode(),
                op: action.op(self.addr + self.walk.offset(number), self.rkey),
                payload: Payload::Sges(&sges[i..=i]),
                flags: signal.flags(number),
            }
        });
        backend
            .post_send(self.qp, &requests)
            .with_context(|| format!("post to QPN {}", self.qpn))?;
        self.posted += N as u64;
        Ok(())
    }

    /// Posts the next `count` receives of `size` bytes.
    ///
    /// # Errors
    ///
    /// The device refuses one.
    pub fn offer<B: Backend>(&mut self, backend: &mut B, size: u32, count: u64) -> Result<()> {
        for _ in 0..count {
            let sges = [self.rx.sge(self.offered, size)];
            let request = RecvWr {
                wr_id: WrId {
                    flow: self.index,
                    number: self.offered,
                    receive: true,
                }
                .encode(),
                sges: &sges,
            };
            backend
                .post_recv(self.qp, &[request])
                .with_context(|| format!("post a receive to QPN {}", self.qpn))?;
            self.offered += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_back_whole() {
        for id in [
            WrId {
                flow: 16_383,
                number: NUMBER,
                receive: true,
            },
            WrId {
                flow: 0,
                number: 0,
                receive: false,
            },
            WrId {
                flow: 5,
                number: 1 << 40,
                receive: false,
            },
        ] {
            assert_eq!(WrId::decode(id.encode()), id);
        }
    }

    #[test]
    fn every_nth_and_the_last_are_signaled() {
        let signal = Signal {
            every: 3,
            last: Some(6),
        };
        let signaled: Vec<u64> = (0..7)
            .filter(|number| signal.flags(*number) == SendFlags::SIGNALED)
            .collect();
        assert_eq!(signaled, [2, 5, 6]);
    }
}
