//! A run: from a connected peer to the numbers.
//!
//! [`execute`] is generic over the device, so that each is compiled into the loops. The order is perftest's:
//! QPs are made, introduced and connected; each size is measured; then both ends say goodbye while the device
//! still answers what the peer sends again.

pub mod bandwidth;
pub mod buffers;
pub mod checks;
pub mod clock;
pub mod connect;
pub mod context;
pub mod cpu;
pub mod endless;
pub mod failure;
pub mod flow;
pub mod hugepages;
pub mod latency;
pub mod load;
pub mod machine;
pub mod measure;
pub mod pacer;
pub mod pattern;
pub mod progress;
pub mod quiet;
pub mod ring;
pub mod stride;
pub mod targets;
pub mod verify;
pub mod warmup;
pub mod watch;
pub mod window;

use core::sync::atomic::AtomicBool;
use std::sync::Arc;

use anyhow::{Result, bail};
use roce_engine::verbs::{Backend, Cq, GidEntry, Pd, Service};

use bandwidth::BandwidthSamples;
use buffers::{Agreed, Buffers};
use checks::Checks;
use connect::{LocalQp, Path};
use context::{Context, Pair};
use measure::{Measured, Plan};
use quiet::Arrivals;
use targets::Targets;
use verify::Verifier;
use watch::{End, Watch};

use crate::exit::environment;
use crate::peer::{BwReport, Endpoint, Params, Session};
use crate::spec::Spec;

/// Lost messages in a row that `--verify` looks over.
const MAX_GAP: u64 = 1 << 16;

/// What is known when the device is open.
#[derive(Debug)]
pub struct Start<'s> {
    /// The run.
    pub spec: &'s Spec,
    /// What both ends use.
    pub agreed: Params,
    /// Our row of the GID table.
    pub gid: GidEntry,
    /// Set by a signal.
    pub stop: Arc<AtomicBool>,
}

/// Hears of a run's progress; prints it, or keeps it.
pub trait Observer {
    /// The QPs are known: ours, and the peer's.
    fn connected(&mut self, locals: &[Endpoint], remotes: &[Endpoint]);

    /// Turns what was seen into what the peer is told.
    fn report(&mut self, samples: &BandwidthSamples) -> BwReport;

    /// A size was measured.
    fn measured(&mut self, measured: &Measured);

    /// A run without end has measured for as long as a row is about.
    fn interval(&mut self, measured: &Measured);

    /// A run without end was ended.
    fn ended(&mut self, end: End);
}

/// What a run leaves behind beside its numbers.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The line of `--verify`, if it was on.
    pub verify: Option<String>,
    /// Messages that `--verify` looked at.
    pub messages: u64,
    /// Bytes that `--verify` compared.
    pub verified_bytes: u64,
    /// Lines for the user about what else was done.
    pub notes: Vec<String>,
    /// How much each counter grew: those that did.
    pub counters: Vec<(&'static str, u64)>,
}

/// Executes a run over a device.
///
/// # Errors
///
/// It ended early: says what failed, on which QP, and what it usually means.
pub fn execute<B: Backend>(
    backend: &mut B,
    start: &Start<'_>,
    session: &mut Session,
    observer: &mut impl Observer,
) -> Result<Summary> {
    let spec = start.spec;
    let before = backend.counters();
    let agreed = Agreed {
        cycle: u64::from(start.agreed.page),
        line: u64::from(start.agreed.cache_line),
    };
    let pd = backend
        .alloc_pd()
        .map_err(|error| environment(error.to_string()))?;
    let buffers = Buffers::new(backend, pd, spec, agreed)?;
    let cq = create_cq(backend, spec, &buffers)?;
    let depths = (buffers.tx_depth(), buffers.rx_depth());
    let srq = connect::create_srq(backend, spec, pd, depths.1)?;
    let locals = connect::create(backend, spec, pd, (cq, srq), depths)?;
    let psns: Vec<_> = locals.iter().map(|local| local.psn).collect();
    buffers.fill(spec, &psns);
    let watch = Watch::new(Arc::clone(&start.stop), spec);
    let mut ctx = Context::new(backend, spec, cq, watch);
    ctx.srq = srq;
    let path = path(ctx.backend, start, pd)?;
    introduce(&mut ctx, &path, session, &locals, &buffers, observer)?;
    let checks = accounts(spec, &locals, session.remote());
    let targets = Targets::watch(ctx.backend, spec, &locals, &buffers, &checks);
    session.confirm(&mut || ctx.idle())?;
    let plan = Plan {
        locals: &locals,
        buffers: &buffers,
        checks: &checks,
    };
    measure_all(&mut ctx, session, &plan, observer).map_err(|error| ctx.explain(error, session))?;
    if let Some(surplus) = ctx.surplus() {
        bail!("{surplus}");
    }
    if let Some(targets) = &targets {
        let ahead = warmup::messages(spec, &buffers);
        let each = spec.counted().map(|iters| iters + ahead);
        targets.finish(&buffers, &checks, each)?;
        ctx.drain()?;
        let Arrivals { sent, received, .. } = targets.arrivals(spec, each);
        ctx.arrivals.sent += sent;
        ctx.arrivals.received += received;
    }
    Ok(Summary {
        verify: checks.with(|verifier| verifier.summary()),
        messages: checks.with(|verifier| verifier.messages()).unwrap_or(0),
        verified_bytes: checks.with(|verifier| verifier.bytes()).unwrap_or(0),
        notes: {
            let mut notes = shallower(spec, &buffers);
            notes.extend(less_inline(spec, &locals));
            notes.extend(ctx.arrivals.line(spec.service_name()));
            notes
        },
        counters: grown(&before, &ctx.backend.counters()),
    })
}

