//! One cell: a run in processes of its own.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::time::Duration;
use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::exit;
use crate::json::{self, Run};
use crate::spec::Spec;

/// How long a run may take beyond its own time: it starts two processes and ends them.
const SLACK: Duration = Duration::from_secs(30);
/// How often a run is looked at: seldom, as it measures.
const LOOK: Duration = Duration::from_millis(20);

/// A folder of our own for the results of runs, removed when dropped.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes the folder where the system keeps temporary files.
    pub(super) fn new() -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("roce-compare-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|error| {
                exit::environment(format!("making the folder {}: {error}", path.display()))
            })?;
        Ok(Self { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What can't be removed is small, and the system's to clean.
        let _removed = std::fs::remove_dir_all(&self.path);
    }
}

/// A process that is killed when dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if it has ended.
        let _killed = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Runs a cell. Its record names the command line that repeats it.
///
/// # Errors
/// Says what the run said, or that it did not end.
pub(super) fn run(program: &Path, spec: &Spec, folder: &Folder, stop: &AtomicBool) -> Result<Run> {
    let result = folder.path().join("run.json");
    let words = folder.path().join("stderr");
    if result.exists() {
        std::fs::remove_file(&result).context("removing the result of the last run")?;
    }
    let said = File::create(&words).context("making a file for the run's words")?;
    let child = Spec {
        json: Some(result.clone()),
        ..spec.clone()
    };
    let process = Command::new(program)
        .arg0("roce")
        .args(child.args())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(said)
        .spawn()
        .with_context(|| format!("starting {}", program.display()))?;
    let bound = spec.duration.map_or(SLACK, |span| span.total + SLACK);
    let status = wait(Process(process), bound, stop)?;
    if !status.success() {
        bail!("{status}: {}", last_words(&words));
    }
    let mut run = json::read_run(&result)?;
    run.command = spec.command_line();
    Ok(run)
}

fn wait(mut process: Process, bound: Duration, stop: &AtomicBool) -> Result<ExitStatus> {
    let start = Instant::now();
    loop {
        if let Some(status) = process.0.try_wait().context("waiting for the run")? {
            return Ok(status);
        }
        if stop.load(Ordering::Relaxed) {
            bail!("interrupted by a signal");
        }
        if start.elapsed() > bound {
            bail!("the run did not end within {} s", bound.as_secs());
        }
        std::thread::sleep(LOOK);
    }
}

/// Returns the end of what a run said, as one line.
fn last_words(path: &Path) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let tail = lines.len().saturating_sub(5);
    if lines.is_empty() {
        "it said nothing".to_owned()
    } else {
        lines[tail..].join(" | ")
    }
}
