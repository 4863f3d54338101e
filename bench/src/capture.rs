//! `--pcap` and `--trace packets`: what passes the link, written by a thread of its own.
//!
//! The device hands over copies in large pieces of a fixed number; when the thread is behind and none is free, the
//! capture loses frames, which are counted, and the test loses nothing.

mod comment;
mod frames;
mod headers;
mod pcapng;
mod writer;

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::fs::File;
use std::io::BufWriter;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, anyhow};
use crossbeam_channel::{Receiver, Sender, bounded};
use roce_engine::link::{FrameSink, TappedFrame};

use crate::exit::environment;
use crate::spec::Spec;
use frames::Frames;
use pcapng::Pcapng;
use writer::{Writer, Written};

/// Pieces that are on their way at most.
const PIECES: usize = 256;
/// How long a piece may wait to be filled.
const PIECE_AGE: Duration = Duration::from_millis(5);

/// The device's end of a capture.
#[derive(Debug)]
pub struct Sink {
    piece: Option<Frames>,
    full: Sender<Frames>,
    free: Receiver<Frames>,
    lost: Arc<AtomicU64>,
    clock: WallClock,
    begun: Duration,
    eager: bool,
}

/// A capture in progress.
#[derive(Debug)]
pub struct Capture {
    thread: JoinHandle<std::io::Result<Written>>,
    lost: Arc<AtomicU64>,
    name: Option<String>,
}

/// Wall time that does not jump while it runs.
#[derive(Clone, Copy, Debug)]
struct WallClock {
    epoch: Duration,
    start: Instant,
}

impl WallClock {
    fn start() -> Self {
        Self {
            epoch: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default(),
            start: Instant::now(),
        }
    }

    fn now(&self) -> Duration {
        self.epoch + self.start.elapsed()
    }
}

impl Capture {
    /// Starts what a run asks for, if it asks for any: the file is there from here on.
    ///
    /// # Errors
    ///
    /// The file can't be written.
    pub fn start(spec: &Spec, interface: &str) -> Result<Option<(Self, Sink)>> {
        if spec.pcap.is_none() && !spec.trace.packets {
            return Ok(None);
        }
        let name = spec
            .pcap
            .as_ref()
            .map(|pcap| pcap.path.display().to_string());
        let file = match &spec.pcap {
            None => None,
            Some(pcap) => {
                let open = || {
                    let out = BufWriter::with_capacity(1 << 20, File::create(&pcap.path)?);
                    Pcapng::start(out, interface, pcap.snaplen, pcap.limit)
                };
                Some(open().map_err(|error| write_error(name.as_deref(), &error))?)
            }
        };
        let (full, work) = bounded(PIECES);
        let (done, free) = bounded(PIECES);
        for _ in 0..PIECES {
            // There is room for all of them.
            let _sent = done.try_send(Frames::new());
        }
        let writer = Writer::new(file, spec.trace.packets);
        let thread = std::thread::Builder::new()
            .name("capture".into())
            .spawn(move || writer.run(&work, &done))
            .map_err(|error| environment(format!("start a thread for the capture: {error}")))?;
        let lost = Arc::new(AtomicU64::new(0));
        let sink = Sink {
            piece: None,
            full,
            free,
            lost: Arc::clone(&lost),
            clock: WallClock::start(),
            begun: Duration::ZERO,
            eager: spec.trace.packets,
        };
        Ok(Some((Self { thread, lost, name }, sink)))
    }

    /// Waits until all is written, once the sink is gone; returns lines for the user.
    ///
    /// # Errors
    ///
    /// The file can't be written.
    pub fn finish(self) -> Result<Vec<String>> {
        let written = self
            .thread
            .join()
            .map_err(|_| anyhow!("the capture's thread panicked"))?
            .map_err(|error| write_error(self.name.as_deref(), &error))?;
        let lost = self.lost.load(Ordering::Relaxed);
        let mut lines = Vec::new();
        if let Some(name) = &self.name {
            let mut line = format!("pcap: {} frames in {name}", written.frames);
            if written.beyond > 0 {
                line.push_str(&format!(", {} more beyond --pcap-limit", written.beyond));
            }
            lines.push(line);
        }
        if lost > 0 {
            lines.push(format!(
                "capture: {lost} frames lost, because writing was slower than the test"
            ));
        }
        Ok(lines)
    }
}

fn write_error(name: Option<&str>, error: &std::io::Error) -> anyhow::Error {
    let name = name.unwrap_or("the trace");
    environment(format!("writing {name}: {error}"))
}

impl FrameSink for Sink {
    fn frame(&mut self, frame: &TappedFrame<'_>) {
        let now = self.clock.now();
        let old = now.saturating_sub(self.begun) > PIECE_AGE;
        let len = frames::bytes_of(frame).len();
        if self
            .piece
            .as_ref()
            .is_some_and(|piece| old || !piece.has_room(len))
        {
            self.hand_over();
        }
        if self.piece.is_none() {
            self.piece = self.free.try_recv().ok();
            self.begun = now;
        }
        let Some(piece) = &mut self.piece else {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        };
        piece.push(now, frame);
        if self.eager {
            self.hand_over();
        }
    }
}

impl Sink {
    fn hand_over(&mut self) {
        // There are no more pieces than the channel has room for, so this fails only if the thread is gone.
        if let Some(piece) = self.piece.take()
            && let Err(error) = self.full.try_send(piece)
        {
            let count = error.into_inner().heads().len() as u64;
            self.lost.fetch_add(count, Ordering::Relaxed);
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.hand_over();
    }
}
