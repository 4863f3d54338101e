//! Captures the wire with dumpcap and judges every RoCE frame in the file.

use core::time::Duration;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use super::icrc::{self, Verdict};
use super::namespace::Namespace;
use super::net;
use super::process::Process;

const PATIENCE: Duration = Duration::from_secs(20);
/// Larger than any frame a tap carries; a longer record means a broken file.
const MAX_FRAME: u32 = 1 << 18;

/// A capture that is running on our end of the wire.
#[derive(Debug)]
pub struct Capture {
    dumpcap: Process,
    file: PathBuf,
}

/// What a finished capture holds.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Findings {
    /// RoCE frames that we sent.
    pub ours: u64,
    /// RoCE frames that the guest sent.
    pub theirs: u64,
    /// Descriptions of frames of ours with a wrong ICRC or that can't be checked, the first few.
    pub our_faults: Vec<String>,
    /// How many frames of ours are at fault.
    pub our_bad: u64,
    /// How many frames of the guest are; they show that the check itself is sound.
    pub their_bad: u64,
}

impl Capture {
    /// Starts capturing into `file` and returns when frames are being taken.
    ///
    /// # Errors
    /// If dumpcap doesn't start, with what it said.
    pub fn start(namespace: &Namespace, file: &Path) -> Result<Self> {
        let mut command = namespace.command("dumpcap");
        command
            .args(["-q", "-P", "-B", "64", "-i", net::TAP, "-w"])
            .arg(file);
        let mut dumpcap = Process::start(&mut command, &file.with_extension("dumpcap.log"))?;
        let deadline = Instant::now() + PATIENCE;
        // It names its file once the socket is open.
        while !dumpcap.output().contains("File:") {
            if dumpcap.has_ended() || Instant::now() >= deadline {
                bail!("dumpcap does not capture: {}", dumpcap.output().trim());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Self {
            dumpcap,
            file: file.to_owned(),
        })
    }

    /// Ends the capture and checks every frame.
    ///
    /// # Errors
    /// If frames were lost by the capture, or the file can't be read.
    pub fn finish(self) -> Result<Findings> {
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
        ensure!(
            lost == 0,
            "the capture lost {lost} frames, so it can't speak for all of them"
        );
        judge(&self.file)
    }
}

/// Reads dumpcap's closing line, `Packets received/dropped on interface 'tap0': 12/0 (…)`.
fn lost_frames(log: &str) -> Option<u64> {
    let line = log.lines().find(|line| line.contains("received/dropped"))?;
    let counts = line.split("': ").nth(1)?;
    counts.split(['/', ' ']).nth(1)?.parse().ok()
}

/// Checks every frame of a pcap file.
///
/// # Errors
/// If the file can't be read or is no pcap of Ethernet frames.
pub fn judge(file: &Path) -> Result<Findings> {
    let mut findings = Findings::default();
    let mut number = 0u64;
    each_frame(file, |frame| {
        number += 1;
        let verdict = icrc::check(frame);
        let fault = match verdict {
            Verdict::NotRoce => return,
            Verdict::Good => None,
            Verdict::Bad { computed, carried } => {
                Some(format!("ICRC {carried:#010x} in place of {computed:#010x}"))
            }
            Verdict::Unsound(what) => Some(what.to_owned()),
        };
        let ours = frame.get(6..12) == Some(&net::OUR_MAC[..]);
        match (ours, fault) {
            (true, None) => findings.ours += 1,
            (false, None) => findings.theirs += 1,
            (true, Some(what)) => {
                findings.ours += 1;
                findings.our_bad += 1;
                if findings.our_faults.len() < 5 {
                    findings.our_faults.push(format!("frame {number}: {what}"));
                }
            }
            (false, Some(_)) => {
                findings.theirs += 1;
                findings.their_bad += 1;
            }
        }
    })?;
    Ok(findings)
}

/// Walks the records of a little-endian pcap file of Ethernet frames.
fn each_frame(file: &Path, mut take: impl FnMut(&[u8])) -> Result<()> {
    let name = file.display();
    let opened = File::open(file).with_context(|| format!("cannot read {name}"))?;
    let mut reader = BufReader::new(opened);
    let mut head = [0u8; 24];
    reader
        .read_exact(&mut head)
        .with_context(|| format!("{name} is no pcap file"))?;
    let magic = le_u32(&head, 0);
    let (micros, nanos) = (0xa1b2_c3d4, 0xa1b2_3c4d);
    ensure!(
        magic == micros || magic == nanos,
        "{name} is no pcap file of this machine"
    );
    ensure!(
        le_u32(&head, 20) == 1,
        "{name} does not hold Ethernet frames"
    );
    let mut record = [0u8; 16];
    let mut frame = Vec::new();
    loop {
        match reader.read_exact(&mut record) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error).with_context(|| format!("cannot read {name}")),
        }
        let length = le_u32(&record, 8);
        ensure!(length <= MAX_FRAME, "{name} has a record of {length} bytes");
        frame.resize(length as usize, 0);
        reader
            .read_exact(&mut frame)
            .with_context(|| format!("{name} is cut"))?;
        take(&frame);
    }
}

fn le_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Has tshark dissect the file and returns the frames that we sent and it calls malformed.
///
/// Two guesses of its about what a payload might be are set aside, for they say nothing of our headers:
/// RPC-over-RDMA, which claims any small SEND, and an EtherType in the first bytes of a payload whose
/// next two are zero, which a counter or padding makes up easily. Both begin where the RoCE headers end.
///
/// # Errors
/// If tshark fails.
pub fn malformed_frames_of_ours(file: &Path) -> Result<Vec<String>> {
    let ours = net::mac_text(net::OUR_MAC);
    let filter = format!(
        "_ws.malformed && udp.dstport == 4791 && eth.src == {ours} && \
         !(frame.protocols contains \"infiniband:ethertype\")"
    );
    let output = Command::new("tshark")
        .arg("-r")
        .arg(file)
        .args(["-n", "--disable-protocol", "rpcordma", "-Y", &filter])
        .output()
        .context("cannot run tshark")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "tshark failed on {}: {}",
        file.display(),
        stderr.trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| line.trim().to_owned())
        .collect())
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
