//! Runs one case, `roce` against stock perftest.

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::case::{Case, Role};
use super::machine::Guest;
use super::monitor::Dump;
use super::net;
use crate::capture::Capture;
use crate::process::{Process, Reply};

/// Longest that one side may take. `-a` moves 84 MB through an emulated machine.
const LIMIT: Duration = Duration::from_secs(120);
/// How long the slower side may outlive the other.
const TAIL: Duration = Duration::from_secs(20);

/// How stock perftest begins and ends its complaint about its clock.
const NO_CLOCK: &str = "Correlation coefficient r^2: ";
const NO_CLOCK_END: &str = "< 0.9\n";

/// Takes all pieces of a text out that begin and end so; returns how many there were.
fn without(text: &str, begin: &str, end: &str) -> (String, usize) {
    let (mut kept, mut rest, mut count) = (String::new(), text, 0);
    while let Some((before, behind)) = rest.split_once(begin) {
        let Some((_, behind)) = behind.split_once(end) else {
            break;
        };
        kept.push_str(before);
        rest = behind;
        count += 1;
    }
    (kept + rest, count)
}

/// What both sides did in one case.
#[derive(Debug)]
pub struct Duel {
    /// The case.
    pub case: Case,
    /// What our side came to.
    pub ours: Reply,
    /// What the stock side came to.
    pub theirs: Reply,
    /// What passed on the wire, and perhaps a little of the cases before and after.
    pub file: PathBuf,
    /// How long it took.
    pub took: Duration,
}

/// A capture that is running.
#[derive(Debug)]
pub enum Wire {
    /// On the tap, by the host's kernel.
    Tap(Capture),
    /// Behind the tap, where frames of AF_XDP pass, too.
    Cable(Dump),
    /// Nowhere: a device that speaks to itself sends nothing out.
    Nowhere,
}

impl Wire {
    /// Waits until frames are being taken.
    ///
    /// # Errors
    /// As [`Capture::ready`].
    pub fn ready(&mut self) -> Result<()> {
        match self {
            Self::Tap(capture) => capture.ready(),
            Self::Cable(_) | Self::Nowhere => Ok(()),
        }
    }

    /// Ends the capture, whose file holds every frame.
    ///
    /// # Errors
    /// As [`Capture::finish`] and [`Dump::finish`].
    pub fn finish(self) -> Result<()> {
        match self {
            Self::Tap(capture) => capture.finish().map(drop),
            Self::Cable(dump) => dump.finish().map(drop),
            Self::Nowhere => Ok(()),
        }
    }
}

/// Where a case runs.
#[derive(Debug)]
pub struct Ground<'a> {
    /// Our command.
    pub roce: &'a Path,
    /// Where logs and captures go.
    pub folder: &'a Path,
    /// The TCP port, which names the files, too.
    pub port: u16,
}

impl Ground<'_> {
    /// Starts the capture of a case with this link of ours.
    ///
    /// # Errors
    /// If nobody can capture.
    pub fn capture(&self, guest: &Guest, link: &str) -> Result<Wire> {
        let file = self.folder.join(format!("{}.pcap", self.port));
        match link {
            "verbs" => Ok(Wire::Nowhere),
            "afxdp" => guest.dump(&file).map(Wire::Cable),
            _ => Capture::start(guest.namespace(), net::TAP, &file).map(Wire::Tap),
        }
    }

    /// Starts our side with its output in a log.
    ///
    /// # Errors
    /// If it can't be run.
    pub fn start(&self, guest: &Guest, arguments: &[String]) -> Result<Process> {
        let program = self
            .roce
            .to_str()
            .context("the path of roce is not UTF-8")?;
        let mut command = guest.namespace().command(program);
        command.args(arguments).current_dir(self.folder);
        let log = self.folder.join(format!("{}.roce.log", self.port));
        Process::start(&mut command, &log)
    }

    /// Starts our side as a server and returns when it listens.
    ///
    /// # Errors
    /// If it ends or is silent before.
    pub fn serve(&self, guest: &Guest, arguments: &[String]) -> Result<Process> {
        let mut server = self.start(guest, arguments)?;
        let deadline = Instant::now() + TAIL;
        while !guest.namespace().listens_on(self.port) {
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
        Ok(server)
    }
}

/// Runs a case while `capture` takes its frames; the capture has still to be finished.
///
/// # Errors
/// If a side can't be started or the guest stops answering.
pub fn run(
    guest: &mut Guest,
    ground: &Ground<'_>,
    case: &Case,
    capture: &mut Wire,
) -> Result<Duel> {
    let (ours, theirs) = (
        case.our_arguments(ground.port),
        case.their_command(ground.port),
    );
    capture.ready()?;
    let started = Instant::now();
    let inside = format!("roce {}", ours.join(" "));
    let (ours, theirs) = match case.role {
        Role::Client if case.is_inside() => {
            guest.serve(&theirs, ground.port)?;
            (guest.run(&inside, LIMIT)?, guest.served(TAIL)?)
        }
        Role::Server if case.is_inside() => {
            guest.serve(&inside, ground.port)?;
            let theirs = guest.run(&theirs, LIMIT)?;
            (guest.served(TAIL)?, theirs)
        }
        Role::Client => {
            guest.serve(&theirs, ground.port)?;
            let ours = ground.start(guest, &ours)?.finish(LIMIT)?;
            (ours, guest.served(TAIL)?)
        }
        Role::Server => {
            let server = ground.serve(guest, &ours)?;
            let theirs = guest.run(&theirs, LIMIT)?;
            (server.finish(TAIL)?, theirs)
        }
    };
    Ok(Duel {
        case: case.clone(),
        ours,
        theirs,
        file: ground.folder.join(format!("{}.pcap", ground.port)),
        took: started.elapsed(),
    })
}

impl Duel {
    /// Whether stock perftest failed to calibrate its clock, which makes its figures 0.
    ///
    /// It happens to stock against stock as well: an emulated processor is paused between two readings.
    #[must_use]
    pub fn lacks_a_clock(&self) -> bool {
        self.theirs.text.contains(NO_CLOCK)
    }

    /// What the stock side printed without its complaints about its clock, and how many there were: one for each
    /// size of a sweep that it could not measure. They come in the middle of rows.
    #[must_use]
    pub fn their_words(&self) -> (String, usize) {
        without(&self.theirs.text, NO_CLOCK, NO_CLOCK_END)
    }

    /// What both sides printed, and where the capture is.
    #[must_use]
    pub fn evidence(&self) -> String {
        let side = |name, reply: &Reply| {
            format!(
                "--- {name}, status {}\n{}\n",
                reply.status,
                reply.text.trim_end()
            )
        };
        format!(
            "{}{}--- {}\n--- capture: {}\n",
            side("roce", &self.ours),
            side(self.case.their_name(), &self.theirs),
            self.case.their_command(0),
            self.file.display()
        )
    }

    /// Removes the capture, which is of no interest when all went well.
    pub fn discard(&self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_about_the_clock_leave_whole_rows() {
        let text = " 16  5  0.02  0.001132Correlation coefficient r^2: 0.871442 < 0.9\n\n 32  5  0.00  0.000000\n";
        let (rows, count) = without(text, NO_CLOCK, NO_CLOCK_END);
        assert_eq!(rows, " 16  5  0.02  0.001132\n 32  5  0.00  0.000000\n");
        assert_eq!(count, 1);
        let cut = "Correlation coefficient r^2: 0.8";
        assert_eq!(without(cut, NO_CLOCK, NO_CLOCK_END), (cut.to_owned(), 0));
    }
}
