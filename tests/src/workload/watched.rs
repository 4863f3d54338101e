//! A completion queue that is polled, armed and resized at random, and what that must show.

use roce_engine::sim::Rng;
use roce_engine::verbs::{Backend, Completion, Cq, CreateError, Status};

/// A completion queue and what is known of its notification.
#[derive(Debug)]
pub(super) struct Watched {
    cq: Cq,
    /// Completions that may ever wait at once.
    need: u32,
    /// It is polled only after a notification, as a program does that sleeps.
    gated: bool,
    armed: Armed,
    /// A completion came since that it was armed for.
    matched: bool,
    /// The notification was taken already.
    notified: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Armed {
    No,
    Any,
    Solicited,
}

impl Watched {
    /// Makes a queue in which up to `need` completions wait.
    pub(super) fn new<B: Backend>(device: &mut B, need: usize, rng: &mut Rng) -> Self {
        let need = need.max(1) as u32;
        let gated = rng.chance(0.3);
        let cq = device.create_cq(need).expect("a completion queue");
        let armed = if gated { Armed::Any } else { Armed::No };
        if gated {
            device.arm_cq(cq, false).expect("the queue exists");
        }
        Self {
            cq,
            need,
            gated,
            armed,
            matched: false,
            notified: false,
        }
    }

    /// Returns the queue.
    pub(super) const fn cq(&self) -> Cq {
        self.cq
    }

    /// Takes completions: some of them, or all if there is a hurry. Whenever none is left, the
    /// notification must be there exactly if something came that the queue was armed for.
    pub(super) fn poll<B: Backend>(
        &mut self,
        device: &mut B,
        rng: &mut Rng,
        hurry: bool,
    ) -> Result<Vec<Completion>, String> {
        let mut all = Vec::new();
        if !hurry {
            self.disturb(device, rng)?;
            if self.gated && self.armed != Armed::No && !self.notified {
                self.notified = device.take_notification(self.cq);
                if !self.notified {
                    return Ok(all);
                }
            }
        }
        let mut out = [Completion::default(); 16];
        loop {
            let room = if hurry {
                16
            } else {
                rng.range(1..=16) as usize
            };
            let count = device
                .poll_cq(self.cq, &mut out[..room])
                .map_err(|error| format!("{:?}: {error}", self.cq))?;
            let wanted = |wc: &Completion| match self.armed {
                Armed::No => false,
                Armed::Any => true,
                Armed::Solicited => wc.solicited || wc.status != Status::Success,
            };
            self.matched |= out[..count].iter().any(wanted);
            all.extend_from_slice(&out[..count]);
            if count < room {
                self.on_empty(device, rng)?;
            }
            if !hurry || count == 0 {
                return Ok(all);
            }
        }
    }

    fn on_empty<B: Backend>(&mut self, device: &mut B, rng: &mut Rng) -> Result<(), String> {
        let cq = self.cq;
        self.notified |= device.take_notification(cq);
        if self.notified != self.matched {
            return Err(format!(
                "{cq:?}, armed for {:?}: notified {}, but a completion that it waits for came: {}",
                self.armed, self.notified, self.matched
            ));
        }
        if self.matched {
            self.armed = Armed::No;
        }
        (self.matched, self.notified) = (false, false);
        if self.gated || rng.chance(0.2) {
            let solicited_only = !self.gated && rng.chance(0.5);
            device
                .arm_cq(cq, solicited_only)
                .map_err(|error| format!("{cq:?}: {error}"))?;
            // One that is armed for any completion stays so.
            self.armed = match self.armed {
                Armed::No | Armed::Solicited if solicited_only => Armed::Solicited,
                _ => Armed::Any,
            };
        }
        Ok(())
    }

    /// Resizes at random: what fits is never refused, and what doesn't fit changes nothing.
    fn disturb<B: Backend>(&self, device: &mut B, rng: &mut Rng) -> Result<(), String> {
        if !rng.chance(0.05) {
            return Ok(());
        }
        if rng.chance(0.3) {
            match device.resize_cq(self.cq, 1) {
                Ok(()) | Err(CreateError::InUse { .. }) => {}
                Err(error) => return Err(format!("{:?} to depth 1: {error}", self.cq)),
            }
        }
        let depth = self.need + rng.below(2 * u64::from(self.need) + 8) as u32;
        let resized = device.resize_cq(self.cq, depth);
        resized.map_err(|error| format!("{:?} to depth {depth}: {error}", self.cq))
    }
}
