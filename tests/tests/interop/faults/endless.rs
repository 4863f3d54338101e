//! `--run_infinitely`, which ends when a user interrupts one side.

use core::time::Duration;

use anyhow::{Result, ensure};
use roce_tests::guest::net;
use roce_tests::process::Reply;
use roce_tests::table;

use super::{Fault, Field, LIMIT, once_it_runs, says};

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "our write-bw --run_infinitely interrupted",
        play: |field| our_client(field, "write-bw"),
    },
    Fault {
        name: "our read-bw --run_infinitely interrupted",
        play: |field| our_client(field, "read-bw"),
    },
    Fault {
        name: "our send-bw --run_infinitely interrupted",
        play: |field| our_client(field, "send-bw"),
    },
    Fault {
        name: "our atomic-bw --run_infinitely interrupted",
        play: |field| our_client(field, "atomic-bw"),
    },
    Fault {
        name: "a stock write-bw --run_infinitely interrupted",
        play: |field| their_client(field, "write-bw"),
    },
    Fault {
        name: "a stock read-bw --run_infinitely interrupted",
        play: |field| their_client(field, "read-bw"),
    },
    Fault {
        name: "a stock send-bw --run_infinitely interrupted",
        play: |field| their_client(field, "send-bw"),
    },
    Fault {
        name: "a stock atomic-bw --run_infinitely interrupted",
        play: |field| their_client(field, "atomic-bw"),
    },
    Fault {
        name: "our server of write-bw --run_infinitely interrupted",
        play: our_server,
    },
    Fault {
        name: "a stock server of write-bw --run_infinitely interrupted",
        play: their_server,
    },
];

const OPTIONS: &str = "--run_infinitely -D 1";
/// Time for some rows.
const A_WHILE: Duration = Duration::from_secs(3);

fn stock(test: &str) -> String {
    format!("ib_{}", test.replace('-', "_"))
}

/// A side that measures has printed a row every second.
fn has_rows(reply: &Reply) -> Result<()> {
    let rows = table::rows(&reply.text);
    ensure!(!rows.is_empty(), "no row in\n{}", reply.text);
    Ok(())
}

fn our_client(field: &mut Field<'_>, test: &str) -> Result<()> {
    let command = field.stock(&stock(test), OPTIONS, false);
    field.guest.serve(&command, field.ground.port)?;
    let words = field.our_words(&format!("{test} {OPTIONS} {}", net::GUEST_V4));
    let client = field.ground.start(field.guest, &words)?;
    std::thread::sleep(A_WHILE);
    client.interrupt();
    let ours = client.finish(LIMIT)?;
    says(&ours, 0, &["User stopped traffic"])?;
    has_rows(&ours)?;
    // A receiver of SENDs waits for more, in every version.
    let theirs = field.guest.served(Duration::from_secs(5))?;
    ensure!(
        theirs.status == 0 || test == "send-bw",
        "stock perftest ended with status {}:\n{}",
        theirs.status,
        theirs.text
    );
    Ok(())
}

fn their_client(field: &mut Field<'_>, test: &str) -> Result<()> {
    let words = field.our_words(&format!("{test} {OPTIONS}"));
    let server = field.ground.serve(field.guest, &words)?;
    let command = field.stock(&stock(test), OPTIONS, true);
    field.guest.spawn(&command)?;
    once_it_runs(field.guest)?;
    std::thread::sleep(A_WHILE);
    // A shell's background job starts with SIGINT ignored. Versions that don't ask for the signal would die of it
    // in a terminal; here they die of the next.
    field.guest.signal("INT")?;
    std::thread::sleep(Duration::from_secs(2));
    let _ended = field.guest.signal("TERM");
    let ours = server.finish(LIMIT)?;
    let _theirs = field.guest.served(Duration::from_secs(5))?;
    says(&ours, 0, &["Client closed connection"])
}

fn our_server(field: &mut Field<'_>) -> Result<()> {
    let words = field.our_words(&format!("write-bw {OPTIONS}"));
    let server = field.ground.serve(field.guest, &words)?;
    let command = field.stock("ib_write_bw", OPTIONS, true);
    field.guest.spawn(&command)?;
    once_it_runs(field.guest)?;
    server.interrupt();
    let ours = server.finish(LIMIT)?;
    let _theirs = field.guest.served(Duration::from_secs(1))?;
    says(&ours, 0, &["User stopped traffic"])
}

fn their_server(field: &mut Field<'_>) -> Result<()> {
    let words = format!("write-bw {OPTIONS}");
    let (ours, _) = field.with_server(&words, ("ib_write_bw", OPTIONS), |guest| {
        once_it_runs(guest)?;
        guest.signal("KILL")
    })?;
    says(&ours, 0, &["Server closed connection"])
}
