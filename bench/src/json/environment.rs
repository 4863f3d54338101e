//! The machine of a run, as far as figures depend on it.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// The machine of a run.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Environment {
    /// Our version.
    pub roce_version: String,
    /// The kernel's name and release.
    pub kernel: String,
    /// The CPU's name, if the system tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// CPUs that this process may use.
    pub cpus: usize,
    /// When it ran, in seconds since 1970.
    pub time_unix_seconds: u64,
}

impl Environment {
    /// Asks the system.
    pub fn of_this_machine() -> Self {
        let uname = rustix::system::uname();
        let kernel = format!(
            "{} {}",
            uname.sysname().to_string_lossy(),
            uname.release().to_string_lossy()
        );
        Self {
            roce_version: env!("CARGO_PKG_VERSION").to_owned(),
            kernel,
            cpu: cpu_name(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            time_unix_seconds: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |time| time.as_secs()),
        }
    }
}

fn cpu_name() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
