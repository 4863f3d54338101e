//! `--perform_warm_up`: each queue is filled and emptied once before a measurement, at the slot's start.

use anyhow::{Result, bail};
use roce_engine::verbs::{Backend, Completion};

use super::buffers::Buffers;
use super::checks::Checks;
use super::context::{Context, POLL};
use super::flow::{Flow, Signal, WrId};
use super::load::Load;
use super::ring::Ring;
use super::watch::Standing;
use crate::peer::Session;
use crate::spec::Spec;

/// Returns the messages of a QP that go ahead of each measurement: what the queue holds, or one list.
pub fn messages(spec: &Spec, buffers: &Buffers) -> u64 {
    match (spec.pace.warm_up, spec.post_list) {
        (false, _) => 0,
        (true, 1) => buffers.tx_depth(),
        (true, list) => u64::from(list),
    }
}

/// Sends the messages that go ahead, one QP after the other, and waits for them.
///
/// # Errors
///
/// A request failed, what it fetched is wrong, or something ended the run from outside.
pub fn run<B: Backend>(
    ctx: &mut Context<'_, B>,
    session: &Session,
    flows: &mut [Flow],
    load: &Load,
    checks: &Checks,
) -> Result<()> {
    if load.ahead == 0 || !load.sends {
        return Ok(());
    }
    ctx.begin(load);
    for flow in flows {
        let walk = core::mem::replace(&mut flow.walk, Ring::FIXED);
        one(ctx, session, flow, load, checks)?;
        flow.walk = walk;
        flow.before += load.ahead;
        (flow.posted, flow.completed) = (0, 0);
    }
    ctx.end();
    Ok(())
}

fn one<B: Backend>(
    ctx: &mut Context<'_, B>,
    session: &Session,
    flow: &mut Flow,
    load: &Load,
    checks: &Checks,
) -> Result<()> {
    let (action, size, count) = (load.action, load.size, load.ahead);
    // The last one's completion is that of all.
    let signal = Signal {
        every: u64::MAX,
        last: Some(count - 1),
    };
    checks.prepare(flow, action, size, count);
    flow.post(ctx.backend, action, size, count, signal)?;
    let mut completions = [Completion::default(); POLL];
    while flow.completed < count {
        let taken = ctx.poll(&mut completions, session)?;
        for completion in &completions[..taken] {
            let id = WrId::decode(completion.wr_id);
            if id.receive || id.flow != flow.index {
                bail!(
                    "a completion of no request of the warm-up (id {:#x})",
                    completion.wr_id
                );
            }
            checks.fetched(flow, action, size, id.number)?;
            flow.completed = id.number + 1;
        }
        let now = ctx.clock.now();
        let standing = Standing {
            work: flow.completed,
            left: Some(count - flow.completed),
        };
        ctx.look(now, standing, session)?;
        if taken == 0 {
            ctx.relax(now)?;
        }
    }
    Ok(())
}
