//! `--run_infinitely`: rows at even distances until a signal at either end.
//!
//! The sender of a one-way WRITE, READ or atomic test says goodbye as at any end. Where both ends are in their
//! loops nobody reads such words: there the end of the TCP connection is the word.

use anyhow::Result;
use roce_engine::verbs::Backend;

use super::Observer;
use super::bandwidth::{self, BandwidthSamples};
use super::clock::{MILLISECOND, SECOND};
use super::context::Context;
use super::cpu::CpuTime;
use super::load::Load;
use super::measure::{Measured, Plan, Samples};
use super::warmup;
use super::watch::End;
use crate::peer::{BwReport, Session};

/// When the next row is due, and what it counts.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    every: u64,
    opened: u64,
    counted: u64,
}

impl Rows {
    /// Starts at `now`, with a row every so many seconds.
    pub fn new(every_s: u32, now: u64) -> Self {
        Self {
            every: u64::from(every_s) * SECOND,
            opened: now,
            counted: 0,
        }
    }

    /// Returns the messages and the nanoseconds of a row, if one is due; `total` is what was counted so far.
    #[inline]
    pub const fn due(&mut self, now: u64, total: u64) -> Option<(u64, u64)> {
        let nanos = now.saturating_sub(self.opened);
        if nanos < self.every {
            return None;
        }
        let messages = total - self.counted;
        (self.opened, self.counted) = (now, total);
        Some((messages, nanos))
    }
}

impl Plan<'_> {
    /// Runs until a signal here or the peer's leaving ends it, with a row to `observer` at even distances.
    ///
    /// # Errors
    ///
    /// A request failed, data is wrong, or something else ended the run.
    pub fn run_endlessly<B: Backend>(
        &self,
        ctx: &mut Context<'_, B>,
        session: &mut Session,
        observer: &mut impl Observer,
    ) -> Result<()> {
        let size = ctx.spec.size;
        let load = Load::new(ctx.spec, self.buffers, size);
        let mut flows = self.flows(ctx, session, &load, 0);
        self.checks.begin(0);
        bandwidth::offer(ctx, &mut flows, &load)?;
        warmup::run(ctx, session, &mut flows, &load, self.checks)?;
        session.begin(&mut || ctx.idle())?;
        ctx.watch.expect_end();
        if load.sends || load.receives {
            let mut cpu = CpuTime::start();
            let mut row = |samples: BandwidthSamples| {
                let spent = core::mem::replace(&mut cpu, CpuTime::start()).stop();
                observer.interval(&Measured {
                    size,
                    samples: Samples::Bandwidth(samples),
                    peer: None,
                    cpu: spent,
                    busy: None,
                });
            };
            let ran = bandwidth::run(ctx, session, &mut flows, load, self.checks, &mut row);
            if let Err(error) = ran
                && !leaves(ctx, session)?
            {
                return Err(error);
            }
            ctx.end();
        } else {
            wait(ctx, session)?;
        }
        let end = ctx.watch.end().unwrap_or(End::Peer);
        observer.ended(end);
        leave(ctx, session, end)
    }
}

/// Returns whether the peer leaves within a moment: a device that goes first fails what is on its way to it, and the
/// end of the TCP connection follows.
fn leaves<B: Backend>(ctx: &mut Context<'_, B>, session: &Session) -> Result<bool> {
    let until = ctx.clock.now() + 2 * SECOND;
    while ctx.watch.end().is_none() {
        let now = ctx.clock.now();
        if now > until {
            return Ok(false);
        }
        if session.exchange().peer_closed() {
            ctx.watch.note_closed(now);
        } else {
            ctx.idle()?;
        }
    }
    Ok(true)
}

/// Lets the peer reach our memory until it says that it is done, or one of the two leaves.
fn wait<B: Backend>(ctx: &mut Context<'_, B>, session: &Session) -> Result<()> {
    let mut next = 0;
    while ctx.watch.end().is_none() {
        ctx.idle()?;
        let now = ctx.clock.now();
        if now < next {
            continue;
        }
        next = now + MILLISECOND;
        let exchange = session.exchange();
        if exchange.peer_spoke() || exchange.peer_closed() {
            ctx.watch.note_closed(now);
        }
    }
    Ok(())
}

/// Ends the session: with words where the peer listens for them, else by the end of the connection.
fn leave<B: Backend>(ctx: &mut Context<'_, B>, session: &mut Session, end: End) -> Result<()> {
    let spec = ctx.spec;
    let one_sided = !spec.bidirectional && !spec.posts_receives() && !spec.pace.reversed;
    let stops = end == End::User && spec.is_client();
    let hears = end == End::Peer && !spec.is_client() && session.exchange().peer_spoke();
    if !one_sided || !(stops || hears) {
        return session.leave(&mut || ctx.idle());
    }
    let said = session
        .end(true, &BwReport::default(), &mut || ctx.idle())
        .and_then(|_| session.close(&mut || ctx.idle()));
    // Who left meanwhile needs no goodbye.
    said.or_else(|error| {
        if session.exchange().peer_closed() {
            Ok(())
        } else {
            Err(error)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_counts_what_came_since_the_last_one() {
        let mut rows = Rows::new(2, 10);
        assert_eq!(rows.due(2 * SECOND, 50), None);
        assert_eq!(rows.due(2 * SECOND + 20, 60), Some((60, 2 * SECOND + 10)));
        assert_eq!(rows.due(3 * SECOND, 70), None);
        assert_eq!(rows.due(5 * SECOND, 100), Some((40, 3 * SECOND - 20)));
    }
}
