//! What the bare paths give in the same run: the same packets from one end to the other, with no protocol.

mod path;

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::time::Instant;

use anyhow::{Result, bail};
use roce_engine::verbs::Mtu;
use serde::{Deserialize, Serialize};

use super::plan::Row;
use crate::backend::kernel_owns_the_port;
use path::Path;

/// The path MTU of the paths that are measured, unless another was asked for.
const LARGEST: Mtu = Mtu::B4096;
/// Bytes of a WRITE's packet beside its payload when it is the message: BTH, RETH, ICRC.
const ONLY: usize = 12 + 16 + 4;
/// The same in the middle of a message: BTH, ICRC.
const MIDDLE: usize = 12 + 4;
/// Bytes of an acknowledgement: BTH, AETH, ICRC.
const ACK: usize = 12 + 4 + 4;

/// Packets of one system call.
const BURST: usize = 64;
/// Samples that are kept.
const SAMPLES: usize = 1 << 18;
/// Round trips that are waited for beyond the time: on a busy machine each end waits for its turn.
const FEWEST: usize = 100;
/// When a round trip counts as lost, and when too many are.
const LOST: Duration = Duration::from_secs(1);

/// What the bare path of a backend gives for a row.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Ceiling {
    /// Which round, from 1.
    pub round: u32,
    /// The backend.
    pub backend: String,
    /// The test.
    pub test: String,
    /// Bytes of a message.
    pub size_bytes: u64,
    /// Payload that arrived, of packets as the test sends them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_gbps: Option<f64>,
    /// Packets that arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_mpps: Option<f64>,
    /// Half a round trip of a data packet and an acknowledgement each way, both in one system call: the median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_half_rtt_us: Option<f64>,
}

/// Returns whether a backend has a bare path that can be measured here. An adapter has none that is not the test, and
/// sockets have theirs on the loopback interface.
pub(super) fn has_path(backend: &str) -> bool {
    match backend {
        "udp" => kernel_owns_the_port().is_none(),
        _ => backend == "afxdp",
    }
}

/// Measures the bare path under a row.
///
/// # Errors
/// Fails if the path can't be opened, or nothing arrives.
pub(super) fn measure(
    backend: &str,
    row: &Row,
    mtu: Option<Mtu>,
    time: Duration,
) -> Result<Ceiling> {
    let full = mtu.unwrap_or(LARGEST).bytes() as u64;
    let payload = row.size.min(full);
    let beside = if row.size > full { MIDDLE } else { ONLY };
    // The pad that makes whole words of it.
    let len = usize::try_from(payload.next_multiple_of(4))? + beside;
    let (mut near, mut far) = path::pair(backend)?;
    let mut ceiling = Ceiling {
        backend: backend.to_owned(),
        test: row.test.name().to_owned(),
        size_bytes: row.size,
        ..Ceiling::default()
    };
    if row.test.is_bandwidth() {
        let rate = one_way(&mut *near, &mut *far, len, time)?;
        ceiling.path_mpps = Some(rate / 1e6);
        ceiling.path_gbps = Some(rate * payload as f64 * 8.0 / 1e9);
    } else {
        ceiling.path_half_rtt_us = Some(ping_pong(&mut *near, &mut *far, len, time)?);
    }
    Ok(ceiling)
}

/// Sends as fast as the kernel takes it; returns packets a second at the other end.
fn one_way(near: &mut dyn Path, far: &mut dyn Path, len: usize, time: Duration) -> Result<f64> {
    let stop = AtomicBool::new(false);
    let arrived = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| -> Result<()> {
            while !stop.load(Ordering::Relaxed) {
                let count = far.receive()?;
                arrived.fetch_add(count as u64, Ordering::Relaxed);
            }
            Ok(())
        });
        let send = |until: Instant, near: &mut dyn Path| -> Result<()> {
            while Instant::now() < until {
                for _ in 0..BURST {
                    if !near.send(len) {
                        break;
                    }
                }
                near.flush()?;
                near.receive()?;
            }
            Ok(())
        };
        let sent = send(Instant::now() + time / 4, near).and_then(|()| {
            let (start, before) = (Instant::now(), arrived.load(Ordering::Relaxed));
            send(start + time, near)?;
            let count = arrived.load(Ordering::Relaxed) - before;
            Ok(count as f64 / start.elapsed().as_secs_f64())
        });
        stop.store(true, Ordering::Relaxed);
        receiver
            .join()
            .unwrap_or_else(|_| bail!("the receiving half of the bare path panicked"))?;
        sent
    })
}

/// Sends a packet and an acknowledgement there and back again and again; returns half a round trip.
fn ping_pong(near: &mut dyn Path, far: &mut dyn Path, len: usize, time: Duration) -> Result<f64> {
    let stop = AtomicBool::new(false);
    let mut samples = Vec::with_capacity(SAMPLES);
    std::thread::scope(|scope| -> Result<()> {
        let echo = scope.spawn(|| -> Result<()> {
            let mut waiting = 0;
            while !stop.load(Ordering::Relaxed) {
                waiting += far.receive()?;
                if waiting >= 2 {
                    waiting = 0;
                    both(far, len)?;
                }
            }
            Ok(())
        });
        let end = Instant::now() + time;
        let mut run = || -> Result<()> {
            loop {
                let start = Instant::now();
                let more = samples.len() < FEWEST && start < end + LOST * 5;
                if samples.len() == SAMPLES || (start >= end && !more) {
                    return Ok(());
                }
                both(near, len)?;
                let mut back = 0;
                while back < 2 && start.elapsed() < LOST {
                    back += near.receive()?;
                }
                if back >= 2 {
                    samples.push(start.elapsed().as_secs_f64() * 1e6 / 2.0);
                }
            }
        };
        let result = run();
        stop.store(true, Ordering::Relaxed);
        echo.join()
            .unwrap_or_else(|_| bail!("the other half of the bare path panicked"))?;
        result
    })?;
    samples.sort_unstable_by(f64::total_cmp);
    match samples.get(samples.len() / 2) {
        Some(median) => Ok(*median),
        None => bail!("nothing came back over the bare path"),
    }
}

fn both(path: &mut dyn Path, len: usize) -> Result<()> {
    path.send(len);
    path.send(ACK);
    path.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Test;

    #[test]
    fn sockets_have_a_ceiling_of_both_kinds() {
        for (test, size) in [("write-bw", 65_536), ("write-lat", 2)] {
            let test = Test::from_name(test).unwrap();
            let row = Row { test, size };
            assert!(has_path("udp") && has_path("afxdp") && !has_path("verbs:mlx5_0"));
            let ceiling = measure("udp", &row, None, Duration::from_millis(50)).unwrap();
            let figure = ceiling.path_gbps.or(ceiling.path_half_rtt_us);
            assert!(figure.unwrap() > 0.0, "{ceiling:?}");
            assert_eq!(ceiling.path_mpps.is_some(), test.is_bandwidth());
        }
    }
}
