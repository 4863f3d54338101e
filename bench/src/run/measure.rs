//! One measurement after the other: receives, the start, the loop, the end.

use anyhow::Result;
use roce_engine::verbs::Backend;

use super::bandwidth::{self, BandwidthSamples};
use super::buffers::Buffers;
use super::checks::Checks;
use super::connect::LocalQp;
use super::context::Context;
use super::cpu::CpuTime;
use super::flow::{Flow, Manner};
use super::latency::{self, LatencySamples};
use super::load::Load;
use super::machine::MachineTime;
use super::warmup;
use crate::peer::{BwReport, Session};

/// What one message size gave.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Bytes of a message.
    pub size: u64,
    /// What this end saw, if it took part.
    pub samples: Samples,
    /// What the peer reported.
    pub peer: Option<BwReport>,
    /// Processor time of this process and wall time, of the loop alone.
    pub cpu: CpuTime,
    /// How busy the machine was while messages counted, in percent, if it was looked at.
    pub busy: Option<f64>,
}

/// What this end saw.
#[derive(Clone, Debug)]
pub enum Samples {
    /// It only held memory for its peer.
    Passive,
    /// It sent or received many messages.
    Bandwidth(BandwidthSamples),
    /// It sent one message at a time.
    Latency(LatencySamples),
}

/// What all measurements of a run share.
#[derive(Debug)]
pub struct Plan<'p> {
    /// Our QPs.
    pub locals: &'p [LocalQp],
    /// The memory.
    pub buffers: &'p Buffers,
    /// The accounts of `--verify`.
    pub checks: &'p Checks,
}

impl Plan<'_> {
    /// Returns the flows of a measurement. `before` messages went through each QP earlier.
    pub fn flows<B: Backend>(
        &self,
        ctx: &Context<'_, B>,
        session: &Session,
        load: &Load,
        before: u64,
    ) -> Vec<Flow> {
        let spec = ctx.spec;
        let (size, room) = (u64::from(load.size), u64::from(load.room));
        let walk = self.buffers.walk(size);
        let pairs = self.locals.iter().zip(session.remote()).zip(&ctx.pairs);
        pairs
            .enumerate()
            .map(|(index, ((local, remote), pair))| Flow {
                index,
                qp: pair.qp,
                qpn: local.qpn,
                psn: local.psn,
                tx: self.buffers.tx(index, size),
                rx: self
                    .buffers
                    .rx(if ctx.srq.is_some() { 0 } else { index }, room),
                addr: remote.vaddr,
                rkey: remote.rkey,
                walk,
                manner: Manner {
                    datagram: pair.ah.map(|ah| (ah, remote.qpn)),
                    imm: spec.pace.with_imm,
                    inline: !spec.test.is_fetch() && load.size > 0 && load.size <= local.inline,
                    srq: ctx.srq,
                },
                before,
                posted: 0,
                completed: 0,
                offered: ctx.receives.get(index).map_or(0, |(offered, _)| *offered),
                taken: ctx.receives.get(index).map_or(0, |(_, taken)| *taken),
                received: 0,
            })
            .collect()
    }

    /// Measures messages of `size` bytes.
    ///
    /// `report` turns what was seen into what the peer is told, in the unit that is displayed.
    ///
    /// # Errors
    ///
    /// A request failed, data is wrong, the peer left, or something ended the run from outside.
    pub fn measure<B: Backend>(
        &self,
        ctx: &mut Context<'_, B>,
        session: &mut Session,
        (size, before, last): (u64, u64, bool),
        report: impl FnOnce(&BandwidthSamples) -> BwReport,
    ) -> Result<Measured> {
        let load = Load::new(ctx.spec, self.buffers, size);
        let mut flows = self.flows(ctx, session, &load, before);
        self.checks.begin(before);
        bandwidth::offer(ctx, &mut flows, &load)?;
        warmup::run(ctx, session, &mut flows, &load, self.checks)?;
        session.begin(&mut || ctx.idle())?;
        let cpu = CpuTime::start();
        let machine = ctx.spec.shown.cpu_util.then(MachineTime::read).flatten();
        let samples = if !load.sends && !load.receives {
            Samples::Passive
        } else if ctx.spec.test.is_bandwidth() {
            let mut no_row = |_| ();
            Samples::Bandwidth(bandwidth::run(
                ctx,
                session,
                &mut flows,
                load,
                self.checks,
                &mut no_row,
            )?)
        } else {
            let target = self.buffers.target(0);
            Samples::Latency(latency::run(
                ctx,
                session,
                &mut flows[0],
                load,
                self.checks,
                (&target.region, target.offset(0)),
            )?)
        };
        let spent = cpu.stop();
        ctx.end();
        if load.keeps_full {
            let counts = flows.iter().map(|flow| (flow.offered, flow.taken));
            ctx.receives = counts.collect();
        }
        let ours = match &samples {
            Samples::Bandwidth(seen) => report(seen),
            _ => BwReport::default(),
        };
        let peer = session.end(last, &ours, &mut || ctx.idle())?;
        // A passive end's work is done while it waits for its peer's end.
        let cpu = match samples {
            Samples::Passive => cpu.stop(),
            _ => spent,
        };
        let busy = match &samples {
            Samples::Passive => machine
                .zip(MachineTime::read())
                .and_then(|(start, end)| end.busy_since(start)),
            Samples::Bandwidth(seen) => seen.busy,
            Samples::Latency(LatencySamples::Sample { busy, .. }) => *busy,
            Samples::Latency(LatencySamples::Stamps(_)) => None,
        };
        Ok(Measured {
            size,
            samples,
            peer,
            cpu,
            busy,
        })
    }
}
