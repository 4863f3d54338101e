//! Our own result schema: stable, with the unit in each name. What a run does not have is absent, not 0.

mod environment;

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

pub use environment::Environment;

use crate::exit;
use crate::spec::Spec;
use crate::stats::{Bandwidth, Summary, Unit};

/// The result of one test at one message size.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Run {
    /// The kind of device, as in `udp`.
    pub backend: String,
    /// The device, as in `udp:lo`.
    pub device: String,
    /// The peer's GID as an address.
    pub peer: String,
    /// The test, as in `write-bw`.
    pub test: String,
    /// The transport service.
    pub transport: String,
    /// Bytes of a message.
    pub size_bytes: u64,
    /// Messages that were measured, of all QPs.
    pub iterations: u64,
    /// Queue pairs.
    pub qps: u32,
    /// The path MTU.
    pub path_mtu_bytes: u32,
    /// How long was measured.
    pub seconds: f64,
    /// Bandwidth of the best stretch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_peak_gbps: Option<f64>,
    /// Bandwidth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_gbps: Option<f64>,
    /// Message rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_rate_mpps: Option<f64>,
    /// Latency over all samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<LatencyUs>,
    /// CPU time of this end per time, 100 for one core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<f64>,
    /// Packets that this end sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmitted_packets: Option<u64>,
    /// NAKs that this end received, without those for a receiver that was not ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub naks_received: Option<u64>,
    /// NAKs for a receiver that was not ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rnr_naks_received: Option<u64>,
    /// Packets that this end dropped for their ICRC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icrc_errors: Option<u64>,
    /// Bytes whose content was checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_bytes: Option<u64>,
    /// The command line that repeats the run.
    pub command: String,
    /// The machine.
    pub environment: Environment,
}

/// Latency over all samples.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct LatencyUs {
    /// The smallest.
    pub min: f64,
    /// The median.
    pub typical: f64,
    /// The mean.
    pub avg: f64,
    /// The standard deviation.
    pub stdev: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
    /// The largest.
    pub max: f64,
    /// How many.
    pub samples: u64,
}

impl From<Summary> for LatencyUs {
    fn from(summary: Summary) -> Self {
        let Summary {
            min,
            typical,
            avg,
            stdev,
            p99,
            p999,
            max,
            samples,
        } = summary;
        Self {
            min,
            typical,
            avg,
            stdev,
            p99,
            p999,
            max,
            samples,
        }
    }
}

impl Run {
    /// Starts the record of a run: what its options say, and the machine.
    pub fn new(spec: &Spec) -> Self {
        Self {
            test: spec.test.name().to_owned(),
            transport: spec.service_name().to_owned(),
            size_bytes: spec.size,
            qps: spec.qps,
            command: spec.command_line(),
            environment: Environment::of_this_machine(),
            ..Self::default()
        }
    }

    /// Takes the figures of a bandwidth measurement.
    #[must_use]
    pub fn with_bandwidth(mut self, found: &Bandwidth) -> Self {
        self.size_bytes = found.size;
        self.iterations = found.messages;
        self.seconds = found.seconds;
        self.bandwidth_peak_gbps = (found.peak > 0.0).then(|| Unit::Gigabits.of(found.peak));
        self.bandwidth_gbps = Some(Unit::Gigabits.of(found.average));
        self.message_rate_mpps = Some(found.message_rate / 1e6);
        self
    }

    /// Takes the figures of a latency measurement of `size` bytes that took `seconds`.
    #[must_use]
    pub fn with_latency(
        mut self,
        size: u64,
        iterations: u64,
        seconds: f64,
        found: Option<Summary>,
    ) -> Self {
        self.size_bytes = size;
        self.iterations = iterations;
        self.seconds = seconds;
        self.latency_us = found.map(LatencyUs::from);
        self
    }
}

/// Writes the result of a command: an object, or an array of them if it ran several sizes.
///
/// # Errors
/// Says which file can't be written.
pub fn write_runs(path: &Path, runs: &[Run]) -> Result<()> {
    match runs {
        [only] => write(path, only),
        several => write(path, &several),
    }
}

/// Writes any value as a JSON file.
///
/// # Errors
/// Says which file can't be written.
pub fn write<T: Serialize>(path: &Path, value: &T) -> Result<()> {
    let failed = |error: &dyn core::fmt::Display| {
        exit::environment(format!("writing {}: {error}", path.display()))
    };
    let mut file = BufWriter::new(File::create(path).map_err(|error| failed(&error))?);
    serde_json::to_writer_pretty(&mut file, value).map_err(|error| failed(&error))?;
    file.write_all(b"\n")
        .and_then(|()| file.flush())
        .map_err(|error| failed(&error))
}

/// Reads the result of a command that ran one size.
///
/// # Errors
/// Says which file can't be read as such.
pub fn read_run(path: &Path) -> Result<Run> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("reading the result {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not a result", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Metric, Op, Test};

    #[test]
    fn absent_values_are_absent() {
        let spec = Spec::new(Test::new(Op::Write, Metric::Bandwidth));
        let run =
            Run::new(&spec).with_bandwidth(&Bandwidth::new(65_536, 5000, 1_000_000_000, None));
        let value = serde_json::to_value(&run).unwrap();
        assert_eq!(value["test"], "write-bw");
        assert_eq!(value["command"], "roce write-bw");
        assert!((value["bandwidth_gbps"].as_f64().unwrap() - 2.62144).abs() < 1e-9);
        for key in [
            "bandwidth_peak_gbps",
            "latency_us",
            "naks_received",
            "verified_bytes",
        ] {
            assert!(value.get(key).is_none(), "{key}");
        }
        assert_eq!(serde_json::from_value::<Run>(value).unwrap(), run);
    }

    #[test]
    fn unwritable_file_is_named() {
        let error = write_runs(Path::new("/proc/no/such.json"), &[Run::default()]).unwrap_err();
        assert_eq!(exit::status_of(&error), exit::ENVIRONMENT);
        assert!(error.to_string().contains("/proc/no/such.json"), "{error}");
    }
}
