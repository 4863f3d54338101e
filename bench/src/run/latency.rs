//! The latency loops: one message at a time, to and fro or there and back.

use anyhow::{Result, bail};
use roce_engine::verbs::{Backend, Completion, Region};

use super::checks::Checks;
use super::context::{Context, POLL};
use super::flow::{Action, Flow, WrId};
use super::load::Load;
use super::quiet::Quiet;
use super::stride::Stride;
use super::watch::{Standing, wrong_service};
use super::window::{Phase, Window};
use crate::exit::{self, environment};
use crate::peer::Session;

/// Stamps that a run by the clock keeps: its table needs none, its percentiles some.
const TIMED_STAMPS: usize = 1 << 20;

/// Looks at memory between two polls of a device that fills it by itself.
const LOOKS: u32 = 64;

/// What a latency measurement saw. Times are nanoseconds of the run's clock.
#[derive(Clone, Debug, PartialEq)]
pub enum LatencySamples {
    /// When each message was posted.
    Stamps(Vec<u64>),
    /// How many there were in how long.
    Sample {
        /// Messages.
        messages: u64,
        /// Nanoseconds.
        nanos: u64,
        /// When each message in it was posted, as many as are kept.
        stamps: Vec<u64>,
        /// How busy the machine was, in percent, if it was looked at.
        busy: Option<f64>,
    },
}

/// A latency measurement in progress.
struct Latency<'m, 'r, B> {
    ctx: &'m mut Context<'r, B>,
    session: &'m Session,
    flow: &'m mut Flow,
    load: Load,
    checks: &'m Checks,
    window: Option<Window>,
    completions: [Completion; POLL],
    stamps: Vec<u64>,
    // Values that arrived in memory, for the watch.
    seen: u64,
    stride: Stride,
    quiet: Quiet,
}

/// Runs one measurement to its end. `target` is where the peer writes, for write-lat.
///
/// # Errors
///
/// A request failed, data is wrong, or something ended the run from outside.
pub fn run<B: Backend>(
    ctx: &mut Context<'_, B>,
    session: &Session,
    flow: &mut Flow,
    load: Load,
    checks: &Checks,
    target: (&Region, usize),
) -> Result<LatencySamples> {
    ctx.begin(&load);
    let mut stamps = Vec::new();
    let wanted = load.iters.map_or(TIMED_STAMPS, |iters| iters as usize);
    if stamps.try_reserve_exact(wanted).is_err() {
        return Err(environment(format!(
            "no memory for {wanted} samples: use a smaller -n"
        )));
    }
    let watched = ctx.spec.shown.cpu_util;
    let window = ctx
        .spec
        .duration
        .map(|span| Window::new(span).with_machine(watched));
    let is_client = ctx.spec.is_client();
    let with_imm = flow.manner.imm;
    let quiet = Quiet::new(ctx.clock.now());
    let mut latency = Latency {
        ctx,
        session,
        flow,
        load,
        checks,
        window,
        completions: [Completion::default(); POLL],
        stamps,
        seen: 0,
        stride: Stride::default(),
        quiet,
    };
    let end = match load.action {
        Action::Write if with_imm => latency.send(!is_client, Some(target)),
        Action::Write => latency.write(is_client, target),
        Action::Send => latency.send(is_client, None),
        Action::Read | Action::Add | Action::Swap => latency.fetch(),
    };
    end.map_err(|error| latency.told(error))?;
    latency.is_plausible()?;
    if let (true, Some(iters)) = (load.lossy, load.iters) {
        let arrived = latency.flow.received + latency.seen;
        latency.ctx.arrivals.sent += iters;
        latency.ctx.arrivals.received += arrived;
        latency.ctx.arrivals.stopped |= arrived < iters;
    }
    Ok(match latency.window {
        Some(window) => LatencySamples::Sample {
            messages: window.count,
            nanos: window.length(),
            stamps: latency.stamps,
            busy: window.busy(),
        },
        None => LatencySamples::Stamps(latency.stamps),
    })
}

impl<B: Backend> Latency<'_, '_, B> {
    fn standing(&self) -> Standing {
        let come = match self.load.action {
            Action::Write | Action::Send => self.flow.received + self.seen,
            Action::Read | Action::Add | Action::Swap => self.flow.completed,
        };
        Standing {
            work: self.flow.completed + self.flow.received + self.seen,
            left: self.load.iters.map(|iters| iters.saturating_sub(come)),
        }
    }

