//! Captures an interface with dumpcap.

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::namespace::Namespace;
use crate::process::Process;

const PATIENCE: Duration = Duration::from_secs(20);

/// A capture that is running.
#[derive(Debug)]
pub struct Capture {
    dumpcap: Process,
    file: PathBuf,
}

impl Capture {
    /// Starts capturing an interface into `file`; [`Self::ready`] tells when frames are being taken.
    ///
    /// # Errors
    /// If dumpcap can't be run.
    pub fn start(namespace: &Namespace, interface: &str, file: &Path) -> Result<Self> {
        let mut command = namespace.command("dumpcap");
        command
            .args(["-q", "-P", "-B", "64", "-i", interface, "-w"])
            .arg(file);
        let dumpcap = Process::start(&mut command, &file.with_extension("dumpcap.log"))?;
        Ok(Self {
            dumpcap,
            file: file.to_owned(),
        })
    }

    /// Waits until frames are being taken.
    ///
    /// # Errors
    /// If dumpcap ends or is silent, with what it said.
    pub fn ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        // It names its file once the socket is open.
        while !self.dumpcap.output().contains("File:") {
            if self.dumpcap.has_ended() || Instant::now() >= deadline {
                bail!("dumpcap does not capture: {}", self.dumpcap.output().trim());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Ends the capture and returns the file, which holds every frame.
    ///
    /// # Errors
    /// If the capture lost frames, and so can't speak for all of them.
    pub fn finish(self) -> Result<PathBuf> {
        // The kernel hands a block of frames over only when it is full or old.
        std::thread::sleep(Duration::from_millis(300));
        self.dumpcap.interrupt();
        let reply = self.dumpcap.finish(PATIENCE)?;
        ensure!(
            reply.status == 0,
            "dumpcap ended with {}: {}",
            reply.status,
            reply.text.trim()
        );
        let lost = lost_frames(&reply.text).context("dumpcap did not say how much it lost")?;
        ensure!(lost == 0, "the capture lost {lost} frames");
        Ok(self.file)
    }
}

/// Reads dumpcap's closing line, `Packets received/dropped on interface 'tap0': 12/0 (…)`.
fn lost_frames(log: &str) -> Option<u64> {
    let line = log.lines().find(|line| line.contains("received/dropped"))?;
    let counts = line.split("': ").nth(1)?;
    counts.split(['/', ' ']).nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dumpcaps_losses_are_read_from_its_last_line() {
        let log = "Capturing on 'tap0'\nFile: x\nPackets captured: 12\n\
                   Packets received/dropped on interface 'tap0': 12/3 (pcap:3/dumpcap:0/flushed:0/ps_ifdrop:0) (80.0%)\n";
        assert_eq!(lost_frames(log), Some(3));
        assert_eq!(lost_frames("Capturing on 'tap0'\n"), None);
    }
}
