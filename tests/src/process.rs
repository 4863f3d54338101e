//! A child process with a deadline, its output kept in a file.

use core::time::Duration;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};

/// What a program came to.
#[derive(Debug, Clone)]
pub struct Reply {
    /// Exit status; 137 for one that was killed at its time limit.
    pub status: i32,
    /// Standard output and standard error, mixed.
    pub text: String,
}

/// A running program on our side.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program with both output streams in the file `log`.
    ///
    /// # Errors
    /// If the log can't be written or the program can't be run.
    pub fn start(command: &mut Command, log: &Path) -> Result<Self> {
        let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let also = file.try_clone().context("cannot share the log")?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(also)
            .spawn()
            .with_context(|| format!("cannot run {command:?}"))?;
        Ok(Self {
            child,
            log: log.to_owned(),
        })
    }

    /// Whether the program has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Sends SIGINT, which is how a capture program is told to finish its file.
    pub fn interrupt(&self) {
        let _ = Command::new("kill")
            .args(["-INT", &self.child.id().to_string()])
            .status();
    }

    /// Waits for the end, kills at the deadline; a killed program's status is 137 as in the guest.
    ///
    /// # Errors
    /// If the log can't be read back.
    pub fn finish(mut self, limit: Duration) -> Result<Reply> {
        let deadline = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.child.try_wait().context("cannot wait for a child")? {
                break status.code().unwrap_or(137);
            }
            if Instant::now() >= deadline {
                let _ = self.child.kill();
                let _ = self.child.wait();
                break 137;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        Ok(Reply {
            status,
            text: self.output(),
        })
    }

    /// What the program has printed so far.
    #[must_use]
    pub fn output(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
