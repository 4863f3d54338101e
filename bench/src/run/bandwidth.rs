//! The bandwidth loop: a window of requests per QP, and receives behind them.

use anyhow::{Result, bail};
use roce_engine::verbs::{Backend, Completion, Qpn};

use super::checks::Checks;
use super::context::{Context, POLL};
use super::endless::Rows;
use super::flow::{Flow, WrId};
use super::load::Load;
use super::pacer::Pacer;
use super::quiet::Quiet;
use super::watch::{Standing, wrong_service};
use super::window::{Phase, Window};
use crate::exit;
use crate::peer::Session;

/// What a bandwidth measurement saw. Times are nanoseconds of the run's clock.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BandwidthSamples {
    /// Bytes of a message.
    pub size: u64,
    /// Messages that count, of all QPs.
    pub messages: u64,
    /// What they took.
    pub nanos: u64,
    /// When each request was posted; empty where the peak is not measured.
    pub posted: Vec<u64>,
    /// How many requests were complete, and when.
    pub completed: Vec<(u64, u64)>,
    /// How busy the machine was, in percent, if it was looked at.
    pub busy: Option<f64>,
}

/// A bandwidth measurement in progress.
struct Bandwidth<'m, 'r, B> {
    ctx: &'m mut Context<'r, B>,
    session: &'m Session,
    flows: &'m mut [Flow],
    load: Load,
    checks: &'m Checks,
    window: Option<Window>,
    pacer: Option<Pacer>,
    // In a run without end: when a row is due, and who takes it.
    rows: Option<Rows>,
    row: &'m mut dyn FnMut(BandwidthSamples),
    quiet: Quiet,
    // By QPN, for receives that all flows share.
    by_qpn: Vec<(Qpn, usize)>,
    done: u64,
    received: u64,
    first: Option<u64>,
    last: u64,
    posted: Vec<u64>,
    completed: Vec<(u64, u64)>,
}

/// Posts the receives that must be there before the peer may send.
///
/// # Errors
///
/// The device refuses one.
pub fn offer<B: Backend>(ctx: &mut Context<'_, B>, flows: &mut [Flow], load: &Load) -> Result<()> {
    if !load.receives {
        return Ok(());
    }
    for flow in flows {
        let there = flow.offered - flow.taken;
        flow.offer(ctx.backend, load.room, load.rx_depth.saturating_sub(there))?;
        if flow.manner.srq.is_some() {
            break;
        }
    }
    Ok(())
}

/// Runs one measurement to its end. `row` takes the rows of a run without end.
///
/// # Errors
///
/// A request failed, data is wrong, or something ended the run from outside.
pub fn run<B: Backend>(
    ctx: &mut Context<'_, B>,
    session: &Session,
    flows: &mut [Flow],
    load: Load,
    checks: &Checks,
    row: &mut dyn FnMut(BandwidthSamples),
) -> Result<BandwidthSamples> {
    let stamps = match (load.peak, load.iters) {
        (true, Some(iters)) => iters as usize * flows.len(),
        _ => 0,
    };
    let now = ctx.begin(&load);
    let watched = ctx.spec.shown.cpu_util;
    let mut window = ctx
        .spec
        .duration
        .map(|span| Window::new(span).with_machine(watched));
    // A receiver's time starts with its first message.
    if let Some(window) = window.as_mut().filter(|_| load.sends && !load.waits) {
        window.start(now);
    }
    let mut by_qpn: Vec<_> = flows.iter().map(|flow| (flow.qpn, flow.index)).collect();
    by_qpn.sort_unstable_by_key(|(qpn, _)| qpn.value());
    let limit = ctx.spec.pace.rate.filter(|_| load.sends);
    let every_s = ctx.spec.pace.row_every_s;
    let mut bandwidth = Bandwidth {
        ctx,
        session,
        flows,
        load,
        checks,
        window,
        pacer: limit.map(|limit| Pacer::new(&limit, u64::from(load.size), now)),
        rows: every_s.map(|every_s| Rows::new(every_s, now)),
        row,
        quiet: Quiet::new(now),
        by_qpn,
        done: 0,
        received: 0,
        first: None,
        last: now,
        posted: Vec::with_capacity(stamps),
        completed: Vec::with_capacity(stamps),
    };
    bandwidth.drive().map_err(|error| bandwidth.told(error))?;
    bandwidth.is_plausible()?;
    if let (true, Some(iters)) = (load.lossy, load.iters) {
        let arrivals = &mut bandwidth.ctx.arrivals;
        arrivals.sent += iters * bandwidth.flows.len() as u64;
        arrivals.received += bandwidth.received;
    }
    Ok(bandwidth.samples())
}

