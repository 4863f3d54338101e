//! A peer that dies, or comes late.

use core::time::Duration;

use anyhow::Result;
use roce_tests::guest::{Guest, net};

use super::{Fault, Field, both_pass, nothing, once_it_runs, says};

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "a stock server killed in mid-run",
        play: server_killed,
    },
    Fault {
        name: "a stock client killed in mid-run",
        play: client_killed,
    },
    Fault {
        name: "a stock client of send-bw killed in mid-run",
        play: sender_killed,
    },
    Fault {
        name: "a stock server of send-bw killed in mid-run",
        play: receiver_killed,
    },
    Fault {
        name: "a stock server started late",
        play: server_late,
    },
    Fault {
        name: "a stock client started late",
        play: client_late,
    },
];

fn kill(guest: &mut Guest) -> Result<()> {
    once_it_runs(guest)?;
    guest.signal("KILL")
}

fn server_killed(field: &mut Field<'_>) -> Result<()> {
    let (ours, _) = field.with_server("write-bw -D 20", ("ib_write_bw", "-D 20"), kill)?;
    says(&ours, 1, &["the peer's process is gone"])
}

fn client_killed(field: &mut Field<'_>) -> Result<()> {
    let (ours, _) = field.with_client("write-bw -D 20", ("ib_write_bw", "-D 20"), kill)?;
    says(&ours, 1, &["peer", "closed"])
}

fn sender_killed(field: &mut Field<'_>) -> Result<()> {
    let (ours, _) = field.with_client("send-bw -D 20", ("ib_send_bw", "-D 20"), kill)?;
    says(&ours, 1, &["peer", "closed"])
}

fn receiver_killed(field: &mut Field<'_>) -> Result<()> {
    let (ours, _) = field.with_server("send-bw -D 20", ("ib_send_bw", "-D 20"), kill)?;
    says(&ours, 1, &["peer", "process"])
}

/// As stock perftest, a client does not wait for a server that is not there; it says so.
fn server_late(field: &mut Field<'_>) -> Result<()> {
    let words = format!("write-bw -n 20 {}", net::GUEST_V4);
    let words = field.our_words(&words);
    let early = field
        .ground
        .start(field.guest, &words)?
        .finish(super::LIMIT)?;
    says(&early, 1, &["connection refused", "start it first"])?;
    both_pass(&field.with_server("write-bw -n 20", ("ib_write_bw", "-n 20"), nothing)?)
}

fn client_late(field: &mut Field<'_>) -> Result<()> {
    let words = field.our_words("write-bw -n 20");
    let server = field.ground.serve(field.guest, &words)?;
    std::thread::sleep(Duration::from_secs(3));
    let command = field.stock("ib_write_bw", "-n 20", true);
    let theirs = field.guest.run(&command, super::LIMIT)?;
    let ours = server.finish(super::LIMIT)?;
    both_pass(&(ours, theirs))
}