    /// Says how far the run was when a signal ended it.
    fn told(&self, error: anyhow::Error) -> anyhow::Error {
        if exit::status_of(&error) != exit::INTERRUPTED || self.stamps.is_empty() {
            return error;
        }
        exit::interrupted(format!(
            "interrupted by a signal after {} messages of {} bytes",
            self.flow.posted, self.load.size
        ))
    }

    /// Refuses a result to which the peer's did not fit.
    fn is_plausible(&mut self) -> Result<()> {
        let arrived = self.flow.received + self.seen;
        if self.load.lossy
            && arrived == 0
            && let Some(reason) = wrong_service(self.ctx.backend)
        {
            bail!("none of the peer's messages arrived: {reason}");
        }
        if self.load.receives && self.load.iters == Some(self.flow.received) {
            self.ctx.note_full();
        }
        self.ctx.timed_end(self.ctx.clock.now())
    }

    /// Both ends poll their memory. The server writes first.
    fn write(&mut self, is_client: bool, target: (&Region, usize)) -> Result<()> {
        let (region, start) = target;
        let size = self.load.size as usize;
        let at = start + size - 1;
        self.start_window();
        let mut expected: u64 = 0;
        loop {
            let first = self.flow.posted == 0 && !is_client;
            if self.is_more(expected) && !first {
                expected += 1;
                if !self.wait_memory(region, at, expected as u8)? {
                    return Ok(());
                }
                self.seen += 1;
                self.note_arrival();
                self.compare(target, size - 1)?;
            }
            if self.is_more(self.flow.posted) {
                let value = (self.flow.posted + 1) as u8;
                let last = self.flow.tx.offset(0) + size - 1;
                self.flow.tx.region.store(last, value);
                if !self.post()? || !self.wait_posted(true)? {
                    return Ok(());
                }
            }
            if !self.is_more(expected) && !self.is_more(self.flow.posted) {
                return Ok(());
            }
        }
    }

    /// Both ends wait for a receive; `starts` says that this end sends first. `target` is where the peer's data go if
    /// only their immediate takes the receive.
    fn send(&mut self, starts: bool, target: Option<(&Region, usize)>) -> Result<()> {
        // The answer may be there before the completion of what it answers.
        let mut expected: u64 = 0;
        loop {
            let first = self.flow.posted == 0 && starts;
            if self.is_more(expected) && !first {
                expected += 1;
                if !self.wait(|flow| flow.received >= expected)? {
                    return Ok(());
                }
                if let Some(target) = target {
                    self.compare(target, self.load.size as usize)?;
                }
            }
            if self.is_more(self.flow.posted) && (!self.post()? || !self.wait_posted(false)?) {
                return Ok(());
            }
            if !self.is_more(expected) && !self.is_more(self.flow.posted) {
                return Ok(());
            }
        }
    }

