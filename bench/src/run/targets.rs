//! `--verify` at the end whose memory the peer reaches: each WRITE as it ends, and the sum of atomics.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Error, Result};
use roce_engine::verbs::{Backend, WriteDone, WriteObserver};

use super::buffers::Buffers;
use super::checks::Checks;
use super::connect::LocalQp;
use crate::spec::{AtomicKind, Metric, Op, Spec};

/// What is checked at the end that the peer writes to.
#[derive(Debug)]
pub struct Targets {
    // The first WRITE that was wrong.
    failure: Arc<Mutex<Option<Error>>>,
    // For atomics: the sum of each QP's counters at the start.
    sums: Vec<u64>,
    places: usize,
    kind: AtomicKind,
}

impl Targets {
    /// Starts to check, if this end is a target and `--verify` is on.
    pub fn watch<B: Backend>(
        backend: &mut B,
        spec: &Spec,
        locals: &[LocalQp],
        buffers: &Buffers,
        checks: &Checks,
    ) -> Option<Self> {
        let is_target = !spec.is_active() || spec.bidirectional;
        if !checks.are_on() || !is_target {
            return None;
        }
        let mut targets = Self {
            failure: Arc::default(),
            sums: Vec::new(),
            places: usize::try_from(buffers.walk(8).places()).unwrap_or(1),
            kind: spec.atomic,
        };
        match (spec.test.op, spec.test.metric) {
            (Op::Write, Metric::Bandwidth) => {
                targets.observe(backend, locals, buffers, checks);
            }
            (Op::Atomic, _) => {
                targets.sums = (0..locals.len())
                    .map(|qp| targets.sum(buffers, qp))
                    .collect();
            }
            _ => return None,
        }
        Some(targets)
    }

    fn observe<B: Backend>(
        &self,
        backend: &mut B,
        locals: &[LocalQp],
        buffers: &Buffers,
        checks: &Checks,
    ) {
        let qpns: Vec<_> = locals.iter().map(|local| local.qpn).collect();
        let region = buffers.target(0).region;
        let checks = checks.clone();
        let failure = Arc::clone(&self.failure);
        let observer = WriteObserver::new(move |done: WriteDone| {
            let Some(qp) = qpns.iter().position(|qpn| *qpn == done.qpn) else {
                return;
            };
            let offset = (done.addr - region.addr()) as usize;
            let checked =
                checks.with(|verifier| verifier.arrived(qp, &region, offset, done.length as usize));
            if let Some(Err(error)) = checked {
                let mut first = failure.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert(error);
            }
        });
        backend.observe_writes(Some(observer));
    }

    fn sum(&self, buffers: &Buffers, qp: usize) -> u64 {
        let lane = buffers.target(qp);
        let walk = buffers.walk(8);
        (0..self.places as u64)
            .map(|place| {
                let mut bytes = [0; 8];
                let offset = lane.offset(0) + walk.offset(place) as usize;
                lane.region.read(offset, &mut bytes);
                u64::from_ne_bytes(bytes)
            })
            .fold(0, u64::wrapping_add)
    }

    /// Says what was found, once the peer has finished `iters` messages per QP (nothing known if timed).
    ///
    /// # Errors
    ///
    /// Something is wrong.
    pub fn finish(&self, buffers: &Buffers, checks: &Checks, iters: Option<u64>) -> Result<()> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = failure.take() {
            return Err(error);
        }
        let Some(iters) = iters else { return Ok(()) };
        for (qp, before) in self.sums.iter().enumerate() {
            let after = self.sum(buffers, qp);
            checks
                .with(|verifier| verifier.total(qp, self.kind, iters, *before, after))
                .transpose()?;
        }
        Ok(())
    }
}