/// Says, as perftest does, that the device copies less than it was asked for.
fn less_inline(spec: &Spec, locals: &[LocalQp]) -> Option<String> {
    let (asked, least) = (
        spec.qp.inline(),
        locals.iter().map(|local| local.inline).min()?,
    );
    (least < asked).then(|| format!("Actual inline-size({least}) < requested inline-size({asked})"))
}

/// Tells each end of the other's QPs and connects them.
fn introduce<B: Backend>(
    ctx: &mut Context<'_, B>,
    path: &Path,
    session: &mut Session,
    locals: &[LocalQp],
    buffers: &Buffers,
    observer: &mut impl Observer,
) -> Result<()> {
    let ours: Vec<Endpoint> = locals
        .iter()
        .enumerate()
        .map(|(index, local)| connect::endpoint(local, index, path, buffers))
        .collect();
    let theirs = session
        .introduce(ours.clone(), &mut || ctx.idle())?
        .to_vec();
    observer.connected(&ours, &theirs);
    for ((local, ours), remote) in locals.iter().enumerate().zip(ours).zip(theirs) {
        let ah = connect::bring_up(ctx.backend, ctx.spec, local, &remote, path)?;
        let (_, local) = local;
        ctx.pairs.push(Pair {
            qp: local.qp,
            local: ours,
            remote,
            ah,
        });
    }
    Ok(())
}

fn measure_all<B: Backend>(
    ctx: &mut Context<'_, B>,
    session: &mut Session,
    plan: &Plan<'_>,
    observer: &mut impl Observer,
) -> Result<()> {
    if ctx.spec.pace.row_every_s.is_some() {
        return plan.run_endlessly(ctx, session, observer);
    }
    let sizes = ctx.spec.sizes();
    let ahead = warmup::messages(ctx.spec, plan.buffers);
    let mut before = 0;
    for (index, size) in sizes.iter().enumerate() {
        let last = index + 1 == sizes.len();
        let measured = plan.measure(ctx, session, (*size, before, last), |samples| {
            observer.report(samples)
        })?;
        before += ctx.spec.iters + ahead;
        observer.measured(&measured);
    }
    session.close(&mut || ctx.idle())
}

fn path<B: Backend>(backend: &B, start: &Start<'_>, pd: Pd) -> Result<Path> {
    Ok(Path {
        pd,
        gid: start.gid.gid,
        gid_index: start.gid.index,
        mtu: start.agreed.mtu,
        out: connect::answered_at_once(backend.device().max_qp_rd_atom, start.spec)?,
        lid: backend.port().lid,
    })
}

/// One queue takes all completions, and can't overflow: it has room for everything that is ever posted.
fn create_cq<B: Backend>(backend: &mut B, spec: &Spec, buffers: &Buffers) -> Result<Cq> {
    let entries = (buffers.tx_depth() + buffers.rx_depth()) * u64::from(spec.qps);
    let entries = u32::try_from(entries).unwrap_or(u32::MAX);
    backend.create_cq(entries).map_err(|error| {
        environment(format!(
            "a completion queue of {entries} entries for -q {} -t {} -r {}: {error}",
            spec.qps, spec.tx_depth, spec.rx_depth
        ))
    })
}

fn accounts(spec: &Spec, locals: &[LocalQp], remotes: &[Endpoint]) -> Checks {
    if !spec.verify {
        return Checks::default();
    }
    let pairs = locals.iter().zip(remotes);
    let verifier = Verifier::new(pairs.map(|(local, remote)| (local.qpn, remote.psn)));
    Checks::new(match spec.service {
        Service::Rc => verifier,
        Service::Uc | Service::Ud => {
            let all = spec.counted().map_or(MAX_GAP, |iters| {
                iters.saturating_mul(spec.sizes().len() as u64)
            });
            let verifier = verifier.with_gaps(all.min(MAX_GAP));
            if spec.service == Service::Ud {
                verifier.with_any_order()
            } else {
                verifier
            }
        }
    })
}

/// Says so where `--verify` allows fewer outstanding requests than were asked for.
fn shallower(spec: &Spec, buffers: &Buffers) -> Vec<String> {
    let depths = [
        ("TX", u64::from(spec.tx_depth), buffers.tx_depth()),
        ("RX", u64::from(spec.rx_depth), buffers.rx_depth()),
    ];
    depths
        .into_iter()
        .filter(|(_, asked, used)| used < asked)
        .map(|(name, asked, used)| {
            format!(
                "verify: {name} depth {used} instead of {asked}, since each outstanding message has memory of its own"
            )
        })
        .collect()
}

/// Returns how much each counter grew, without those that did not.
fn grown(
    before: &[(&'static str, u64)],
    after: &[(&'static str, u64)],
) -> Vec<(&'static str, u64)> {
    after
        .iter()
        .map(|(name, value)| {
            let was = before
                .iter()
                .find(|(other, _)| other == name)
                .map_or(0, |(_, was)| *was);
            (*name, value.saturating_sub(was))
        })
        .filter(|(_, growth)| *growth > 0)
        .collect()
}