impl<B: Backend> Bandwidth<'_, '_, B> {
    fn drive(&mut self) -> Result<()> {
        let mut completions = [Completion::default(); POLL];
        let batch = self.checks.at_once(self.load.size, 1).min(POLL as u64) as usize;
        loop {
            if self.load.sends && !(self.load.waits && self.received == 0) {
                self.post()?;
            }
            let count = self.ctx.poll(&mut completions[..batch], self.session)?;
            let now = self.ctx.clock.now();
            for completion in &completions[..count] {
                self.take(completion, now)?;
            }
            // Messages that came all at once still took their receiver some time; perftest counts it, too.
            if count > 0 && self.first == Some(self.last) {
                self.last = self.ctx.clock.now();
            }
            if self.is_over(now) {
                return Ok(());
            }
            self.ctx.look(now, self.standing(), self.session)?;
            if count == 0 && self.pacer.is_none_or(|pacer| pacer.may_rest(now)) {
                self.ctx.relax(now)?;
            }
        }
    }

    fn all(&self) -> Option<u64> {
        Some(self.load.iters? * self.flows.len() as u64)
    }

    fn standing(&self) -> Standing {
        let come = if self.load.receives {
            self.received
        } else {
            self.done
        };
        Standing {
            work: self.done + self.received,
            left: self.all().map(|all| all.saturating_sub(come)),
        }
    }

    /// Says how far the run was when a signal ended it.
    fn told(&self, error: anyhow::Error) -> anyhow::Error {
        if exit::status_of(&error) != exit::INTERRUPTED {
            return error;
        }
        let messages = self.done + self.received;
        let seconds = (self.last - self.first.unwrap_or(self.last)) as f64 / 1e9;
        if messages == 0 || seconds <= 0.0 {
            return error;
        }
        let bytes = messages as f64 * f64::from(self.load.size);
        exit::interrupted(format!(
            "interrupted by a signal after {messages} messages of {} bytes in {seconds:.2} s: {:.2} MiB/s until then",
            self.load.size,
            bytes / seconds / 1_048_576.0
        ))
    }

    /// Refuses a result that is none: of a run in which nothing arrived, or to which the peer's did not fit.
    fn is_plausible(&mut self) -> Result<()> {
        if self.load.receives && self.received == 0 && self.rows.is_none() {
            bail!(
                "none of the peer's messages arrived: {}",
                wrong_service(self.ctx.backend).unwrap_or_else(|| String::from(
                    "its -c, --reversed or test differs from ours, or a firewall drops UDP 4791"
                ))
            );
        }
        if self.load.receives && self.all() == Some(self.received) {
            self.ctx.note_full();
        }
        self.ctx.timed_end(self.ctx.clock.now())
    }

