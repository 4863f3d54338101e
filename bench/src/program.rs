//! One end of a test as a process: peer, device, run, output, exit status.

use core::sync::atomic::AtomicBool;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use backend_udp::MonotonicClock;
use roce_engine::link::{Impair, ImpairConfig, Link, Tap};
use roce_engine::verbs::{Backend as _, GidEntry};
use roce_engine::{EngineConfig, SoftDevice};

use crate::backend::{self, Choice, Opened};
use crate::capture::Capture;
use crate::exit;
use crate::peer::{self, Exchange, Idle, Params, Session};
use crate::run::{self, Observer, Start, Summary};
use crate::spec::{ImpairSpec, Spec};

/// Where the peer comes from.
#[derive(Debug)]
pub enum Door {
    /// A server listens where its options say, a client connects.
    Options,
    /// A server of a lab takes its client from a socket that its parent made.
    Inherited(TcpListener),
}

/// What the device does for a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Means {
    /// READs and atomics that it answers at a time.
    pub outs: u8,
    /// Messages of up to this many bytes are copied when they are posted.
    pub inline: u32,
    /// Whether memory is open to relaxed ordering; none where there is no such thing.
    pub relaxed_ordering: Option<bool>,
    /// Whether requests go through `ibv_wr_*`.
    pub wr_api: bool,
}

impl Means {
    fn of(opened: &Opened, spec: &Spec) -> Result<Self> {
        let outs = |at_once| run::connect::answered_at_once(at_once, spec);
        Ok(match opened {
            Opened::Udp(_) | Opened::Xsk(_) => Self {
                outs: outs(config().max_rd_atomic)?,
                inline: spec.qp.inline(),
                relaxed_ordering: None,
                wr_api: false,
            },
            Opened::Rdma(device) => {
                let attr = device.device();
                let usual = spec.usual_inline(attr.latency_inline);
                Self {
                    outs: outs(attr.max_qp_rd_atom)?,
                    inline: spec.qp.inline_size.unwrap_or(usual),
                    relaxed_ordering: attr.relaxed_ordering.then(|| spec.relaxes_ordering()),
                    wr_api: device.has_wr_api(spec.service),
                }
            }
        })
    }
}

/// What became of a run, for who prints it.
pub trait Output: Observer {
    /// A server listens.
    fn waiting(&mut self);

    /// Something that perftest says on stderr before the banner.
    fn remark(&mut self, words: &str);

    /// The device is chosen: the banner.
    fn banner(&mut self, choice: &Choice, gid: &GidEntry, agreed: Params, means: &Means);

    /// The run is over.
    ///
    /// # Errors
    ///
    /// A file can't be written.
    fn finished(&mut self, summary: &Summary) -> Result<()>;
}

/// Runs one end of a test.
///
/// # Errors
///
/// As [`run::execute`], and what goes wrong before it.
pub fn one_end(spec: &Spec, door: Door, output: &mut impl Output) -> Result<()> {
    let stop = signals()?;
    backend::check(spec)?;
    let stream = meet(spec, door, &stop, output)?;
    let exchange = Exchange::new(
        stream,
        spec.is_client(),
        spec.connect_timeout,
        spec.trace.exchange,
    )?;
    let mut choice = Choice::new(spec, exchange.local_addr().ip())?;
    let ours = Params::of_this_machine(choice.mtu(spec)?);
    let mut session = Session::new(exchange, spec);
    session.set_addressing(choice.link_layer(), spec.gid_index);
    let mut rest = || stopped(&stop);
    let agreed = session.prefix(ours, &mut rest)?;
    let mut fitting = spec.clone();
    if let Some(words) = fitting.fit_path(agreed.mtu).map_err(exit::usage)? {
        output.remark(&words);
    }
    let spec = &fitting;
    let peer = session.client_gid(&mut rest)?;
    let gid = choice.gid(spec, peer)?;
    let (opened, gid) = choice.open(spec, &gid)?;
    let means = Means::of(&opened, spec)?;
    fitting.qp.inline_default = means.inline;
    let spec = &fitting;
    if means.relaxed_ordering == Some(true)
        && let Some(words) = backend::relaxed_ordering_warning()
    {
        output.remark(words);
    }
    output.banner(&choice, &gid, agreed, &means);
    let start = Start {
        spec,
        agreed,
        gid,
        stop,
    };
    let summary = match opened {
        Opened::Udp(link) => over(*link, &choice, &start, &mut session, output),
        Opened::Xsk(link) => over(*link, &choice, &start, &mut session, output),
        Opened::Rdma(mut device) => run::execute(&mut *device, &start, &mut session, output),
    }?;
    output.finished(&summary)
}

