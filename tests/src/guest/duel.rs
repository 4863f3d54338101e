//! Runs one case, `roce` against stock perftest, and judges it.

use core::fmt::Write as _;
use core::time::Duration;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::case::{Case, Role};
use super::machine::Guest;
use super::net;
use crate::capture::Capture;
use crate::frames::{self, Findings};
use crate::process::{Process, Reply};
use crate::table::{self, Row};

/// Longest that one side may take. `-a` moves 84 MB through an emulated machine.
const LIMIT: Duration = Duration::from_secs(120);
/// How long the slower side may outlive the other.
const TAIL: Duration = Duration::from_secs(15);

/// What both sides did in one case.
#[derive(Debug)]
pub struct Outcome {
    case: Case,
    ours: Reply,
    theirs: Reply,
    findings: Findings,
    malformed: Vec<String>,
    file: PathBuf,
    took: Duration,
}

/// Runs a case on a TCP port with a capture into `folder`.
///
/// # Errors
/// If a side can't be started, the guest stops answering, or the capture is not whole.
pub fn run(
    guest: &mut Guest,
    roce: &Path,
    case: Case,
    port: u16,
    folder: &Path,
) -> Result<Outcome> {
    let file = folder.join(format!("{port}.pcap"));
    let capture = Capture::start(guest.namespace(), net::TAP, &file)?;
    let started = Instant::now();
    let (ours, theirs) = match case.role {
        Role::Client => connect_to_guest(guest, roce, case, port, folder),
        Role::Server => serve_the_guest(guest, roce, case, port, folder),
    }?;
    let took = started.elapsed();
    let file = capture.finish()?;
    let us = [net::OUR_V4, net::OUR_V6].map(|ip| ip.parse().expect("addresses are written well"));
    let findings = frames::judge(&file, &us)?;
    let malformed = frames::malformed(&file, &us)?;
    Ok(Outcome {
        case,
        ours,
        theirs,
        findings,
        malformed,
        file,
        took,
    })
}

fn connect_to_guest(
    guest: &mut Guest,
    roce: &Path,
    case: Case,
    port: u16,
    folder: &Path,
) -> Result<(Reply, Reply)> {
    guest.serve(&case.their_command(port), port)?;
    let ours = start_ours(guest, roce, case, port, folder)?.finish(LIMIT)?;
    let theirs = guest.served(TAIL)?;
    Ok((ours, theirs))
}

