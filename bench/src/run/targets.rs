//! The end whose memory the peer reaches: with `--verify` each WRITE as it ends and the sum of atomics, and how
//! many WRITEs came where the service loses some.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Error, Result};
use roce_engine::verbs::{Backend, Service, WriteDone, WriteObserver};

use super::buffers::Buffers;
use super::checks::Checks;
use super::connect::LocalQp;
use super::quiet::Arrivals;
use crate::spec::{AtomicKind, Metric, Op, Spec};

/// What is checked at the end that the peer writes to.
#[derive(Debug)]
pub struct Targets {
    // The first WRITE that was wrong.
    failure: Arc<Mutex<Option<Error>>>,
    // WRITEs that ended here.
    arrived: Arc<AtomicU64>,
    // For atomics: the sum of each QP's counters at the start.
    sums: Vec<u64>,
    places: usize,
    kind: AtomicKind,
}

impl Targets {
    /// Starts to check, if this end is a target and `--verify` is on, and to count, if WRITEs may be lost.
    pub fn watch<B: Backend>(
        backend: &mut B,
        spec: &Spec,
        locals: &[LocalQp],
        buffers: &Buffers,
        checks: &Checks,
    ) -> Option<Self> {
        let is_target = !spec.is_active() || spec.bidirectional;
        if !(checks.are_on() || loses_writes(spec)) || !is_target {
            return None;
        }
        let mut targets = Self {
            failure: Arc::default(),
            arrived: Arc::default(),
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
        let regions: Vec<_> = (0..locals.len())
            .map(|qp| buffers.target(qp).region)
            .collect();
        let checks = checks.clone();
        let failure = Arc::clone(&self.failure);
        let arrived = Arc::clone(&self.arrived);
        let observer = WriteObserver::new(move |done: WriteDone| {
            let Some(qp) = qpns.iter().position(|qpn| *qpn == done.qpn) else {
                return;
            };
            arrived.fetch_add(1, Ordering::Relaxed);
            let region = &regions[qp];
            let offset = (done.addr - region.addr()) as usize;
            let checked =
                checks.with(|verifier| verifier.arrived(qp, region, offset, done.length as usize));
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

    /// Returns what came of the peer's WRITEs, where they may be lost: it sends `each` through each QP.
    pub fn arrivals(&self, spec: &Spec, each: Option<u64>) -> Arrivals {
        match each {
            Some(each) if loses_writes(spec) => Arrivals {
                sent: each * spec.sizes().len() as u64 * u64::from(spec.qps),
                received: self.arrived.load(Ordering::Relaxed),
                stopped: false,
            },
            _ => Arrivals::default(),
        }
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

/// Returns whether the peer's WRITEs may be lost and leave no other trace than what they write.
const fn loses_writes(spec: &Spec) -> bool {
    matches!(spec.service, Service::Uc)
        && matches!(
            (spec.test.op, spec.test.metric),
            (Op::Write, Metric::Bandwidth)
        )
        && !spec.posts_receives()
}