/// Runs over a link: plain, or with what `--impair`, `--pcap` and `--trace packets` put around it.
fn over<L: Link>(
    link: L,
    choice: &Choice,
    start: &Start<'_>,
    session: &mut Session,
    output: &mut impl Output,
) -> Result<Summary> {
    let spec = start.spec;
    let capture = Capture::start(spec, choice.interface())?;
    if capture.is_none() && spec.impair.is_none() {
        return with_link(link, choice, start, session, output);
    }
    let (capture, sink) = capture.unzip();
    // Outside of the tap, so that the capture shows what really leaves.
    let tapped = Tap::new(link, sink);
    let faults = spec.impair.map(faults).unwrap_or_default();
    let impaired = Impair::new(tapped, MonotonicClock::new(), faults);
    let result = with_link(impaired, choice, start, session, output);
    let Some(capture) = capture else {
        return result;
    };
    let lines = capture.finish();
    let mut summary = result?;
    summary.notes.extend(lines?);
    Ok(summary)
}

fn faults(spec: ImpairSpec) -> ImpairConfig {
    let ImpairSpec {
        drop,
        dup,
        reorder,
        corrupt,
        delay,
        seed,
    } = spec;
    ImpairConfig {
        seed,
        drop,
        duplicate: dup,
        reorder,
        corrupt,
        delay,
    }
}

fn with_link<L: Link>(
    link: L,
    choice: &Choice,
    start: &Start<'_>,
    session: &mut Session,
    output: &mut impl Output,
) -> Result<Summary> {
    let mut device = SoftDevice::new(&choice.name(), link, MonotonicClock::new(), config());
    run::execute(&mut device, start, session, output)
}

/// The first QPNs and keys are drawn, so that those of an earlier process are not valid.
fn config() -> EngineConfig {
    EngineConfig {
        seed: fastrand::u64(..),
        ..EngineConfig::default()
    }
}

fn meet(
    spec: &Spec,
    door: Door,
    stop: &Arc<AtomicBool>,
    output: &mut impl Output,
) -> Result<TcpStream> {
    if spec.is_client() {
        return peer::connect(spec);
    }
    let mut idle = || stopped(stop);
    match door {
        Door::Options => {
            let listener = peer::Listener::bind(spec)?;
            if spec.port == 0 {
                output.remark(&format!(
                    " TCP port {} (-p) is this server's",
                    listener.port()?
                ));
            }
            output.waiting();
            listener.accept(spec.accept_timeout, &mut idle)
        }
        Door::Inherited(listener) => {
            let (stream, _) = listener.accept().context("waiting for the lab's client")?;
            Ok(stream)
        }
    }
}

/// The first signal ends the run in order, a second one at once.
fn signals() -> Result<Arc<AtomicBool>> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(
            signal,
            exit::INTERRUPTED.into(),
            Arc::clone(&stop),
        )
        .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
        .context("install a signal handler")?;
    }
    Ok(stop)
}

fn stopped(stop: &AtomicBool) -> Result<Idle> {
    if stop.load(core::sync::atomic::Ordering::Relaxed) {
        return Err(exit::interrupted("interrupted by a signal"));
    }
    peer::rest()
}