fn serve_the_guest(
    guest: &mut Guest,
    roce: &Path,
    case: Case,
    port: u16,
    folder: &Path,
) -> Result<(Reply, Reply)> {
    let mut server = start_ours(guest, roce, case, port, folder)?;
    let deadline = Instant::now() + TAIL;
    while !guest.namespace().listens_on(port) {
        ensure!(
            !server.has_ended(),
            "roce ended before it listened: {}",
            server.output().trim()
        );
        ensure!(
            Instant::now() < deadline,
            "roce does not listen: {}",
            server.output().trim()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    let theirs = guest.run(&case.their_command(port), LIMIT)?;
    let ours = server.finish(TAIL)?;
    Ok((ours, theirs))
}

fn start_ours(guest: &Guest, roce: &Path, case: Case, port: u16, folder: &Path) -> Result<Process> {
    let program = roce.to_str().context("the path of roce is not UTF-8")?;
    let mut command = guest.namespace().command(program);
    command.args(case.our_arguments(port));
    Process::start(&mut command, &folder.join(format!("{port}.roce.log")))
}

impl Outcome {
    /// Whether stock perftest failed to calibrate its clock, which makes all its figures 0.
    ///
    /// It happens to stock against stock as well: an emulated processor is paused between two readings.
    #[must_use]
    pub fn lacks_a_clock(&self) -> bool {
        self.theirs.text.contains("Correlation coefficient")
    }

    /// Everything that is wrong, one sentence each; empty if the case passed.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let we_serve = self.case.role == Role::Server;
        let sides = [
            ("roce", &self.ours, we_serve),
            ("stock perftest", &self.theirs, !we_serve),
        ];
        for (name, reply, serves) in sides {
            if reply.status != 0 {
                faults.push(format!("{name} ended with status {}", reply.status));
            }
            if !serves || self.case.test.server_prints() {
                self.judge_rows(name, &table::rows(&reply.text), serves, &mut faults);
            }
        }
        let (ours, theirs) = (table::rows(&self.ours.text), table::rows(&self.theirs.text));
        if let (Some(ours), Some(theirs)) = (ours.first(), theirs.first())
            && ours.header != theirs.header
        {
            faults.push(format!(
                "headers differ:\n  {:?}\n  {:?}",
                ours.header, theirs.header
            ));
        }
        self.judge_wire(&mut faults);
        faults
    }

    fn judge_rows(&self, name: &str, rows: &[Row], serves: bool, faults: &mut Vec<String>) {
        let case = &self.case;
        // A passive server learns only of the last size of a sweep.
        let passive =
            serves && case.test.is_bandwidth() && !case.has("-b") && case.test.name() != "send-bw";
        let wanted = if case.has("-a") && !passive { 23 } else { 1 };
        if rows.len() != wanted {
            faults.push(format!(
                "{name} printed {} result rows, not {wanted}",
                rows.len()
            ));
        }
        for row in rows {
            if !row.has_figure() {
                faults.push(format!("{name} reports an average and a rate of 0"));
            }
            if case.value("-s").is_some_and(|size| size != row.size) {
                faults.push(format!("{name} reports messages of {} bytes", row.size));
            }
            if case
                .expected_iterations()
                .is_some_and(|wanted| wanted != row.iterations)
            {
                faults.push(format!("{name} reports {} iterations", row.iterations));
            }
        }
    }

    fn judge_wire(&self, faults: &mut Vec<String>) {
        let findings = &self.findings;
        if findings.ours == 0 || findings.theirs == 0 {
            faults.push("the wire carried no RoCE frames in one direction".to_owned());
        }
        if findings.our_bad > 0 {
            let some = findings.our_faults.join("; ");
            faults.push(format!(
                "{} frames of ours are bad: {some}",
                findings.our_bad
            ));
        }
        if findings.their_bad > 0 {
            faults.push(format!(
                "{} frames of the guest fail the check",
                findings.their_bad
            ));
        }
        if let Some(first) = self.malformed.first() {
            let count = self.malformed.len();
            faults.push(format!(
                "tshark calls {count} frames of ours malformed: {first}"
            ));
        }
    }

    /// A line of figures.
    #[must_use]
    pub fn summary(&self) -> String {
        let rows = [&self.ours, &self.theirs].map(|reply| table::rows(&reply.text));
        let average = rows.iter().flatten().last().map_or(0.0, |row| row.average);
        let unit = match (
            self.case.test.is_bandwidth(),
            self.case.has("--report_gbits"),
        ) {
            (true, true) => "Gb/s",
            (true, false) => "MiB/s",
            (false, _) => "us",
        };
        let Findings {
            ours,
            theirs,
            our_bad,
            ..
        } = self.findings;
        format!(
            "avg {average:.2} {unit}, {ours} frames sent, {our_bad} bad ICRCs, {} malformed, \
             {theirs} received, {:.1} s",
            self.malformed.len(),
            self.took.as_secs_f64()
        )
    }

    /// What both sides printed, and where the capture is.
    #[must_use]
    pub fn evidence(&self) -> String {
        let mut text = String::new();
        for (name, reply) in [("roce", &self.ours), ("stock perftest", &self.theirs)] {
            let _ = writeln!(
                text,
                "--- {name}, status {}\n{}",
                reply.status,
                reply.text.trim_end()
            );
        }
        let _ = writeln!(text, "--- capture: {}", self.file.display());
        text
    }

    /// Removes the capture, which is of no interest when all went well.
    pub fn discard(&self) {
        let _ = std::fs::remove_file(&self.file);
    }
}