    /// One request after the other; the peer's device answers.
    fn fetch(&mut self) -> Result<()> {
        self.start_window();
        while self.is_more(self.flow.posted) {
            if !self.post()? || !self.wait_posted(true)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Compares what the peer wrote with what we write.
    fn compare(&self, (region, start): (&Region, usize), len: usize) -> Result<()> {
        let twin = (&self.flow.tx.region, self.flow.tx.offset(0));
        let index = self.flow.index;
        let compared = self
            .checks
            .with(|verifier| verifier.alike(index, region, start, twin, len));
        compared.transpose().map(drop)
    }

    fn start_window(&mut self) {
        let now = self.ctx.clock.now();
        if let Some(window) = &mut self.window {
            window.start(now);
        }
    }

    /// Returns whether the clock ends this, or `count` is below the iterations.
    fn is_more(&self, count: u64) -> bool {
        self.load.iters.is_none_or(|iters| count < iters)
    }

    /// Posts a message. Returns false when the clock ends the run: a device that answers at once leaves no other
    /// moment to look at it, nor at a signal.
    fn post(&mut self) -> Result<bool> {
        let Load {
            action,
            size,
            signal,
            ..
        } = self.load;
        self.keep_gap()?;
        if action == Action::Send {
            self.checks.prepare(self.flow, action, size, 1);
        }
        let now = self.ctx.clock.now();
        self.look(now)?;
        let kept = match self.window.as_mut().map(|window| window.phase(now)) {
            None => true,
            Some(Phase::End) => return Ok(false),
            Some(phase) => self.stamps.len() < TIMED_STAMPS && phase == Phase::Sample,
        };
        if kept {
            self.stamps.push(now);
        }
        self.flow
            .post(self.ctx.backend, action, size, 1, signal)
            .map(|()| true)
    }

    /// Turns the device for a while before a post (`--latency_gap`). perftest pauses here, too: from the end of one
    /// message to the start of the next, so that no sample is shorter than the gap.
    fn keep_gap(&mut self) -> Result<()> {
        let gap = u64::from(self.ctx.spec.pace.latency_gap_us) * 1000;
        if gap == 0 {
            return Ok(());
        }
        let until = self.ctx.clock.now() + gap;
        while self.ctx.clock.now() < until {
            self.ctx.backend.progress()?;
            let now = self.ctx.clock.now();
            self.look(now)?;
        }
        Ok(())
    }

    #[inline]
    fn look(&mut self, now: u64) -> Result<()> {
        let standing = self.standing();
        self.ctx.look(now, standing, self.session)
    }

    /// Waits for the completion of what was posted. `counts` says that it is what a timed run counts.
    fn wait_posted(&mut self, counts: bool) -> Result<bool> {
        let posted = self.flow.posted;
        let go_on = self.wait(|flow| flow.completed == posted)?;
        if let Some(window) = self.window.as_mut().filter(|_| go_on && counts) {
            window.add(self.ctx.clock.now(), 1);
        }
        Ok(go_on)
    }

    /// Waits for a byte of memory to have this value.
    fn wait_memory(&mut self, region: &Region, at: usize, value: u8) -> Result<bool> {
        // A device that works by itself is polled for its errors only.
        let looks = if self.ctx.backend.is_autonomous() {
            LOOKS
        } else {
            1
        };
        self.wait(|_| (0..looks).any(|_| region.load(at) == value))
    }

    /// Turns the device until `done` says so. Returns false when the clock ends the run.
    #[inline]
    fn wait(&mut self, done: impl Fn(&Flow) -> bool) -> Result<bool> {
        while !done(self.flow) {
            let count = self.ctx.poll(&mut self.completions, self.session)?;
            for index in 0..count {
                self.take(self.completions[index])?;
            }
            if count > 0 {
                continue;
            }
            // Who waits for events sleeps at once.
            if !self.stride.is_due() && !self.ctx.spec.qp.events {
                continue;
            }
            let now = self.ctx.clock.now();
            self.stride.read(now);
            if let Some(window) = &mut self.window
                && window.phase(now) == Phase::End
            {
                return Ok(false);
            }
            if self.is_quiet(now) {
                return Ok(false);
            }
            self.look(now)?;
            self.ctx.relax(now)?;
        }
        Ok(true)
    }

    /// Notes when something arrived, if that not all does.
    fn note_arrival(&mut self) {
        if self.load.lossy {
            self.quiet.arrived(self.ctx.clock.now());
        }
    }

    /// Returns whether a lost message has ended the exchange, or in a run by the clock never let it begin.
    fn is_quiet(&mut self, now: u64) -> bool {
        if !self.load.lossy || (self.window.is_some() && self.quiet.has_begun()) {
            return false;
        }
        self.quiet
            .is_over(now, || self.session.exchange().peer_spoke())
    }

    fn take(&mut self, completion: Completion) -> Result<()> {
        let id = WrId::decode(completion.wr_id);
        if !id.receive {
            self.checks
                .fetched(self.flow, self.load.action, self.load.size, id.number)?;
            self.flow.completed = id.number + 1;
            return Ok(());
        }
        self.flow.check_length(&completion, self.load.size)?;
        self.checks
            .received(self.flow, self.load.action, id.number, self.load.size)?;
        self.flow.received += 1;
        self.flow.taken += 1;
        self.note_arrival();
        // As many as there are messages, and never fewer than were promised at the start.
        if self.load.keeps_full
            || self
                .load
                .iters
                .is_none_or(|iters| self.flow.received + self.load.rx_depth <= iters)
        {
            self.flow.offer(self.ctx.backend, self.load.room, 1)?;
        }
        if let Some(window) = &mut self.window {
            let now = self.ctx.clock.now();
            window.start(now);
            window.add(now, 1);
        }
        Ok(())
    }
}