    fn post(&mut self) -> Result<()> {
        let load = &self.load;
        for flow in &mut *self.flows {
            let mut room = load.room(flow.posted, flow.completed);
            room = room.min(self.checks.at_once(load.size, load.list));
            if let Some(pacer) = self.pacer.as_mut().filter(|_| room > 0) {
                room = pacer.cut(room, load.list, self.ctx.clock.now());
                pacer.posted(room);
            }
            if room == 0 {
                continue;
            }
            self.checks.prepare(flow, load.action, load.size, room);
            let now = self.ctx.clock.now();
            self.first.get_or_insert(now);
            if load.peak {
                self.posted.resize(self.posted.len() + room as usize, now);
            }
            flow.post(self.ctx.backend, load.action, load.size, room, load.signal)?;
        }
        Ok(())
    }

    #[inline]
    fn take(&mut self, completion: &Completion, now: u64) -> Result<()> {
        let mut id = WrId::decode(completion.wr_id);
        let queue = id.flow;
        if id.receive && self.ctx.spec.qp.use_srq {
            let found = self
                .by_qpn
                .binary_search_by_key(&completion.qpn.value(), |(qpn, _)| qpn.value());
            id.flow = found.map_or(usize::MAX, |at| self.by_qpn[at].1);
        }
        let Some(flow) = self.flows.get_mut(id.flow) else {
            bail!(
                "a completion of no QP of this run (id {:#x})",
                completion.wr_id
            );
        };
        self.last = now;
        if id.receive {
            flow.check_length(completion, self.load.size)?;
            self.checks
                .received(flow, self.load.action, id.number, self.load.size)?;
            flow.received += 1;
            self.received += 1;
            self.quiet.arrived(now);
            let flow = &mut self.flows[queue];
            flow.taken += 1;
            if self.load.offers_again(flow.offered) {
                flow.offer(self.ctx.backend, self.load.room, 1)?;
            }
            if !self.load.sends {
                self.first.get_or_insert(now);
            }
            if let Some(window) = &mut self.window {
                window.start(now);
                window.add(now, 1);
            }
        } else {
            self.checks
                .fetched(flow, self.load.action, self.load.size, id.number)?;
            let count = id.number + 1 - flow.completed;
            flow.completed = id.number + 1;
            self.done += count;
            if self.load.peak {
                self.completed.push((self.done, now));
            }
            if let Some(window) = &mut self.window {
                window.add(now, count);
            }
        }
        Ok(())
    }

    #[inline]
    fn is_over(&mut self, now: u64) -> bool {
        if let Some(rows) = &mut self.rows {
            if let Some((messages, nanos)) = rows.due(now, self.done + self.received) {
                (self.row)(BandwidthSamples {
                    size: u64::from(self.load.size),
                    messages,
                    nanos,
                    ..BandwidthSamples::default()
                });
            }
            return self.ctx.watch.end().is_some();
        }
        if let Some(window) = &mut self.window {
            let over = window.phase(now) == Phase::End;
            return over || self.is_quiet(now);
        }
        let all = self.load.iters.unwrap_or(0) * self.flows.len() as u64;
        let sent = !self.load.sends || self.done == all;
        // Who waits for a first message that was lost sends nothing.
        let mute = self.load.waits && self.received == 0;
        (sent && (!self.load.receives || self.received == all))
            || ((sent || mute) && self.is_quiet(now))
    }

    /// Returns whether nothing more will arrive, where that is not known by a count or the clock.
    #[inline]
    fn is_quiet(&mut self, now: u64) -> bool {
        if !self.load.lossy || (self.window.is_some() && self.quiet.has_begun()) {
            return false;
        }
        self.quiet
            .is_over(now, || self.session.exchange().peer_spoke())
    }

    fn samples(self) -> BandwidthSamples {
        let busy = self.window.as_ref().and_then(Window::busy);
        let (messages, nanos) = match self.window {
            Some(window) => (window.count, window.length()),
            None => {
                let count = if self.load.sends {
                    self.done
                } else {
                    self.received
                };
                (count, self.last - self.first.unwrap_or(self.last))
            }
        };
        BandwidthSamples {
            size: u64::from(self.load.size),
            messages,
            nanos,
            posted: self.posted,
            completed: self.completed,
            busy,
        }
    }
}
