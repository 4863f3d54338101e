//! What may go wrong between two hosts, with a real peer: each ends well, or with its cause in plain words; and
//! other scripted meetings with one.

use core::time::Duration;

use anyhow::{Context, Result, ensure};
use roce_tests::guest::duel::Ground;
use roce_tests::guest::{Guest, net};
use roce_tests::process::Reply;

mod endless;
mod options;
mod path;
mod script;
mod time;

/// One thing that goes wrong.
#[derive(Clone, Copy)]
pub(crate) struct Fault {
    /// What, as a sentence.
    pub(crate) name: &'static str,
    /// Makes it go wrong and looks at what both sides say.
    play: fn(&mut Field<'_>) -> Result<()>,
}

impl Fault {
    pub(crate) fn run(self, field: &mut Field<'_>) -> Result<()> {
        (self.play)(field)
    }
}

/// All of them.
pub(crate) fn all() -> Vec<Fault> {
    [
        script::FAULTS,
        time::FAULTS,
        endless::FAULTS,
        options::FAULTS,
        path::FAULTS,
    ]
    .concat()
}

/// The guest and our command.
pub(crate) struct Field<'a> {
    pub(crate) guest: &'a mut Guest,
    pub(crate) ground: Ground<'a>,
}

/// How long either side may take when nothing holds it up.
const LIMIT: Duration = Duration::from_secs(100);

impl Field<'_> {
    /// The stock side's command line; with our address as a client of ours.
    fn stock(&self, program: &str, options: &str, is_client: bool) -> String {
        let port = self.ground.port;
        let server = if is_client { net::OUR_V4 } else { "" };
        format!("{program} -d rxe0 -F -p {port} {options} {server}")
    }

    /// Our command line, the device and the port put in.
    fn our_words(&self, words: &str) -> Vec<String> {
        let mut all: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let port = self.ground.port.to_string();
        all.splice(1..1, ["-d", "udp:tap0", "-p", &port].map(str::to_owned));
        all
    }

    /// Runs our client against a stock server; `meanwhile` happens while both run.
    fn with_server(
        &mut self,
        ours: &str,
        (program, theirs): (&str, &str),
        meanwhile: impl FnOnce(&mut Guest) -> Result<()>,
    ) -> Result<(Reply, Reply)> {
        let command = self.stock(program, theirs, false);
        self.guest.serve(&command, self.ground.port)?;
        let words = self.our_words(&format!("{ours} {}", net::GUEST_V4));
        let client = self.ground.start(self.guest, &words)?;
        let outcome = meanwhile(self.guest);
        let ours = client.finish(LIMIT)?;
        // A server that nobody ends is of no interest any more.
        let theirs = self.guest.served(Duration::from_secs(3))?;
        outcome.map(|()| (ours, theirs))
    }

    /// Runs our server for a stock client; `meanwhile` happens while both run.
    fn with_client(
        &mut self,
        ours: &str,
        (program, theirs): (&str, &str),
        meanwhile: impl FnOnce(&mut Guest) -> Result<()>,
    ) -> Result<(Reply, Reply)> {
        let words = self.our_words(ours);
        let server = self.ground.serve(self.guest, &words)?;
        let command = self.stock(program, theirs, true);
        self.guest.spawn(&command)?;
        let outcome = meanwhile(self.guest);
        let ours = server.finish(LIMIT)?;
        let theirs = self.guest.served(Duration::from_secs(3))?;
        outcome.map(|()| (ours, theirs))
    }
}

fn nothing(_: &mut Guest) -> Result<()> {
    Ok(())
}

/// Returns once the data path has begun to move: the guest's interface receives a lot.
fn once_it_runs(guest: &mut Guest) -> Result<()> {
    guest
        .must(
            "R=/sys/class/net/eth0/statistics/rx_packets; T=/sys/class/net/eth0/statistics/tx_packets; \
             before=$(($(cat $R) + $(cat $T))); for i in $(seq 200); do \
             [ $(($(cat $R) + $(cat $T))) -gt $((before + 1000)) ] && exit 0; usleep 50000; done; exit 1",
        )
        .context("the test did not start")?;
    Ok(())
}

/// Our side has to end with this status, and its last words have to hold each of `words`.
fn says(reply: &Reply, status: i32, words: &[&str]) -> Result<()> {
    let text = reply.text.trim_end();
    ensure!(
        reply.status == status,
        "roce ended with status {}, not {status}:\n{text}",
        reply.status
    );
    for word in words {
        ensure!(text.contains(word), "roce does not say `{word}`:\n{text}");
    }
    Ok(())
}

/// Both sides have to end well.
fn both_pass((ours, theirs): &(Reply, Reply)) -> Result<()> {
    ensure!(
        (ours.status, theirs.status) == (0, 0),
        "roce ended with status {}:\n{}\n--- stock perftest with status {}:\n{}",
        ours.status,
        ours.text,
        theirs.status,
        theirs.text
    );
    Ok(())
}
